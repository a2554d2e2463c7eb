package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/cmd/pulse/internal/fleet"
	"github.com/orionjs/orion-go/cmd/pulse/internal/load"
	"github.com/orionjs/orion-go/internal/tcpproxy"
	"github.com/orionjs/orion-go/pulse"
)

const (
	group = "bench"
	topic = "events"
	// stallTimeout ends a measurement in which nothing happens any more.
	stallTimeout = 2 * time.Minute
)

// stage is where one measurement takes place: an empty database, and processes.
type stage struct {
	opts      Options
	db        *mongo.Database
	publisher *pulse.Client // prepares what is measured
	uri       string        // of the processes
	proxy     *tcpproxy.Proxy

	mu        sync.Mutex
	handled   map[string]int
	news      chan struct{}
	processes []*fleet.Process
}

func newStage(ctx context.Context, opts Options) (*stage, func() error, error) {
	db, drop := opts.Bed.Database()
	s := &stage{opts: opts, db: db, uri: opts.Bed.URI, handled: map[string]int{}, news: make(chan struct{}, 1)}
	end := func() error {
		for _, p := range s.processes {
			p.Kill()
		}
		var err error
		if s.publisher != nil {
			err = s.publisher.Close(context.WithoutCancel(ctx))
		}
		if s.proxy != nil {
			s.proxy.Close()
		}
		return errors.Join(err, drop())
	}
	client, err := load.Client{Database: db.Name(), Group: "preparation"}.New(ctx, db.Client())
	if err == nil {
		s.publisher = client
		err = client.Start(ctx)
	}
	if err == nil && opts.Delay > 0 {
		s.proxy, err = tcpproxy.New(opts.Bed.URI)
	}
	if err != nil {
		return nil, nil, errors.Join(err, end())
	}
	if s.proxy != nil {
		s.proxy.Delay(0, opts.Delay)
		s.uri = s.proxy.URI()
	}
	return s, end, nil
}

// client is the settings of a process' client.
func (s *stage) client(group string) load.Client {
	return load.Client{URI: s.uri, Database: s.db.Name(), Group: group, Workers: s.opts.Workers, NoStreams: !s.opts.Streams}
}

// prepare publishes a backlog.
func (s *stage) prepare(ctx context.Context, topic string, events int) error {
	return load.Publish(ctx, s.publisher, topic, 0, events, s.opts.Size)
}

// add starts a process, which prepares everything and waits.
func (s *stage) add(ctx context.Context, role string, order any) error {
	name := fmt.Sprintf("%s-%d", role, len(s.processes)+1)
	p, err := fleet.Start(name, role, order, func(m fleet.Message) {
		s.mu.Lock()
		s.handled[name] = max(s.handled[name], m.Handled)
		s.mu.Unlock()
		select {
		case s.news <- struct{}{}:
		default:
		}
	}, nil)
	if err != nil {
		return err
	}
	s.processes = append(s.processes, p)
	return p.Ready(ctx)
}

// start lets all processes that wait begin, first to last.
func (s *stage) start() error {
	for _, p := range s.processes {
		if err := p.Go(); err != nil {
			return err
		}
	}
	return nil
}

// await waits until the processes have told of so many events together.
func (s *stage) await(ctx context.Context, events int) error {
	stall := time.NewTimer(stallTimeout)
	defer stall.Stop()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for seen := 0; ; {
		s.mu.Lock()
		now := 0
		for _, n := range s.handled {
			now += n
		}
		s.mu.Unlock()
		if now >= events {
			return nil
		}
		if now > seen {
			seen = now
			stall.Reset(stallTimeout)
		}
		select {
		case <-s.news:
		case <-tick.C:
			for _, p := range s.processes {
				if err := p.Err(); err != nil {
					return err
				}
			}
		case <-stall.C:
			return fmt.Errorf("%d of %d events, and none for %s", now, events, stallTimeout)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// reports stops the processes and adds up what they report.
func (s *stage) reports() (sum total, err error) {
	var errs []error
	for _, p := range s.processes {
		var m measured
		errs = append(errs, p.Stop(&m))
		sum.Traffic.add(m.Traffic)
		sum.events += m.Events
		sum.latencies = append(sum.latencies, m.Latencies...)
		if sum.start == 0 || m.Start < sum.start {
			sum.start = m.Start
		}
		sum.last = max(sum.last, m.Last)
		sum.cpu += m.CPU
		sum.memory = max(sum.memory, p.PeakMemory())
	}
	return sum, errors.Join(errs...)
}

// total is what all processes of a measurement come to.
type total struct {
	Traffic
	events      int
	start, last int64 // microseconds
	latencies   []int64
	cpu         time.Duration
	memory      int64 // of the process with the most
}

func (t total) seconds() float64 { return float64(t.last-t.start) / 1e6 }
