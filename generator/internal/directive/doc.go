// Package directive reads the comments that mark a method as a listener:
//
//	//echoes:event topic=order.created maxRetries=5
//	//echoes:batch topic=invoice.created batchSize=100
//
// or give a type its topic:
//
//	//echoes:topic order.created
//
// It works on syntax alone. Whatever looks like a directive and is not one that
// takes effect is a problem, because a listener that is silently not registered
// loses events (spec 7.4).
package directive

import (
	"go/ast"
	"go/token"
)

// Kind says what a directive declares.
type Kind string

// The kinds of listeners, by the name of their directive.
const (
	Event Kind = "event"
	Batch Kind = "batch"
)

const tool = "echoes"

var names = []string{string(Event), string(Batch)}

// Listener is a method with a directive, and what the directive says.
type Listener struct {
	Kind Kind
	Decl *ast.FuncDecl
	// Pos is where the directive begins.
	Pos token.Pos
	// Topic is the topic= value, or the one derived from the method's name. It is
	// empty when a problem keeps it from being known.
	// TopicPos is where it stands.
	Topic    string
	TopicPos token.Pos
	// BatchSize is the batchSize= value, 0 for events.
	BatchSize int
	// Settings are the other values, in the order of the table of keys.
	Settings []Setting
}

// Setting is one key=value of a directive.
type Setting struct {
	Key Key
	// Value is a bool, int, float64, string or time.Duration.
	Value any
	Pos   token.Pos
}

// Key is the name of a setting.
type Key string

// The keys of a directive.
const (
	Topic                  Key = "topic"
	Ordered                Key = "ordered"
	OffsetReset            Key = "offsetReset"
	Delivery               Key = "delivery"
	MaxRetries             Key = "maxRetries"
	RetryDelay             Key = "retryDelay"
	RetryBackoffMultiplier Key = "retryBackoffMultiplier"
	MaxRetryDelay          Key = "maxRetryDelay"
	RetryJitter            Key = "retryJitter"
	ConfigVersion          Key = "configVersion"
	ExecutionVersion       Key = "executionVersion"
	MaxConcurrency         Key = "maxConcurrency"
	HandlerTimeout         Key = "handlerTimeout"
	RateLimit              Key = "rateLimit"
	RateBurst              Key = "rateBurst"
	BatchSize              Key = "batchSize"
	Transport              Key = "transport"
	OnInvalid              Key = "onInvalid"
	ZeroCopy               Key = "zeroCopy"
)

// keys has every key and how its value is read. The order is that of the
// generated options.
var keys = []struct {
	key  Key
	read func(string) (any, *problem)
}{
	{Topic, topicValue},
	{BatchSize, integer(1)},
	{Ordered, boolean},
	{OffsetReset, oneOf("latest", "earliest")},
	{Delivery, deliveryValue},
	{MaxRetries, integer(0)},
	{RetryDelay, duration},
	{RetryBackoffMultiplier, multiplier},
	{MaxRetryDelay, positiveDuration},
	{RetryJitter, fraction},
	{ConfigVersion, integer(0)},
	{ExecutionVersion, executionVersion},
	{MaxConcurrency, integer(1)},
	{HandlerTimeout, positiveDuration},
	{RateLimit, perSecond},
	{RateBurst, integer(1)},
	{Transport, oneOf("pulse", "kafka", "both")},
	{OnInvalid, oneOf("fail", "skip")},
	{ZeroCopy, boolean},
}

func keyNames() []string {
	out := make([]string, len(keys))
	for i, k := range keys {
		out[i] = string(k.key)
	}
	return out
}

// problem is a message and what to do about it.
type problem struct{ message, fix string }

// latestDelayMillis is how far in the future a retry may lie: stored dates end
// 8.64e15 ms after 1970, and the present takes less than 4e13 of them for
// another thousand years.
const latestDelayMillis = 8.6e15
