package telemetry_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/orionjs/orion-go/pulse/observe"
	"github.com/orionjs/orion-go/pulse/telemetry"
)

const (
	ofTopic = "messaging.consumer.group.name=billing,messaging.destination.name=order.created,messaging.system=pulse"
	process = "messaging.consumer.group.name=billing,messaging.destination.name=order.created,messaging.operation.name=process,messaging.system=pulse"
	publish = "messaging.destination.name=order.created,messaging.operation.name=publish,messaging.system=pulse"
)

func TestMetrics_Publishing(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := collect(t)
	_, p := c.Publish(t.Context(), observe.Publish{System: observe.Pulse, Topic: "order.created", Batch: true, Events: 10})
	p.End(observe.Sent{Failed: 3, Err: context.DeadlineExceeded})
	_, p = c.Publish(t.Context(), observe.Publish{System: observe.Pulse, Topic: "order.created", Events: 1})
	p.End(observe.Sent{})
	m := c.measured(t)
	failed := "error.type=context.deadlineExceededError," + publish
	is.Equal(m["messaging.client.sent.messages"], map[string]series{publish: {sum: 8}, failed: {sum: 3}})
	is.Equal(len(m["messaging.client.operation.duration"]), 2)
	is.Equal(m["messaging.client.operation.duration"][failed].count, uint64(1))
}

func TestMetrics_Attempts(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := collect(t)
	started := time.Date(2026, 1, 1, 0, 0, 10, 0, time.UTC)
	events := []observe.Event{{ID: "1", PublishedAt: started.Add(-4 * time.Second)}, {ID: "2", PublishedAt: started.Add(time.Minute)}}
	attempt := observe.Attempt{System: observe.Pulse, Group: "billing", Topic: "order.created", Number: 1, Batch: true, Events: events, StartedAt: started}
	_, end := c.Attempt(t.Context(), attempt)
	end(&observe.Failure{Code: "handler_error"})
	attempt.Number = 2
	_, end = c.Attempt(t.Context(), attempt)
	end(nil)
	m := c.measured(t)
	failed := "error.type=handler_error," + process
	is.Equal(m["messaging.client.consumed.messages"], map[string]series{process: {sum: 2}, failed: {sum: 2}})
	is.Equal(m["messaging.process.duration"][process].count, uint64(1))
	is.Equal(m["messaging.process.duration"][failed].count, uint64(1))
	is.Equal(m["pulse.batch.size"], map[string]series{ofTopic: {4, 2}})
	is.Equal(m["pulse.delivery.latency"], map[string]series{ofTopic: {4, 2}}) // of first attempts, and never below zero
}

func oneTopic(context.Context) ([]observe.Backlog, error) {
	return []observe.Backlog{{Group: "billing", Topic: "order.created"}}, nil
}

// The first failure is an increase, since its counter has begun before.
func TestMetrics_CountersOfFailuresBeginAtZero(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := collect(t)
	for range 2 {
		_, end := c.Attempt(t.Context(), observe.Attempt{System: observe.Pulse, Group: "billing", Topic: "order.created", Number: 1, Events: []observe.Event{{ID: "1"}}})
		end(nil)
	}
	m := c.measured(t)
	is.Equal(m["pulse.leases.lost"], map[string]series{ofTopic: {}})
	is.Equal(len(m["pulse.attempts"]), 7)
	for _, s := range m["pulse.attempts"] {
		is.Equal(s.sum, 0.0)
	}

	leader := collect(t)
	stop := leader.Backlog(oneTopic)
	defer stop()
	leader.measured(t)
	is.Equal(len(leader.measured(t)["pulse.attempts"]), 7)
}

func TestMetrics_OutcomesLeasesClaimsAndWakeUps(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := collect(t)
	settled := func(outcome observe.Outcome, code string) {
		c.Settled(observe.Settled{System: observe.Pulse, Group: "billing", Topic: "order.created", Attempt: 1, Outcome: outcome, Code: code})
	}
	settled(observe.Success, "")
	settled(observe.Success, "")
	settled(observe.Retry, "handler_error")
	settled(observe.Error, "worker_lost")
	c.LeaseLost(observe.LeaseLost{System: observe.Pulse, Group: "billing", Topic: "order.created", Attempt: 1})
	c.Claimed(observe.Claimed{Group: "billing", Topic: "order.created", Asked: 10, Won: 7})
	c.Claimed(observe.Claimed{Group: "billing", Topic: "order.created", Asked: 5, Won: 5})
	for _, source := range []observe.Source{observe.Stream, observe.Poll, observe.Timer, observe.Local} {
		c.Woken(observe.Woken{Group: "billing", Topic: "order.created", Source: source})
	}
	m := c.measured(t)
	is.Equal(m["pulse.attempts"], map[string]series{
		ofTopic + ",pulse.outcome=success":                             {sum: 2},
		"error.type=handler_error," + ofTopic + ",pulse.outcome=retry": {sum: 1},
		"error.type=worker_lost," + ofTopic + ",pulse.outcome=error":   {sum: 1},
	})
	is.Equal(m["pulse.leases.lost"], map[string]series{ofTopic: {sum: 1}})
	is.Equal(m["pulse.claim.size"], map[string]series{ofTopic: {12, 2}})
	is.Equal(m["pulse.claim.missed"], map[string]series{ofTopic: {sum: 3}})
	is.Equal(m["pulse.wakeups"], map[string]series{
		ofTopic + ",pulse.wakeup.source=stream": {sum: 1}, ofTopic + ",pulse.wakeup.source=poll": {sum: 1},
		ofTopic + ",pulse.wakeup.source=timer": {sum: 1}, ofTopic + ",pulse.wakeup.source=local": {sum: 1},
	})
}

// However often the metrics are collected, the database is asked once an interval, and not at all once stopped.
func TestMetrics_TheBacklogIsMeasuredOnceAnInterval(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := collect(t, func(cfg *telemetry.Config) { cfg.BacklogInterval = time.Hour })
	asked := 0
	other := strings.ReplaceAll(ofTopic, "order.created", "order.sent")
	stop := c.Backlog(func(ctx context.Context) ([]observe.Backlog, error) {
		asked++
		_, bounded := ctx.Deadline()
		is.True(bounded)
		return []observe.Backlog{{
			Group: "billing", Topic: "order.created", Undiscovered: 1, Pending: 2, Retrying: 3, Processing: 4, Expired: 5, Failed: 6,
			Oldest: 7 * time.Second, OldestRetry: 8 * time.Second, Paused: true,
		}, {Group: "billing", Topic: "order.sent"}}, nil
	})
	for range 3 {
		m := c.measured(t)
		want := map[string]series{}
		for i, state := range []string{"undiscovered", "pending", "retrying", "processing", "expired", "failed"} {
			want[ofTopic+",pulse.state="+state] = series{sum: float64(i + 1)}
			want[other+",pulse.state="+state] = series{}
		}
		is.Equal(m["pulse.backlog"], want)
		is.Equal(m["pulse.backlog.age"], map[string]series{ofTopic: {sum: 7}, other: {}})
		is.Equal(m["pulse.retry.age"], map[string]series{ofTopic: {sum: 8}, other: {}})
		is.Equal(m["pulse.subscription.paused"], map[string]series{ofTopic: {sum: 1}, other: {}})
	}
	is.Equal(asked, 1)
	stop()
	is.Equal(len(c.measured(t)["pulse.backlog"]), 0)
	is.Equal(asked, 1)
}

// A database that does not answer is not asked more often than one that does.
func TestMetrics_AFailedMeasurementIsNotRepeatedAtOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := collect(t)
	asked := 0
	down := errors.New("down")
	stop := c.Backlog(func(context.Context) ([]observe.Backlog, error) { asked++; return nil, down })
	defer stop()
	for range 2 {
		err := c.reader.Collect(t.Context(), &metricdata.ResourceMetrics{})
		is.True(errors.Is(err, down))
	}
	is.Equal(asked, 1)
}

func TestMetrics_NoBacklogAsksNothing(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	c := collect(t, func(cfg *telemetry.Config) { cfg.BacklogInterval = telemetry.NoBacklog })
	stop := c.Backlog(func(context.Context) ([]observe.Backlog, error) { t.Error("asked"); return nil, nil })
	defer stop()
	is.Equal(len(c.measured(t)), 0)
}
