package stress

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/cmd/pulse/internal/audit"
	"github.com/orionjs/orion-go/cmd/pulse/internal/fleet"
	"github.com/orionjs/orion-go/cmd/pulse/internal/load"
	"github.com/orionjs/orion-go/cmd/pulse/internal/testbed"
	"github.com/orionjs/orion-go/pulse"
)

const (
	group = "stress"
	// stallTimeout ends the wait for events that do not come, when none has come for so long.
	stallTimeout = 60 * time.Second
	// restTimeout ends the wait for what is to be stored after the last handler.
	restTimeout = 60 * time.Second
	pollPause   = 100 * time.Millisecond
	// lease is that of the scenarios, in which nobody is killed.
	lease      = 30 * time.Second
	retryDelay = 100 * time.Millisecond
)

// stage is where one scenario plays: a database of its own, a publisher, and processes.
type stage struct {
	bed       *testbed.Bed
	db        *mongo.Database
	publisher *pulse.Client
	published map[string]int

	mu       sync.Mutex
	handled  map[string]int // by process
	news     chan struct{}
	replicas []*fleet.Process
}

func newStage(ctx context.Context, bed *testbed.Bed) (*stage, func() error, error) {
	db, drop := bed.Database()
	s := &stage{bed: bed, db: db, published: map[string]int{}, handled: map[string]int{}, news: make(chan struct{}, 1)}
	client, err := load.Client{Database: db.Name(), Group: "publisher"}.New(ctx, db.Client())
	if err == nil {
		err = client.Start(ctx)
	}
	if err != nil {
		return nil, nil, errors.Join(err, drop())
	}
	s.publisher = client
	return s, func() error {
		for _, p := range s.replicas {
			p.Kill()
		}
		return errors.Join(client.Close(context.WithoutCancel(ctx)), drop())
	}, nil
}

// publish adds so many events to those of a topic.
func (s *stage) publish(ctx context.Context, topic string, events int) error {
	first := s.published[topic]
	s.published[topic] += events
	return load.Publish(ctx, s.publisher, topic, first, first+events, 0)
}

// start starts processes that handle what the order says, and returns when all have begun.
func (s *stage) start(ctx context.Context, replicas int, order load.Replica) ([]*fleet.Process, error) {
	order.Client.URI, order.RecordURI, order.Database, order.Group = s.bed.URI, s.bed.URI, s.db.Name(), group
	order.Lease = lease
	var started []*fleet.Process
	for range replicas {
		order.Name = fmt.Sprintf("replica-%d", len(s.replicas)+1)
		name := order.Name
		p, err := fleet.Start(name, load.ReplicaRole, order, func(m fleet.Message) { s.hear(name, m) }, nil)
		if err != nil {
			return nil, err
		}
		s.replicas = append(s.replicas, p)
		started = append(started, p)
	}
	for _, p := range started {
		if err := p.Ready(ctx); err != nil {
			return nil, err
		}
	}
	for _, p := range started {
		if err := p.Go(); err != nil {
			return nil, err
		}
	}
	return started, nil
}

func (s *stage) hear(name string, m fleet.Message) {
	if m.Handled == 0 {
		return
	}
	s.mu.Lock()
	s.handled[name] = max(s.handled[name], m.Handled) // several handlers tell at once, not in order
	s.mu.Unlock()
	select {
	case s.news <- struct{}{}:
	default:
	}
}

func (s *stage) sum() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := 0
	for _, n := range s.handled {
		sum += n
	}
	return sum
}

// await waits until so many events were handled, or none for a long time: what is missing then is found by
// the check. A process that ends by itself is an error.
func (s *stage) await(ctx context.Context, events int) error {
	stall := time.NewTimer(stallTimeout)
	defer stall.Stop()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for seen := 0; ; {
		now := s.sum()
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
			for _, p := range s.replicas {
				if err := p.Err(); err != nil {
					return err
				}
			}
		case <-stall.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// finish waits until nothing is left to do, or for long enough, and stops the processes. It returns the record
// of the calls, and what is left.
func (s *stage) finish(ctx context.Context) ([]audit.Entry, audit.State, error) {
	if err := s.rest(ctx); err != nil {
		return nil, audit.State{}, err
	}
	if err := fleet.StopAll(s.replicas); err != nil {
		return nil, audit.State{}, err
	}
	left, err := audit.ReadState(ctx, s.db, load.Prefix, group)
	if err != nil {
		return nil, left, err
	}
	entries, err := audit.Entries(ctx, s.db)
	return entries, left, err
}

func (s *stage) rest(ctx context.Context) error {
	for end := time.Now().Add(restTimeout); time.Now().Before(end); {
		left, err := audit.ReadState(ctx, s.db, load.Prefix, group)
		if err != nil || left.Idle() {
			return err
		}
		select {
		case <-time.After(pollPause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
