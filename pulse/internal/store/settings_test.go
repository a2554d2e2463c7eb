package store

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"
)

// document makes the raw document of fields.
func document(t interface{ Fatal(...any) }, doc any) bson.Raw {
	raw, err := bson.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

var local = Settings{
	ConfigVersion: 3, ExecutionVersion: 2, OffsetReset: OffsetLatest, Delivery: AtLeastOnce,
	MaxRetries: 3, RetryDelay: time.Second, Multiplier: 2, ReceiverMode: ModeSingle, BatchSize: 1,
}

// anySettings draws settings that the options accept.
func anySettings() *rapid.Generator[Settings] {
	return rapid.Custom(func(t *rapid.T) Settings {
		whole := rapid.OneOf(rapid.IntRange(0, 100), rapid.IntRange(0, MaxNumber))
		s := Settings{
			ConfigVersion: whole.Draw(t, "version"), ExecutionVersion: rapid.IntRange(1, 2).Draw(t, "execution version"),
			Ordered:      rapid.Bool().Draw(t, "ordered"),
			OffsetReset:  rapid.SampledFrom([]string{OffsetLatest, OffsetEarliest}).Draw(t, "offset"),
			Delivery:     rapid.SampledFrom([]string{AtLeastOnce, AtMostOnce}).Draw(t, "delivery"),
			MaxRetries:   whole.Draw(t, "retries"),
			RetryDelay:   time.Duration(rapid.OneOf(rapid.Int64Range(0, int64(time.Hour)), rapid.Int64Range(0, math.MaxInt64)).Draw(t, "delay")),
			Multiplier:   rapid.OneOf(rapid.SampledFrom([]float64{1, 1.5, 2, 10}), rapid.Float64Range(1e-300, 1e300)).Draw(t, "multiplier"),
			ReceiverMode: ModeSingle, BatchSize: 1,
		}
		if rapid.Bool().Draw(t, "batch") {
			s.ReceiverMode, s.BatchSize, s.Ordered, s.ExecutionVersion = ModeBatch, max(whole.Draw(t, "size"), 1), false, 2
		}
		return s
	})
}

func TestSettings_2_6_SurviveTheirDocument(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := anySettings().Draw(t, "settings")
		stored := readSettings(parse(document(t, s.document())))
		if diffs := stored.Differences(s); len(diffs) > 0 {
			t.Fatalf("as stored they differ: %v", diffs)
		}
		got := stored.Over(anySettings().Draw(t, "others")) // nothing is missing, so nothing is taken from there
		// Beyond 104 days a double cannot hold each nanosecond.
		if diff := math.Abs(float64(got.RetryDelay - s.RetryDelay)); diff > 1e-9*float64(s.RetryDelay) {
			t.Fatalf("delay %v, stored as %v", s.RetryDelay, got.RetryDelay)
		}
		got.RetryDelay = s.RetryDelay
		if got != s {
			t.Fatalf("stored %+v, read %+v", s, got)
		}
	})
}

func TestSettings_2_6_DifferencesNameEachField(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b := anySettings().Draw(t, "a"), anySettings().Draw(t, "b")
		diffs := readSettings(parse(document(t, a.document()))).Differences(b)
		named := func(field string) bool {
			for _, d := range diffs {
				if strings.HasPrefix(d, field+": stored ") {
					return true
				}
			}
			return false
		}
		for field, differs := range map[string]bool{
			"executionVersion": a.ExecutionVersion != b.ExecutionVersion, "ordered": a.Ordered != b.Ordered,
			"offsetReset": a.OffsetReset != b.OffsetReset, "delivery": a.Delivery != b.Delivery,
			"receiverMode": a.ReceiverMode != b.ReceiverMode, "configVersion": false, // compared elsewhere
		} {
			if named(field) != differs {
				t.Fatalf("%s differs: %v, in %v", field, differs, diffs)
			}
		}
	})
}

func TestSettings_2_6_ReadLeniently(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		stored bson.D
		want   func(*Settings)
	}{
		"empty": {bson.D{}, func(s *Settings) { s.ConfigVersion = 0 }},
		"numbers of every type": {
			bson.D{{Key: "configVersion", Value: int64(7)}, {Key: "executionVersion", Value: 2.0}, {Key: "maxRetries", Value: int32(9)}, {Key: "retryDelayMs", Value: 1500.5}, {Key: "retryBackoffMultiplier", Value: int32(3)}, {Key: "batchSize", Value: 1.0}},
			func(s *Settings) {
				s.ConfigVersion, s.MaxRetries, s.RetryDelay, s.Multiplier = 7, 9, 1500500*time.Microsecond, 3
			},
		},
		"a fraction is cut":   {bson.D{{Key: "maxRetries", Value: 2.9}}, func(s *Settings) { s.ConfigVersion, s.MaxRetries = 0, 2 }},
		"not a number":        {bson.D{{Key: "maxRetries", Value: math.NaN()}}, func(s *Settings) { s.ConfigVersion = 0 }},
		"infinite":            {bson.D{{Key: "maxRetries", Value: math.Inf(1)}, {Key: "retryDelayMs", Value: math.Inf(1)}}, func(s *Settings) { s.ConfigVersion, s.MaxRetries, s.RetryDelay = 0, MaxNumber, math.MaxInt64 }},
		"negative delay":      {bson.D{{Key: "retryDelayMs", Value: -5}}, func(s *Settings) { s.ConfigVersion, s.RetryDelay = 0, 0 }},
		"size 0 of a single":  {bson.D{{Key: "receiverMode", Value: "single"}, {Key: "batchSize", Value: 0}}, func(s *Settings) { s.ConfigVersion, s.ExecutionVersion = 0, 2 }},
		"Node 4.5.14, single": {bson.D{{Key: "receiverMode", Value: "single"}}, func(s *Settings) { s.ConfigVersion = 0 }},
		"Node 4.5.14, batch":  {bson.D{{Key: "receiverMode", Value: "batch"}, {Key: "batchSize", Value: 20}}, func(s *Settings) { s.ConfigVersion, s.ReceiverMode, s.BatchSize = 0, ModeBatch, 20 }},
		"batch wins": {bson.D{{Key: "ordered", Value: true}, {Key: "executionVersion", Value: 1}, {Key: "receiverMode", Value: "batch"}, {Key: "batchSize", Value: 20}}, func(s *Settings) {
			s.ConfigVersion, s.ReceiverMode, s.BatchSize = 0, ModeBatch, 20
		}},
		"ordered": {bson.D{{Key: "ordered", Value: true}, {Key: "executionVersion", Value: 1}, {Key: "receiverMode", Value: "single"}}, func(s *Settings) {
			s.ConfigVersion, s.Ordered, s.ExecutionVersion = 0, true, 1
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			want := local
			test.want(&want)
			is.Equal(readSettings(parse(document(t, test.stored))).Over(local), want)
		})
	}
}

func TestNumber_IsWrittenAsNodeWritesIt(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for n, want := range map[float64]any{
		0: int32(0), -1: int32(-1), math.MaxInt32: int32(math.MaxInt32), math.MaxInt32 + 1: int64(math.MaxInt32 + 1),
		MaxNumber: int64(MaxNumber), 1.5: 1.5, 1 << 60: float64(1 << 60),
	} {
		is.Equal(number(n), want)
	}
	is.True(math.IsNaN(number(math.NaN()).(float64)))
	is.Equal(number(math.Inf(1)), math.Inf(1))
}
