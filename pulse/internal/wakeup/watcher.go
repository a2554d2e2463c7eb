package wakeup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/orionjs/orion-go/pulse/internal/backoff"
	"github.com/orionjs/orion-go/pulse/internal/clock"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

// The pauses between attempts to open a change stream again.
const (
	reopenAfter  = 500 * time.Millisecond
	reopenAtMost = time.Minute
)

// Watcher follows the change stream of one client. Its end, for whatever reason, is no failure of the
// client: polling goes on all the time, so the watcher reports once, and opens a new stream after a
// growing pause. It does not resume the old one: the poll that Reopened asks for covers the hole.
type Watcher struct {
	Store *store.Store
	Group string
	// Notice is called for each change, one at a time.
	Notice func(store.Notice)
	// Reopened is called after each opening: what happened before it was not seen. Ended, which may be nil, is called
	// at the end of what was opened.
	Reopened, Ended func()
	// Report is called with the first error after a working stream.
	Report func(error)
}

// Run follows the stream until ctx ends.
func (w *Watcher) Run(ctx context.Context) {
	pause := backoff.NewExponential(reopenAfter, reopenAtMost)
	for {
		worked, err := w.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if worked {
			pause.Reset()
		}
		wait := pause.Next()
		if pause.Failures() == 1 {
			w.Report(fmt.Errorf("pulse: consumer group %s: the change stream ended, polling alone carries on until it is back (tried again in %v, then less and less often): %w", w.Group, wait.Round(time.Millisecond), err))
		}
		if clock.Sleep(ctx, wait) != nil {
			return
		}
	}
}

// errEnded says that the server ended the stream without an error, as after a drop of the database.
var errEnded = errors.New("the server ended it")

// follow opens a stream and hands its notices on until it ends. One that opens and ends at once, with
// nothing seen, has not worked: else a server that refuses streams would be asked without a pause.
func (w *Watcher) follow(ctx context.Context) (worked bool, err error) {
	stream, err := w.Store.Watch(ctx, w.Group)
	if err != nil {
		return false, err
	}
	// Closed by the goroutine that reads it: a Close beside a Next breaks the driver.
	defer func() { _ = stream.Close(context.WithoutCancel(ctx)) }()
	w.Reopened()
	if w.Ended != nil {
		defer w.Ended()
	}
	opened := clock.Now()
	for {
		notice, ok := stream.Next(ctx)
		if !ok {
			err := stream.Err()
			if err == nil {
				err = errEnded
			}
			return worked || clock.Since(opened) > reopenAtMost, err
		}
		worked = true
		w.Notice(notice)
	}
}
