package store

import (
	"math"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"
)

// hostileValue draws values of all types, right ones and wrong ones.
func hostileValue() *rapid.Generator[any] {
	return rapid.SampledFrom([]any{
		nil,
		bson.Undefined{},
		true, "text", "", int32(-1), int64(math.MaxInt64), int64(math.MinInt64), 2.5, math.NaN(), math.Inf(-1),
		bson.A{},
		bson.A{"a", nil, 7, bson.D{}},
		bson.D{},
		bson.D{{Key: "a", Value: "b"}, {Key: "c", Value: 1}},
		bson.DateTime(math.MaxInt64), bson.DateTime(math.MinInt64), bson.NewDateTimeFromTime(time.Unix(1, 0)),
		bson.Timestamp{},
		bson.Timestamp{T: math.MaxUint32, I: math.MaxUint32},
		bson.NewObjectID(),
		bson.MinKey{},
		bson.MaxKey{},
		bson.Binary{Subtype: 9, Data: []byte{1}},
		bson.Regex{Pattern: "("},
		bson.JavaScript("x"), bson.Symbol("s"), bson.NewDecimal128(1, 2),
	})
}

// Whatever a document holds, it is read without a panic, and what is read is in range (6.3).
func TestRead_6_3_HostileDocuments(t *testing.T) {
	t.Parallel()
	names := []string{
		"_id", "topic", "data", "headers", "publisher", "createdAt", "expiresAt", "sequence", "size", "consumerGroup", "eventId", "eventIds",
		"status", "attempt", "attemptId", "attempts", "lockToken", "lockedUntil", "configVersion", "ordered", "receiverMode", "batchSize",
		"maxRetries", "retryDelayMs", "retryBackoffMultiplier", "offsetReset", "delivery", "executionVersion", "cursorSequence",
		"cursorSequenceEventId", "discoveryLockedUntil",
	}
	rapid.Check(t, func(t *rapid.T) {
		var doc bson.D
		for _, name := range names {
			if rapid.Bool().Draw(t, name) {
				doc = append(doc, bson.E{Key: name, Value: hostileValue().Draw(t, "value of "+name)})
			}
		}
		raw := document(t, doc)
		if rapid.Bool().Draw(t, "cut") {
			raw = raw[:rapid.IntRange(0, len(raw)).Draw(t, "at")]
		}
		_ = ReadEvent(raw)
		key := readKey(raw)
		_ = key.After(Beginning)
		_, malformed := readPending(raw)
		if malformed != nil {
			_ = malformed.Err()
		}
		_ = readExpired(raw)
		sub := readSubscription(raw)
		if sub.Cursor.Sequence.Compare(Beginning.Sequence) < 0 {
			t.Fatalf("cursor %v lies before the beginning, where servers replace it", sub.Cursor)
		}
		s := sub.Settings.Over(local)
		if s.BatchSize < 1 || s.RetryDelay < 0 || math.IsNaN(s.Multiplier) {
			t.Fatalf("unusable settings: %+v", s)
		}
	})
}

func TestFields_6_3_NullReadsAsAbsent(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	f := parse(document(t, bson.D{{Key: "null", Value: nil}, {Key: "undefined", Value: bson.Undefined{}}, {Key: "empty", Value: ""}}))
	is.True(!f.has("null") && !f.has("undefined") && !f.has("missing"))
	is.True(f.has("empty"))
	is.Equal(f.str("null"), "")
	is.Equal(f.time("null"), time.Time{})
	_, ok := f.int("null")
	is.True(!ok)
	is.Equal(f.strs("null"), nil)
	is.Equal(f.strMap("null"), nil)
}

func TestFields_6_3_WrongTypesReadAsAbsent(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	f := parse(document(t, bson.D{
		{Key: "n", Value: "7"},
		{Key: "s", Value: 7},
		{Key: "d", Value: "2025-01-01"},
		{Key: "l", Value: bson.A{"a", 1, nil, "b"}},
		{Key: "m", Value: bson.D{{Key: "a", Value: "x"}, {Key: "b", Value: 1}}},
		{Key: "t", Value: int64(5)},
	}))
	_, ok := f.number("n")
	is.True(!ok)
	is.Equal(f.str("s"), "")
	_, ok = f.date("d")
	is.True(!ok)
	is.Equal(f.strs("l"), []string{"a", "b"})
	is.Equal(f.strMap("m"), map[string]string{"a": "x"})
	_, ok = f.timestamp("t")
	is.True(!ok)
	_, ok = f.bool("n")
	is.True(!ok)
}

// What was read does not change when the buffer that it came from is used again.
func TestFields_OutliveTheirBuffer(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	raw := document(t, bson.D{{Key: "_id", Value: "event"}, {Key: "data", Value: bson.D{{Key: "a", Value: "b"}}}})
	e := ReadEvent(raw)
	for i := range raw {
		raw[i] = 0xff
	}
	is.Equal(e.ID, "event")
	is.Equal(e.Data.String(), `{"a": "b"}`)
}

func TestPosition_3_2_IsOrderedBySequenceThenID(t *testing.T) {
	t.Parallel()
	position := rapid.Custom(func(t *rapid.T) Position {
		return Position{
			Sequence: bson.Timestamp{T: rapid.Uint32Range(0, 2).Draw(t, "t"), I: rapid.Uint32Range(0, 2).Draw(t, "i")},
			EventID:  rapid.SampledFrom([]string{"", "a", "b", "ü"}).Draw(t, "id"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := position.Draw(t, "a"), position.Draw(t, "b"), position.Draw(t, "c")
		switch {
		case a.After(a):
			t.Fatal("a place lies behind itself")
		case a != b && a.After(b) == b.After(a):
			t.Fatal("two places have no order")
		case a.After(b) && b.After(c) && !a.After(c):
			t.Fatal("the order goes in a circle")
		case a.Sequence.T > b.Sequence.T && !a.After(b):
			t.Fatal("the sequence comes first")
		}
	})
}
