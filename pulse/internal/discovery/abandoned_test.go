package discovery

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// A leader dies within the transaction that moves the cursor, and leaves it open: whoever takes over ends it. Else
// the lease could not even be taken before the server ended it, long after our commands give up.
func TestCampaign_6_2_EndsTheTransactionOfALostLeader(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	f := newFixture(t)
	r, _ := f.receiver(t)
	dead := pulsetest.Client(t)
	session, err := dead.StartSession()
	is.NoErr(err)
	defer session.EndSession(context.Background())
	_, raw := session.ID().Lookup("id").Binary()
	id, err := uuid.FromBytes(raw)
	is.NoErr(err)
	subs := f.db.Collection("p.subscriptions")
	_, err = subs.UpdateMany(t.Context(), bson.D{}, bson.D{{Key: "$set", Value: bson.D{
		{Key: "discoveryLockOwner", Value: "go:host:1:" + id.String()},
		{Key: "discoveryLockToken", Value: "dead"},
		{Key: "discoveryLockedUntil", Value: time.Now().Add(-time.Second)},
	}}})
	is.NoErr(err)
	is.NoErr(session.StartTransaction())
	within := mongo.NewSessionContext(t.Context(), session)
	_, err = dead.Database(f.db.Name()).Collection("p.subscriptions").UpdateMany(within, bson.D{}, bson.D{{Key: "$inc", Value: bson.D{{Key: "cursorMoves", Value: 1}}}})
	is.NoErr(err)

	left, err := f.store.Subscriptions(t.Context(), "billing", []string{"t"})
	is.NoErr(err)
	l := f.leader(time.Hour)
	is.NoErr(l.Campaign(t.Context(), r, left[0]))
	is.Equal(len(l.Leading()), 1)
	f.publish(t, 3)
	is.NoErr(polled(t.Context(), l))
	f.eachOnce(t, 3)
	is.True(session.CommitTransaction(t.Context()) != nil) // the lost one writes nothing when it comes back
}
