package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/cmd/pulse/internal/audit"
	"github.com/orionjs/orion-go/cmd/pulse/internal/fleet"
	"github.com/orionjs/orion-go/cmd/pulse/internal/load"
	"github.com/orionjs/orion-go/cmd/pulse/internal/testbed"
)

// How the processes work: with short leases, so that many end within a run.
const (
	group          = "soak"
	replicas       = 4
	poll           = time.Second
	lease          = 6 * time.Second
	discoveryLease = 4 * time.Second
	// failEvery lets the first attempt fail of each event whose number is a multiple.
	failEvery = 13
	// stallTimeout ends the wait for the rest after the last fault, when no handler has ended for so long: a
	// transaction of a killed process may hold what it wrote for a minute.
	stallTimeout = 3 * time.Minute
)

type topic struct {
	receiver     load.Receiver
	many, within bool
}

// topics are one of each kind of delivery and of publishing.
var topics = []topic{
	{receiver: load.Receiver{Topic: "single", Version: 2}},
	{receiver: load.Receiver{Topic: "single.version1", Version: 1}},
	{receiver: load.Receiver{Topic: "single.within", Version: 2}, within: true},
	{receiver: load.Receiver{Topic: "batch", Version: 2, Batch: 50}, many: true},
	{receiver: load.Receiver{Topic: "ordered", Version: 1, Ordered: true}},
	{receiver: load.Receiver{Topic: "ordered.many", Version: 1, Ordered: true}, many: true},
	{receiver: load.Receiver{Topic: "ordered.within", Version: 1, Ordered: true}, within: true},
}

func init() {
	for i := range topics {
		r := &topics[i].receiver
		r.Retries, r.RetryDelay = 50, 50*time.Millisecond
	}
}

// Config says what Run does.
type Config struct {
	Bed *testbed.Bed
	// Total is how long faults come; the end takes longer.
	Total time.Duration
	// Seed decides the plan of faults.
	Seed uint64
	// Rate is how many events a second are published.
	Rate float64
	// Logs is a directory for the logs of the processes; empty keeps none.
	Logs string
	// Progress gets lines for people.
	Progress io.Writer
}

// Result is what a soak came to.
type Result struct {
	Seed uint64 `json:"seed"`
	audit.Verdict
	// Faults are those that happened, each with the time of its recovery.
	Faults []Hit `json:"faults"`
}

// Run publishes and handles while faults happen. An error is one of the run itself, or of a process that ended
// by itself.
func Run(ctx context.Context, cfg Config) (result Result, err error) {
	result.Seed = cfg.Seed
	db, drop := cfg.Bed.Database()
	defer func() { err = errors.Join(err, drop()) }()
	crew, err := newCrew(cfg, db.Name())
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, crew.end()) }()
	for _, w := range crew.workers {
		if err := w.launch(ctx); err != nil {
			return result, err
		}
	}
	if result.Faults, err = suffer(ctx, cfg, crew); err != nil {
		return result, err
	}
	if err := crew.publisher().now.Stop(nil); err != nil {
		return result, err
	}
	say(cfg, "%d events were published; waiting until all are handled", sum(crew.published()))
	if err := drain(ctx, cfg, crew, db); err != nil {
		return result, err
	}
	result.Verdict, err = judge(ctx, crew, db, result.Faults)
	return result, err
}

// suffer lets the planned faults happen, each at its time.
func suffer(ctx context.Context, cfg Config, crew *crew) ([]Hit, error) {
	start := time.Now()
	var hits []Hit
	for _, f := range Plan(cfg.Seed, cfg.Total, len(crew.workers)) {
		if err := pause(ctx, time.Until(start.Add(f.At))); err != nil {
			return hits, err
		}
		if err := crew.check(); err != nil {
			return hits, err
		}
		hit, err := crew.inflict(ctx, f)
		hits = append(hits, hit)
		if err != nil {
			return hits, err
		}
		say(cfg, "%8s  %-6s %-10s for %s", f.At.Round(time.Millisecond), f.Kind, hit.Process, f.Lasts)
	}
	return hits, pause(ctx, time.Until(start.Add(cfg.Total)))
}

// drain waits until everything that was published is handled and nothing is left to do, or nothing has happened
// for long enough.
func drain(ctx context.Context, cfg Config, crew *crew, db *mongo.Database) error {
	progress, calls := time.Now(), int64(0)
	for {
		if err := pause(ctx, poll); err != nil {
			return err
		}
		if err := crew.check(); err != nil {
			return err
		}
		left, err := audit.ReadState(ctx, db, load.Prefix, group)
		if err != nil {
			return err
		}
		if left.Idle() {
			entries, err := audit.Entries(ctx, db)
			if err != nil || audit.Check(crew.published(), entries, left, nil).Lost == 0 {
				return err
			}
		}
		now, err := db.Collection(audit.Collection).EstimatedDocumentCount(ctx)
		if err != nil {
			return err
		}
		if now > calls {
			progress, calls = time.Now(), now
		}
		if time.Since(progress) > stallTimeout {
			say(cfg, "no handler has ended for %s", stallTimeout)
			return nil
		}
	}
}

// judge stops the replicas and reads what they have done.
func judge(ctx context.Context, crew *crew, db *mongo.Database, hits []Hit) (audit.Verdict, error) {
	var running []*fleet.Process
	for _, w := range crew.workers {
		if w != crew.publisher() {
			running = append(running, w.now)
		}
	}
	if err := fleet.StopAll(running); err != nil {
		return audit.Verdict{}, err
	}
	left, err := audit.ReadState(ctx, db, load.Prefix, group)
	if err != nil {
		return audit.Verdict{}, err
	}
	entries, err := audit.Entries(ctx, db)
	if err != nil {
		return audit.Verdict{}, err
	}
	verdict := audit.Check(crew.published(), entries, left, explain(hits))
	for _, t := range topics {
		if t.receiver.Ordered {
			verdict.CheckOrder(t.receiver.Topic, entries)
		}
	}
	recoveries(hits, entries, crew.acked)
	return verdict, nil
}

func say(cfg Config, format string, args ...any) {
	_, _ = fmt.Fprintf(cfg.Progress, "pulse stress: "+format+"\n", args...)
}

func sum(counts map[string]int) int {
	n := 0
	for _, c := range counts {
		n += c
	}
	return n
}
