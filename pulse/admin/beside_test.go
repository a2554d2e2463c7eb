package admin_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"golang.org/x/sync/errgroup"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/admin"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// Operators retry, cancel, pause and resume at random while three clients work: nothing is stuck, nothing succeeds
// twice, and every delivery can be brought to its success.
func TestOperators_9_2_BesideTheEngine(t *testing.T) {
	each(t, []kind{version1, version2, batches, ordered}, func(t *testing.T, k kind, db *mongo.Database) {
		is := is.New(t)
		var sound atomic.Bool
		handle := func(in call) error {
			time.Sleep(time.Duration(rand.IntN(4)) * time.Millisecond)
			if sound.Load() {
				return nil
			}
			switch rand.IntN(10) {
			case 0, 1:
				return errPlanned
			case 2, 3:
				return pulse.Permanent(errPlanned)
			case 4:
				return pulse.RetryAfter(errPlanned, 20*time.Millisecond)
			}
			return nil
		}
		var clients []*pulse.Client
		for range 3 {
			c := config(db)
			c.WorkerCount = 4
			client := start(t, c)
			k.subscribe(t, client, handle, pulse.MaxRetries(2), pulse.RetryDelay(10*time.Millisecond))
			clients = append(clients, client)
		}
		a := open(t, db)
		ctx, stopAll := context.WithCancel(t.Context())
		defer stopAll()
		var operators errgroup.Group
		// On the small test server a claim that meets a transaction over the same attempts can wait for it while it waits
		// for the claim, until the deadlines of both: an operator tries again then.
		benign := func(err error) error {
			var state *admin.StateError
			var missing *admin.NotFoundError
			if err == nil || ctx.Err() != nil || errors.As(err, &state) || errors.As(err, &missing) || mongo.IsTimeout(err) {
				return nil
			}
			return err
		}
		for range 3 {
			operators.Go(func() error {
				for ctx.Err() == nil {
					page, err := a.Deliveries(ctx, admin.DeliveryQuery{Group: group, Topic: orders.Name(), Limit: 50})
					if err := benign(err); err != nil {
						return err
					}
					for range 10 {
						if len(page.Deliveries) == 0 {
							break
						}
						d := page.Deliveries[rand.IntN(len(page.Deliveries))]
						if d.State == admin.Failed {
							_, err = a.Retry(ctx, d.ID, operator)
						} else if rand.IntN(3) == 0 {
							_, err = a.Cancel(ctx, d.ID, operator)
						}
						if err := benign(err); err != nil {
							return err
						}
					}
				}
				return nil
			})
		}
		operators.Go(func() error {
			for ctx.Err() == nil {
				_, err := a.Pause(context.WithoutCancel(ctx), group, orders.Name(), operator)
				if err := benign(err); err != nil {
					return err
				}
				time.Sleep(150 * time.Millisecond)
				_, err = a.Resume(context.WithoutCancel(ctx), group, orders.Name(), operator)
				if err := benign(err); err != nil {
					return err
				}
				time.Sleep(400 * time.Millisecond)
			}
			for {
				_, err := a.Resume(context.WithoutCancel(ctx), group, orders.Name(), operator)
				if !mongo.IsTimeout(err) {
					return err
				}
			}
		})
		n := 0
		for begun := time.Now(); time.Since(begun) < 2*time.Second; {
			n += len(publish(t, clients[n%3], 1+rand.IntN(20)))
			time.Sleep(50 * time.Millisecond)
		}
		stopAll()
		is.NoErr(operators.Wait())
		sound.Store(true)
		work := pulsetest.Group{DB: db, Name: group} // no active delivery is not enough: events may still have none
		work.WaitQuiet(t)
		for {
			changes, err := a.RetryMatching(t.Context(), admin.DeliveryQuery{Group: group, Topic: orders.Name()}, admin.Bulk{By: operator})
			is.NoErr(err)
			work.WaitQuiet(t)
			if changes.Changed == 0 {
				break
			}
		}
		delivered := map[string]int{}
		cursor, err := collection(db, "deliveries").Find(t.Context(), bson.D{})
		is.NoErr(err)
		var docs []bson.Raw
		is.NoErr(cursor.All(t.Context(), &docs))
		for _, doc := range docs {
			if s := doc.Lookup("status").StringValue(); s != "success" && s != "v2-success" {
				t.Errorf("not a success: %v", doc)
			}
			if _, err := doc.LookupErr("lockToken"); err == nil {
				t.Errorf("locked: %v", doc)
			}
			if _, err := doc.LookupErr("needsReconciliation"); err == nil {
				t.Errorf("marked: %v", doc)
			}
			if ids, ok := doc.Lookup("eventIds").ArrayOK(); ok {
				values, _ := ids.Values()
				for _, v := range values {
					delivered[v.StringValue()]++
				}
			} else {
				delivered[doc.Lookup("eventId").StringValue()]++
			}
			won, err := collection(db, "history").CountDocuments(t.Context(), bson.D{{Key: "deliveryId", Value: doc.Lookup("_id")}, {Key: "status", Value: "success"}})
			is.NoErr(err)
			if won > 1 {
				t.Errorf("%d successes of %v", won, doc)
			}
		}
		is.Equal(len(delivered), n)
		for id, times := range delivered {
			if times != 1 {
				t.Errorf("event %s has %d deliveries", id, times)
			}
		}
	})
}
