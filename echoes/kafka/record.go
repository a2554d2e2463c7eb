package kafka

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/echoes/kafka/internal/wire"
)

// The headers of the wire format (spec 7.7). headerCreated is ours: a retry is a
// new record, and would otherwise be the younger the more often it was retried.
const (
	headerID      = "echoes-event-id"
	headerRetries = "retries"
	headerError   = "error"
	headerCreated = "echoes-created-at"
)

// maxErrorText bounds the header error, in bytes of valid UTF-8.
const maxErrorText = 2048

var errNoValue = errors.New("the record has no value: a tombstone is no event")

// header returns a record's header, the last one of that name.
func header(rec *kgo.Record, name string) (string, bool) {
	for _, h := range slices.Backward(rec.Headers) {
		if h.Key == name {
			return string(h.Value), true
		}
	}
	return "", false
}

// eventID returns the ID of an event, which without a header is the place where
// it was first stored.
func eventID(rec *kgo.Record) string {
	if id, _ := header(rec, headerID); id != "" {
		return id
	}
	return "kafka:" + place(rec)
}

func place(rec *kgo.Record) string {
	return rec.Topic + ":" + strconv.Itoa(int(rec.Partition)) + ":" + strconv.FormatInt(rec.Offset, 10)
}

// retriesOf returns how often an event was retried. What is no number counts as
// none, and is replaced by the next retry.
func retriesOf(rec *kgo.Record) int {
	text, _ := header(rec, headerRetries)
	n, err := strconv.Atoi(text)
	switch {
	case errors.Is(err, strconv.ErrRange) && text[0] != '-' || n >= math.MaxInt32:
		return math.MaxInt32 - 1
	case err != nil || n < 0:
		return 0
	}
	return n
}

func createdAt(rec *kgo.Record) time.Time {
	if text, ok := header(rec, headerCreated); ok {
		if t, err := time.Parse(time.RFC3339, text); err == nil {
			return t.UTC()
		}
	}
	return rec.Timestamp.UTC()
}

// messageOf makes a listener's message of a record.
func messageOf(rec *kgo.Record, group string) echoes.Message {
	m := echoes.Message{Event: echoes.EventContext{
		EventID: eventID(rec), Topic: rec.Topic, Headers: headersOf(rec), CreatedAt: createdAt(rec),
		Attempt: retriesOf(rec) + 1, ConsumerGroup: group, Transport: name,
	}}
	if rec.Value == nil {
		m.Err = errNoValue
		return m
	}
	m.Params, m.Err = wire.Decode(rec.Value)
	return m
}

// ours reports whether a header belongs to the transport and not to publishers.
// The reason of a failure is left to handlers, those of dead letters above all.
func ours(name string) bool {
	return name == headerID || name == headerRetries || name == headerCreated
}

func headersOf(rec *kgo.Record) map[string]string {
	var headers map[string]string
	for _, h := range rec.Headers {
		if ours(h.Key) {
			continue
		}
		if headers == nil {
			headers = make(map[string]string, len(rec.Headers))
		}
		headers[h.Key] = string(h.Value)
	}
	return headers
}

// newRecord makes the record of an event.
func newRecord(out echoes.Outgoing) (*kgo.Record, error) {
	if err := topicError(out.Topic, maxTopic); err != nil {
		return nil, err
	}
	value, err := wire.Encode(out.Params)
	if err != nil {
		return nil, err
	}
	rec := &kgo.Record{Topic: out.Topic, Value: value, Headers: []kgo.RecordHeader{{Key: headerID, Value: []byte(out.ID)}}}
	if out.Key != "" {
		rec.Key = []byte(out.Key)
	}
	for _, key := range slices.Sorted(maps.Keys(out.Headers)) {
		if ours(key) {
			return nil, errors.New("the header " + key + " belongs to the transport: choose another name")
		}
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: key, Value: []byte(out.Headers[key])})
	}
	return rec, nil
}

// nextLife makes the record in which a failed event goes on: in its topic, or in
// that of the dead letters. The key keeps it in its partition.
func nextLife(rec *kgo.Record, topic, reason string) *kgo.Record {
	next := &kgo.Record{Topic: topic, Key: rec.Key, Value: rec.Value}
	for _, h := range rec.Headers {
		if !ours(h.Key) && h.Key != headerError {
			next.Headers = append(next.Headers, h)
		}
	}
	add := func(key, value string) {
		next.Headers = append(next.Headers, kgo.RecordHeader{Key: key, Value: []byte(value)})
	}
	add(headerID, eventID(rec))
	add(headerCreated, createdAt(rec).Format(time.RFC3339Nano))
	add(headerRetries, strconv.Itoa(retriesOf(rec)+1))
	add(headerError, reason)
	return next
}

// withoutValue makes next a dead letter that fits: the value stays where it was,
// and the reason says where.
func withoutValue(next, rec *kgo.Record) {
	next.Topic, next.Key, next.Value = deadLetter+rec.Topic, nil, nil
	for i, h := range next.Headers {
		if h.Key == headerError {
			next.Headers[i].Value = []byte("too large to be published again, the value stays at " + place(rec) + "; " + string(h.Value))
		}
	}
}

// withoutHeaders leaves out the headers of a dead letter that are not the
// transport's, for one that does not fit without its value either.
func withoutHeaders(next, _ *kgo.Record) {
	next.Headers = slices.DeleteFunc(next.Headers, func(h kgo.RecordHeader) bool {
		return !ours(h.Key) && h.Key != headerError
	})
}
