package pulse

import (
	"fmt"
	"log/slog"
	"strings"
	"time"
	"unicode/utf8"

	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse/internal/backoff"
	"github.com/orionjs/orion-go/pulse/observe"
)

// NoTTL turns a retention off: what it governs is kept for ever.
const NoTTL time.Duration = -1

// Config configures a client. The zero value of every field but ConsumerGroup is its default. All
// replicas of a group should have the same.
type Config struct {
	// ConsumerGroup names the group whose deliveries the client shares with all clients of that group,
	// and is stored with each event as its publisher. Required.
	ConsumerGroup string

	// Database is the database of the collections. Default: the one in the URI that Connect gets;
	// required for New.
	Database string

	// CollectionPrefix begins the names of the four collections. Default "orionjs.pulse".
	CollectionPrefix string

	// WorkerCount bounds how many handlers of this client run at once, over all topics; a batch counts
	// as one. Workers are not reserved for topics. From 1 to 10,000. Default 4.
	WorkerCount int

	// PollInterval is the pause, lengthened at random by up to a tenth, between two looks for work. With
	// change streams it is only a safety net, without them the longest an event waits to be noticed
	// (each of the steps from event to delivery and from delivery to handler needs one when they are in
	// different processes). From 10 ms to 24 h. Default 3 s.
	PollInterval time.Duration

	// LockTimeout is the lease of a running handler; it is renewed about every third of it, however long
	// the handler runs. A lost process's work is recovered after it. Choose it well above the latency of
	// MongoDB: at least several seconds. From 100 ms to 24 h. Default 30 s.
	LockTimeout time.Duration

	// DiscoveryLockTimeout is the lease of the group's leader of a topic: after a lost process another
	// one takes over within this time and a PollInterval. From 100 ms to 24 h. Default 10 s.
	DiscoveryLockTimeout time.Duration

	// LookBack is how far behind a group's cursor events are still found that become visible late. A server
	// gives an event its place in the order a moment before others can see it; with several publishers the
	// order of both can differ, by milliseconds, or by the length of a transaction of a foreign writer that
	// assigns sequences itself. It must exceed the longest such delay; reading a long window again costs
	// (about 4 µs an event and poll). From 1 s to 24 h. Default 10 s.
	LookBack time.Duration

	// EventRetention is how long events are kept after publication; MongoDB deletes them with some
	// delay. It must exceed the longest outage and retry window of every group: an event that is gone
	// before its handler ran ends as event_expired. From 1 ms to 100 years. Default 7 days; NoTTL keeps events for
	// ever.
	EventRetention time.Duration

	// HistoryRetention is how long finished deliveries with their attempts are kept, LookBack at least. With NoTTL failed
	// ones are kept for ever and successful ones are deleted once the group is past their events.
	// From 1 ms to 100 years. Default 7 days.
	HistoryRetention time.Duration

	// DisableChangeStreams leaves polling as the only source of wake-ups. A standalone server has no
	// change streams and needs no setting.
	DisableChangeStreams bool

	// ManualStart lets Connect and New return a client that has not contacted MongoDB: subscriptions are
	// registered first, and Start starts them together.
	ManualStart bool

	// Logger receives what an operator should know. Default slog.Default().
	Logger *slog.Logger

	// Observer is told of publishing, attempts, claims and leases, and measures them: package pulse/telemetry
	// makes one for OpenTelemetry. Default: none, which costs nothing.
	Observer observe.Observer

	// OnError is called with every error of the background work, after it was logged: MongoDB out of
	// reach, lost leases (ErrLockLost), a change stream that ended. It may be called by several
	// goroutines at once and should return soon. Failed handlers are not reported here: they are
	// recorded with their delivery, and logged.
	OnError func(error)
}

// Validate returns a *ConfigurationError for what cannot work, as Connect with this URI or, when uri is
// empty, New would, and contacts nothing. The options of a mongodb+srv URI, which are looked up in the
// network, are left to Connect.
func (c Config) Validate(uri string) error {
	var opts *options.ClientOptions
	if uri != "" && !strings.HasPrefix(uri, "mongodb+srv://") {
		opts = options.Client().ApplyURI(uri)
	}
	_, problems := c.complete(uri, opts)
	return configurationError(problems)
}

// complete is withDefaults for a client of the URI, which is empty for New, and what it says; nil if that is not known.
func (c Config) complete(uri string, opts *options.ClientOptions) (Config, []ConfigurationProblem) {
	if c.Database == "" {
		c.Database = databaseOf(uri)
	}
	c, problems := c.withDefaults()
	if opts != nil {
		if invalid := opts.Validate(); invalid != nil {
			// What else the URI lacks cannot be told while it cannot be read.
			return c, append(problems, ConfigurationProblem{Text: "the MongoDB URI is not usable: " + withoutPassword(invalid, uri)})
		}
		if problem := c.poolProblem(opts); problem != "" {
			problems = append(problems, ConfigurationProblem{Text: problem})
		}
	}
	if problem := databaseProblem(c.Database); problem != "" {
		problems = append(problems, ConfigurationProblem{Text: problem})
	}
	return c, problems
}

// Bounds that keep workers, leases and polls in a range in which they work. What lies above is a slip of units: a
// pause of days helps nobody, and with one near the largest duration the sums of times overflow.
const (
	maxWorkers      = 10_000
	minPollInterval = 10 * time.Millisecond
	minLockTimeout  = 100 * time.Millisecond
	maxInterval     = 24 * time.Hour
	maxRetention    = backoff.MaxDelay
)

// withDefaults returns the configuration with its defaults filled in, and what is wrong with it.
func (c Config) withDefaults() (Config, []ConfigurationProblem) {
	var problems []ConfigurationProblem
	wrong := func(format string, args ...any) {
		problems = append(problems, ConfigurationProblem{Text: fmt.Sprintf(format, args...)})
	}

	if c.ConsumerGroup == AllGroups {
		wrong("ConsumerGroup %q stands for all groups in History: give the group another name", AllGroups)
	} else if problem := nameProblem("ConsumerGroup", c.ConsumerGroup); problem != "" {
		wrong("%s: name the group whose work this client shares, e.g. the service's name", problem)
	}
	setDefault(&c.CollectionPrefix, "orionjs.pulse")
	if strings.ContainsAny(c.CollectionPrefix, "$\x00") {
		wrong("CollectionPrefix %q: must not contain $ or NUL", c.CollectionPrefix)
	} else if !utf8.ValidString(c.CollectionPrefix) {
		wrong("CollectionPrefix %q is not valid UTF-8", c.CollectionPrefix)
	}
	setDefault(&c.WorkerCount, 4)
	if c.WorkerCount < 1 || c.WorkerCount > maxWorkers {
		wrong("WorkerCount %d: must be from 1 to %d, or 0 for the default of 4", c.WorkerCount, maxWorkers)
	}
	for _, d := range []struct {
		name       string
		value      *time.Duration
		byDefault  time.Duration
		least      time.Duration
		most       time.Duration
		mayBeNoTTL bool
	}{
		{"PollInterval", &c.PollInterval, 3 * time.Second, minPollInterval, maxInterval, false},
		{"LockTimeout", &c.LockTimeout, 30 * time.Second, minLockTimeout, maxInterval, false},
		{"DiscoveryLockTimeout", &c.DiscoveryLockTimeout, 10 * time.Second, minLockTimeout, maxInterval, false},
		{"LookBack", &c.LookBack, 10 * time.Second, time.Second, maxInterval, false},
		{"EventRetention", &c.EventRetention, 7 * 24 * time.Hour, time.Millisecond, maxRetention, true},
		{"HistoryRetention", &c.HistoryRetention, 7 * 24 * time.Hour, time.Millisecond, maxRetention, true},
	} {
		setDefault(d.value, d.byDefault)
		switch {
		case d.mayBeNoTTL && *d.value == NoTTL:
		case *d.value >= d.least && *d.value <= d.most:
		case d.mayBeNoTTL:
			wrong("%s %v: must be from %v to %v, or pulse.NoTTL to keep for ever", d.name, *d.value, d.least, d.most)
		default:
			wrong("%s %v: must be from %v to %v, or 0 for the default of %v", d.name, *d.value, d.least, d.most, d.byDefault)
		}
	}
	if c.HistoryRetention != NoTTL {
		// A delivery that is gone inside the window no longer tells that its events were delivered.
		c.HistoryRetention = max(c.HistoryRetention, c.LookBack)
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c, problems
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// nameProblem says what is wrong with a name that will be stored, or nothing.
func nameProblem(what, name string) string {
	switch {
	case strings.TrimSpace(name) == "":
		return what + " is empty"
	case !utf8.ValidString(name):
		return fmt.Sprintf("%s %q is not valid UTF-8", what, name)
	default:
		return ""
	}
}
