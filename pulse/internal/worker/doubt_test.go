package worker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
	"github.com/orionjs/orion-go/pulse/internal/receiver"
	"github.com/orionjs/orion-go/pulse/internal/store"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// The connection breaks while a claim is on its way, the look-up over the next one finds nothing, and only then
// the server carries the claim out. What it claimed is handed back, with the attempt not consumed, and runs.
func TestClaim_4_7_CarriedOutBehindTheLookUp(t *testing.T) {
	t.Parallel()
	for _, format := range store.Formats {
		t.Run(fmt.Sprint("version ", int(format)), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			const n = 5
			o, name := newOrderedTopic(t, n), uuid.NewString()
			c := o.contendOver(t, func(opts *options.ClientOptions) { opts.SetAppName(name).SetRetryWrites(false) })
			c.lane.receiver.Limit = 2
			c.lane.receiver.Adopt(store.Settings{ExecutionVersion: 1, MaxRetries: 3, RetryDelay: time.Millisecond, Multiplier: 1, Delivery: store.AtLeastOnce, BatchSize: 1})
			c.lane.receiver.Handle = func(_ context.Context, call receiver.Call) error {
				c.calls.Add(call.Events[0].ID)
				return nil
			}
			if format == store.V2 {
				o.convert(t)
			}
			due, _, _, err := c.Store.Candidates(t.Context(), "billing", "t", format, 100)
			is.NoErr(err)
			is.Equal(len(due), n)
			failing := pulsetest.NewFailPoint(t, o.db.Client())
			failing.Set(pulsetest.Failure{AppName: name, Commands: []string{"update"}, CloseConnection: true, Times: 1})
			c.Wake("t", format)
			_, err = c.claimRound(t.Context())
			is.True(err != nil)
			is.Equal(len(c.doubts), 1)
			late, err := c.Store.Claim(t.Context(), due, "go:late", c.doubts[0].leases[0].Token, time.Hour)
			is.NoErr(err)
			is.Equal(len(late), n)
			is.NoErr(c.resolveDoubts(t.Context()))
			c.runAll(t, n)
			before := o.all(t)
			c.doubts[0].until = time.Now() // longer than a lease ago
			is.NoErr(c.resolveDoubts(t.Context()))
			is.Equal(len(c.doubts), 0)
			is.Equal(o.all(t), before)
			for _, d := range before {
				is.Equal(d.Lookup("finalAttempt").AsInt64(), int64(1)) // none was consumed
			}
			is.Equal(c.calls.Len(), n)
		})
	}
}

// convert makes all deliveries such of version 2.
func (o *orderedTopic) convert(t *testing.T) {
	t.Helper()
	is := is.New(t)
	is.NoErr(o.db.Collection("p.history").Drop(t.Context()))
	for _, d := range o.all(t) {
		_, err := o.db.Collection("p.deliveries").UpdateByID(t.Context(), d.Lookup("_id"), bson.D{{Key: "$set", Value: bson.D{
			{Key: "status", Value: delivery.StatusPending},
			{Key: "attempt", Value: int32(0)},
			{Key: "attemptId", Value: uuid.NewString()},
			{Key: "attemptCreatedAt", Value: time.Now()},
			{Key: "nextAttemptAt", Value: time.Now().Add(-time.Minute)},
			{Key: "attempts", Value: bson.A{}},
		}}})
		is.NoErr(err)
	}
}

// all returns the deliveries.
func (o *orderedTopic) all(t *testing.T) []bson.Raw {
	t.Helper()
	is := is.New(t)
	cursor, err := o.db.Collection("p.deliveries").Find(t.Context(), bson.D{}, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}))
	is.NoErr(err)
	var docs []bson.Raw
	is.NoErr(cursor.All(t.Context(), &docs))
	return docs
}

// The same of an order: whatever of a window is claimed late goes back, and the order goes on.
func TestClaim_4_9_OfAnOrderCarriedOutBehindItsLostAnswer(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	const n = 4
	o, name := newOrderedTopic(t, n), uuid.NewString()
	c := o.contendOver(t, func(opts *options.ClientOptions) { opts.SetAppName(name).SetRetryWrites(false) })
	held, err := c.holdOrder(t.Context(), c.lane)
	is.NoErr(err)
	is.True(held)
	heads := c.heads(t, n)
	failing := pulsetest.NewFailPoint(t, o.db.Client())
	failing.Set(pulsetest.Failure{AppName: name, Commands: []string{"update"}, CloseConnection: true, Times: 1})
	c.Wake("t", store.V1)
	_, err = c.claimRound(t.Context())
	is.True(err != nil)
	is.Equal(c.settler.waitEmpty(t.Context()), 0) // nothing was there to be handed back
	is.Equal(len(c.doubts), 1)
	late, err := c.Store.ClaimOrdered(t.Context(), heads, "go:late", c.doubts[0].leases[0].Token, time.Hour)
	is.NoErr(err)
	is.Equal(late, n)
	is.NoErr(c.resolveDoubts(t.Context()))
	c.steps(t, o, times("success", n))
	is.Equal(c.calls.Values(), []string{"e0", "e1", "e2", "e3"})
}

// The answer to a claim comes later than the lease lasts. Nothing of it starts, and all of it goes back at once with
// the attempts not consumed: nobody else would free it before the reaper, which takes one for each.
func TestClaim_4_7_AnsweredLaterThanTheLease(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]store.Settings{
		"version 1": {ExecutionVersion: 1, MaxRetries: 3, RetryDelay: time.Millisecond, Multiplier: 1, Delivery: store.AtLeastOnce, BatchSize: 1},
		"version 2": {ExecutionVersion: 2, MaxRetries: 3, RetryDelay: time.Millisecond, Multiplier: 1, Delivery: store.AtLeastOnce, BatchSize: 1},
		"in order":  {ExecutionVersion: 1, Ordered: true, MaxRetries: 3, RetryDelay: time.Millisecond, Multiplier: 1, Delivery: store.AtLeastOnce, BatchSize: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			const n = 4
			o, app := newOrderedTopic(t, n), uuid.NewString()
			c := o.contendOver(t, func(opts *options.ClientOptions) { opts.SetAppName(app) })
			c.lane.receiver.Adopt(settings)
			c.lane.pace.average = time.Millisecond // claims ahead, too
			if settings.ExecutionVersion == 2 {
				o.convert(t)
			}
			lease := c.Lease
			c.Lease = 100 * time.Millisecond
			failing := pulsetest.NewFailPoint(t, o.db.Client())
			block := 3 * c.Lease
			failing.Set(pulsetest.Failure{AppName: app, Commands: []string{"update"}, Block: block, Times: 1})
			c.Wake("t", store.V1)
			c.Wake("t", store.V2)
			pulsetest.Eventually(t, "a claim", func(ctx context.Context) error {
				begun := time.Now()
				if _, err := c.claimRound(ctx); err != nil {
					return err
				}
				if time.Since(begun) < block {
					return errors.New("nothing was claimed yet")
				}
				return nil
			})
			is.Equal(c.waitFor(t.Context(), func() int { return c.running }), 0)
			is.Equal(c.settler.waitEmpty(t.Context()), 0)
			is.Equal(c.calls.Len(), 0)
			for _, d := range o.all(t) {
				token, _ := d.Lookup("lockToken").StringValueOK()
				is.Equal(token, "")
			}
			if settings.ExecutionVersion == 1 {
				is.Equal(o.state(t), times("free", n))
			}
			// And they run, in their first attempt.
			c.mu.Lock()
			c.Lease = lease
			c.mu.Unlock()
			c.runAll(t, n, store.V1, store.V2)
			is.Equal(c.calls.Len(), n)
			for _, d := range o.all(t) {
				is.Equal(d.Lookup("finalAttempt").AsInt64(), int64(1)) // none was consumed
			}
		})
	}
}
