package pulse

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/pulse/internal/clock"
)

// outage remembers that MongoDB does not answer, so that the log has its beginning and its end and not
// every command that failed between.
type outage struct {
	mu    sync.Mutex
	since time.Time // zero while MongoDB answers
}

// begins tells whether this is the first error of an outage.
func (o *outage) begins() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.since.IsZero() {
		return false
	}
	o.since = clock.Now()
	return true
}

// ends tells how long the outage was that ends now, if there was one.
func (o *outage) ends() (time.Duration, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.since.IsZero() {
		return 0, false
	}
	lasted := clock.Since(o.since)
	o.since = time.Time{}
	return lasted, true
}

// report logs an error of the background work and hands it to the user, whose code must not stop ours.
func (c *Client) report(err error) {
	group := c.config.ConsumerGroup
	err = withAdvice(err)
	switch unreachable := mongo.IsTimeout(err) || mongo.IsNetworkError(err); {
	case !unreachable:
		c.config.Logger.Error("pulse: background error", "group", group, "error", err)
	case c.outage.begins():
		c.config.Logger.Error("pulse: MongoDB does not answer; it is asked again until it does, and work goes on then", "group", group, "error", err)
	default:
		c.config.Logger.Debug("pulse: MongoDB still does not answer", "group", group, "error", err)
	}
	if c.config.OnError == nil {
		return
	}
	if problem := c.onError.Call(func() { c.config.OnError(err) }); problem != nil {
		c.config.Logger.Error("pulse: Config.OnError failed", "group", group, "error", problem)
	}
}

// withAdvice says what to do about an error that only means that the caller's connections are too few.
func withAdvice(err error) error {
	if err == nil || !strings.Contains(err.Error(), "while checking out a connection from connection pool") { // the type is not the driver's to keep
		return err
	}
	return fmt.Errorf("%w: no connection of the mongo.Client was free: raise its maxPoolSize; Pulse uses about WorkerCount + %d (docs/operating.md#sizing)", err, ownConnections)
}

// answered is called when MongoDB has answered a poll.
func (c *Client) answered() {
	if lasted, was := c.outage.ends(); was {
		c.config.Logger.Info("pulse: MongoDB answers again", "group", c.config.ConsumerGroup, "duration", lasted.Round(time.Second))
	}
}
