package hostile

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

const (
	// patience is how long a callback is waited for.
	patience = time.Second
	// maxHanging is how many calls of a callback may hang before it is not called any more.
	maxHanging = 10
)

// Callback calls functions of a user one after the other for each caller, and outlives all that they may do. The zero
// value is ready, and safe for concurrent use.
type Callback struct{ hanging atomic.Int32 }

// Call runs f in a goroutine of its own and waits for its end, for a second at most: f may go on then, but the caller
// does too. The error says that f panicked, has called runtime.Goexit or does not return, or was not called since ten
// earlier calls have not returned.
func (c *Callback) Call(f func()) error {
	if c.hanging.Add(1) > maxHanging {
		c.hanging.Add(-1)
		return fmt.Errorf("it was not called: %d earlier calls have not returned", maxHanging)
	}
	ended := make(chan error, 1)
	go func() {
		err := errors.New("it called runtime.Goexit")
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("it panicked: %s", Print(r))
			}
			c.hanging.Add(-1)
			ended <- err
		}()
		f()
		err = nil
	}()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return fmt.Errorf("it has not returned after %v, and is not waited for", patience)
	}
}
