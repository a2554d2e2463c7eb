package soak

import (
	"time"

	"github.com/orionjs/orion-go/cmd/pulse/internal/audit"
)

// Hit is a fault that has happened.
type Hit struct {
	Fault
	// Process is who was hit; empty: all of them.
	Process string `json:"process,omitempty"`
	// Began and Ended are Unix times in microseconds.
	Began int64 `json:"-"`
	Ended int64 `json:"-"`
	// Recovery is how long after its beginning everything was handled that had been published before.
	Recovery time.Duration `json:"recovery"`
}

// explain says whether a call was repeated because its process was hit between the call and the repetition: it
// may not have been able to store the outcome, or to keep its lease. Without a fault of its own process nothing
// explains a repetition.
func explain(hits []Hit) audit.Explain {
	return func(done, again audit.Entry) bool {
		for _, h := range hits {
			mine := h.Process == "" || h.Process == done.Replica
			if mine && h.Began <= again.Start && h.Ended >= done.Start {
				return true
			}
		}
		return false
	}
}

// recoveries sets the hits' times of recovery. Acked holds, by topic, when each event was known to be stored.
func recoveries(hits []Hit, entries []audit.Entry, acked map[string][]int64) {
	doneAt := map[string][]int64{}
	for topic, times := range acked {
		doneAt[topic] = make([]int64, len(times))
	}
	for _, e := range entries {
		done := doneAt[e.Topic]
		for _, n := range e.Events {
			if e.OK && n >= 0 && n < len(done) && (done[n] == 0 || e.End < done[n]) {
				done[n] = e.End
			}
		}
	}
	for i := range hits {
		h := &hits[i]
		for topic, times := range acked {
			for n, at := range times {
				if at > h.Began {
					break
				}
				h.Recovery = max(h.Recovery, time.Duration(doneAt[topic][n]-h.Began)*time.Microsecond)
			}
		}
	}
}
