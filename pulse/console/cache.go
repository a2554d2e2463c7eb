package console

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/orionjs/orion-go/pulse/internal/clock"
)

const (
	// interval is how old what is shown may be.
	interval = 5 * time.Second
	// readTimeout bounds one look at the database, for whoever asked first and all that wait with them.
	readTimeout = 30 * time.Second
	// maxCached bounds the answers that a cache holds: as many different pages as people look at within seconds.
	maxCached = 32
)

// cache keeps what was read for one interval, so that viewers of the same page cost what one costs. It has no
// goroutine: it reads when somebody asks, once for all who ask meanwhile, and nothing while nobody does. It is safe
// for concurrent use.
type cache[K, V any] struct {
	read    func(context.Context, K) (V, error)
	flights singleflight.Group

	mu      sync.Mutex
	changes int // what was read before a change answers nothing after it
	answers map[string]cached[V]
}

type cached[V any] struct {
	value V
	err   error
	until time.Time
}

func newCache[K, V any](read func(context.Context, K) (V, error)) *cache[K, V] {
	return &cache[K, V]{read: read, answers: map[string]cached[V]{}}
}

// get returns the answer to a question. Errors are kept as long as answers: viewers do not ask a database more often
// because it is in trouble.
func (c *cache[K, V]) get(ctx context.Context, question K) (V, error) {
	key := c.key(question)
	if a, ok := c.find(key); ok {
		return a.value, a.err
	}
	done := c.flights.DoChan(key, func() (any, error) {
		if a, ok := c.find(key); ok { // another one has read between the look above and this
			return a, nil
		}
		// Whoever asked first may leave; the others want it still.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
		defer cancel()
		var a cached[V]
		a.value, a.err = c.read(ctx, question)
		a.until = clock.Now().Add(interval)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.makeRoom()
		c.answers[key] = a
		return a, nil
	})
	select {
	case result := <-done:
		a := result.Val.(cached[V])
		return a.value, a.err
	case <-ctx.Done():
		var zero V
		return zero, ctx.Err()
	}
}

func (c *cache[K, V]) key(question K) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("%d %#v", c.changes, question)
}

func (c *cache[K, V]) find(key string) (cached[V], bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.answers[key]
	return a, ok && clock.Now().Before(a.until)
}

// makeRoom forgets what is old, and everything if that is not enough. The caller holds the lock.
func (c *cache[K, V]) makeRoom() {
	now := clock.Now()
	for key, a := range c.answers {
		if !now.Before(a.until) {
			delete(c.answers, key)
		}
	}
	if len(c.answers) >= maxCached {
		clear(c.answers)
	}
}

// changed forgets everything, since something was changed.
func (c *cache[K, V]) changed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	clear(c.answers)
}
