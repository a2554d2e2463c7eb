package echoes

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// check collects every problem that can be found without I/O (spec 7.6).
type check struct {
	cfg      Config
	defaults Settings
	problems []Problem
}

func (c *check) add(p Problem) { c.problems = append(c.problems, p) }

func (c *check) config(format string, args ...any) {
	c.add(Problem{Text: fmt.Sprintf(format, args...)})
}

// middleware checks that there is something to call.
func (c *check) middleware() {
	for i, m := range c.cfg.Middleware {
		if m == nil {
			c.config("Config.Middleware[%d] is nil: remove it", i)
		}
	}
}

// routes checks what Config says of transports.
func (c *check) routes(listeners []Listener) {
	if c.cfg.Pulse == nil && c.cfg.Kafka == nil {
		c.config("no transport is configured: set Config.Pulse")
	}
	for _, r := range []struct{ field, value, prefix string }{
		{"ConsumeFrom", string(c.cfg.ConsumeFrom), "From"}, {"PublishTo", string(c.cfg.PublishTo), "To"},
	} {
		if r.value == "" {
			continue
		}
		if !transportName(r.value) {
			c.config("Config.%s is %q: use %[3]sPulse, %[3]sKafka or %[3]sBoth", r.field, r.value, r.prefix)
			continue
		}
		for _, name := range c.missing(r.value) {
			c.config("Config.%s selects %s, and %s is not configured: %s", r.field, r.value, name, remedy(name, "change Config."+r.field))
		}
	}
	if c.cfg.ConsumeFrom == FromBoth && c.cfg.PublishTo == ToBoth && slices.ContainsFunc(listeners, func(l Listener) bool { return l.settings.Transport == nil }) {
		c.config("Config.ConsumeFrom and Config.PublishTo are both: an event would be handled twice, as it comes from Pulse and from Kafka: publish to one of them, or consume from one (docs/migration-from-kafka.md)")
	}
}

func transportName(s string) bool {
	return s == transportPulse || s == transportKafka || s == transportBoth
}

// remedy says what to do about a transport that is selected and not configured.
func remedy(transport, wayOut string) string {
	if transport == transportKafka {
		return "set Config.Kafka (package echoes/kafka) or " + wayOut
	}
	return "set Config.Pulse or " + wayOut
}

// missing returns the transports that a selection needs and Config lacks. When
// Config has none at all, that is reported once and not here.
func (c *check) missing(selection string) []string {
	var names []string
	if selection != transportKafka && c.cfg.Pulse == nil && c.cfg.Kafka != nil {
		names = append(names, transportPulse)
	}
	if selection != transportPulse && c.cfg.Kafka == nil && c.cfg.Pulse != nil {
		names = append(names, transportKafka)
	}
	return names
}

// byDefault is the transport of ConsumeFrom and PublishTo when they are empty.
func (c Config) byDefault() string {
	if c.Kafka != nil {
		return transportKafka
	}
	return transportPulse
}

func (c Config) consumeFrom() string {
	if c.ConsumeFrom == "" {
		return c.byDefault()
	}
	return string(c.ConsumeFrom)
}

func (c Config) publishTo() string {
	if c.PublishTo == "" {
		return c.byDefault()
	}
	return string(c.PublishTo)
}

// source returns where l consumes from.
func (c Config) source(l Listener) string {
	if l.settings.Transport != nil {
		return *l.settings.Transport
	}
	return c.consumeFrom()
}

// services checks that every service is there and listens to something.
func (c *check) services(services []Service, listeners [][]Listener) {
	for i, s := range services {
		switch inside := nilInside(s); {
		case isNil(s):
			c.config("service %d (%T) is nil: pass a value to echoes.New", i+1, s)
		case inside != "":
			c.config("service %d (%T) embeds %s, which is nil, so that its methods would have no receiver: set it before echoes.New, or do not embed it", i+1, s, inside)
		case len(listeners[i]) == 0:
			c.config("service %T has no listener: annotate a method with //echoes:event or //echoes:batch and run echoesgen, or remove it", s)
		}
	}
}

// topics checks that each topic is handled once, over all services: an event is
// delivered once to a consumer group. Services that bring the same method twice
// are one service given twice, which is said once.
func (c *check) topics(services []Service, listeners [][]Listener) {
	type found struct {
		Listener
		service int
	}
	first := map[string]found{}
	said := map[[2]int]bool{}
	for i := range services {
		for _, l := range listeners[i] {
			other, ok := first[l.topic]
			pair := [2]int{other.service, i}
			switch {
			case l.topic == "":
			case !ok:
				first[l.topic] = found{l, i}
			case l.position != "" && l.position == other.position && l.method == other.method && i != other.service:
				if !said[pair] {
					said[pair] = true
					c.add(l.about("the service is given twice, by services %d (%T) and %d (%T) of echoes.New: pass it once, by itself or embedded in another", other.service+1, services[other.service], i+1, services[i]))
				}
			default:
				where := trimColon(Problem{Position: other.position, Method: other.method, Text: ""}.String())
				if where == "" {
					where = "another listener"
				}
				c.add(l.about("the topic is handled already, by %s: let one method handle it and call both, or give one service another consumer group", where))
			}
		}
	}
}

func trimColon(s string) string {
	if n := len(s); n > 1 && s[n-2:] == ": " {
		return s[:n-2]
	}
	return s
}

// listener checks one listener, and returns its settings in force.
func (c *check) listener(l Listener) Settings {
	wrong := func(format string, args ...any) { c.add(l.about(format, args...)) }
	switch {
	case l.kind == "":
		wrong("the listener is empty: make it with echoes.On, OnItem or OnBatch")
		return Settings{}
	case strings.TrimSpace(l.topic) == "":
		wrong("the topic is empty: add topic=")
	case !utf8.ValidString(l.topic):
		wrong("the topic %q is not valid UTF-8: choose another name", l.topic)
	}
	if l.handle == nil {
		wrong("the listener has no handler or no decoder: run echoesgen again")
	}
	if l.kind == KindBatch && (l.size < 1 || int64(l.size) > largestBatch) {
		wrong("batchSize=%d: must be from 1 to %d; 50 to 100 is a good start", l.size, int64(largestBatch))
	}
	c.transport(l, wrong)
	for _, text := range badValues(l.settings) {
		wrong("%s", text)
	}
	s := c.merge(l)
	c.combinations(l, s, wrong)
	return s
}

// transport checks where the listener consumes from, and what that excludes.
func (c *check) transport(l Listener, wrong func(string, ...any)) {
	source := c.cfg.source(l)
	if own := l.settings.Transport; own != nil {
		if !transportName(*own) {
			wrong("transport=%s: use pulse, kafka or both", *own)
			return
		}
		for _, name := range c.missing(*own) {
			wrong("transport=%s, but %s is not configured: %s", *own, name, remedy(name, "change the annotation"))
		}
	}
	if l.kind == KindBatch && source != transportPulse && transportName(source) {
		why := "transport=" + source
		switch {
		case l.settings.Transport != nil:
		case c.cfg.ConsumeFrom == "":
			why = "Config.ConsumeFrom is empty, which means Kafka because Config.Kafka is set"
		default:
			why = "Config.ConsumeFrom is " + source
		}
		also := ""
		if c.cfg.Pulse == nil {
			also = ", and configure Config.Pulse"
		}
		wrong("a batch is received over Pulse only, and this one would be consumed from Kafka (%s): add transport=pulse to the annotation, or set Config.ConsumeFrom to FromPulse%s", why, also)
	}
	if source == transportKafka && l.kind != KindBatch {
		s := l.settings
		for _, o := range []struct {
			key   string
			given bool
			what  string
		}{
			{"ordered", s.Ordered != nil, "Kafka keeps the order within a partition, and nothing else"},
			{"offsetReset", s.OffsetReset != nil, "on Kafka a new group starts at the beginning of the topic"},
			{"delivery", s.Delivery != nil, "Kafka delivers at least once"},
			{"retryDelay", s.RetryDelay != nil, "on Kafka a failed event is published again at once"},
			{"maxRetryDelay", s.MaxRetryDelay != nil, "on Kafka a failed event is published again at once"},
			{"retryJitter", s.RetryJitter != nil, "on Kafka a failed event is published again at once"},
			{"handlerTimeout", s.HandlerTimeout != nil, "only Pulse has it"},
			{"rateLimit", s.RateLimit != nil, "only Pulse has it"},
			{"rateBurst", s.RateBurst != nil, "only Pulse has it"},
		} {
			if o.given {
				wrong("%s has no effect because the event is consumed from Kafka only (%s): remove it, or add transport=pulse; while the topic moves to Pulse, Config.Defaults can hold it", o.key, o.what)
			}
		}
	}
}

// badValues lists the options whose values are wrong by themselves.
func badValues(s Settings) []string {
	var texts []string
	wrong := func(format string, args ...any) { texts = append(texts, fmt.Sprintf(format, args...)) }
	if v := s.OffsetReset; v != nil && *v != offsetLatest && *v != offsetEarliest {
		wrong("offsetReset=%s: use latest or earliest", *v)
	}
	if v := s.Delivery; v != nil && *v != atLeastOnce && *v != atMostOnce {
		wrong("delivery=%s: use at-least-once or at-most-once", *v)
	}
	if v := s.OnInvalid; v != nil && *v != invalidFail && *v != invalidSkip {
		wrong("onInvalid=%s: use fail or skip", *v)
	}
	if v := s.ExecutionVersion; v != nil && *v != 1 && *v != 2 {
		wrong("executionVersion=%d: must be 1 or 2", *v)
	}
	for _, n := range []struct {
		key   string
		value *int
		least int
	}{{"maxRetries", s.MaxRetries, 0}, {"configVersion", s.ConfigVersion, 0}, {"maxConcurrency", s.MaxConcurrency, 1}, {"rateBurst", s.RateBurst, 1}} {
		switch {
		case n.value == nil:
		case *n.value < n.least || *n.value > math.MaxInt32:
			wrong("%s=%d: must be from %d to %d", n.key, *n.value, n.least, math.MaxInt32)
		}
	}
	if v := s.RetryDelay; v != nil && *v < 0 {
		wrong("retryDelay=%v: must not be negative", *v)
	}
	for _, d := range []struct {
		key   string
		value *time.Duration
	}{{"maxRetryDelay", s.MaxRetryDelay}, {"handlerTimeout", s.HandlerTimeout}} {
		if d.value != nil && (*d.value < time.Millisecond || *d.value > longestLimit) {
			wrong("%s=%v: must be from 1ms to %v; leave it out for no limit", d.key, *d.value, longestLimit)
		}
	}
	if v := s.RetryJitter; v != nil && !(*v >= 0 && *v <= 1) {
		wrong("retryJitter=%v: must be from 0, no jitter, to 1, any delay up to the full one", *v)
	}
	if v := s.RateLimit; v != nil && !(*v > 0 && *v <= math.MaxFloat64) {
		wrong("rateLimit=%v: must be a finite number of calls in a second above 0; leave it out for no limit", *v)
	}
	if v := s.RetryBackoffMultiplier; v != nil && !(*v > 0 && *v <= math.MaxFloat64) {
		wrong("retryBackoffMultiplier=%v: must be a finite number above 0; 1 keeps the delay constant", *v)
	}
	return texts
}

// Bounds of package pulse: of its times, 100 years, and of the numbers that every
// client of a group reads exactly.
const (
	longestLimit = 36525 * 24 * time.Hour
	largestBatch = 1<<53 - 1
)

// lastDate bounds delays: now and the delay together may not pass the last date
// that every client of a group can read, 8.64e15 ms (spec 2.4). The year 2100
// stands for now.
const lastDate = 8.64e15 - 4.1e12

// longestDelay returns the longest delay, in milliseconds, that s can lead to.
func longestDelay(s Settings) float64 {
	retries, delay, factor := 3, firstDelay(s), 2.0
	if s.MaxRetries != nil {
		retries = *s.MaxRetries
	}
	if s.MaxRetryDelay != nil {
		retries = min(retries, 1) // none is longer than that, or than the first
	}
	if s.RetryBackoffMultiplier != nil {
		factor = *s.RetryBackoffMultiplier
	}
	if retries < 1 || delay <= 0 || s.Delivery != nil && *s.Delivery == atMostOnce {
		return 0
	}
	return float64(delay) / float64(time.Millisecond) * math.Max(1, math.Pow(factor, float64(retries-1)))
}

// firstDelay returns the delay after the first failed attempt.
func firstDelay(s Settings) time.Duration {
	if s.RetryDelay != nil {
		return *s.RetryDelay
	}
	return time.Second
}
