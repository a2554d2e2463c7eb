package echoes_test

import (
	"context"
	"errors"
	"net"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/echoes/kafka"
	"github.com/orionjs/orion-go/pulse"
)

// door is a port that counts who knocks.
type door struct {
	addr  string
	count atomic.Int32
	first chan struct{} // closed by the first
}

func newDoor(t *testing.T) *door {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	d := &door{addr: l.Addr().String(), first: make(chan struct{})}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if d.count.Add(1) == 1 {
				close(d.first)
			}
			_ = conn.Close()
		}
	}()
	return d
}

type listed []echoes.Listener

func (l listed) EchoesListeners() []echoes.Listener { return l }

func decodeText(d *echoes.Decoder, p *string) { d.String(p) }

func single(topic, at string, opts ...echoes.Option) echoes.Listener {
	return echoes.On(topic, func(context.Context, string) error { return nil }, decodeText, opts...).At(at).Named("shop.(*Orders).One")
}

func batch(topic, at string, opts ...echoes.Option) echoes.Listener {
	return echoes.OnBatch(topic, 10, func(context.Context, []echoes.Item[string]) error { return nil }, decodeText, opts...).At(at).Named("shop.(*Orders).Many")
}

// mistake is one reason not to start: what makes it, and how it is reported.
type mistake struct {
	change   func(*echoes.Config)
	services []echoes.Service
	want     []string // patterns of path.Match, which know no / between stars
}

// mistakes are of one kind each, and do not need each other.
func mistakes() map[string]mistake {
	none := func(*echoes.Config) {}
	return map[string]mistake{
		"batch from Kafka": {none, []echoes.Service{listed{batch("m1", "a/x.go:1", echoes.Transport("both"))}}, []string{
			"a/x.go:1: shop.(?Orders).Many (topic m1): a batch is received over Pulse only*",
		}},
		"topic twice": {none, []echoes.Service{listed{single("m2", "a/x.go:2")}, listed{single("m2", "b/x.go:2")}}, []string{
			"b/x.go:2: shop.(?Orders).One (topic m2): the topic is handled already, by a/x.go:2: *",
		}},
		"without effect on Kafka": {none, []echoes.Service{listed{single("m3", "a/x.go:3",
			echoes.Transport("kafka"), echoes.Ordered(false), echoes.OffsetReset("latest"), echoes.Delivery("at-least-once"), echoes.RetryDelay(time.Second))}}, []string{
			"a/x.go:3: * ordered has no effect *", "a/x.go:3: * offsetReset has no effect *", "a/x.go:3: * delivery has no effect *", "a/x.go:3: * retryDelay has no effect *",
		}},
		"no listeners":   {none, []echoes.Service{listed{}}, []string{"service echoes_test.listed has no listener: *"}},
		"nil service":    {none, []echoes.Service{nil}, []string{"service * is nil: *"}},
		"unknown target": {func(c *echoes.Config) { c.PublishTo = "mail" }, nil, []string{`Config.PublishTo is "mail": *`}},
		"wrong values": {none, []echoes.Service{listed{batch("m4", "a/x.go:4", echoes.Transport("pulse"), echoes.MaxRetries(-1))}}, []string{
			"a/x.go:4: * maxRetries=-1: *",
		}},
		"impossible together": {none, []echoes.Service{listed{single("m5", "a/x.go:5", echoes.Ordered(true), echoes.ExecutionVersion(2))}}, []string{
			"a/x.go:5: * executionVersion=2 with ordered delivery*",
		}},
		"no topic":   {none, []echoes.Service{listed{single("", "a/x.go:6")}}, []string{"a/x.go:6: shop.(?Orders).One: the topic is empty: *"}},
		"bad topic":  {none, []echoes.Service{listed{single("caf\xe9", "a/x.go:7", echoes.Transport("pulse"))}}, []string{"a/x.go:7: * is not valid UTF-8: *"}},
		"defaults":   {func(c *echoes.Config) { c.Defaults = []echoes.Option{echoes.ConfigVersion(-1)} }, nil, []string{"Config.Defaults: configVersion=-1*"}},
		"middleware": {func(c *echoes.Config) { c.Middleware = []echoes.Middleware{nil} }, nil, []string{"Config.Middleware?0? is nil*"}},
		"Pulse": {func(c *echoes.Config) { c.Pulse.PollInterval, c.Pulse.ConsumerGroup = -1, "" }, nil, []string{
			"Config.Pulse: ConsumerGroup is empty*", "Config.Pulse: PollInterval -1ns*",
		}},
	}
}

// sound is a configuration over both transports that would connect to the door.
func sound(d *door) echoes.Config {
	return echoes.Config{
		Pulse: &echoes.Pulse{URI: "mongodb://" + d.addr + "/shop", Config: pulse.Config{ConsumerGroup: "shop"}},
		Kafka: kafka.New(kafka.Config{Brokers: []string{d.addr}, ConsumerGroup: "shop"}), ConsumeFrom: echoes.FromBoth, PublishTo: echoes.ToKafka,
	}
}

func refused(t *testing.T, d *door, cfg echoes.Config, services []echoes.Service, want []string) {
	t.Helper()
	is := is.New(t)
	app, err := echoes.New(cfg, services...)
	is.NoErr(err)
	err = app.Start(t.Context())
	var startup *echoes.StartupError
	if !errors.As(err, &startup) {
		t.Fatalf("got %v", err)
	}
	for _, p := range startup.Problems {
		i := slices.IndexFunc(want, func(w string) bool { return matches(w, p.String()) })
		if i < 0 {
			t.Errorf("unexpected: %s", p)
			continue
		}
		want = slices.Delete(slices.Clone(want), i, i+1)
	}
	for _, w := range want {
		t.Errorf("missing: %s", w)
	}
	is.Equal(d.count.Load(), int32(0)) // nobody knocked
	is.NoErr(app.Close(context.Background()))
}

// matches lets a star stand for slashes too.
func matches(pattern, text string) bool {
	ok, err := path.Match(strings.ReplaceAll(pattern, "/", "|"), strings.ReplaceAll(text, "/", "|"))
	return ok && err == nil
}

func TestStart_7_6_EachMistakeAlone(t *testing.T) {
	t.Parallel()
	for name, m := range mistakes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDoor(t)
			cfg := sound(d)
			m.change(&cfg)
			refused(t, d, cfg, append(slices.Clone(m.services), listed{single("sound", "a/x.go:100")}), m.want)
		})
	}
}

func TestStart_7_6_AllMistakesTogether(t *testing.T) {
	t.Parallel()
	d := newDoor(t)
	cfg := sound(d)
	services := []echoes.Service{listed{single("sound", "a/x.go:100")}}
	var want []string
	for _, m := range mistakes() {
		m.change(&cfg)
		services = append(services, m.services...)
		want = append(want, m.want...)
	}
	refused(t, d, cfg, services, want)
}

func TestStart_7_6_TransportsThatAreNotConfigured(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*echoes.Config)
		listen echoes.Listener
		want   string
	}{
		"none":      {func(c *echoes.Config) { c.Pulse, c.Kafka, c.ConsumeFrom, c.PublishTo = nil, nil, "", "" }, single("t", "a/x.go:1"), "no transport is configured*"},
		"consume":   {func(c *echoes.Config) { c.Kafka, c.PublishTo = nil, "" }, single("t", "a/x.go:1"), "Config.ConsumeFrom selects both, and kafka is not configured: *"},
		"publish":   {func(c *echoes.Config) { c.Kafka, c.ConsumeFrom, c.PublishTo = nil, "", echoes.ToBoth }, single("t", "a/x.go:1"), "Config.PublishTo selects both, and kafka is not configured: *"},
		"listener":  {func(c *echoes.Config) { c.Kafka, c.ConsumeFrom, c.PublishTo = nil, "", "" }, single("t", "a/x.go:1", echoes.Transport("kafka")), "a/x.go:1: * transport=kafka, but kafka is not configured: *"},
		"no broker": {func(c *echoes.Config) { c.Kafka = kafka.New(kafka.Config{ConsumerGroup: "shop"}) }, single("t", "a/x.go:1"), "Config.Kafka: Brokers is empty: *"},
		"URI":       {func(c *echoes.Config) { c.Pulse.URI = "mongodb://h/shop?maxPoolSize=many" }, single("t", "a/x.go:1"), "Config.Pulse: the MongoDB URI is not usable: *"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDoor(t)
			cfg := sound(d)
			c.change(&cfg)
			refused(t, d, cfg, []echoes.Service{listed{c.listen}}, []string{c.want})
		})
	}
}

// TestStart_7_6_ASoundConfigurationKnocks: the tests above would notice.
func TestStart_7_6_ASoundConfigurationKnocks(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	d := newDoor(t)
	app, err := echoes.New(sound(d), listed{single("sound", "a/x.go:100")})
	is.NoErr(err)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-d.first
		cancel()
	}()
	var startup *echoes.StartupError
	err = app.Start(ctx)
	is.True(err != nil && !errors.As(err, &startup))
	is.True(d.count.Load() > 0)
	is.NoErr(app.Close(context.Background()))
}
