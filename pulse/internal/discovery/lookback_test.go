package discovery

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
	"github.com/orionjs/orion-go/pulse/internal/store"
	"github.com/orionjs/orion-go/pulse/pulsetest"
	"github.com/orionjs/orion-go/pulse/pulsetest/mongoserver"
)

// Kinds of receivers, as their leaders see them.
var (
	inVersion1 = store.Settings{ExecutionVersion: 1, BatchSize: 1, ReceiverMode: store.ModeSingle}
	inVersion2 = store.Settings{ExecutionVersion: 2, BatchSize: 1, ReceiverMode: store.ModeSingle}
	batchesOf4 = store.Settings{ExecutionVersion: 2, BatchSize: 4, ReceiverMode: store.ModeBatch}
	batchesOf7 = store.Settings{ExecutionVersion: 2, BatchSize: 7, ReceiverMode: store.ModeBatch}
	everyKind  = map[string]store.Settings{"version 1": inVersion1, "version 2": inVersion2, "batches": batchesOf4}
)

// leads makes a new leader of the topic with the settings of a receiver, as if the last one had died.
func (f *fixture) leads(t *testing.T, s store.Settings) *Leader {
	t.Helper()
	is := is.New(t)
	r, _ := f.receiver(t)
	r.Adopt(s)
	f.overdue(t)
	l := f.leader(time.Hour)
	l.Window = time.Minute // what these tests do in seconds may take some more on a busy machine
	subs, err := f.store.Subscriptions(t.Context(), "billing", []string{"t"})
	is.NoErr(err)
	is.NoErr(l.Campaign(t.Context(), r, subs[0]))
	is.Equal(len(l.Leading()), 1)
	return l
}

// lookAll looks until nothing is left, also behind the cursor.
func lookAll(t *testing.T, l *Leader) {
	t.Helper()
	for range 5 {
		l.LookBack()
		is.New(t).NoErr(polled(t.Context(), l))
	}
}

// began is when these tests did.
var began = uint32(time.Now().Unix())

// at stores an event with a sequence so many seconds before that, and returns its ID.
func (f *fixture) at(t *testing.T, ago int, increment uint32) string {
	t.Helper()
	sequence := bson.Timestamp{T: began - uint32(ago), I: increment}
	id := fmt.Sprintf("%d.%06d", sequence.T, increment)
	_, err := f.db.Collection("p.events").InsertOne(t.Context(), bson.D{{Key: "_id", Value: id}, {Key: "topic", Value: "t"}, {Key: "sequence", Value: sequence}, {Key: "createdAt", Value: time.Now()}})
	is.New(t).NoErr(err)
	return id
}

// deliveredOnce checks that the events of these IDs, and no others, have one delivery each, and that each of
// version 1 has its first attempt.
func (f *fixture) deliveredOnce(t *testing.T, ids ...string) {
	t.Helper()
	is := is.New(t)
	cursor, err := f.db.Collection("p.deliveries").Find(t.Context(), bson.D{})
	is.NoErr(err)
	var docs []struct {
		ID       string   `bson:"_id"`
		EventID  string   `bson:"eventId"`
		EventIDs []string `bson:"eventIds"`
		Status   string
	}
	is.NoErr(cursor.All(t.Context(), &docs))
	cursor, err = f.db.Collection("p.history").Find(t.Context(), bson.D{})
	is.NoErr(err)
	var attempts []struct {
		DeliveryID string `bson:"deliveryId"`
	}
	is.NoErr(cursor.All(t.Context(), &attempts))
	attemptsOf := map[string]int{}
	for _, a := range attempts {
		attemptsOf[a.DeliveryID]++
	}
	var found []string
	for _, d := range docs {
		if len(d.EventIDs) == 0 {
			d.EventIDs = []string{d.EventID}
		}
		found = append(found, d.EventIDs...)
		is.True(attemptsOf[d.ID] <= 1)
		is.Equal(attemptsOf[d.ID] == 1, d.Status == delivery.StatusV1Pending || d.Status == delivery.StatusV1Success)
	}
	slices.Sort(found)
	slices.Sort(ids)
	is.Equal(found, ids)
}

// cleanUp makes all deliveries successes and deletes those that the leader's cleanup would; it returns how many
// are left.
func (f *fixture) cleanUp(t *testing.T, l *Leader) int {
	t.Helper()
	is := is.New(t)
	deliveries := f.db.Collection("p.deliveries")
	for from, to := range map[string]string{delivery.StatusPending: delivery.StatusSuccess, delivery.StatusV1Pending: delivery.StatusV1Success} {
		_, err := deliveries.UpdateMany(t.Context(), bson.D{{Key: "status", Value: from}}, bson.D{{Key: "$set", Value: bson.D{{Key: "status", Value: to}}}})
		is.NoErr(err)
	}
	_, err := f.store.DeleteSuccesses(t.Context(), "billing", l.Settled(), false, 1000)
	is.NoErr(err)
	n, err := deliveries.CountDocuments(t.Context(), bson.D{})
	is.NoErr(err)
	return int(n)
}

// An event that appears behind the cursor, within the window, is delivered once, and what was delivered is not
// delivered again: by the same leader, who remembers, and by the next, who reads.
func TestLookBack_3_5_LateEventsAreDeliveredOnce(t *testing.T) {
	t.Parallel()
	for was, first := range everyKind {
		for becomes, second := range everyKind {
			t.Run(was+", then "+becomes, func(t *testing.T) {
				t.Parallel()
				f := newFixture(t)
				var ids []string
				for i := range 10 {
					ids = append(ids, f.at(t, 3, uint32(10*i)))
				}
				l := f.leads(t, first)
				lookAll(t, l)
				f.deliveredOnce(t, ids...)
				ids = append(ids, f.at(t, 3, 15), f.at(t, 5, 1))
				lookAll(t, l)
				f.deliveredOnce(t, ids...)
				ids = append(ids, f.at(t, 3, 25), f.at(t, 5, 2))
				next := f.leads(t, second)
				lookAll(t, next)
				f.deliveredOnce(t, ids...)
				ids = append(ids, f.at(t, 3, 35), f.at(t, 1, 1))
				lookAll(t, next)
				f.deliveredOnce(t, ids...)
				is.New(t).NoErr(polled(t.Context(), l)) // the former one has not heard of it
				f.deliveredOnce(t, ids...)
			})
		}
	}
}

// Batches of another size cut the same events elsewhere: the next leader finds an event's delivery whichever of
// its batch it is, also where the batch begins before what is settled.
func TestLookBack_3_5_BatchesOfAnotherSize(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var ids []string
	for i := range 14 {
		ids = append(ids, f.at(t, 70-i, 1))
	}
	l := f.leads(t, batchesOf7)
	lookAll(t, l)
	ids = append(ids, f.at(t, 30, 1)) // whose delivery is stored with what is settled: into the second batch
	lookAll(t, l)
	next := f.leads(t, batchesOf4)
	ids = append(ids, f.at(t, 5, 2))
	lookAll(t, next)
	f.deliveredOnce(t, ids...)
	lookAll(t, f.leads(t, inVersion1))
	f.deliveredOnce(t, ids...)
}

// The cleanup deletes only what nobody needs any more to tell what was delivered: whoever takes over after it,
// in whatever state it finds the subscription, delivers nothing again.
func TestLookBack_3_5_CleanupLeavesWhatTheNextLeaderNeeds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		agos        []int // of the events, the oldest first
		then        []int // of those that come after a look
		looks       int
		least, most int // of single deliveries after the cleanup
	}{
		"all within the window":              {[]int{7, 6, 5, 4, 3}, nil, 5, 5, 5},
		"all settled, and that stored":       {[]int{160, 159, 158, 157}, []int{156}, 5, 1, 1},
		"all settled, and that not stored":   {[]int{160, 159, 158, 157}, nil, 0, 4, 4},
		"all settled by their own page":      {[]int{160, 159, 158, 157}, nil, 1, 1, 1},
		"each second across the settled one": {[]int{68, 66, 64, 62, 61, 60, 59, 58, 57, 56, 55, 54, 53, 52, 51, 50, 49, 48, 46, 44, 42, 40}, []int{39}, 5, 5, 22},
	} {
		for kind, settings := range everyKind {
			t.Run(name+", "+kind, func(t *testing.T) {
				t.Parallel()
				is := is.New(t)
				f := newFixture(t)
				for _, ago := range c.agos {
					f.at(t, ago, 0) // as some servers number what is stamped: the settled sequence has the same form
				}
				l := f.leads(t, settings)
				is.NoErr(polled(t.Context(), l))
				for _, ago := range c.then {
					f.at(t, ago, 0) // whose deliveries are stored with what is settled
				}
				for range c.looks {
					l.LookBack()
					is.NoErr(polled(t.Context(), l))
				}
				if left := f.cleanUp(t, l); kind != "batches" {
					is.True(left >= c.least && left <= c.most)
				}
				before, err := f.db.Collection("p.deliveries").CountDocuments(t.Context(), bson.D{})
				is.NoErr(err)
				for _, next := range everyKind {
					lookAll(t, f.leads(t, next))
				}
				after, err := f.db.Collection("p.deliveries").CountDocuments(t.Context(), bson.D{})
				is.NoErr(err)
				is.Equal(after, before)
			})
		}
	}
}

// Nothing before the subscription's start is looked at, and after another implementation has led, which cleans
// up right behind the cursor, nothing before the cursor.
func TestLookBack_3_5_NeverBeforeTheStart(t *testing.T) {
	t.Parallel()
	for name, fields := range map[string]func(at bson.Timestamp, id string) bson.D{
		"of a new subscription": func(at bson.Timestamp, id string) bson.D {
			return bson.D{
				{Key: "startSequence", Value: at},
				{Key: "startSequenceEventId", Value: id},
				{Key: "cursorSequence", Value: at},
				{Key: "cursorSequenceEventId", Value: id},
				{Key: "discoveryLockOwner", Value: "go:x"},
			}
		},
		"after a leader of another implementation": func(at bson.Timestamp, id string) bson.D {
			return bson.D{
				{Key: "startSequence", Value: bson.Timestamp{T: 1, I: 1}},
				{Key: "startSequenceEventId", Value: ""},
				{Key: "cursorSequence", Value: at},
				{Key: "cursorSequenceEventId", Value: id},
				{Key: "discoveryLockOwner", Value: "host:1:abc"},
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			f := newFixture(t)
			f.receiver(t)
			f.at(t, 6, 1)
			id := f.at(t, 4, 1)
			e, err := f.db.Collection("p.events").FindOne(t.Context(), bson.D{{Key: "_id", Value: id}}).Raw()
			is.NoErr(err)
			s, i := e.Lookup("sequence").Timestamp()
			_, err = f.db.Collection("p.subscriptions").UpdateMany(t.Context(), bson.D{}, bson.D{{Key: "$set", Value: fields(bson.Timestamp{T: s, I: i}, id)}})
			is.NoErr(err)
			l := f.leads(t, inVersion1)
			lookAll(t, l)
			f.deliveredOnce(t)
			f.at(t, 5, 1) // before the start: not its own, however late
			late := f.at(t, 3, 1)
			lookAll(t, l)
			later := f.at(t, 3, 2)
			lookAll(t, f.leads(t, batchesOf4))
			f.deliveredOnce(t, late, later)
		})
	}
}

// Every move of the cursor changes the subscription, also one that leaves the cursor where it is and comes within
// the same millisecond: in a transaction a write that changes nothing would fence nobody.
func TestLookBack_3_5_EveryMoveChangesTheDocument(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	f := newFixture(t)
	l := f.leads(t, inVersion1)
	at := store.Position{Sequence: bson.Timestamp{T: 100, I: 1}, EventID: "e"}
	for range 20 {
		is.NoErr(f.store.Materialize(t.Context(), l.term("t").lease, nil, at, bson.Timestamp{}))
	}
	sub, err := f.db.Collection("p.subscriptions").FindOne(t.Context(), bson.D{}).Raw()
	is.NoErr(err)
	is.Equal(sub.Lookup("cursorMoves").AsInt64(), int64(20))
}

// Two leaders of different execution versions, each of which takes itself for the only one, look at the same
// events at the same time, again and again: whichever stores an event's delivery decides its format, and each
// event has one. With transactions the lease fences the former leader, without the unique key decides.
func TestLook_4_11_RacingLeadersOfDifferentVersions(t *testing.T) {
	t.Parallel()
	for _, transactions := range []bool{true, false} {
		t.Run(fmt.Sprint("transactions=", transactions), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			f := &fixture{}
			if transactions {
				f = newFixture(t)
			} else {
				f.db = standalone(t)
				f.store = store.New(f.db, "p")
				is.NoErr(f.store.Detect(t.Context()))
				_, err := f.store.EnsureIndexes(t.Context())
				is.NoErr(err)
			}
			is.Equal(f.store.Transactions(), transactions)
			kinds := []store.Settings{inVersion1, inVersion2}
			var ids []string
			for round := range 6 {
				former := f.leads(t, kinds[round%2])
				is.NoErr(polled(t.Context(), former))
				present := f.leads(t, kinds[(round+1)%2])
				for i := range 15 {
					ids = append(ids, f.at(t, 0, uint32(1000*round+i)))
				}
				var race sync.WaitGroup
				errs := make([]error, 2)
				for i, l := range []*Leader{former, present} {
					race.Go(func() { errs[i] = polled(t.Context(), l) })
				}
				race.Wait()
				is.NoErr(errs[0])
				is.NoErr(errs[1])
				is.Equal(len(former.Leading()), 0) // it has noticed
				lookAll(t, present)
			}
			f.deliveredOnce(t, ids...)
			for _, status := range []string{delivery.StatusV1Pending, delivery.StatusPending} {
				n, err := f.db.Collection("p.deliveries").CountDocuments(t.Context(), bson.D{{Key: "status", Value: status}})
				is.NoErr(err)
				is.True(n > 0)
			}
		})
	}
}

// standalone starts a server without transactions.
func standalone(t *testing.T) *mongo.Database {
	t.Helper()
	is := is.New(t)
	pulsetest.URI(t) // skips under -short
	server, err := mongoserver.Start(context.Background(), mongoserver.Options{Standalone: true})
	is.NoErr(err)
	t.Cleanup(func() { is.NoErr(server.Stop()) })
	return pulsetest.Client(t, func(opts *options.ClientOptions) { *opts = *options.Client().ApplyURI(server.URI()) }).Database("standalone")
}
