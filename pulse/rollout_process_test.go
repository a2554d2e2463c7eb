//go:build unix

package pulse_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// A fleet of processes goes from version 1 to version 2 and back, replica by replica, while events are published: each
// is handled once, and nothing of either format is left.
func TestBridge_4_13_ProcessesRollOutAndBack(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := chaosDatabase(t)
	config := fast(db)
	config.ConsumerGroup = "shop"
	publisher := startOver(t, db.Client(), config)
	c := consumer{Database: db.Name(), Workers: 2, MaxRetries: 5, V1: true}
	fleet := []*process{startProcess(t, c), startProcess(t, c), startProcess(t, c)}

	publishing, stop := context.WithCancel(t.Context())
	var published int
	var work sync.WaitGroup
	work.Go(func() {
		for publishing.Err() == nil {
			if _, err := childOrders.Publish(t.Context(), publisher, order{Number: published}); err != nil {
				t.Error(err)
				return
			}
			published++
			<-time.After(5 * time.Millisecond) // a load that the fleet keeps up with
		}
	})
	for version, v1 := range []bool{false, true} { // the two steps: the first found every replica able to do both
		c.ConfigVersion, c.V1 = version+1, v1
		for i := range fleet {
			fleet[i].end()
			fleet[i] = startProcess(t, c)
			// Some replica goes on: which one is not said, for a leader whose workers have room takes all there is.
			handled := len(mustFind(t, db.Collection("runs"), bson.D{}))
			pulsetest.Eventually(t, "the fleet handles twenty more events", func(ctx context.Context) error {
				runs, err := find(ctx, db.Collection("runs"), bson.D{})
				if err == nil && len(runs) < handled+20 {
					err = fmt.Errorf("%d after %d", len(runs), handled)
				}
				return err
			})
		}
	}
	stop()
	work.Wait()

	ended := bson.D{{Key: "status", Value: bson.D{{Key: "$in", Value: bson.A{"success", "v2-success"}}}}}
	eventually(t, published, deliveriesOf(db), ended)
	is.Equal(len(mustFind(t, deliveriesOf(db), bson.D{})), published)
	is.Equal(len(mustFind(t, historyOf(db), bson.D{{Key: "status", Value: "pending"}})), 0)
	formats := map[string]int{}
	for _, d := range mustFind(t, deliveriesOf(db), bson.D{}) {
		formats[d.Lookup("status").StringValue()]++
	}
	is.True(formats["success"] > 0 && formats["v2-success"] > 0)
	times := map[int64]int{}
	for _, run := range mustFind(t, db.Collection("runs"), bson.D{}) {
		times[run.Lookup("number").AsInt64()]++
	}
	is.Equal(len(times), published)
	for number, n := range times {
		if n != 1 {
			t.Errorf("event %d was handled %d times", number, n)
		}
	}
	for _, p := range fleet {
		is.Equal(p.lines("error"), 0)
		p.end()
	}
}
