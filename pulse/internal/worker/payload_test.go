package worker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse/internal/receiver"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

// Payloads that wait for a worker are bounded by their bytes, whatever their number: the others are read when their
// handlers start. Each handler gets its event, of whatever format.
func TestPayload_4_7_WhatWaitsIsBoundedByBytes(t *testing.T) {
	t.Parallel()
	const n, size = 30, 10_000
	for name, settings := range map[string]store.Settings{
		"version 1": {ExecutionVersion: 1, MaxRetries: 3, Delivery: store.AtLeastOnce, BatchSize: 1},
		"version 2": {ExecutionVersion: 2, MaxRetries: 3, Delivery: store.AtLeastOnce, BatchSize: 1},
		"in order":  {ExecutionVersion: 1, Ordered: true, MaxRetries: 3, Delivery: store.AtLeastOnce, BatchSize: 1},
		"by steps":  {ExecutionVersion: 1, Ordered: true, MaxRetries: 0, Delivery: store.AtLeastOnce, BatchSize: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			o := newOrderedTopic(t, n)
			o.set(t, "events", bson.D{}, "headers", bson.D{{Key: "large", Value: strings.Repeat("x", size)}})
			c := o.contend(t)
			c.payloadsAtOnce, c.payloadsWaiting = 3*size, 5*size
			c.lane.receiver.Adopt(settings)
			if settings.ExecutionVersion == 2 {
				o.convert(t)
			}
			most := 0
			c.lane.receiver.Handle = func(_ context.Context, call receiver.Call) error {
				if len(call.Events[0].Headers["large"]) != size {
					return errors.New("the event is not whole")
				}
				waiting := 0
				c.mu.Lock()
				for _, held := range c.held {
					if held.state != started {
						waiting += len(held.events) // events, of one payload each
					}
				}
				for _, h := range c.lane.order.steps.loaded {
					waiting += len(h.events)
				}
				most = max(most, waiting)
				c.mu.Unlock()
				c.calls.Add(call.Events[0].ID)
				return nil
			}
			c.runAll(t, n, store.V1, store.V2)
			is.Equal(c.calls.Len(), n) // each once
			c.mu.Lock()
			defer c.mu.Unlock()
			is.True(most <= 5+3) // what waits, and one round of claims beside it
		})
	}
}

// What a birth has read waits like any other claim.
func TestPayload_4_7_Births(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	f := newFixture(t, 0)
	f.payloadsAtOnce = 1
	f.lane.pace.average = time.Millisecond
	is.NoErr(f.born(t, plainly))
	f.settled(t)
	is.Equal(f.calls.Len(), 10)
	for _, call := range f.calls.Values() {
		is.Equal(len(call.Events), 1)
	}
}
