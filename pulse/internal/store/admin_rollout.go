package store

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
)

// Connected are connections to the server by the application name that their clients gave.
type Connected struct {
	AppName string
	// Hosts are the addresses of the clients, without ports, some of them when there are many.
	Hosts []string
	N     int
}

// Sight is which connections a user may see.
type Sight int

// From nothing, over the connections of the same user, to all.
const (
	SeesNone Sight = iota
	SeesOwn
	SeesAll
)

// maxHosts is how many hosts of an application are told.
const maxHosts = 20

// Connections reads who is connected to the server, by application name, without the server's own members.
func (s *Store) Connections(ctx context.Context) ([]Connected, Sight, error) {
	for _, sight := range []Sight{SeesAll, SeesOwn} {
		conns, err := s.connections(ctx, sight == SeesAll)
		switch {
		case err == nil:
			return conns, sight, nil
		case !answered(err):
			return nil, SeesNone, fmt.Errorf("pulse: ask who is connected: %w", err)
		}
	}
	return nil, SeesNone, nil // refused: without the right, or by a server that has no such list
}

func (s *Store) connections(ctx context.Context, all bool) ([]Connected, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	client := bson.D{{Key: "$ifNull", Value: bson.A{"$client", "$client_s"}}} // the second of a mongos
	cursor, err := s.db.Client().Database("admin", options.Database().SetReadPreference(readpref.Primary())).Aggregate(ctx, mongo.Pipeline{
		{{Key: "$currentOp", Value: bson.D{{Key: "allUsers", Value: all}, {Key: "idleConnections", Value: true}}}},
		{{Key: "$match", Value: bson.D{
			{Key: "$or", Value: bson.A{
				bson.D{{Key: "client", Value: bson.D{{Key: "$type", Value: "string"}}}},
				bson.D{{Key: "client_s", Value: bson.D{{Key: "$type", Value: "string"}}}},
				bson.D{{Key: "appName", Value: bson.D{{Key: "$type", Value: "string"}}}},
			}},
			{Key: "clientMetadata.driver.name", Value: bson.D{{Key: "$not", Value: bson.Regex{Pattern: "^(NetworkInterfaceTL|MongoDB Internal Client)"}}}},
		}}},
		{{Key: "$group", Value: bson.D{
			{Key: "_id", Value: bson.D{{Key: "$ifNull", Value: bson.A{"$appName", ""}}}},
			{Key: "n", Value: bson.D{{Key: "$sum", Value: 1}}},
			{Key: "hosts", Value: bson.D{{Key: "$addToSet", Value: bson.D{{Key: "$arrayElemAt", Value: bson.A{
				bson.D{{Key: "$split", Value: bson.A{client, ":"}}}, 0,
			}}}}}},
		}}},
		{{Key: "$sort", Value: bson.D{{Key: "_id", Value: 1}}}},
		{{Key: "$limit", Value: 1000}},
	})
	return readAll(ctx, cursor, err, func(raw bson.Raw) Connected {
		f := parse(raw)
		c := Connected{AppName: f.str("_id"), Hosts: f.strs("hosts")}
		c.Hosts = c.Hosts[:min(len(c.Hosts), maxHosts)]
		c.N, _ = f.int("n")
		return c
	})
}

// Work is what is left of each format.
type Work struct {
	V1, V2Pending, V2Processing, HalfDone Count
}

// Work counts the active deliveries of a subscription by format, up to limit of each kind, with one command.
func (s *Store) Work(ctx context.Context, group, topic string, limit int) (Work, error) {
	of := func(more bson.E) bson.D {
		return bson.D{{Key: "consumerGroup", Value: group}, {Key: "topic", Value: topic}, more}
	}
	var w Work
	kinds := []struct {
		name  string
		coll  *mongo.Collection
		match bson.D
		into  *Count
	}{
		{"v1", s.deliveries, of(bson.E{Key: "status", Value: delivery.StatusV1Pending}), &w.V1},
		{"v2pending", s.deliveries, of(bson.E{Key: "status", Value: delivery.StatusPending}), &w.V2Pending},
		{"v2processing", s.deliveries, of(bson.E{Key: "status", Value: delivery.StatusProcessing}), &w.V2Processing},
		{"marked", s.deliveries, of(bson.E{Key: "needsReconciliation", Value: true}), &w.HalfDone},
		{"marked", s.history, of(bson.E{Key: "needsReconciliation", Value: true}), &w.HalfDone},
	}
	var pipeline mongo.Pipeline
	for _, k := range kinds {
		branch := mongo.Pipeline{
			{{Key: "$match", Value: k.match}},
			{{Key: "$limit", Value: limit + 1}},
			{{Key: "$group", Value: bson.D{{Key: "_id", Value: literal(k.name)}, {Key: "n", Value: bson.D{{Key: "$sum", Value: 1}}}}}},
		}
		if pipeline == nil {
			pipeline = branch
			continue
		}
		pipeline = append(pipeline, bson.D{{Key: "$unionWith", Value: bson.D{{Key: "coll", Value: k.coll.Name()}, {Key: "pipeline", Value: branch}}}})
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	cursor, err := s.deliveries.Aggregate(ctx, pipeline)
	_, err = readAll(ctx, cursor, err, func(raw bson.Raw) struct{} {
		f := parse(raw)
		n, _ := f.int("n")
		for _, k := range kinds {
			if k.name == f.str("_id") {
				k.into.add(n, n > limit)
				break
			}
		}
		return struct{}{}
	})
	if err != nil {
		return Work{}, fmt.Errorf("pulse: consumer group %s, topic %s: count what is left of each version: %w", group, topic, err)
	}
	return w, nil
}
