package echoes

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/matryer/is"
)

// fakeCarrier stands for a transport that needs no server. It records its calls
// and lets a test deliver messages.
type fakeCarrier struct {
	name string
	// What the calls return; onStart runs inside of Start.
	problems         []Problem
	connect, publish error
	refuse           map[string]error // by the event's ID
	onConnect        func(context.Context) error
	onStart          func(context.Context) error
	onClose          func(context.Context) error

	mu        sync.Mutex
	calls     []string
	receivers []Receiver
	published []Outgoing
}

func (f *fakeCarrier) log(call string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, call)
}

func (f *fakeCarrier) called() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.calls, " ")
}

func (f *fakeCarrier) Name() string { return f.name }

func (f *fakeCarrier) Check([]Receiver) []Problem { return f.problems }

func (f *fakeCarrier) Connect(ctx context.Context, link Link) error {
	f.log("connect")
	if f.onConnect != nil {
		if err := f.onConnect(ctx); err != nil {
			return err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.receivers = link.Receivers
	return f.connect
}

func (f *fakeCarrier) Start(ctx context.Context) error {
	f.log("start")
	if f.onStart != nil {
		return f.onStart(ctx)
	}
	return nil
}

func (f *fakeCarrier) Publish(_ context.Context, out Outgoing) (EventRef, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.publish != nil {
		return EventRef{}, f.publish
	}
	if err := f.refuse[out.ID]; err != nil {
		return EventRef{}, err
	}
	f.published = append(f.published, out)
	return EventRef{ID: out.ID, Topic: out.Topic}, nil
}

func (f *fakeCarrier) PublishMany(ctx context.Context, outs []Outgoing) ([]Published, error) {
	results := make([]Published, len(outs))
	var errs []error
	for i, out := range outs {
		results[i].EventRef, results[i].Err = f.Publish(ctx, out)
		errs = append(errs, results[i].Err)
	}
	return results, errors.Join(errs...)
}

func (f *fakeCarrier) Close(ctx context.Context) error {
	f.log("close")
	if f.onClose != nil {
		return f.onClose(ctx)
	}
	return nil
}

// deliver hands messages to the receiver of their topic.
func (f *fakeCarrier) deliver(ctx context.Context, ms ...Message) error {
	f.mu.Lock()
	receivers := f.receivers
	f.mu.Unlock()
	for _, r := range receivers {
		if r.Topic() == ms[0].Event.Topic {
			return r.Handle(ctx, ms)
		}
	}
	return errors.New("no receiver")
}

// kafkaConfig is a service whose only transport is the fake one.
func kafkaConfig() (Config, *fakeCarrier) {
	f := &fakeCarrier{name: "kafka"}
	return Config{Kafka: f}, f
}

// service is a Service of given listeners.
type service []Listener

func (s service) EchoesListeners() []Listener { return s }

type note struct{ Text string }

func decodeNote(d *Decoder, p *note) {
	for end := d.Begin(); d.Next(end); {
		if string(d.Key()) == "text" {
			d.String(&p.Text)
		}
	}
}

// notes has handlers as methods, like a real service.
type notes struct{}

func (*notes) Created(context.Context, note) error          { return nil }
func (*notes) Item(context.Context, Item[note]) error       { return nil }
func (*notes) Imported(context.Context, []Item[note]) error { return nil }

func on(topic string, opts ...Option) Listener {
	return On(topic, (&notes{}).Created, decodeNote, opts...).At("notes.go:7")
}

func onBatch(topic string, size int, opts ...Option) Listener {
	return OnBatch(topic, size, (&notes{}).Imported, decodeNote, opts...).At("notes.go:9")
}

func newApp(t *testing.T, cfg Config, services ...Service) *App {
	t.Helper()
	a, err := New(cfg, services...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// problemsOf returns the problems that Start reports, one text each.
func problemsOf(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	var startup *StartupError
	if !errors.As(err, &startup) {
		t.Fatalf("no *StartupError: %v", err)
	}
	texts := make([]string, len(startup.Problems))
	for i, p := range startup.Problems {
		texts[i] = p.String()
	}
	return texts
}

// expectProblems checks that Start reports exactly these problems, in any
// order, each of which needs to contain all words of the wanted one that are
// separated by " … ".
func expectProblems(t *testing.T, err error, want ...string) {
	t.Helper()
	is := is.New(t)
	got := problemsOf(t, err)
	if len(got) != len(want) {
		t.Fatalf("got %d problems, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
	for _, w := range want {
		found := false
		for _, g := range got {
			all := true
			for _, part := range strings.Split(w, " … ") {
				all = all && strings.Contains(g, part)
			}
			found = found || all
		}
		if !found {
			t.Errorf("missing %q in:\n%s", w, strings.Join(got, "\n"))
		}
	}
	is.True(err == nil || strings.HasPrefix(err.Error(), "echoes: "))
}
