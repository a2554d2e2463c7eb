package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
	"github.com/orionjs/orion-go/pulse/internal/store"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// The stream tells of new events and of deliveries that become pending, and of nothing else.
func TestWatch_3_4_Notices(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, sub := newStore(t)
	stream, err := s.Watch(t.Context(), group)
	is.NoErr(err)
	ctx, cancel := context.WithTimeout(t.Context(), pulsetest.Patience)
	defer cancel()
	defer func() { is.NoErr(stream.Close(context.WithoutCancel(ctx))) }()
	next := func() store.Notice {
		t.Helper()
		n, ok := stream.Next(ctx)
		if !ok {
			t.Fatalf("the stream ended: %v", stream.Err())
		}
		if n.Kind == store.EventPublished { // its place is the server's to choose
			is.True(!n.Event.Sequence.IsZero() && n.Event.EventID != "" && !n.Event.PublishedAt.IsZero())
			n.Event = store.EventKey{}
		}
		return n
	}
	event := func(topic any) {
		_, err := events(db).InsertOne(ctx, bson.D{{Key: "_id", Value: uuid.NewString()}, {Key: "topic", Value: topic}, {Key: "sequence", Value: bson.Timestamp{}}})
		is.NoErr(err)
	}
	event("a")
	is.Equal(next(), store.Notice{Kind: store.EventPublished, Topic: "a"})

	// A delivery of the group; those of others and terminal ones do not come.
	for _, d := range [][2]string{{"other", delivery.StatusPending}, {group, delivery.StatusSuccess}, {group, delivery.StatusPending}} {
		_, err := deliveries(db).InsertOne(ctx, bson.D{{Key: "_id", Value: uuid.NewString()}, {Key: "consumerGroup", Value: d[0]}, {Key: "eventId", Value: uuid.NewString()}, {Key: "topic", Value: "b"}, {Key: "status", Value: d[1]}})
		is.NoErr(err)
	}
	is.Equal(next(), store.Notice{Kind: store.DeliveryStored, Format: store.V2, Topic: "b"})

	// In a transaction with the cursor.
	candidates := pending(t, s, db, sub, 2)
	due := byID(t, deliveries(db), candidates[0].ID).Lookup("nextAttemptAt").Time().UTC()
	for range candidates {
		is.Equal(next(), store.Notice{Kind: store.DeliveryStored, Format: store.V2, Topic: topic, Due: due})
	}

	// Attempts of version 1, whichever they are; their deliveries do not come.
	_, err = deliveries(db).InsertOne(ctx, bson.D{{Key: "_id", Value: uuid.NewString()}, {Key: "consumerGroup", Value: group}, {Key: "eventId", Value: uuid.NewString()}, {Key: "topic", Value: "v1"}, {Key: "status", Value: delivery.StatusV1Pending}})
	is.NoErr(err)
	for n, g := range []string{"other", group, group} {
		_, err := db.Collection(indexPrefix+".history").InsertOne(ctx, bson.D{{Key: "_id", Value: uuid.NewString()}, {Key: "deliveryId", Value: "d"}, {Key: "attempt", Value: n}, {Key: "consumerGroup", Value: g}, {Key: "topic", Value: "v1"}, {Key: "nextAttemptAt", Value: due}})
		is.NoErr(err)
	}
	for range 2 {
		is.Equal(next(), store.Notice{Kind: store.AttemptStored, Format: store.V1, Topic: "v1", Due: due})
	}

	// Claims, renewals and ends do not come; what is pending again does, with its due time if that is new.
	leases := claim(t, s, candidates, "mine")
	_, err = s.Renew(ctx, leases, time.Hour)
	is.NoErr(err)
	success, retry := settlement(s, leases[0], delivery.Succeeded), settlement(s, leases[1], delivery.Retried)
	retry.Delay = time.Hour
	_, err = s.Settle(ctx, []store.Settlement{success, retry}, time.Hour)
	is.NoErr(err)
	is.Equal(next(), store.Notice{Kind: store.DeliveryDue, Format: store.V2, Due: retry.EndedAt.Add(time.Hour)})
	again, _, _, err := s.Candidates(ctx, group, "b", store.V2, 10)
	is.NoErr(err)
	is.Equal(len(again), 0)
	// Tools make an attempt due, of either format; nothing becomes pending by it.
	hurried := s.Now()
	_, err = deliveries(db).UpdateByID(ctx, leases[1].ID, bson.D{{Key: "$set", Value: bson.D{{Key: "nextAttemptAt", Value: hurried}}}})
	is.NoErr(err)
	is.Equal(next(), store.Notice{Kind: store.DeliveryDue, Format: store.V2, Due: hurried})
	_, err = db.Collection(indexPrefix+".history").UpdateOne(ctx, bson.D{{Key: "consumerGroup", Value: group}, {Key: "attempt", Value: 1}}, bson.D{{Key: "$set", Value: bson.D{{Key: "nextAttemptAt", Value: hurried}}}})
	is.NoErr(err)
	is.Equal(next(), store.Notice{Kind: store.AttemptDue, Format: store.V1, Due: hurried})
	again, _, _, err = s.Candidates(ctx, group, topic, store.V2, 10)
	is.NoErr(err)
	is.NoErr(s.HandBack(ctx, claim(t, s, again, "again")))
	is.Equal(next(), store.Notice{Kind: store.DeliveryDue, Format: store.V2})

	event("c") // nothing else came in between
	is.Equal(next(), store.Notice{Kind: store.EventPublished, Topic: "c"})
	event(12) // hostile
	is.Equal(next(), store.Notice{Kind: store.EventPublished})
}

// Next ends with its context, and with the database.
func TestWatch_3_4_Ends(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s, db, _ := newStore(t)
	stream, err := s.Watch(t.Context(), group)
	is.NoErr(err)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	_, ok := stream.Next(ctx)
	is.True(!ok)
	_ = stream.Close(t.Context()) // a courtesy: a server that is busy for longer ends the stream by itself

	stream, err = s.Watch(t.Context(), group)
	is.NoErr(err)
	defer func() { _ = stream.Close(context.WithoutCancel(t.Context())) }()
	is.NoErr(db.Drop(t.Context()))
	for ok = true; ok; {
		_, ok = stream.Next(t.Context())
	}
	is.NoErr(stream.Err()) // the server ended it
}
