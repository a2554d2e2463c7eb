package store_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/orionjs/orion-go/pulse/internal/store"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// Whatever the caller's client is set to, transactions are committed by the majority: a cursor that a failover
// could undo would be none. With write concern 0 there could be no transaction at all.
func TestMaterialize_3_2_CommitsByTheMajority(t *testing.T) {
	t.Parallel()
	for name, concern := range map[string]*writeconcern.WriteConcern{"0": writeconcern.Unacknowledged(), "1": writeconcern.W1()} {
		t.Run("w "+name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			_, db, sub := newStore(t)
			var mu sync.Mutex
			var commits []bson.Raw
			client := pulsetest.Client(t, func(o *options.ClientOptions) {
				o.SetWriteConcern(concern).SetReadConcern(readconcern.Available()).SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
					mu.Lock()
					defer mu.Unlock()
					if e.CommandName == "commitTransaction" {
						commits = append(commits, e.Command)
					}
				}})
			})
			s := store.New(client.Database(db.Name()), indexPrefix)
			is.NoErr(s.Detect(t.Context()))
			lease := lead(t, s, sub, "leader", time.Hour)
			is.NoErr(s.Materialize(t.Context(), lease, batches(keys(0, 3), 1), keys(0, 3)[2].Position, bson.Timestamp{}))
			mu.Lock()
			defer mu.Unlock()
			is.Equal(len(commits), 1)
			is.Equal(commits[0].Lookup("writeConcern", "w").StringValue(), "majority")
			s.Close(t.Context())
		})
	}
}
