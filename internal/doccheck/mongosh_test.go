package doccheck

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/dop251/goja"
	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// shell is as much of mongosh as the pages use: what its objects are told becomes commands to a server.
const shell = `
Date.prototype.toJSON = function () { return {$date: {$numberLong: String(this.getTime())}} }
const collection = (db, name) => {
  const run = (op, ...args) => JSON.parse(command(db, name, op, JSON.stringify(args)))
  const cursor = op => (...args) => {
    const all = {sort: {}, limit: 0}, it = {
      sort(by) { all.sort = by; return it }, limit(n) { all.limit = n; return it },
      toArray() { return run(op, args[0], all) },
    }
    left.push(it)
    return it
  }
  const it = {find: cursor('find'), aggregate: cursor('aggregate'), findOne: filter => run('find', filter, {sort: {}, limit: 1})[0]}
  for (const op of ['countDocuments', 'distinct', 'updateMany', 'deleteOne', 'deleteMany', 'createIndex']) it[op] = (...args) => run(op, ...args)
  return it
}
const left = [], print = () => {}
const database = name => new Proxy({
  getCollection: c => collection(name, c), getSiblingDB: database, aggregate: (...args) => collection(name, '').aggregate(...args),
}, {get: (it, key) => it[key] || collection(name, key)})
const db = database('')
const sh = {shardCollection: (ns, key) => sharded(ns, JSON.stringify(key)), enableSharding: () => {}}
`

// TestPages_MongoshScriptsRun runs all blocks of js against a database with the collections of Pulse, in which the group billing
// has handled an event of invoice.created.
func TestPages_MongoshScriptsRun(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	client, err := pulse.New(t.Context(), db.Client(), pulse.Config{ConsumerGroup: "billing", Database: db.Name()})
	is.NoErr(err)
	topic, handled := pulse.NewTopic[string]("invoice.created"), make(chan struct{}, 1)
	_, err = topic.Subscribe(t.Context(), client, func(context.Context, *pulse.Event[string]) error {
		handled <- struct{}{}
		return nil
	}, pulse.Unordered(), pulse.ExecutionVersion(2))
	is.NoErr(err)
	_, err = topic.Publish(t.Context(), client, "paid")
	is.NoErr(err)
	<-handled
	is.NoErr(client.Close(t.Context()))

	scripts := 0
	for _, p := range pages(t) {
		for _, b := range p.blocks {
			if b.lang != "js" {
				continue
			}
			scripts++
			server := &shellServer{t: t, ctx: t.Context(), db: db}
			vm := goja.New()
			is.NoErr(vm.Set("command", server.command))
			is.NoErr(vm.Set("sharded", server.sharded))
			if _, err := vm.RunString(shell + b.text + "\nfor (const cursor of left) cursor.toArray()"); err != nil {
				t.Errorf("%s:%d: %v", b.page, b.line, err)
			}
			if server.commands == 0 {
				t.Errorf("%s:%d: no command was sent", b.page, b.line)
			}
		}
	}
	is.True(scripts > 3) // they were found
}

// shellServer carries out what a script asks for; what it returns as an error is thrown in the script.
type shellServer struct {
	t        *testing.T
	ctx      context.Context
	db       *mongo.Database
	commands int
}

func (s *shellServer) command(database, name, op, arguments string) (string, error) {
	s.commands++
	var args bson.A
	if err := bson.UnmarshalExtJSON([]byte(arguments), false, &args); err != nil {
		return "", err
	}
	db := s.db
	if database != "" {
		db = db.Client().Database(database)
	}
	document := func(i int) bson.D {
		if i < len(args) {
			if d, ok := args[i].(bson.D); ok {
				return d
			}
		}
		return bson.D{}
	}
	where := bson.E{Key: op, Value: name}
	var run bson.D
	switch op {
	case "find":
		run = bson.D{where, {Key: "filter", Value: document(0)}}
		run = append(run, document(1)...)
	case "aggregate":
		if name == "" {
			where.Value = 1
		}
		run = bson.D{where, {Key: "pipeline", Value: args[0]}, {Key: "cursor", Value: bson.D{}}}
	case "countDocuments":
		run = bson.D{{Key: "aggregate", Value: name}, {Key: "cursor", Value: bson.D{}}, {Key: "pipeline", Value: bson.A{
			bson.D{{Key: "$match", Value: document(0)}}, bson.D{{Key: "$count", Value: "n"}},
		}}}
	case "distinct":
		run = bson.D{where, {Key: "key", Value: args[0]}, {Key: "query", Value: document(1)}}
	case "updateMany":
		run = bson.D{{Key: "update", Value: name}, {Key: "updates", Value: bson.A{bson.D{{Key: "q", Value: document(0)}, {Key: "u", Value: args[1]}, {Key: "multi", Value: true}}}}}
	case "deleteOne", "deleteMany":
		limit := 0
		if op == "deleteOne" {
			limit = 1
		}
		run = bson.D{{Key: "delete", Value: name}, {Key: "deletes", Value: bson.A{bson.D{{Key: "q", Value: document(0)}, {Key: "limit", Value: limit}}}}}
	case "createIndex":
		run = bson.D{{Key: "createIndexes", Value: name}, {Key: "indexes", Value: bson.A{append(bson.D{{Key: "key", Value: args[0]}, {Key: "name", Value: "i"}}, document(1)...)}}}
	}
	answer, err := db.RunCommand(s.ctx, run).Raw()
	if err != nil {
		return "", fmt.Errorf("%s of %q: %w", op, name, err)
	}
	if errs, err := answer.LookupErr("writeErrors"); err == nil {
		return "", fmt.Errorf("%s of %q: %v", op, name, errs)
	}
	if batch, err := answer.LookupErr("cursor", "firstBatch"); err == nil {
		// An array alone is no document of extended JSON.
		text, err := bson.MarshalExtJSON(bson.D{{Key: "batch", Value: batch}}, false, false)
		return strings.TrimSuffix(strings.TrimPrefix(string(text), `{"batch":`), "}"), err
	}
	text, err := bson.MarshalExtJSON(answer, false, false)
	return string(text), err
}

// sharded judges a shard key as far as one server lets it: an index of the collection has to begin with it.
func (s *shellServer) sharded(namespace, key string) error {
	s.commands++
	var want map[string]int
	if err := json.Unmarshal([]byte(key), &want); err != nil {
		return err
	}
	_, name, _ := strings.Cut(namespace, ".")
	indexes, err := s.db.Collection(name).Indexes().ListSpecifications(s.ctx)
	if err != nil {
		return err
	}
	for _, index := range indexes {
		first, err := index.KeysDocument.IndexErr(0)
		if err != nil {
			return err
		}
		if _, ok := want[first.Key()]; ok && len(want) == 1 {
			return nil
		}
	}
	return fmt.Errorf("no index of %s begins with %s", name, key)
}
