package pulse

import (
	"fmt"
	"strings"
	"time"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

var (
	// ErrClosed is returned after Close by Publish, PublishMany, Subscribe, SubscribeBatch, Start and
	// CancelScheduled and History.Find, and by a Start or Subscribe that Close interrupted. A publish that returns it has
	// stored nothing. It is also the cause of a handler's context that Close has ended (context.Cause).
	ErrClosed = delivery.ErrClosed

	// ErrLockLost says that a delivery's lease ended before its outcome was stored (spec 4.1): the
	// process was frozen, or cut off from MongoDB, for longer than Config.LockTimeout, or the handler
	// ran on after its context had ended. Another worker runs the delivery again; what this one
	// returned changed nothing. It is the cause of such a handler's context (context.Cause), and
	// reaches Config.OnError wrapped with topic, delivery and attempt.
	ErrLockLost = delivery.ErrLockLost

	// ErrHandlerTimeout says that a handler ran longer than HandlerTimeout allows. It is the cause of such a
	// handler's context (context.Cause), whose text names the limit.
	ErrHandlerTimeout = delivery.ErrHandlerTimeout
)

// ConfigurationError reports settings that cannot work, all problems of a call at once. Nothing was
// started or stored. It is returned by Connect, New, Start, Subscribe and SubscribeBatch.
type ConfigurationError struct {
	Problems []ConfigurationProblem
}

// ConfigurationProblem is one thing that cannot work.
type ConfigurationProblem struct {
	// Topic is the topic whose subscription is at fault, empty for the client's configuration. Group is
	// its consumer group, when stored settings are at odds with the local ones.
	Topic, Group string
	// Text says what is wrong and what to do.
	Text string
}

// String is the text behind the subscription that it is about: "topic t, group g: text".
func (p ConfigurationProblem) String() string {
	switch {
	case p.Topic == "":
		return p.Text
	case p.Group == "":
		return "topic " + p.Topic + ": " + p.Text
	default:
		return "topic " + p.Topic + ", group " + p.Group + ": " + p.Text
	}
}

func (e *ConfigurationError) Error() string {
	texts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		texts[i] = p.String()
	}
	if len(texts) == 1 {
		return "pulse: configuration: " + texts[0]
	}
	return fmt.Sprintf("pulse: configuration: %d problems:\n  - %s", len(texts), strings.Join(texts, "\n  - "))
}

// configurationError returns nil when there are no problems.
func configurationError(problems []ConfigurationProblem) error {
	if len(problems) == 0 {
		return nil
	}
	return &ConfigurationError{Problems: problems}
}

// IndexError reports indexes that are missing and cannot be created, or conflict with those that Pulse
// needs, and the commands that mend it (spec 6.1). It is returned when a client starts.
type IndexError = store.IndexError

// DecodeError reports an event whose data does not fit the handler's type. The attempt fails with the
// code decode_error and follows the retry policy. A handler that decodes on its own (of a
// Topic[bson.RawValue]) returns one for the same effect.
type DecodeError = delivery.DecodeError

// ConflictError is returned by Publish and PublishMany for an ID under which an event with another topic
// or other data is stored (spec 1.3). Nothing was stored.
type ConflictError struct {
	// ID is the ID that both want, Topic the one of the refused event, StoredTopic of the stored one.
	ID, Topic, StoredTopic string
}

func (e *ConflictError) Error() string {
	what := "other data"
	if e.Topic != e.StoredTopic {
		what = "the topic " + e.StoredTopic
	}
	return fmt.Sprintf("pulse: topic %s: an event with the ID %q is stored already, with %s: an ID names one event for as long as it is retained", e.Topic, e.ID, what)
}

// InvalidEventError is returned by Publish and PublishMany for an event that can never be stored: a bad
// topic, ID or header, data that cannot be encoded, more bytes than MongoDB takes (spec 1.6). Nothing was
// stored, and trying again does not help: the caller is at fault, where other errors tell of a conflict, a
// closed client or an outage. It comes wrapped (errors.As finds it), from PublishMany one for each such
// event, joined.
type InvalidEventError struct {
	Topic string
	// Index is the event's place among those of a PublishMany, 0 for Publish.
	Index int
	// Err says what is wrong with the event.
	Err error
}

// Error says what is wrong; the error around it names the topic.
func (e *InvalidEventError) Error() string { return e.Err.Error() }

// Unwrap returns Err.
func (e *InvalidEventError) Unwrap() error { return e.Err }

// Permanent marks a handler's error as one that no retry can mend: the delivery ends with it at once,
// whatever retries are left (spec 4.6). A nil err returns nil. It is found through wrapping.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &delivery.PermanentError{Err: err}
}

// RetryAfter sets the pause before the next attempt in place of the one that the subscription's settings
// give; it grants no further attempt (spec 4.6). A negative d is no pause. A nil err returns nil. It is
// found through wrapping.
func RetryAfter(err error, d time.Duration) error {
	if err == nil {
		return nil
	}
	return &delivery.RetryAfterError{Err: err, Delay: d}
}
