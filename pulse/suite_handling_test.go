package pulse_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"golang.org/x/sync/errgroup"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// A handler sees what was published, and which attempt of which group it is.
func TestSuite_2_2_WhatAHandlerSees(t *testing.T) {
	everyCell(t, func(t *testing.T, is *is.I, s *suite) {
		var seen pulsetest.Recorder[pulse.Event[order]]
		s.attachAll(t, func(_ context.Context, es []*pulse.Event[order]) error {
			for _, e := range es {
				seen.Add(*e)
			}
			if es[0].Attempt == 1 {
				return errPlanned
			}
			return nil
		}, pulse.RetryDelay(time.Millisecond))
		published := publishFrom(t, another(t, s.db, "shop"), 0, 2)
		byAttempt := map[int]map[string]pulse.Event[order]{}
		for _, e := range seen.Wait(t, 4) {
			if byAttempt[e.Attempt] == nil {
				byAttempt[e.Attempt] = map[string]pulse.Event[order]{}
			}
			byAttempt[e.Attempt][e.ID] = e
		}
		want := map[int]map[string]pulse.Event[order]{1: {}, 2: {}}
		for attempt, of := range want {
			for _, e := range published {
				of[e.ID] = pulse.Event[order]{
					ID: e.ID, Topic: "order.created", Data: e.Data, Headers: e.Headers, CreatedAt: e.CreatedAt, ExpiresAt: e.ExpiresAt,
					Publisher: "shop", ConsumerGroup: "billing", Attempt: attempt,
				}
			}
		}
		is.Equal(byAttempt, want)
		s.close(t)
		is.Equal(seen.Len(), 4)
	})
}

// latest leaves out what was there, earliest includes it, and a group that comes back goes on where it was.
func TestSuite_2_8_LatestEarliestAndResume(t *testing.T) {
	everyCell(t, func(t *testing.T, is *is.I, s *suite) {
		audit := another(t, s.db, "audit")
		publishFrom(t, audit, 0, 2)
		record := func(into *pulsetest.Recorder[int]) suiteHandler {
			return func(_ context.Context, es []*pulse.Event[order]) error {
				into.Add(numbered(es)...)
				return nil
			}
		}
		var latest, earliest pulsetest.Recorder[int]
		s.attachAll(t, record(&latest))
		s.attach(t, orderedTopic, audit, record(&earliest), pulse.OffsetReset(pulse.Earliest))
		publishFrom(t, audit, 2, 2)
		earliest.Wait(t, 4)
		latest.Wait(t, 2)
		s.close(t)
		publishFrom(t, audit, 4, 2) // while the group is away
		s.attach(t, orderedTopic, newClient(t, s.db, fast(s.db)), record(&latest))
		is.Equal(slices.Sorted(slices.Values(latest.Wait(t, 4))), []int{2, 3, 4, 5})
		is.Equal(slices.Sorted(slices.Values(earliest.Wait(t, 6))), []int{0, 1, 2, 3, 4, 5})
		events := 0
		for _, d := range s.all(t) {
			events += len(eventsIn(d.Raw))
		}
		is.Equal(events, 4) // and the group owes nothing else
	})
}

// Whoever publishes at the same time, each event is one delivery's, and that delivery has one success.
func TestSuite_3_2_EachEventOnce(t *testing.T) {
	everyCell(t, func(t *testing.T, is *is.I, s *suite) {
		var seen pulsetest.Recorder[int]
		handle := func(_ context.Context, es []*pulse.Event[order]) error {
			seen.Add(numbered(es)...)
			return nil
		}
		publishFrom(t, s.clients[0], 0, 8) // a backlog
		s.attachAll(t, handle, pulse.OffsetReset(pulse.Earliest))
		var publishers errgroup.Group
		const n = 20
		for first := 8; first < n; first += 4 {
			publishers.Go(func() error {
				for i := range 4 {
					if _, err := orderedTopic.Publish(t.Context(), s.clients[i%len(s.clients)], order{Number: first + i}); err != nil {
						return err
					}
				}
				return nil
			})
		}
		is.NoErr(publishers.Wait())
		seen.Wait(t, n)
		s.close(t)
		eachOnce(t, seen.Values(), n)
		times := map[string]int{}
		for _, d := range s.all(t) {
			is.Equal(d.Lookup("status").StringValue(), s.state("success"))
			is.Equal(len(d.attempts), 1)
			is.Equal(d.attempts[0].Lookup("status").StringValue(), "success")
			for _, id := range eventsIn(d.Raw) {
				times[id]++
			}
		}
		is.Equal(len(times), n)
		is.Equal(slices.Max(slices.Collect(maps.Values(times))), 1)
	})
}

// All workers of all clients are used, and no more; a topic has no more of them than it may have.
func TestSuite_2_10_WorkersAndTopicLimits(t *testing.T) {
	everyCell(t, func(t *testing.T, is *is.I, s *suite) {
		const limit, workers = 2, 4
		s.batch = min(s.batch, 2)
		topics := []pulse.Topic[order]{pulse.NewTopic[order]("limited"), pulse.NewTopic[order]("free")}
		want := workers * len(s.clients)
		opts := []pulse.SubscribeOption{pulse.OffsetReset(pulse.Earliest)}
		limits := [][]pulse.SubscribeOption{append(opts, pulse.MaxConcurrency(limit)), opts}
		if s.name == "ordered" {
			want = len(topics) // one of each topic in the whole group
			limits[0] = opts
		}
		const events = 30
		var handled pulsetest.Recorder[int]
		whole, full := newMeter(), make(chan struct{})
		fill := sync.OnceFunc(func() { close(full) })
		meters := make([]*meter, len(s.clients))
		for _, topic := range topics {
			publishMany(t, topic, s.clients[0], events)
		}
		for i, c := range s.clients {
			meters[i] = newMeter()
			for j, topic := range topics {
				s.attach(t, topic, c, func(_ context.Context, es []*pulse.Event[order]) error {
					defer whole.enter(topic.Name())()
					defer meters[i].enter(topic.Name())()
					if whole.reached(want) {
						fill()
					}
					<-full                           // the first wait for each other
					time.Sleep(2 * time.Millisecond) // all take their time: one worker too many would show
					handled.Add(numbered(es)...)
					return nil
				}, limits[j]...)
			}
		}
		await(t, "as many handlers as may run", full)
		handled.Wait(t, len(topics)*events)
		s.close(t)
		is.Equal(whole.most, want)
		for _, m := range meters {
			is.True(m.most <= workers)
			is.True(m.mostTopic["limited"] <= limit)
		}
		if s.name == "ordered" {
			is.Equal(whole.mostTopic, map[string]int{"limited": 1, "free": 1})
		}
	})
}

// An event that is gone before its handler ran: a delivery of it alone ends, without a retry; a batch runs with
// what is left, and says how many were missing.
func TestSuite_3_6_EventExpired(t *testing.T) {
	everyCell(t, func(t *testing.T, is *is.I, s *suite) {
		publishMany(t, orderedTopic, s.clients[0], 5)
		events := mustFind(t, eventsOf(s.db), bson.D{})
		version, gone := 2, []string{}
		if s.inHistory() {
			version = 1
		}
		if s.batch > 0 {
			gone = append(gone, storeDelivery(t, s.db, version, events[0:2]...)) // both are gone
			storeDelivery(t, s.db, version, events[2:]...)                       // one of three is
			events = events[0:3]
		} else {
			for _, e := range events[0:2] {
				gone = append(gone, storeDelivery(t, s.db, version, e))
			}
			storeDelivery(t, s.db, version, events[2])
			events = events[0:2]
		}
		for _, e := range events {
			_, err := eventsOf(s.db).DeleteOne(t.Context(), bson.D{{Key: "_id", Value: e.Lookup("_id")}})
			is.NoErr(err)
		}
		var seen pulsetest.Recorder[int]
		s.attachAll(t, func(_ context.Context, es []*pulse.Event[order]) error {
			seen.Add(numbered(es)...)
			return nil
		}, pulse.RetryDelay(time.Millisecond))
		lost := s.ended(t, "error", len(gone))
		done := s.ended(t, "success", 1)[0]
		s.close(t)
		for _, d := range lost {
			is.True(slices.Contains(gone, d.Lookup("_id").StringValue()))
			is.Equal(codeOf(d.Raw), "event_expired")
			is.Equal(len(d.attempts), 1) // no retry
			is.Equal(codeOf(d.attempts[0]), "event_expired")
			is.Equal(d.Lookup("finalAttempt").AsInt64(), int64(1))
		}
		if s.batch > 0 {
			is.Equal(seen.Values(), []int{3, 4})
			is.Equal(done.Lookup("expiredEventCount").AsInt64(), int64(1))
			is.Equal(done.attempts[0].Lookup("expiredEventCount").AsInt64(), int64(1))
			is.Equal(lost[0].attempts[0].Lookup("expiredEventCount").AsInt64(), int64(2))
		} else {
			is.Equal(seen.Values(), []int{2})
		}
	})
}
