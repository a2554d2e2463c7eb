package echoes

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/orionjs/orion-go/pulse"
)

// pulseConfig is a configuration that would connect to a server that is not
// there; the tests of this file never get that far.
func pulseConfig() *Pulse {
	return &Pulse{URI: "mongodb://127.0.0.1:1/", Config: pulse.Config{ConsumerGroup: "g", Database: "d"}}
}

func TestStart_7_6_BatchOverKafkaIsRefused(t *testing.T) {
	t.Parallel()
	batch := service{onBatch("invoice.created", 100)}
	kafka := service{onBatch("invoice.created", 100, Transport("kafka"))}
	both := service{onBatch("invoice.created", 100, Transport("both"))}
	pulseOnly := service{onBatch("invoice.created", 100, Transport("pulse"))}
	fix := "add transport=pulse"
	at := "notes.go:9: echoes.(*notes).Imported (topic invoice.created): "
	for name, c := range map[string]struct {
		consume Source
		service Service
		want    string
	}{
		"default":           {"", batch, at + " … Config.ConsumeFrom is empty, which means Kafka … " + fix},
		"from kafka":        {FromKafka, batch, at + " … Config.ConsumeFrom is kafka … " + fix},
		"from both":         {FromBoth, batch, at + " … Config.ConsumeFrom is both … " + fix},
		"transport=kafka":   {FromPulse, kafka, at + " … transport=kafka … " + fix},
		"transport=both":    {FromPulse, both, at + " … transport=both … " + fix},
		"from pulse":        {FromPulse, batch, ""},
		"transport=pulse":   {FromBoth, pulseOnly, ""},
		"transport=pulse 2": {"", pulseOnly, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			cfg, fake := kafkaConfig()
			cfg.Pulse, cfg.ConsumeFrom = pulseConfig(), c.consume
			a := newApp(t, cfg, c.service)
			if c.want == "" {
				is.NoErr(a.Check())
				return
			}
			err := a.Start(t.Context())
			expectProblems(t, err, c.want)
			is.Equal(fake.called(), "") // nothing has connected
			is.True(a.pulse.(*pulseCarrier).current() == nil)
		})
	}
}

func TestStart_7_6_ListsEveryProblemAtOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	cfg, fake := kafkaConfig()
	fake.problems = []Problem{{Text: "Config.Kafka: no brokers"}}
	cfg.PublishTo = "carrier pigeon"
	cfg.Defaults = []Option{MaxRetries(-1), Transport("kafka")}
	err := newApp(t, cfg,
		service{onBatch("a", 0), on("b", Transport("pulse")), on("c", MaxConcurrency(0), OnInvalid("skip")), {}},
		service{on("b"), on("", OffsetReset("middle"))},
		service{},
		nil,
		(*nilService)(nil),
	).Start(t.Context())
	expectProblems(t, err,
		`Config.PublishTo is "carrier pigeon" … ToPulse`,
		"Config.Defaults: maxRetries=-1",
		"Config.Defaults: transport=kafka has no place there",
		"service 4 (<nil>) is nil",
		"service 5 (*echoes.nilService) is nil",
		"service echoes.service has no listener",
		"notes.go:9: echoes.(*notes).Imported (topic a): batchSize=0",
		"(topic a): a batch is received over Pulse only",
		"(topic b): transport=pulse, but pulse is not configured: set Config.Pulse",
		"notes.go:7: echoes.(*notes).Created (topic b): the service is given twice, by services 1 (echoes.service) and 2 (echoes.service)",
		"(topic c): maxConcurrency=0",
		"(topic c): onInvalid is for batches",
		"the listener is empty",
		"the topic is empty",
		"offsetReset=middle",
		"offsetReset has no effect",
		"Config.Kafka: no brokers",
	)
	is.True(strings.Contains(err.Error(), "17 problems:\n  - "))
	is.Equal(fake.called(), "")
}

type nilService struct{}

func (*nilService) EchoesListeners() []Listener { panic("not reached") }

func TestStart_7_6_ConfigurationOfTransports(t *testing.T) {
	t.Parallel()
	kafka := &fakeCarrier{name: "kafka"}
	for name, c := range map[string]struct {
		cfg  Config
		want []string
	}{
		"none":               {Config{}, []string{"no transport is configured"}},
		"consume, no pulse":  {Config{Kafka: kafka, ConsumeFrom: FromPulse}, []string{"Config.ConsumeFrom selects pulse … set Config.Pulse"}},
		"consume, no kafka":  {Config{Pulse: pulseConfig(), ConsumeFrom: FromBoth}, []string{"Config.ConsumeFrom selects both … set Config.Kafka"}},
		"publish, no kafka":  {Config{Pulse: pulseConfig(), PublishTo: ToKafka}, []string{"Config.PublishTo selects kafka … set Config.Kafka"}},
		"publish only":       {Config{Kafka: kafka}, nil},
		"neither":            {Config{Pulse: &Pulse{}}, []string{"neither Client nor URI", "ConsumerGroup is empty"}},
		"unused is unjudged": {Config{Kafka: kafka, Pulse: &Pulse{}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expectProblems(t, newApp(t, c.cfg).Check(), c.want...)
		})
	}
}

func TestStart_7_6_BothWaysTwice(t *testing.T) {
	t.Parallel()
	cfg, _ := kafkaConfig()
	cfg.Pulse, cfg.ConsumeFrom, cfg.PublishTo = pulseConfig(), FromBoth, ToBoth
	expectProblems(t, newApp(t, cfg, service{on("a")}).Check(), "Config.ConsumeFrom and Config.PublishTo are both … handled twice … publish to one of them")
	expectProblems(t, newApp(t, cfg, service{on("a", Transport("pulse"))}).Check()) // takes nothing from both
	expectProblems(t, newApp(t, cfg).Check())
	cfg.ConsumeFrom = FromPulse
	expectProblems(t, newApp(t, cfg, service{on("a")}).Check())
}

type (
	inner   struct{}
	outer   struct{ *inner }
	outmost struct {
		time.Time // no service
		outer
	}
	either struct{ Service }
	itself struct{ *itself }
)

func (*inner) EchoesListeners() []Listener { return []Listener{on("a"), on("b")} }

func TestStart_7_6_EmbeddedServicesThatAreNil(t *testing.T) {
	t.Parallel()
	round := &itself{}
	round.itself = round
	for name, c := range map[string]struct {
		service Service
		want    []string
	}{
		"there":     {&outmost{outer: outer{&inner{}}}, nil},
		"pointer":   {&outer{}, []string{"service 1 (*echoes.outer) embeds *echoes.inner, which is nil … set it before echoes.New"}},
		"deeper":    {outmost{}, []string{"service 1 (echoes.outmost) embeds outer.*echoes.inner, which is nil"}},
		"interface": {either{}, []string{"service 1 (echoes.either) embeds echoes.Service, which is nil"}},
		"in one":    {either{&outer{}}, []string{"service 1 (echoes.either) embeds Service.*echoes.inner, which is nil"}},
		"a ring": {either{&struct {
			*inner
			*itself
		}{&inner{}, round}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expectProblems(t, newApp(t, Config{Pulse: pulseConfig()}, c.service).Check(), c.want...)
		})
	}
}

// One service given twice is one problem, however many topics it handles.
func TestStart_7_6_AServiceGivenTwice(t *testing.T) {
	t.Parallel()
	s := &inner{}
	expectProblems(t, newApp(t, Config{Pulse: pulseConfig()}, s, s).Check(),
		"notes.go:7: echoes.(*notes).Created (topic a): the service is given twice, by services 1 (*echoes.inner) and 2 (*echoes.inner) of echoes.New: pass it once")
	expectProblems(t, newApp(t, Config{Pulse: pulseConfig()}, &outer{s}, s).Check(), "the service is given twice, by services 1 (*echoes.outer) and 2 (*echoes.inner)")
}

func TestStart_7_6_OptionsWithoutEffectOnKafka(t *testing.T) {
	t.Parallel()
	opts := []Option{Ordered(true), OffsetReset("earliest"), Delivery("at-least-once"), RetryDelay(time.Second)}
	want := []string{"ordered has no effect", "offsetReset has no effect", "delivery has no effect", "retryDelay has no effect"}
	cfg, _ := kafkaConfig()
	expectProblems(t, newApp(t, cfg, service{on("a", opts...)}).Check(), want...)

	cfg.Pulse = pulseConfig()
	expectProblems(t, newApp(t, cfg, service{on("a", append(opts, Transport("kafka"))...)}).Check(), want...)
	expectProblems(t, newApp(t, cfg, service{on("a", append(opts, Transport("both"))...)}).Check())
	expectProblems(t, newApp(t, cfg, service{on("a", append(opts, Transport("pulse"))...)}).Check())
	// Defaults of the service are for those that have a use for them.
	cfg.Defaults = opts
	expectProblems(t, newApp(t, cfg, service{on("a")}).Check())
}

func TestStart_2_3_ImpossibleOptions(t *testing.T) {
	t.Parallel()
	year := 365 * 24 * time.Hour
	for name, c := range map[string]struct {
		listener Listener
		want     []string
	}{
		"plain":     {on("a"), nil},
		"all given": {on("a", Ordered(false), OffsetReset("earliest"), Delivery("at-least-once"), MaxRetries(0), RetryDelay(0), RetryBackoffMultiplier(1), ConfigVersion(3), ExecutionVersion(2), MaxConcurrency(9)), nil},
		"limits":    {on("a", MaxRetryDelay(time.Hour), RetryJitter(0.2), HandlerTimeout(time.Second), RateLimit(0.5), RateBurst(3), MaxRetries(1000)), nil},
		"limits of nothing": {on("a", MaxRetryDelay(0), RetryJitter(-1), HandlerTimeout(-1), RateLimit(0), RateBurst(0)), []string{
			"maxRetryDelay=0s: must be from 1ms to 876600h0m0s; leave it out for no limit", "handlerTimeout=-1ns: must be from 1ms to 876600h0m0s",
			"retryJitter=-1: must be from 0, no jitter, to 1", "rateLimit=0: must be a finite number of calls", "rateBurst=0: must be from 1 to 2147483647",
		}},
		"limits without end": {on("a", MaxRetryDelay(math.MaxInt64), HandlerTimeout(math.MaxInt64), RateLimit(math.MaxFloat64), RateBurst(math.MaxInt), MaxRetries(1)), []string{
			"rateBurst=9223372036854775807: must be from 1 to 2147483647",
			"maxRetryDelay=2562047h47m16.854775807s: must be from 1ms to 876600h0m0s", "handlerTimeout=2562047h47m16.854775807s: must be from 1ms to 876600h0m0s",
		}},
		"2.3 large batch":              {onBatch("a", math.MaxInt), []string{"batchSize=9223372036854775807: must be from 1 to 9007199254740991"}},
		"limits that are no numbers":   {on("a", RetryJitter(math.NaN()), RateLimit(math.Inf(1))), []string{"retryJitter=NaN", "rateLimit=+Inf"}},
		"burst of no limit":            {on("a", RateBurst(3)), []string{"rateBurst=3 without rateLimit: add rateLimit, the calls in a second, or remove it"}},
		"bound below the delay":        {on("a", MaxRetryDelay(time.Millisecond)), []string{"maxRetryDelay=1ms is less than the first delay, retryDelay=1s: lower that, or raise the bound"}},
		"2.3 ordered batch":            {onBatch("a", 1, Ordered(true)), []string{"ordered=true: a batch is never ordered"}},
		"2.3 batch of version 1":       {onBatch("a", 1, ExecutionVersion(1)), []string{"executionVersion=1: a batch is always stored in version 2"}},
		"2.3 unordered batch":          {onBatch("a", 1, Ordered(false), ExecutionVersion(2), MaxConcurrency(3), OnInvalid("skip")), nil},
		"2.3 concurrent and ordered":   {on("a", MaxConcurrency(2)), []string{"maxConcurrency=2 with ordered delivery … add ordered=false"}},
		"2.3 batch size":               {onBatch("a", -1), []string{"batchSize=-1"}},
		"2.3 version":                  {on("a", ExecutionVersion(3)), []string{"executionVersion=3: must be 1 or 2"}},
		"2.3 negative":                 {on("a", MaxRetries(-1), ConfigVersion(-1), RetryDelay(-1)), []string{"maxRetries=-1", "configVersion=-1", "retryDelay=-1ns"}},
		"2.3 too large":                {on("a", MaxRetries(math.MaxInt32+1)), []string{"maxRetries=2147483648: must be from 0 to 2147483647", "the last retry would be delayed"}},
		"2.4 multiplier":               {on("a", RetryBackoffMultiplier(0)), []string{"retryBackoffMultiplier=0"}},
		"2.4 multiplier NaN":           {on("a", RetryBackoffMultiplier(math.NaN())), []string{"retryBackoffMultiplier=NaN", "the last retry"}},
		"2.4 beyond dates":             {on("a", MaxRetries(100)), []string{"the last retry would be delayed by 6.34e+32 ms"}},
		"2.4 far but possible":         {on("a", MaxRetries(10), RetryDelay(year), RetryBackoffMultiplier(2)), nil},
		"2.5 at most once":             {on("a", Delivery("at-most-once"), MaxRetries(1)), []string{"maxRetries=1 with delivery=at-most-once"}},
		"2.5 no retries":               {on("a", Delivery("at-most-once"), MaxRetries(0)), nil},
		"2.7 ordered, version 2":       {on("a", ExecutionVersion(2)), []string{"executionVersion=2 with ordered delivery … add ordered=false"}},
		"2.7 said twice":               {on("a", Ordered(true), ExecutionVersion(2)), []string{"add ordered=false"}},
		"words":                        {on("a", Delivery("twice"), OnInvalid("drop"), Transport("mail")), []string{"delivery=twice", "onInvalid=drop", "onInvalid is for batches", "transport=mail: use pulse"}},
		"no handler":                   {On[note]("a", nil, decodeNote), []string{"no handler or no decoder"}},
		"no decoder":                   {On("a", (&notes{}).Created, nil), []string{"no handler or no decoder"}},
		"7.8 onInvalid, single events": {on("a", OnInvalid("skip")), []string{"onInvalid is for batches"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			expectProblems(t, newApp(t, Config{Pulse: pulseConfig()}, service{c.listener}).Check(), c.want...)
		})
	}
}

func TestStart_7_8_ListenersOverrideDefaults(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	defaults := []Option{
		Ordered(false), ExecutionVersion(2), MaxRetries(7), MaxConcurrency(3), RetryDelay(time.Minute), OnInvalid("skip"), OffsetReset("earliest"), ConfigVersion(4),
	}
	inForce := func(l Listener) Settings {
		a := newApp(t, Config{Pulse: pulseConfig(), Defaults: defaults}, service{l})
		p, err := a.plan()
		is.NoErr(err)
		return p.receivers[a.pulse][0].InForce
	}
	s := inForce(on("a", MaxRetries(1)))
	is.Equal(*s.MaxRetries, 1)
	is.Equal(*s.Ordered, false)
	is.Equal(*s.ExecutionVersion, 2)
	is.Equal(*s.MaxConcurrency, 3)
	is.Equal(*s.RetryDelay, time.Minute)
	is.Equal(*s.OffsetReset, "earliest")
	is.Equal(*s.ConfigVersion, 4)
	is.True(s.OnInvalid == nil) // for batches only
	is.True(s.Delivery == nil)

	s = inForce(onBatch("a", 5))
	is.Equal(*s.OnInvalid, "skip")
	is.Equal(*s.MaxRetries, 7)
	is.True(s.Ordered == nil && s.ExecutionVersion == nil) // for single events only

	// What a listener says makes defaults void that contradict it.
	s = inForce(on("a", Delivery("at-most-once")))
	is.True(s.MaxRetries == nil)
	s = inForce(on("a", Ordered(true)))
	is.True(s.MaxConcurrency == nil && s.ExecutionVersion == nil)

	// A burst belongs to its limit.
	defaults = append(defaults, RateLimit(5), RateBurst(10), HandlerTimeout(time.Second), MaxRetryDelay(time.Hour), RetryJitter(1))
	s = inForce(on("a"))
	is.Equal([]float64{*s.RateLimit, float64(*s.RateBurst), *s.RetryJitter}, []float64{5, 10, 1})
	is.Equal([]time.Duration{*s.HandlerTimeout, *s.MaxRetryDelay}, []time.Duration{time.Second, time.Hour})
	s = inForce(on("a", RateLimit(7.5)))
	is.True(s.RateBurst == nil)
	is.Equal(s.burst(), 8)

	// Two defaults that contradict each other are a problem where they meet.
	a := newApp(t, Config{Pulse: pulseConfig(), Defaults: []Option{Delivery("at-most-once"), MaxRetries(2)}}, service{on("a")})
	expectProblems(t, a.Check(), "maxRetries=2 (from Config.Defaults) with delivery=at-most-once (from Config.Defaults)")
}

func TestNew_7_6_PanicOfAServiceIsAnError(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	_, err := New(Config{}, panicService{})
	is.Equal(err.Error(), "echoes: EchoesListeners of echoes.panicService panicked: boom")
}

type panicService struct{}

func (panicService) EchoesListeners() []Listener { panic("boom") }

func TestListener_7_1_NamesItsMethod(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	l := on("a")
	is.Equal(l.Method(), "echoes.(*notes).Created")
	is.Equal(l.Position(), "notes.go:7")
	is.Equal(l.Kind(), KindEvent)
	is.Equal(l.BatchSize(), 1)
	wrapped := On("a", func(context.Context, note) error { return nil }, decodeNote).Named("(*Notes).Silent")
	is.Equal(wrapped.Method(), "(*Notes).Silent")
	is.Equal(onBatch("b", 3).BatchSize(), 3)
	is.Equal(onBatch("b", 3).Kind(), KindBatch)
}
