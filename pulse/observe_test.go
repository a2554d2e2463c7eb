package pulse_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/observe"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// watcher is an observer that remembers what it is told, adds a header, and marks handlers' contexts.
type watcher struct {
	pulsetest.Recorder[any]
}

type watchedKey struct{}

func (w *watcher) Publish(ctx context.Context, p observe.Publish) (context.Context, observe.Publishing) {
	w.Add(p)
	return context.WithValue(ctx, watchedKey{}, p.Topic), watchedPublish{w}
}

type watchedPublish struct{ w *watcher }

func (watchedPublish) Headers(given map[string]string) map[string]string {
	with := maps.Clone(given)
	if with == nil {
		with = map[string]string{}
	}
	with["watched"] = "yes"
	return with
}

func (p watchedPublish) End(s observe.Sent) { p.w.Add(s) }

func (w *watcher) Attempt(ctx context.Context, a observe.Attempt) (context.Context, func(*observe.Failure)) {
	w.Add(a)
	return context.WithValue(ctx, watchedKey{}, a.Delivery), func(f *observe.Failure) {
		if f == nil {
			f = &observe.Failure{}
		}
		w.Add(*f)
	}
}
func (w *watcher) Settled(s observe.Settled)     { w.Add(s) }
func (w *watcher) LeaseLost(l observe.LeaseLost) { w.Add(l) }
func (w *watcher) Claimed(c observe.Claimed)     { w.Add(c) }
func (w *watcher) Woken(k observe.Woken)         { w.Add(k) }
func (w *watcher) Backlog(read func(context.Context) ([]observe.Backlog, error)) (stop func()) {
	w.Add(read)
	return func() { w.Add("stopped") }
}

// of returns what of one kind the watcher was told.
func of[T any](values []any) []T {
	var out []T
	for _, v := range values {
		if x, ok := v.(T); ok {
			out = append(out, x)
		}
	}
	return out
}

// waitOf waits for n of one kind.
func waitOf[T any](t *testing.T, w *watcher, n int) []T {
	t.Helper()
	return of[T](w.WaitFor(t, fmt.Sprintf("%d of %T", n, *new(T)), func(values []any) bool { return len(of[T](values)) >= n }))
}

// kinds are the three ways in which attempts are stored.
var kinds = map[string][]pulse.SubscribeOption{
	"ordered":   {pulse.OffsetReset(pulse.Earliest)},
	"version 1": {pulse.OffsetReset(pulse.Earliest), pulse.Unordered()},
	"version 2": {pulse.OffsetReset(pulse.Earliest), pulse.Unordered(), pulse.ExecutionVersion(2)},
}

func TestObserver_SeesEachStepOfADelivery(t *testing.T) {
	t.Parallel()
	for name, opts := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			db := pulsetest.Database(t)
			w := &watcher{}
			config := fast(db)
			config.Observer = w
			c := newClient(t, db, config)
			topic := pulse.NewTopic[order]("order.created")
			given := map[string]string{"mine": "1"}
			ev, err := topic.Publish(t.Context(), c, order{Number: 1}, pulse.WithHeaders(given))
			is.NoErr(err)
			is.Equal(ev.Headers, map[string]string{"mine": "1", "watched": "yes"})
			is.Equal(given, map[string]string{"mine": "1"}) // the caller's map is not touched
			is.Equal(of[observe.Publish](w.Values()), []observe.Publish{{System: observe.Pulse, Topic: "order.created", Events: 1}})
			is.Equal(of[observe.Sent](w.Values()), []observe.Sent{{ID: ev.ID}})

			marks := make(chan any, 10)
			_, err = topic.Subscribe(t.Context(), c, func(ctx context.Context, e *pulse.Event[order]) error {
				marks <- ctx.Value(watchedKey{})
				if e.Attempt < 3 {
					return errors.New("not yet")
				}
				return pulse.Permanent(errors.New("never"))
			}, append(slices.Clone(opts), pulse.RetryDelay(time.Millisecond))...)
			is.NoErr(err)

			settled := waitOf[observe.Settled](t, w, 3)
			for i, want := range []observe.Outcome{observe.Retry, observe.Retry, observe.Error} {
				is.Equal(settled[i], observe.Settled{System: observe.Pulse, Group: "billing", Topic: "order.created", Attempt: i + 1, Outcome: want, Code: "handler_error"})
			}
			attempts, ended := of[observe.Attempt](w.Values()), of[observe.Failure](w.Values())
			is.Equal(len(attempts), 3)
			is.Equal(ended[2].Message, "never")
			for i, a := range attempts {
				is.Equal(a.Number, i+1)
				is.Equal(a.Group, "billing")
				is.Equal(<-marks, a.Delivery) // the handler has the observer's context
				is.Equal(len(a.Events), 1)
				is.Equal(a.Events[0].ID, ev.ID)
				is.Equal(a.Events[0].Headers["watched"], "yes")
				is.Equal(a.Events[0].PublishedAt, ev.CreatedAt)
				is.True(!a.StartedAt.IsZero())
			}
			is.True(len(of[observe.Claimed](w.Values())) >= 1)
			sources := map[observe.Source]bool{}
			for _, k := range of[observe.Woken](w.Values()) {
				is.Equal(k.Topic, "order.created")
				sources[k.Source] = true
			}
			is.True(sources[observe.Local])
		})
	}
}

func TestObserver_SeesBatchesAsUnits(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	w := &watcher{}
	config := fast(db)
	config.Observer = w
	c := newClient(t, db, config)
	topic := pulse.NewTopic[order]("order.created")
	results, err := topic.PublishMany(t.Context(), c, []pulse.Message[order]{{Data: order{Number: 1}}, {ID: "mine"}, {ID: "mine", Data: order{Number: 2}}})
	is.True(err != nil) // the ID is another's already
	is.Equal(results[0].Event.Headers, map[string]string{"watched": "yes"})
	is.Equal(of[observe.Publish](w.Values()), []observe.Publish{{System: observe.Pulse, Topic: "order.created", Batch: true, Events: 3}})
	is.Equal(of[observe.Sent](w.Values()), []observe.Sent{{Failed: 1, Err: err}})

	_, err = topic.SubscribeBatch(t.Context(), c, 10, func(context.Context, []*pulse.Event[order]) error { return nil }, pulse.OffsetReset(pulse.Earliest))
	is.NoErr(err)
	settled := waitOf[observe.Settled](t, w, 1)
	is.Equal(settled[0].Outcome, observe.Success)
	is.Equal(settled[0].Code, "")
	attempt := of[observe.Attempt](w.Values())[0]
	is.True(attempt.Batch)
	is.Equal(len(attempt.Events), 2)
}

func TestObserver_4_1_SeesLostLeasesAndLostWorkers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	w := &watcher{}
	config := leased(db, time.Second, nil)
	config.Observer = w
	c := newClient(t, db, config)
	_, err := leaseOrders.Publish(t.Context(), c, order{})
	is.NoErr(err)
	g := newGate()
	subscribed(t, c, g.handle)
	g.begun.Wait(t, 1)
	res, err := db.Collection("orionjs.pulse.deliveries").UpdateMany(t.Context(), bson.D{{Key: "status", Value: "v2-processing"}},
		bson.D{{Key: "$set", Value: bson.D{{Key: "lockToken", Value: "another's"}, {Key: "lockedUntil", Value: time.Now().Add(-time.Hour)}}}})
	is.NoErr(err)
	is.Equal(res.ModifiedCount, int64(1))
	is.Equal(waitOf[observe.LeaseLost](t, w, 1)[0], observe.LeaseLost{System: observe.Pulse, Group: "billing", Topic: leaseTopic, Attempt: 1})
	g.open <- nil
	g.open <- nil
	settled := waitOf[observe.Settled](t, w, 2)
	is.Equal(settled[0], observe.Settled{System: observe.Pulse, Group: "billing", Topic: leaseTopic, Attempt: 1, Outcome: observe.Retry, Code: "worker_lost"})
	is.Equal(settled[1].Outcome, observe.Success)
	is.Equal(settled[1].Attempt, 2)
}

// An event that is published for later is not late before that time.
func TestObserver_9_1_CountsFromTheTimeOfAnEvent(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	w := &watcher{}
	config := fast(db)
	config.Observer = w
	c := newClient(t, db, config)
	later := time.Now().Add(300 * time.Millisecond).UTC().Truncate(time.Millisecond)
	_, err := leaseOrders.Publish(t.Context(), c, order{}, pulse.NotBefore(later))
	is.NoErr(err)
	g := newGate()
	g.open <- nil
	subscribed(t, c, g.handle)
	attempt := waitOf[observe.Attempt](t, w, 1)[0]
	is.Equal(attempt.Events[0].PublishedAt, later)
}

// Without an observer nothing is written into headers.
func TestObserver_NoneAddsNoHeaders(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	c := newClient(t, db, fast(db))
	_, err := leaseOrders.Publish(t.Context(), c, order{})
	is.NoErr(err)
	raw, err := db.Collection("orionjs.pulse.events").FindOne(t.Context(), bson.D{}).Raw()
	is.NoErr(err)
	_, err = raw.LookupErr("headers")
	is.True(err != nil) // there is no such field
}

// panicsInEncoding cannot be encoded.
type panicsInEncoding struct{}

func (panicsInEncoding) MarshalBSON() ([]byte, error) { panic("encoding") }

func TestObserver_IsToldOfPublishingThatPanics(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	w := &watcher{}
	config := fast(db)
	config.Observer = w
	c := newClient(t, db, config)
	func() {
		defer func() { _ = recover() }()
		_, err := pulse.NewTopic[panicsInEncoding]("odd").Publish(t.Context(), c, panicsInEncoding{})
		is.True(err != nil) // if the panic has become an error
	}()
	sent := of[observe.Sent](w.Values())
	is.Equal(len(sent), 1)
	is.Equal(sent[0].Failed, 1)
	is.True(sent[0].Err != nil)
}

// Each topic's backlog is told by its leader alone: of ten replicas one asks, and the sum over all is the truth.
func TestObserver_TheLeaderAloneCountsTheBacklog(t *testing.T) {
	t.Parallel()
	for name, opts := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			db := pulsetest.Database(t)
			topic := pulse.NewTopic[order]("order.created")
			var watchers []*watcher
			var clients []*pulse.Client
			begun, open := pulsetest.Recorder[int]{}, make(chan struct{})
			for range 3 {
				w := &watcher{}
				config := fast(db)
				config.Observer, config.WorkerCount = w, 1
				c := newClient(t, db, config)
				watchers, clients = append(watchers, w), append(clients, c)
				_, err := topic.Subscribe(t.Context(), c, func(ctx context.Context, e *pulse.Event[order]) error {
					begun.Add(e.Data.Number)
					if e.Data.Number == 0 {
						return pulse.RetryAfter(errors.New("later"), time.Hour)
					}
					select {
					case <-open:
					case <-ctx.Done():
					}
					return nil
				}, opts...)
				is.NoErr(err)
			}
			before := time.Now()
			for i := range 20 {
				_, err := topic.Publish(t.Context(), clients[0], order{Number: i})
				is.NoErr(err)
			}
			defer close(open)
			// In order the first one waits for an hour, and all others wait behind it.
			retrying, processing := 1, 3
			if name == "ordered" {
				processing = 0
			}
			begun.WaitFor(t, "the handlers", func(all []int) bool { return len(all) >= retrying+processing })
			pulsetest.Eventually(t, "the backlog is told", func(ctx context.Context) error {
				var all []observe.Backlog
				for _, w := range watchers {
					read := of[func(context.Context) ([]observe.Backlog, error)](w.Values())
					is.Equal(len(read), 1)
					some, err := read[0](ctx)
					if err != nil {
						return err
					}
					all = append(all, some...)
				}
				if len(all) != 1 {
					return fmt.Errorf("%d clients tell of the topic", len(all))
				}
				b := all[0]
				most := time.Since(before) + time.Second
				if b.Oldest <= 0 || b.Oldest > most || b.OldestRetry <= 0 || b.OldestRetry > most {
					return fmt.Errorf("the oldest: %v, %v", b.Oldest, b.OldestRetry)
				}
				b.Oldest, b.OldestRetry = 0, 0
				// What is claimed ahead of a worker is being processed, too.
				if b.Processing < processing || b.Pending+b.Processing != 19 {
					return fmt.Errorf("%+v", b)
				}
				b.Pending, b.Processing = 0, 0
				if want := (observe.Backlog{Group: "billing", Topic: "order.created", Retrying: retrying}); b != want {
					return fmt.Errorf("%+v", b)
				}
				return nil
			})
		})
	}
}
