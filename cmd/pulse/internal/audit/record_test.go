package audit

import (
	"testing"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.uber.org/goleak"

	"github.com/orionjs/orion-go/pulse/pulsetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRecorder_StoresEverythingByItsEnd(t *testing.T) {
	t.Parallel()
	for name, hurried := range map[string]bool{"in bulk": false, "at once": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			db := pulsetest.Database(t)
			r := NewRecorder(db, hurried)
			<-r.Add(call("a", 1, 2, 0, 1)) // is stored now, whoever is killed
			entries, err := Entries(t.Context(), db)
			is.NoErr(err)
			is.Equal(len(entries), 1)
			for i := range 2500 {
				r.Add(call("a", 2, 3, i))
			}
			r.Close()
			entries, err = Entries(t.Context(), db)
			is.NoErr(err)
			is.Equal(len(entries), 2501)
			is.Equal(entries[0].Events, []int{0, 1})
			is.True(entries[0].OK && entries[0].Start == 1 && entries[0].End == 2)
		})
	}
}

func TestReadState_8_1_CountsWhatIsLeftOfBothFormats(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	insert := func(collection string, docs ...bson.D) {
		_, err := db.Collection("p."+collection).InsertMany(t.Context(), docs)
		is.NoErr(err)
	}
	of := func(group, status string, more ...bson.E) bson.D {
		return append(bson.D{{Key: "consumerGroup", Value: group}, {Key: "status", Value: status}}, more...)
	}
	locked := bson.E{Key: "lockToken", Value: "token"}
	insert("deliveries",
		of("g", "v2-pending"), of("g", "v2-processing", locked), of("g", "v2-success"), of("g", "v2-error"),
		of("g", "pending"), of("g", "pending"), of("g", "success"), of("g", "error"), of("other", "pending"))
	insert("history", of("g", "pending", locked), of("g", "pending"), of("g", "success", locked), of("other", "pending", locked))
	insert("events", bson.D{{Key: "pendingTopic", Value: "t"}}, bson.D{{Key: "topic", Value: "t"}, {Key: "sequence", Value: bson.Timestamp{T: 1}}})
	state, err := ReadState(t.Context(), db, "p", "g")
	is.NoErr(err)
	is.Equal(state, State{Waiting: 4, Locked: 2, Failed: 2, Unstamped: 1})
	all, err := ReadState(t.Context(), db, "p", "")
	is.NoErr(err)
	is.Equal(all, State{Waiting: 5, Locked: 3, Failed: 2, Unstamped: 1})
	is.True(!all.Idle() && State{Failed: 1}.Idle())
}
