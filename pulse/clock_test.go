//go:build unix

package pulse_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Replicas whose clocks are two minutes ahead and behind: leases are a few seconds and run out by the server's
// clock, so nobody takes from another what it holds, and no retry starts before it is due.
func TestClock_4_1_WrongClocksStealNothingAndStartNothingEarly(t *testing.T) {
	t.Parallel()
	for _, c := range []consumer{{}, {V1: true}, {Ordered: true}, {BatchSize: 2}} {
		t.Run(fmt.Sprintf("ordered=%v version1=%v batch=%d", c.Ordered, c.V1, c.BatchSize), func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			db := chaosDatabase(t)
			const n = 6
			c.Database, c.Workers, c.MaxRetries, c.FailFirst = db.Name(), 1, 3, true
			// A handler outlasts a lease by far; a pause is longer than any error of the measured offset.
			c.Lease, c.Take, c.RetryDelay = 2*time.Second, 2500*time.Millisecond, time.Second
			publishMany(t, deliverOrders, startOver(t, db.Client(), fast(db)), n)
			var all []*process
			for _, wrong := range []time.Duration{2 * time.Minute, -2 * time.Minute, 0} {
				c.ClockWrong = wrong
				all = append(all, startProcess(t, c))
			}
			deliveries := n
			if c.BatchSize > 0 {
				deliveries = n / c.BatchSize
			}
			state := "v2-success"
			if c.Ordered || c.V1 {
				state = "success"
			}
			eventually(t, deliveries, deliveriesOf(db), bson.D{{Key: "status", Value: state}})
			runs := eventually(t, n, db.Collection("runs"), bson.D{}) // each once, since the first attempts store nothing
			for _, run := range runs {
				is.Equal(run.Lookup("attempt").AsInt64(), int64(2))
			}
			lost, err := find(t.Context(), historyOf(db), bson.D{{Key: "error.code", Value: "worker_lost"}})
			is.NoErr(err)
			is.Equal(len(lost), 0)
			for _, d := range eventually(t, deliveries, deliveriesOf(db), bson.D{}) {
				is.Equal(d.Lookup("finalAttempt").AsInt64(), int64(2))
				var attempts []bson.Raw
				if state == "success" {
					attempts = eventually(t, 2, historyOf(db), bson.D{{Key: "deliveryId", Value: d.Lookup("_id")}})
				} else {
					attempts = attemptsIn(d)
				}
				is.Equal(codeOf(attempts[0]), "handler_error")
				// The server stamps each claim, with its own clock.
				first, again := attempts[0].Lookup("lockedAt").Time(), attempts[1].Lookup("lockedAt").Time()
				is.True(again.Sub(first) >= c.RetryDelay-300*time.Millisecond)
				for _, a := range attempts { // and what replicas stamp is by that clock
					is.True(a.Lookup("endedAt").Time().Sub(a.Lookup("lockedAt").Time()).Abs() < time.Minute)
				}
			}
			for _, p := range all {
				is.Equal(p.lines("error"), 0)
				p.end()
			}
		})
	}
}
