package echoes

import (
	"math"
	"time"
)

// The values of options.
const (
	offsetLatest   = "latest"
	offsetEarliest = "earliest"
	atLeastOnce    = "at-least-once"
	atMostOnce     = "at-most-once"
	invalidFail    = "fail"
	invalidSkip    = "skip"
)

// serviceDefaults checks Config.Defaults by themselves.
func (c *check) serviceDefaults() {
	for _, text := range badValues(c.defaults) {
		c.config("Config.Defaults: %s", text)
	}
	if c.defaults.Transport != nil {
		c.config("Config.Defaults: transport=%s has no place there: set Config.ConsumeFrom", *c.defaults.Transport)
	}
}

// merge returns the settings in force for l: its own, and for what they leave
// open the service's defaults. A default that the listener's kind has no use
// for, or that contradicts what the listener says itself, does not apply.
func (c *check) merge(l Listener) Settings {
	d, s := c.defaults, l.settings
	d.Transport = nil
	if l.kind == KindBatch {
		d.Ordered, d.ExecutionVersion = nil, nil
	} else {
		d.OnInvalid = nil
	}
	if equals(s.Delivery, atMostOnce) {
		d.MaxRetries = nil
	}
	if equals(s.Ordered, true) {
		d.MaxConcurrency, d.ExecutionVersion = nil, nil
	}
	fill(&s.Ordered, d.Ordered)
	fill(&s.OffsetReset, d.OffsetReset)
	fill(&s.Delivery, d.Delivery)
	fill(&s.MaxRetries, d.MaxRetries)
	fill(&s.RetryDelay, d.RetryDelay)
	fill(&s.RetryBackoffMultiplier, d.RetryBackoffMultiplier)
	fill(&s.MaxRetryDelay, d.MaxRetryDelay)
	fill(&s.RetryJitter, d.RetryJitter)
	fill(&s.ConfigVersion, d.ConfigVersion)
	fill(&s.ExecutionVersion, d.ExecutionVersion)
	fill(&s.MaxConcurrency, d.MaxConcurrency)
	fill(&s.HandlerTimeout, d.HandlerTimeout)
	if s.RateLimit == nil { // a burst belongs to its limit
		fill(&s.RateBurst, d.RateBurst)
	}
	fill(&s.RateLimit, d.RateLimit)
	fill(&s.OnInvalid, d.OnInvalid)
	fill(&s.ZeroCopy, d.ZeroCopy)
	return s
}

func fill[T any](p **T, value *T) {
	if *p == nil {
		*p = value
	}
}

func equals[T comparable](p *T, value T) bool { return p != nil && *p == value }

// combinations checks what the settings in force mean together (spec 2.3 to
// 2.7). Kafka has none of these settings, so a listener of Kafka alone is not
// checked for them.
func (c *check) combinations(l Listener, s Settings, wrong func(string, ...any)) {
	if l.kind == KindEvent && l.settings.OnInvalid != nil {
		wrong("onInvalid is for batches: a single event that cannot be decoded fails; remove it")
	}
	if c.cfg.source(l) == transportKafka {
		return
	}
	from := func(own bool) string {
		if own {
			return ""
		}
		return " (from Config.Defaults)"
	}
	own := l.settings
	if l.kind == KindBatch {
		if equals(s.Ordered, true) {
			wrong("ordered=true: a batch is never ordered; remove it, or handle single events")
		}
		if equals(s.ExecutionVersion, 1) {
			wrong("executionVersion=1: a batch is always stored in version 2; remove it")
		}
	} else {
		ordered := s.Ordered == nil || *s.Ordered
		if ordered && equals(s.ExecutionVersion, 2) {
			wrong("executionVersion=2%s with ordered delivery, which only version 1 has: add ordered=false, or use executionVersion=1", from(own.ExecutionVersion != nil))
		}
		if ordered && s.MaxConcurrency != nil && *s.MaxConcurrency > 1 {
			wrong("maxConcurrency=%d%s with ordered delivery, which runs one event at a time: add ordered=false, or remove maxConcurrency", *s.MaxConcurrency, from(own.MaxConcurrency != nil))
		}
	}
	if equals(s.Delivery, atMostOnce) && s.MaxRetries != nil && *s.MaxRetries > 0 {
		wrong("maxRetries=%d%s with delivery=at-most-once%s, which never retries: remove one of the two", *s.MaxRetries, from(own.MaxRetries != nil), from(own.Delivery != nil))
	}
	if s.RateBurst != nil && s.RateLimit == nil {
		wrong("rateBurst=%d without rateLimit: add rateLimit, the calls in a second, or remove it", *s.RateBurst)
	}
	if first, most := firstDelay(s), s.MaxRetryDelay; most != nil && *most >= time.Millisecond && first > *most {
		wrong("maxRetryDelay=%v%s is less than the first delay, retryDelay=%v: lower that, or raise the bound", *most, from(own.MaxRetryDelay != nil), first)
	}
	if ms := longestDelay(s); ms > lastDate || math.IsNaN(ms) {
		wrong("the last retry would be delayed by %.3g ms, beyond every date: lower maxRetries, retryDelay or retryBackoffMultiplier", ms)
	}
}
