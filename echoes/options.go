package echoes

import "time"

// Option changes one setting of a listener, or, in Config.Defaults, of all
// listeners that do not say otherwise (spec 2.3, 7.8). Values are not checked
// here: the start-up check lists every wrong one with the listener's position.
type Option func(*Settings)

// Settings holds what options said. A nil field was not given, and the default
// named there applies.
type Settings struct {
	// Ordered: one event at a time in the order of publication. Default true
	// for single events; a batch is never ordered.
	Ordered *bool
	// OffsetReset: where a new subscription starts, "latest" (default) or
	// "earliest".
	OffsetReset *string
	// Delivery: "at-least-once" (default) or "at-most-once".
	Delivery *string
	// MaxRetries counts retries after the first attempt. Default 3, and 0 with
	// at-most-once.
	MaxRetries *int
	// RetryDelay is the delay after the first failed attempt. Default 1 s.
	RetryDelay *time.Duration
	// RetryBackoffMultiplier multiplies the delay after each further one.
	// Default 2.
	RetryBackoffMultiplier *float64
	// MaxRetryDelay bounds every delay. Default: no bound.
	MaxRetryDelay *time.Duration
	// RetryJitter is the part of each delay that is left to chance, from 0
	// (default) to 1.
	RetryJitter *float64
	// ConfigVersion orders the settings of replicas: the highest wins. Default 0.
	ConfigVersion *int
	// ExecutionVersion is where attempts are stored, 1 (default) or 2; a batch
	// always uses 2.
	ExecutionVersion *int
	// MaxConcurrency bounds the invocations of this listener that run at once
	// in this process. Default: the worker count; 1 when ordered.
	MaxConcurrency *int
	// HandlerTimeout bounds each call. Default: no limit.
	HandlerTimeout *time.Duration
	// RateLimit is how many calls may begin in a second in this process.
	// Default: no limit.
	RateLimit *float64
	// RateBurst is how many calls may begin at once within the RateLimit.
	// Default: as many as in a second, and at least 1.
	RateBurst *int
	// Transport overrides Config.ConsumeFrom: "pulse", "kafka" or "both".
	Transport *string
	// OnInvalid says what an undecodable item does to its batch: "fail"
	// (default) fails it, "skip" leaves the item out.
	OnInvalid *string
	// ZeroCopy: strings of the params point into the payload. Default false:
	// they are copies.
	ZeroCopy *bool
}

// Ordered demands order (true, the default of single-event listeners) or gives
// it up. An ordered listener runs one event at a time.
func Ordered(on bool) Option { return func(s *Settings) { s.Ordered = &on } }

// OffsetReset says where a new subscription starts: "latest" (default), after
// the newest event, or "earliest", at the oldest retained one. It has no effect
// on a subscription that exists.
func OffsetReset(at string) Option { return func(s *Settings) { s.OffsetReset = &at } }

// Delivery chooses "at-least-once" (default) or "at-most-once", which never
// retries.
func Delivery(mode string) Option { return func(s *Settings) { s.Delivery = &mode } }

// MaxRetries sets how often a failed delivery is retried after its first
// attempt. Default 3.
func MaxRetries(n int) Option { return func(s *Settings) { s.MaxRetries = &n } }

// RetryDelay sets the delay before the first retry. Default 1 s.
func RetryDelay(d time.Duration) Option { return func(s *Settings) { s.RetryDelay = &d } }

// RetryBackoffMultiplier sets the factor by which the delay grows from retry to
// retry. Default 2.
func RetryBackoffMultiplier(f float64) Option {
	return func(s *Settings) { s.RetryBackoffMultiplier = &f }
}

// MaxRetryDelay bounds the delays that RetryDelay and RetryBackoffMultiplier
// make, in this process, see pulse.MaxRetryDelay.
func MaxRetryDelay(d time.Duration) Option { return func(s *Settings) { s.MaxRetryDelay = &d } }

// RetryJitter leaves a part of each delay to chance, from 0 (default) to 1: a
// delay gets shorter by up to that part, see pulse.RetryJitter.
func RetryJitter(fraction float64) Option { return func(s *Settings) { s.RetryJitter = &fraction } }

// ConfigVersion numbers the settings. Raise it with every change of them: the
// replicas with the highest one decide. Default 0.
func ConfigVersion(n int) Option { return func(s *Settings) { s.ConfigVersion = &n } }

// ExecutionVersion sets where attempts are stored: 1 (default) or 2. A batch
// always uses 2.
func ExecutionVersion(n int) Option { return func(s *Settings) { s.ExecutionVersion = &n } }

// MaxConcurrency bounds how many invocations of the listener run at once in
// this process. Default: the worker count.
func MaxConcurrency(n int) Option { return func(s *Settings) { s.MaxConcurrency = &n } }

// HandlerTimeout bounds each call of the listener: then its context ends, with a
// cause that is pulse.ErrHandlerTimeout, see pulse.HandlerTimeout. Default: no
// limit.
func HandlerTimeout(d time.Duration) Option { return func(s *Settings) { s.HandlerTimeout = &d } }

// RateLimit sets how many calls of the listener may begin in a second in this
// process, see pulse.RateLimit. Default: no limit.
func RateLimit(perSecond float64) Option { return func(s *Settings) { s.RateLimit = &perSecond } }

// RateBurst sets how many calls may begin at once after a quieter time, within the
// RateLimit. Default: as many as in a second, and at least 1.
func RateBurst(n int) Option { return func(s *Settings) { s.RateBurst = &n } }

// Transport sets where this listener's events come from, whatever
// Config.ConsumeFrom says: "pulse", "kafka" or "both".
func Transport(name string) Option { return func(s *Settings) { s.Transport = &name } }

// OnInvalid says what an item that cannot be decoded does to its batch: "fail"
// (default) fails the batch, "skip" leaves the item out, counts and reports it.
func OnInvalid(what string) Option { return func(s *Settings) { s.OnInvalid = &what } }

// ZeroCopy lets the strings of the params, and the keys of their maps, point into
// the event's payload instead of copying them, which takes less time and few
// allocations. A string that the handler keeps then keeps the whole payload in
// memory: keep strings.Clone of it. Default: copies.
func ZeroCopy(on bool) Option { return func(s *Settings) { s.ZeroCopy = &on } }

func settingsOf(opts []Option) Settings {
	var s Settings
	for _, opt := range opts {
		if opt != nil {
			opt(&s)
		}
	}
	return s
}
