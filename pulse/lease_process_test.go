//go:build unix

package pulse_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// A process is frozen in its handler for longer than the lease. Another one runs the delivery; what the
// frozen one does when it wakes changes nothing, and it reports the loss.
func TestLease_4_1_FrozenProcessChangesNothingWhenItWakes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := chaosDatabase(t)
	ids := backlog(t, db, 1)
	first := startProcess(t, consumer{Database: db.Name(), Workers: 1, MaxRetries: 3, HangAfter: 1})
	first.waitLine("run ")
	first.freeze()
	startProcess(t, consumer{Database: db.Name(), Workers: 1, MaxRetries: 3})
	done := eventually(t, 1, deliveriesOf(db), bson.D{{Key: "status", Value: "v2-success"}})
	first.thaw()
	first.release()
	first.waitLine("error ", "lease of this delivery was lost")
	pulsetest.Eventually(t, "both have stored their runs", func(ctx context.Context) error {
		runs, err := runsOf(ctx, db)
		if err == nil && runs[ids[0]] != 2 {
			err = fmt.Errorf("%d", runs[ids[0]])
		}
		return err
	})
	first.end()
	is.Equal(only(t, deliveriesOf(db), bson.D{}), done[0])
	is.Equal(first.lines("error ", "lease of this delivery was lost"), 1)
}
