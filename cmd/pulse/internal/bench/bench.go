// Package bench measures what Pulse asks of a server, and how fast it is.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/orionjs/orion-go/cmd/pulse/internal/testbed"
)

// Options say what is measured, and with what.
type Options struct {
	Bed *testbed.Bed
	// Events of each scenario, Size the bytes that are added to the data of each.
	Events, Size int
	// Clients are the processes, Workers the workers of each, Batch the size of batches, Topics those of each
	// idle client.
	Clients, Workers, Batch, Topics int
	// Streams are change streams; without them clients poll.
	Streams bool
	// Delay is added to every answer of the server.
	Delay time.Duration
	// HandlerTime is how long each call of a handler waits. What the bare driver would do is not measured then: it has
	// no handlers.
	HandlerTime time.Duration
	// Idle is how long the idle scenario takes.
	Idle time.Duration
	// Progress gets lines for people.
	Progress io.Writer
}

// Result is one line of the table. What does not apply is 0 and left out of the JSON.
type Result struct {
	Scenario string  `json:"scenario"`
	About    string  `json:"about"`
	Events   int     `json:"events"`
	Seconds  float64 `json:"seconds"`
	// PerSecond is the throughput, of the events and of all processes together.
	PerSecond float64 `json:"eventsPerSecond,omitempty"`
	// Latency is from before the publication to the handler, in milliseconds.
	Latency *Latency `json:"latencyMs,omitempty"`
	// CommandsPerEvent and BytesPerEvent went between the driver and the server.
	CommandsPerEvent float64        `json:"commandsPerEvent,omitempty"`
	BytesPerEvent    float64        `json:"bytesPerEvent,omitempty"`
	Commands         map[string]int `json:"commands"`
	// CommandsPerSecond are those of one idle client.
	CommandsPerSecond float64 `json:"commandsPerSecond,omitempty"`
	// CPUPer1000 are the seconds of processor time that the clients take for 1,000 events, CPUShare the share of
	// one processor that an idle client takes. The server's are not included.
	CPUPer1000 float64 `json:"cpuSecondsPer1000,omitempty"`
	CPUShare   float64 `json:"cpuShare,omitempty"`
	// PeakMemory is the most that one process had in use, in bytes; 0 where that is not known.
	PeakMemory int64 `json:"peakMemory,omitempty"`
	// AllocationsPerEvent are those of decoding one event.
	AllocationsPerEvent float64 `json:"allocationsPerEvent,omitempty"`
	// Floor is what the bare driver takes for the same, Ratio the throughput as a part of the floor's; of a latency the
	// floor's median as a part of ours.
	Floor *Result `json:"floor,omitempty"`
	Ratio float64 `json:"ratioToFloor,omitempty"`
}

// Latency has percentiles, in milliseconds.
type Latency struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Names are the scenarios, in their order.
func Names() []string {
	names := make([]string, len(scenarios))
	for i, s := range scenarios {
		names[i] = s.name
	}
	return names
}

// Run measures the named scenarios, all if none is named, each from an empty database of its own.
func Run(ctx context.Context, opts Options, names []string) ([]Result, error) {
	for _, name := range names {
		if !slices.Contains(Names(), name) {
			return nil, fmt.Errorf("no scenario %q: there are %s", name, strings.Join(Names(), ", "))
		}
	}
	var results []Result
	for _, s := range scenarios {
		if len(names) > 0 && !slices.Contains(names, s.name) {
			continue
		}
		_, _ = fmt.Fprintf(opts.Progress, "pulse bench: %s: %s\n", s.name, s.about)
		r, err := s.run(ctx, opts)
		if err != nil {
			return results, fmt.Errorf("scenario %s: %w", s.name, err)
		}
		results = append(results, r)
	}
	return results, nil
}

// run measures a scenario, and its floor if it has one.
func (s scenario) run(ctx context.Context, opts Options) (Result, error) {
	if s.local != nil {
		return s.local(s, opts)
	}
	r, err := s.measure(ctx, opts, s.play)
	for _, claimers := range s.floor {
		if err != nil || opts.HandlerTime > 0 {
			break
		}
		var floor Result
		floor, err = s.measure(ctx, opts, s.playFloor(claimers))
		if err == nil && (r.Floor == nil || floor.PerSecond > r.Floor.PerSecond) {
			r.Floor, r.Ratio = &floor, r.partOf(floor)
		}
	}
	return r, err
}

func (r Result) partOf(floor Result) float64 {
	if r.Latency != nil {
		return floor.Latency.P50 / r.Latency.P50
	}
	return r.PerSecond / floor.PerSecond
}

func (s scenario) measure(ctx context.Context, opts Options, play func(context.Context, *stage) error) (r Result, err error) {
	stage, end, err := newStage(ctx, opts)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, end()) }()
	if err := play(ctx, stage); err != nil {
		return r, err
	}
	sum, err := stage.reports()
	if err != nil {
		return r, err
	}
	return s.result(opts, sum), nil
}

func (s scenario) result(opts Options, sum total) Result {
	r := Result{Scenario: s.name, About: s.about, Events: sum.events, Seconds: sum.seconds(), Commands: sum.Commands, PeakMemory: sum.memory}
	if s.idle {
		r.CommandsPerSecond = float64(sum.Sum()) / r.Seconds / float64(opts.Clients)
		r.CPUShare = sum.cpu.Seconds() / r.Seconds / float64(opts.Clients)
		return r
	}
	if s.latency {
		r.Events = len(sum.latencies) // those of the publisher are the same ones
		r.Latency = percentiles(sum.latencies)
	}
	events := float64(r.Events)
	if !s.latency { // their rate is given
		r.PerSecond = events / r.Seconds
	}
	r.CommandsPerEvent = float64(sum.Sum()) / events
	r.BytesPerEvent = float64(sum.Bytes) / events
	r.CPUPer1000 = sum.cpu.Seconds() / events * 1000
	return r
}

// percentiles are of microseconds.
func percentiles(latencies []int64) *Latency {
	if len(latencies) == 0 {
		return nil
	}
	slices.Sort(latencies)
	at := func(part float64) float64 {
		return float64(latencies[min(int(part*float64(len(latencies))), len(latencies)-1)]) / 1000
	}
	return &Latency{P50: at(0.50), P95: at(0.95), P99: at(0.99), Max: at(1)}
}

// playFloor has the bare driver do the same, in one process.
func (s scenario) playFloor(claimers int) func(context.Context, *stage) error {
	return func(ctx context.Context, st *stage) error {
		order := floor{Client: st.client("floor"), Kind: s.name, Topic: topic, Events: st.opts.Events, Pad: st.opts.Size, Claimers: claimers}
		if s.name == "batch" {
			order.Batch = st.opts.Batch
		}
		if s.latency {
			return playLatency(s.rate, s.most, func(ctx context.Context, st *stage, events int) error {
				order.Events = events
				return st.add(ctx, floorRole, order)
			})(ctx, st)
		}
		if s.backlog {
			if err := st.prepare(ctx, topic, st.opts.Events); err != nil {
				return err
			}
		}
		if err := st.add(ctx, floorRole, order); err != nil {
			return err
		}
		if err := st.start(); err != nil {
			return err
		}
		return st.await(ctx, st.opts.Events)
	}
}
