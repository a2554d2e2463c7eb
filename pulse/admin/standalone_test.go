package admin_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/admin"
	"github.com/orionjs/orion-go/pulse/pulsetest"
	"github.com/orionjs/orion-go/pulse/pulsetest/mongoserver"
)

// Without transactions a grant and a cancel of version 1 take several steps. A process that dies between those of a
// grant leaves a marker, and the repair ends the delivery as it had ended before: no attempt comes of half a grant.
func TestRetry_9_2_WithoutTransactions(t *testing.T) {
	t.Parallel()
	pulsetest.URI(t) // skips under -short
	server, err := mongoserver.Start(t.Context(), mongoserver.Options{Standalone: true})
	is.New(t).NoErr(err)
	t.Cleanup(func() { is.New(t).NoErr(server.Stop()) })
	client := pulsetest.Client(t, func(opts *options.ClientOptions) { *opts = *options.Client().ApplyURI(server.URI()) })
	for _, k := range []kind{version1, ordered} {
		t.Run(k.name, func(t *testing.T) {
			is := is.New(t)
			db := client.Database(k.name[:7])
			cfg, log := logging(config(db))
			c, err := pulse.New(t.Context(), client, cfg)
			is.NoErr(err)
			defer stop(t, c)
			var calls pulsetest.Recorder[int]
			k.subscribe(t, c, func(in call) error {
				calls.Add(in.attempt)
				if in.attempt < 3 {
					return pulse.Permanent(errPlanned)
				}
				return nil
			})
			publish(t, c, 1)
			a := open(t, db)
			awaitFailed(t, a, 1)
			id := inState(t, a, admin.Failed)[0].ID
			_, err = a.Retry(t.Context(), id, operator)
			is.NoErr(err)
			is.Equal(awaitState(t, a, id, admin.Failed).Attempt, 2)
			pulsetest.Eventually(t, "no marker is left", func(ctx context.Context) error {
				n, err := collection(db, "deliveries").CountDocuments(ctx, bson.D{{Key: "needsReconciliation", Value: true}})
				if err == nil && n > 0 {
					err = fmt.Errorf("there are %d", n)
				}
				return err
			})
			_, err = a.Retry(t.Context(), id, operator)
			is.NoErr(err)
			is.Equal(awaitState(t, a, id, admin.Succeeded).Attempt, 3)

			// A cancel of one that waits.
			pauseIt(t, a)
			log.await(t, "was paused", 1)
			publish(t, c, 1)
			awaitBacklog(t, a, "one waits", func(b admin.Backlog) bool { return b.Pending.N == 1 })
			waits := inState(t, a, admin.Pending)[0].ID
			_, err = a.Cancel(t.Context(), waits, operator)
			is.NoErr(err)
			is.Equal(awaitState(t, a, waits, admin.Failed).Error.Code, "cancelled_by_operator")

			// The first half of a grant, long ago.
			_, err = collection(db, "deliveries").UpdateByID(t.Context(), waits, bson.D{
				{Key: "$set", Value: bson.D{
					{Key: "status", Value: "pending"},
					{Key: "needsReconciliation", Value: true},
					{Key: "updatedAt", Value: time.Now().Add(-time.Hour)},
					{Key: "grants", Value: bson.A{bson.D{{Key: "by", Value: "ada"}, {Key: "at", Value: time.Now()}, {Key: "attempt", Value: 2}}}},
				}},
				{Key: "$unset", Value: bson.D{{Key: "endedAt", Value: ""}, {Key: "expiresAt", Value: ""}, {Key: "finalAttempt", Value: ""}, {Key: "error", Value: ""}}},
			})
			is.NoErr(err)
			_, err = a.Doctor(t.Context(), admin.DoctorOptions{Fix: true})
			is.NoErr(err)
			d := awaitState(t, a, waits, admin.Failed)
			is.Equal(len(d.Attempts), 1)
			is.Equal(d.Error.Code, "cancelled_by_operator")
			is.True(!d.ExpiresAt.IsZero())
			is.Equal(calls.Values(), []int{1, 2, 3})
		})
	}
}
