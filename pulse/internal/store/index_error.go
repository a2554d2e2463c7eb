package store

import (
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// IndexError lists the indexes that keep a client from starting, all of a database together (spec 6.1).
// Nothing that exists has been changed; what was only missing has been created where that was possible.
// Find it with errors.As. Every problem says which mongosh commands mend it; start again after that.
type IndexError struct {
	Database string
	Problems []IndexProblem
}

// IndexProblem is one index that is wrong, cannot be built, or is missing without the right to create it.
type IndexProblem struct {
	Collection string   // its full name, with the prefix
	Index      string   // the name that Pulse gives to the index
	Problem    string   // what is wrong, as a sentence without its final dot
	Commands   []string // what to run in mongosh, in this order; they name the database themselves
	Err        error    // the server's answer; nil when the comparison alone found the problem
}

// Error lists every problem with its commands, on several lines.
func (e *IndexError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "pulse: database %q has %d index problems; mend them in mongosh as shown and start again", e.Database, len(e.Problems))
	for _, p := range e.Problems {
		fmt.Fprintf(&b, "\n- collection %s, index %s: %s", p.Collection, p.Index, p.Problem)
		for _, command := range p.Commands {
			b.WriteString("\n    " + command)
		}
	}
	return b.String()
}

// Unwrap returns the server's answers, for errors.Is and errors.As.
func (e *IndexError) Unwrap() []error {
	var causes []error
	for _, p := range e.Problems {
		if p.Err != nil {
			causes = append(causes, p.Err)
		}
	}
	return causes
}

// shell renders mongosh commands for one collection.
type shell struct{ database, collection string }

func (s shell) target() string {
	return fmt.Sprintf("db.getSiblingDB(%s).getCollection(%s)", quote(s.database), quote(s.collection))
}

func (s shell) drop(name string) string {
	return fmt.Sprintf("%s.dropIndex(%s)", s.target(), quote(name))
}

func (s shell) unhide(name string) string {
	return fmt.Sprintf("%s.unhideIndex(%s)", s.target(), quote(name))
}

func (s shell) setExpiry(name string) string {
	return fmt.Sprintf("db.getSiblingDB(%s).runCommand(%s)", quote(s.database), asJSON(bson.D{
		{Key: "collMod", Value: s.collection},
		{Key: "index", Value: bson.D{{Key: "name", Value: name}, {Key: "expireAfterSeconds", Value: 0}}},
	}))
}

// create renders the creation of an index. binary states the collation too: needed where the collection's
// default is another one, which an index would otherwise take over.
func (s shell) create(spec indexSpec, binary bool) string {
	opts := bson.D{{Key: "name", Value: spec.name}}
	if spec.unique {
		opts = append(opts, bson.E{Key: "unique", Value: true})
	}
	if spec.partial != nil {
		opts = append(opts, bson.E{Key: "partialFilterExpression", Value: spec.partial})
	}
	if spec.ttl {
		opts = append(opts, bson.E{Key: "expireAfterSeconds", Value: 0})
	}
	if binary {
		opts = append(opts, bson.E{Key: "collation", Value: bson.D{{Key: "locale", Value: "simple"}}})
	}
	return fmt.Sprintf("%s.createIndex(%s, %s)", s.target(), asJSON(spec.keys), asJSON(opts))
}

// duplicates renders the query for the documents that keep a unique index from being built.
func (s shell) duplicates(spec indexSpec) string {
	id := bson.D{}
	for _, key := range spec.keys {
		id = append(id, bson.E{Key: key.Key, Value: "$" + key.Key})
	}
	pipeline := bson.A{
		bson.D{{Key: "$group", Value: bson.D{
			{Key: "_id", Value: id},
			{Key: "count", Value: bson.D{{Key: "$sum", Value: 1}}},
			{Key: "ids", Value: bson.D{{Key: "$push", Value: "$_id"}}},
		}}},
		bson.D{{Key: "$match", Value: bson.D{{Key: "count", Value: bson.D{{Key: "$gt", Value: 1}}}}}},
	}
	stages := make([]string, len(pipeline))
	for i, stage := range pipeline {
		stages[i] = asJSON(stage)
	}
	return fmt.Sprintf("%s.aggregate([%s], {\"allowDiskUse\":true})", s.target(), strings.Join(stages, ", "))
}

// mend returns the commands that turn a stored index into the one that spec asks for, the gentlest that
// the server has: an option is changed in place where it can be, otherwise the index is built anew.
func (s shell) mend(spec indexSpec, x storedIndex, found []difference) []string {
	if x.name == spec.name {
		var inPlace []string
		for _, d := range found {
			switch {
			case d.kind == isHidden:
				inPlace = append(inPlace, s.unhide(x.name))
			case d.kind == otherExpiry && spec.ttl && x.expire != nil:
				inPlace = append(inPlace, s.setExpiry(x.name))
			}
		}
		if len(inPlace) == len(found) {
			return inPlace
		}
	}
	return []string{s.drop(x.name), s.create(spec, x.collation != nil)}
}

// asJSON renders a document as JSON, which mongosh reads as well.
func asJSON(document any) string {
	text, err := bson.MarshalExtJSON(document, false, false)
	if err != nil {
		return fmt.Sprintf("%v", document) // only a damaged answer of the server ends here
	}
	return string(text)
}

// quote renders text as a string of mongosh.
func quote(text string) string {
	text = asJSON(bson.D{{Key: "", Value: text}})
	return text[len(`{"":`) : len(text)-len(`}`)]
}
