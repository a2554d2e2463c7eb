package eventfile

import (
	"context"
	"sync"
)

// The most that is read ahead: what one insert takes, and no more of it than memory should hold.
const (
	aheadValues = 1000
	aheadBytes  = 8 << 20
)

// Ahead reads values while others are worked on. A text that comes slowly, such as a log that is followed, is passed on
// value by value; one that is there comes in large pieces.
type Ahead struct {
	mu     sync.Mutex
	room   *sync.Cond    // something was taken
	news   chan struct{} // something was read, or the end was reached
	values []Payload
	bytes  int
	err    error // why there is nothing behind values
	ended  bool  // nobody takes any more
}

// ReadAhead begins to read. A read that waits for input goes on until the input ends or the process does; Stop keeps it
// from reading more.
func ReadAhead(in *Reader) *Ahead {
	a := &Ahead{news: make(chan struct{}, 1)}
	a.room = sync.NewCond(&a.mu)
	go func() {
		for {
			value, err := in.Next()
			if !a.put(value, err) {
				return
			}
		}
	}()
	return a
}

// put stores one value and waits for room behind it. It returns false when nothing more is wanted.
func (a *Ahead) put(value Payload, err error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.err = err
	} else {
		a.values = append(a.values, value)
		a.bytes += len(value.Data.Value)
	}
	select {
	case a.news <- struct{}{}:
	default:
	}
	for a.err == nil && !a.ended && (len(a.values) >= aheadValues || a.bytes >= aheadBytes) {
		a.room.Wait()
	}
	return a.err == nil && !a.ended
}

// Next returns all values that were read since the last call, at least one. The error, io.EOF at the end of the text,
// comes behind the last of them, alone.
func (a *Ahead) Next(ctx context.Context) ([]Payload, error) {
	for {
		if values, err := a.take(); len(values) > 0 || err != nil {
			return values, err
		}
		select {
		case <-a.news:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (a *Ahead) take() ([]Payload, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	values := a.values
	if len(values) == 0 {
		return nil, a.err
	}
	a.values, a.bytes = nil, 0
	a.room.Signal()
	return values, nil
}

// Stop ends the reading.
func (a *Ahead) Stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ended = true
	a.room.Signal()
}
