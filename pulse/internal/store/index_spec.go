package store

import (
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// indexSpec is an index that Pulse needs. Other clients of the group look indexes up by these names and
// refuse to start without them (spec 6.1), so a name is part of the storage format.
type indexSpec struct {
	name    string
	alias   string // another name that some clients give it, and all accept
	keys    bson.D
	unique  bool
	partial bson.D // nil: all documents
	ttl     bool   // documents end at the date of the key, expireAfterSeconds 0
}

// collectionIndexes lists the indexes of one collection, by its name behind the prefix.
type collectionIndexes struct {
	suffix string
	specs  []indexSpec
}

// pulseIndexes is the list of storage.md.
var pulseIndexes = []collectionIndexes{
	{"events", []indexSpec{
		{name: "pulse_events_topic_sequence_id", keys: ascending("topic", "sequence", "_id")},
		{name: "pulse_events_expires_at_ttl", keys: ascending("expiresAt"), ttl: true},
	}},
	{"subscriptions", []indexSpec{
		{name: "pulse_subscriptions_group_topic_unique", keys: ascending("consumerGroup", "topic"), unique: true},
		{name: "pulse_subscriptions_discovery_lease", keys: ascending("consumerGroup", "discoveryLockedUntil")},
	}},
	{"deliveries", []indexSpec{
		{name: "pulse_deliveries_group_event_unique", keys: ascending("consumerGroup", "eventId"), unique: true},
		{name: "pulse_deliveries_sequence_acquisition", keys: ascending("consumerGroup", "topic", "status", "eventSequence", "eventId")},
		{
			name:    "pulse_deliveries_v2_pending",
			alias:   "pulse_deliveries_concurrent_pending",
			keys:    ascending("consumerGroup", "nextAttemptAt", "createdAt", "topic"),
			partial: bson.D{{Key: "status", Value: "v2-pending"}},
		},
		{
			name:    "pulse_deliveries_v2_processing",
			alias:   "pulse_deliveries_concurrent_processing",
			keys:    ascending("consumerGroup", "lockedUntil", "topic"),
			partial: bson.D{{Key: "status", Value: "v2-processing"}},
		},
		{
			name:    "pulse_deliveries_reconciliation",
			keys:    ascending("consumerGroup", "topic"),
			partial: bson.D{{Key: "needsReconciliation", Value: true}},
		},
		{name: "pulse_deliveries_expires_at_ttl", keys: ascending("expiresAt"), ttl: true},
	}},
	{"history", []indexSpec{
		{name: "pulse_history_delivery_attempt_unique", keys: ascending("deliveryId", "attempt"), unique: true},
		{name: "pulse_history_pending_acquisition", keys: ascending("consumerGroup", "topic", "status", "nextAttemptAt", "createdAt")},
		{name: "pulse_history_event", keys: bson.D{{Key: "eventId", Value: 1}, {Key: "createdAt", Value: -1}}},
		{name: "pulse_history_group_topic_created", keys: bson.D{
			{Key: "consumerGroup", Value: 1},
			{Key: "topic", Value: 1},
			{Key: "createdAt", Value: -1},
			{Key: "_id", Value: -1},
		}},
		{name: "pulse_history_group_dead_locks", keys: ascending("consumerGroup", "status", "lockedUntil")},
		{
			name:    "pulse_history_reconciliation",
			keys:    ascending("consumerGroup", "topic"),
			partial: bson.D{{Key: "needsReconciliation", Value: true}},
		},
		{name: "pulse_history_expires_at_ttl", keys: ascending("expiresAt"), ttl: true},
	}},
}

func ascending(fields ...string) bson.D {
	keys := make(bson.D, len(fields))
	for i, field := range fields {
		keys[i] = bson.E{Key: field, Value: 1}
	}
	return keys
}

func (s indexSpec) model() mongo.IndexModel {
	opts := options.Index().SetName(s.name)
	if s.unique {
		opts.SetUnique(true)
	}
	if s.partial != nil {
		opts.SetPartialFilterExpression(s.partial)
	}
	if s.ttl {
		opts.SetExpireAfterSeconds(0)
	}
	return mongo.IndexModel{Keys: s.keys, Options: opts}
}

// storedIndex is one entry of listIndexes.
type storedIndex struct {
	name                   string
	keys                   bson.Raw
	unique, sparse, hidden bool
	partial                bson.Raw // nil: all documents
	expire                 *float64 // seconds, nil: not a TTL index
	collation              bson.Raw // nil: binary comparison
}

func readIndex(raw bson.Raw) storedIndex {
	flag := func(key string) bool { return isTrue(raw.Lookup(key)) }
	var x storedIndex
	x.name, _ = raw.Lookup("name").StringValueOK()
	x.keys, _ = raw.Lookup("key").DocumentOK()
	x.unique, x.sparse, x.hidden = flag("unique"), flag("sparse"), flag("hidden")
	x.partial, _ = raw.Lookup("partialFilterExpression").DocumentOK()
	if seconds, ok := raw.Lookup("expireAfterSeconds").AsFloat64OK(); ok {
		x.expire = &seconds
	}
	if collation, ok := raw.Lookup("collation").DocumentOK(); ok {
		if locale, _ := collation.Lookup("locale").StringValueOK(); locale != "simple" {
			x.collation = collation
		}
	}
	return x
}

// isTrue reads an index option as the server does, which accepts numbers for flags.
func isTrue(v bson.RawValue) bool {
	if b, ok := v.BooleanOK(); ok {
		return b
	}
	n, ok := v.AsFloat64OK()
	return ok && n != 0
}

// difference is one respect in which a stored index does not do what a spec asks for.
type difference struct {
	kind differenceKind
	text string // continues "its index ..."
}

type differenceKind int

const (
	otherKeys differenceKind = iota
	otherIdentity
	otherExpiry
	isHidden
)

// differences compares by meaning and not by name: the keys in their order, then every option that changes
// which documents the index covers, what it refuses, what it deletes, or whether a query may use it.
func (s indexSpec) differences(x storedIndex) []difference {
	if !sameKeys(s.keys, x.keys) {
		return []difference{{otherKeys, fmt.Sprintf("has the keys %s instead of %s", asJSON(x.keys), asJSON(s.keys))}}
	}
	var found []difference
	add := func(kind differenceKind, format string, args ...any) {
		found = append(found, difference{kind, fmt.Sprintf(format, args...)})
	}
	switch {
	case s.unique && !x.unique:
		add(otherIdentity, "is not unique")
	case !s.unique && x.unique:
		add(otherIdentity, "is unique and must not be")
	}
	switch {
	case s.partial == nil && x.partial != nil:
		add(otherIdentity, "covers only %s instead of all documents", asJSON(x.partial))
	case s.partial != nil && x.partial == nil:
		add(otherIdentity, "covers all documents instead of %s", asJSON(s.partial))
	case s.partial != nil && !sameFilter(s.partial, x.partial):
		add(otherIdentity, "covers %s instead of %s", asJSON(x.partial), asJSON(s.partial))
	}
	if x.sparse {
		add(otherIdentity, "is sparse and must not be")
	}
	if x.collation != nil {
		add(otherIdentity, "has the collation %s and must compare bytes", asJSON(x.collation))
	}
	switch {
	case s.ttl && x.expire == nil:
		add(otherExpiry, "does not delete expired documents")
	case s.ttl && *x.expire != 0:
		add(otherExpiry, "deletes documents %g seconds after their date instead of at it", *x.expire)
	case !s.ttl && x.expire != nil:
		add(otherExpiry, "deletes documents and must not")
	}
	if x.hidden {
		add(isHidden, "is hidden from queries")
	}
	return found
}

// refused tells whether the server would refuse to build an index of another name beside one with these
// differences: what deletes and what is hidden does not make two indexes distinct, everything else does.
// An older server, which counts fewer options, refuses by itself.
func refused(found []difference) bool {
	for _, d := range found {
		if d.kind == otherKeys || d.kind == otherIdentity {
			return false
		}
	}
	return true
}

func sameKeys(want bson.D, got bson.Raw) bool {
	elements, err := got.Elements()
	if err != nil || len(elements) != len(want) {
		return false
	}
	for i, element := range elements {
		direction, ok := element.Value().AsFloat64OK()
		wanted, _ := want[i].Value.(int)
		if !ok || element.Key() != want[i].Key || direction != float64(wanted) {
			return false
		}
	}
	return true
}

// sameFilter compares a filter of one equality; {a: 1} and {a: {$eq: 1}} mean the same.
func sameFilter(want bson.D, got bson.Raw) bool {
	elements, err := got.Elements()
	if err != nil || len(elements) != 1 || elements[0].Key() != want[0].Key {
		return false
	}
	value := elements[0].Value()
	if operator, ok := value.DocumentOK(); ok {
		operators, err := operator.Elements()
		if err != nil || len(operators) != 1 || operators[0].Key() != "$eq" {
			return false
		}
		value = operators[0].Value()
	}
	switch wanted := want[0].Value.(type) {
	case string:
		text, ok := value.StringValueOK()
		return ok && text == wanted
	case bool:
		flag, ok := value.BooleanOK()
		return ok && flag == wanted
	}
	return false
}
