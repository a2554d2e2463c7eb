package github

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.uber.org/goleak"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A delivery whose outcome could not be stored is handled again; the feed has it once, with its first text.
func TestCollection_HasADeliveryOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	feed := Collection{pulsetest.Database(t).Collection("activity")}
	s := &Service{Feed: feed}
	item := echoes.Item[Push]{
		Params: Push{
			Source:  Source{Repository: Repository{ID: 1, FullName: "orchard/cider"}, Sender: User{Login: "ada"}},
			Ref:     "refs/heads/main",
			Commits: []Commit{{ID: "1"}},
		},
		EventContext: echoes.EventContext{EventID: "d-1", Topic: "github.push", CreatedAt: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)},
	}
	is.NoErr(s.Pushed(t.Context(), item))
	item.Params.Forced = true
	is.NoErr(s.Pushed(t.Context(), item))

	var stored []Activity
	cursor, err := feed.Find(t.Context(), bson.D{})
	is.NoErr(err)
	is.NoErr(cursor.All(t.Context(), &stored))
	is.Equal(len(stored), 1)
	is.Equal(stored[0].DeliveryID, "d-1")
	is.Equal(stored[0].Text, "pushed 1 commit to main")
	is.Equal(stored[0].ReceivedAt.UTC(), item.CreatedAt)
}

type brokenFeed struct{ err error }

func (f brokenFeed) Add(context.Context, Activity) error { return f.err }

// An error of the feed fails the attempt, which is what has the event delivered again.
func TestService_ReturnsTheErrorOfTheFeed(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	broken := brokenFeed{errors.New("disk full")}
	s := &Service{Feed: broken}
	var item echoes.Item[ReleaseEvent]
	item.Params.Repository.FullName = "orchard/cider"
	err := s.Released(t.Context(), item)
	is.True(errors.Is(err, broken.err))
	is.Equal(err.Error(), "add to the feed of orchard/cider: disk full")
}

func TestMoment_ReadsAllItsForms(t *testing.T) {
	t.Parallel()
	want := time.Date(2019, 5, 15, 15, 19, 25, 0, time.UTC)
	for name, c := range map[string]struct {
		value any
		want  time.Time
		err   string
	}{
		"int32":     {int32(1557933565), want, ""},
		"int64":     {int64(1557933565), want, ""},
		"text":      {"2019-05-15T15:19:25Z", want, ""},
		"offset":    {"2019-05-15T17:19:25+02:00", want, ""},
		"date":      {want, want, ""},
		"null":      {bson.Null{}, time.Time{}, ""},
		"no time":   {"soon", time.Time{}, `parsing time "soon" as "2006-01-02T15:04:05Z07:00": cannot parse "soon" as "2006"`},
		"no moment": {true, time.Time{}, "want seconds since 1970 or RFC 3339 text, got boolean"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			kind, data, err := bson.MarshalValue(c.value)
			is.NoErr(err)
			m := Moment{want.AddDate(1, 0, 0)}
			err = m.UnmarshalBSONValue(byte(kind), data)
			if c.err != "" {
				is.True(err != nil)
				is.Equal(err.Error(), c.err)
				return
			}
			is.NoErr(err)
			is.Equal(m.Time, c.want)

			// It is stored as a date.
			doc, err := bson.Marshal(bson.D{{Key: "at", Value: m}})
			is.NoErr(err)
			is.Equal(bson.Raw(doc).Lookup("at").Time().UTC(), c.want)
		})
	}
}
