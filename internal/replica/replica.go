// Package replica starts replicas of services whose handlers fail as their events say, for tests of what operators do.
package replica

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/pulse"
)

// Serve starts a replica of a group, which ends with the test at the latest. Its handler fails with the text that an
// event has as `fail`, for good with `permanent` beside it, else to be retried in an hour; with `once` only the first
// attempt fails.
func Serve(t testing.TB, db *mongo.Database, group, topic string, opts ...pulse.SubscribeOption) *pulse.Client {
	t.Helper()
	c, err := pulse.New(t.Context(), db.Client(), pulse.Config{
		ConsumerGroup: group, Database: db.Name(), PollInterval: 100 * time.Millisecond, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	opts = append([]pulse.SubscribeOption{
		pulse.Unordered(), pulse.ExecutionVersion(2), pulse.OffsetReset(pulse.Earliest), pulse.MaxRetries(1), pulse.RetryDelay(time.Hour),
	}, opts...)
	_, err = pulse.NewTopic[bson.M](topic).Subscribe(t.Context(), c, func(_ context.Context, e *pulse.Event[bson.M]) error {
		text, fails := e.Data["fail"].(string)
		switch {
		case !fails || e.Data["once"] == true && e.Attempt > 1:
			return nil
		case e.Data["permanent"] == true:
			return pulse.Permanent(errors.New(text))
		}
		return errors.New(text)
	}, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
