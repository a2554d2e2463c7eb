package store

import (
	"fmt"
	"math"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
)

// The words that settings are stored with.
const (
	ModeSingle = "single"
	ModeBatch  = "batch"

	OffsetLatest   = "latest"
	OffsetEarliest = "earliest"

	AtLeastOnce = "at-least-once"
	AtMostOnce  = "at-most-once"
)

// Settings are a subscription's durable settings (spec 2.6).
type Settings struct {
	ConfigVersion    int
	ExecutionVersion int
	Ordered          bool
	OffsetReset      string
	Delivery         string
	MaxRetries       int
	RetryDelay       time.Duration
	Multiplier       float64
	ReceiverMode     string
	BatchSize        int
}

// Policy returns the retry policy of the settings.
func (s Settings) Policy() delivery.Policy {
	return delivery.Policy{
		MaxRetries: s.MaxRetries, RetryDelay: s.RetryDelay, Multiplier: s.Multiplier,
		AtMostOnce: s.Delivery == AtMostOnce,
	}
}

// Format is where new deliveries have their attempts.
func (s Settings) Format() Format {
	if s.Batch() || s.ExecutionVersion == 2 {
		return V2
	}
	return V1
}

// InOrder tells whether events are handled one at a time, in order. Only version 1 can be: deliveries of
// version 2 stay unordered whatever the settings become (spec 4.11).
func (s Settings) InOrder() bool { return s.Ordered && !s.Batch() }

// Batch tells whether events are delivered in batches.
func (s Settings) Batch() bool { return s.ReceiverMode == ModeBatch }

// setting is one stored field: how it reads from a document and from Settings.
type setting struct {
	name string
	// value returns what is stored for the settings.
	value func(s *Settings) any
	// read takes the field from a document, and tells whether it was there.
	read func(s *Settings, f fields) bool
	// copy takes the field from other settings.
	copy func(to, from *Settings)
}

var settingTable = []setting{
	{
		"executionVersion",
		func(s *Settings) any { return number(float64(s.ExecutionVersion)) },
		func(s *Settings, f fields) (ok bool) { s.ExecutionVersion, ok = f.int("executionVersion"); return },
		func(to, from *Settings) { to.ExecutionVersion = from.ExecutionVersion },
	},
	{
		"ordered",
		func(s *Settings) any { return s.Ordered },
		func(s *Settings, f fields) (ok bool) { s.Ordered, ok = f.bool("ordered"); return },
		func(to, from *Settings) { to.Ordered = from.Ordered },
	},
	{
		"offsetReset",
		func(s *Settings) any { return s.OffsetReset },
		func(s *Settings, f fields) bool { s.OffsetReset = f.str("offsetReset"); return s.OffsetReset != "" },
		func(to, from *Settings) { to.OffsetReset = from.OffsetReset },
	},
	{
		"delivery",
		func(s *Settings) any { return s.Delivery },
		func(s *Settings, f fields) bool { s.Delivery = f.str("delivery"); return s.Delivery != "" },
		func(to, from *Settings) { to.Delivery = from.Delivery },
	},
	{
		"maxRetries",
		func(s *Settings) any { return number(float64(s.MaxRetries)) },
		func(s *Settings, f fields) (ok bool) { s.MaxRetries, ok = f.int("maxRetries"); return },
		func(to, from *Settings) { to.MaxRetries = from.MaxRetries },
	},
	{
		"retryDelayMs",
		func(s *Settings) any { return number(millis(s.RetryDelay)) },
		func(s *Settings, f fields) bool {
			ms, ok := f.number("retryDelayMs")
			s.RetryDelay = fromMillis(ms)
			return ok
		},
		func(to, from *Settings) { to.RetryDelay = from.RetryDelay },
	},
	{
		"retryBackoffMultiplier",
		func(s *Settings) any { return number(s.Multiplier) },
		func(s *Settings, f fields) (ok bool) { s.Multiplier, ok = f.number("retryBackoffMultiplier"); return },
		func(to, from *Settings) { to.Multiplier = from.Multiplier },
	},
	{
		"receiverMode",
		func(s *Settings) any { return s.ReceiverMode },
		func(s *Settings, f fields) bool { s.ReceiverMode = f.str("receiverMode"); return s.ReceiverMode != "" },
		func(to, from *Settings) { to.ReceiverMode = from.ReceiverMode },
	},
	{
		"batchSize",
		func(s *Settings) any { return number(float64(s.BatchSize)) },
		func(s *Settings, f fields) bool {
			n, ok := f.int("batchSize")
			s.BatchSize = max(n, 1)
			return ok
		},
		func(to, from *Settings) { to.BatchSize = from.BatchSize },
	},
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// fromMillis reads a stored duration; what is longer than a Duration can be is the longest.
func fromMillis(ms float64) time.Duration {
	if ms >= millis(math.MaxInt64) {
		return math.MaxInt64
	}
	return time.Duration(math.Round(max(ms, 0) * float64(time.Millisecond)))
}

// document returns all settings as stored fields: a missing one would make Node retry for ever.
func (s Settings) document() bson.D {
	d := bson.D{{Key: "configVersion", Value: number(float64(s.ConfigVersion))}}
	for _, f := range settingTable {
		d = append(d, bson.E{Key: f.name, Value: f.value(&s)})
	}
	return d
}

// StoredSettings are settings as a document has them; it may lack some.
type StoredSettings struct {
	settings Settings
	lacks    map[string]bool
}

func readSettings(f fields) StoredSettings {
	st := StoredSettings{lacks: map[string]bool{}}
	version, _ := f.int("configVersion") // absent is version 0
	st.settings.ConfigVersion = version
	for _, field := range settingTable {
		if !field.read(&st.settings, f) {
			st.lacks[field.name] = true
		}
	}
	s := &st.settings
	// Node from 4.5.14 on stores receiverMode and neither ordered nor executionVersion: its
	// deliveries are unordered, version 2 (storage.md). A batch is so whatever else is stored.
	if !st.lacks["receiverMode"] && (st.lacks["ordered"] || s.Batch()) {
		s.Ordered, s.ExecutionVersion = false, 2
		delete(st.lacks, "ordered")
		delete(st.lacks, "executionVersion")
	}
	return st
}

// ConfigVersion returns the stored version; absent is 0.
func (st StoredSettings) ConfigVersion() int { return st.settings.ConfigVersion }

// Over returns the stored settings, with local values for what the document lacks.
func (st StoredSettings) Over(local Settings) Settings {
	s := st.settings
	for _, f := range settingTable {
		if st.lacks[f.name] {
			f.copy(&s, &local)
		}
	}
	return s
}

// Differences names each field that is stored with another value than the local one, with both. A
// field that the document lacks matches anything (spec 2.6).
func (st StoredSettings) Differences(local Settings) []string {
	var diffs []string
	for _, f := range settingTable {
		if st.lacks[f.name] {
			continue
		}
		if stored, want := f.value(&st.settings), f.value(&local); !same(stored, want) {
			diffs = append(diffs, fmt.Sprintf("%s: stored %v, here %v", f.name, stored, want))
		}
	}
	return diffs
}

// same compares stored values; durations survive the way through milliseconds only to a rounding.
func same(a, b any) bool {
	x, okX := asFloat(a)
	y, okY := asFloat(b)
	if okX && okY {
		return x == y || math.Abs(x-y) < 1e-6*max(math.Abs(x), math.Abs(y))
	}
	return a == b
}

func asFloat(v any) (float64, bool) {
	switch n := v.(type) {
	case int32:
		return float64(n), true
	case int64:
		return float64(n), true
	case float64:
		return n, true
	default:
		return 0, false
	}
}
