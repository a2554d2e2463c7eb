package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/orionjs/orion-go/cmd/pulse/internal/fleet"
	"github.com/orionjs/orion-go/cmd/pulse/internal/load"
	"github.com/orionjs/orion-go/internal/tcpproxy"
)

// worker is a place for a process, which has a proxy of its own to the server. After a kill another process takes
// the place.
type worker struct {
	name  string
	proxy *tcpproxy.Proxy
	role  string
	order func() any
	heard func(fleet.Message)
	log   io.WriteCloser // nil: nobody asked for it
	now   *fleet.Process
}

// launch starts the place's process and lets it begin.
func (w *worker) launch(ctx context.Context) error {
	var log io.Writer
	if w.log != nil {
		log = w.log
	}
	p, err := fleet.Start(w.name, w.role, w.order(), w.heard, log)
	if err != nil {
		return err
	}
	w.now = p
	if err := p.Ready(ctx); err != nil {
		return err
	}
	return p.Go()
}

// crew are all places. The last is the publisher's.
type crew struct {
	workers []*worker

	mu    sync.Mutex
	acked map[string][]int64 // by topic, when each event was known to be stored
}

func newCrew(cfg Config, database string) (*crew, error) {
	c := &crew{acked: map[string][]int64{}}
	receivers := make([]load.Receiver, len(topics))
	for i, t := range topics {
		receivers[i] = t.receiver
		c.acked[t.receiver.Topic] = nil
	}
	client := load.Client{Database: database, Group: group, Poll: poll, Lease: lease, DiscoveryLease: discoveryLease}
	for i := range replicas {
		name := fmt.Sprintf("replica-%d", i+1)
		w, err := c.add(cfg, name, load.ReplicaRole)
		if err != nil {
			return nil, errors.Join(err, c.end())
		}
		w.order = func() any {
			order := load.Replica{Client: client, Name: name, Receivers: receivers, RecordURI: cfg.Bed.URI, RecordFirst: true, FailOnce: failEvery}
			order.URI = w.proxy.URI()
			return order
		}
	}
	w, err := c.add(cfg, "publisher", load.PublisherRole)
	if err != nil {
		return nil, errors.Join(err, c.end())
	}
	w.heard = c.hear
	w.order = func() any {
		order := load.Publisher{Client: client, Rate: cfg.Rate / float64(len(topics)), Seed: cfg.Seed}
		order.URI, order.Group = w.proxy.URI(), "publisher"
		for topic, n := range c.published() {
			for _, t := range topics {
				if t.receiver.Topic == topic {
					order.Feeds = append(order.Feeds, load.Feed{Topic: topic, Many: t.many, Within: t.within, First: n})
				}
			}
		}
		return order
	}
	return c, nil
}

func (c *crew) add(cfg Config, name, role string) (*worker, error) {
	proxy, err := tcpproxy.New(cfg.Bed.URI)
	if err != nil {
		return nil, err
	}
	w := &worker{name: name, role: role, proxy: proxy}
	c.workers = append(c.workers, w)
	if cfg.Logs != "" {
		if w.log, err = os.Create(filepath.Join(cfg.Logs, name+".log")); err != nil {
			return nil, fmt.Errorf("keep the log of %s: %w", name, err)
		}
	}
	return w, nil
}

func (c *crew) publisher() *worker { return c.workers[len(c.workers)-1] }

func (c *crew) hear(m fleet.Message) {
	now := time.Now().UnixMicro()
	c.mu.Lock()
	defer c.mu.Unlock()
	for topic, n := range m.Published {
		for len(c.acked[topic]) < n {
			c.acked[topic] = append(c.acked[topic], now)
		}
	}
}

func (c *crew) published() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	counts := map[string]int{}
	for topic, times := range c.acked {
		counts[topic] = len(times)
	}
	return counts
}

// inflict lets a fault happen, from its beginning to its end.
func (c *crew) inflict(ctx context.Context, f Fault) (Hit, error) {
	hit := Hit{Fault: f}
	hitBy := c.workers
	if f.Target >= 0 {
		hitBy = c.workers[f.Target : f.Target+1]
		hit.Process = hitBy[0].name
	}
	hit.Began = time.Now().UnixMicro()
	err := each(hitBy, func(w *worker) error { return w.begin(f.Kind) })
	if err == nil {
		err = pause(ctx, f.Lasts)
	}
	err = errors.Join(err, each(hitBy, func(w *worker) error { return w.mend(ctx, f.Kind) }))
	hit.Ended = time.Now().UnixMicro()
	return hit, err
}

func each(workers []*worker, f func(*worker) error) error {
	var errs []error
	for _, w := range workers {
		errs = append(errs, f(w))
	}
	return errors.Join(errs...)
}

func (w *worker) begin(kind Kind) error {
	switch kind {
	case Kill:
		if err := w.now.Err(); err != nil {
			return err // it was dead already, of something else
		}
		w.now.Kill()
	case Freeze:
		return w.now.Freeze()
	case Cut:
		w.proxy.Cut()
	case Hole, Stall:
		w.proxy.BlackHole()
	}
	return nil
}

func (w *worker) mend(ctx context.Context, kind Kind) error {
	switch kind {
	case Kill:
		return w.launch(ctx)
	case Freeze:
		return w.now.Thaw()
	default:
		w.proxy.Restore()
		return nil
	}
}

// check is the error of a process that has ended by itself.
func (c *crew) check() error {
	return each(c.workers, func(w *worker) error {
		if w.now == nil {
			return nil
		}
		return w.now.Err()
	})
}

// end removes whatever still runs.
func (c *crew) end() error {
	return each(c.workers, func(w *worker) error {
		if w.now != nil {
			w.now.Kill()
		}
		w.proxy.Close()
		if w.log != nil {
			return w.log.Close()
		}
		return nil
	})
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
