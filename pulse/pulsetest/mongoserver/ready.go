package mongoserver

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/connstring"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/topology"

	"github.com/orionjs/orion-go/pulse/pulsetest/internal/child"
)

const (
	// replicaSet is the name of the replica sets that this package initiates.
	replicaSet = "pulse"
	// checkTimeout bounds Check: a server that is there answers within milliseconds.
	checkTimeout = 5 * time.Second
)

// Check reports whether a server answers at uri, within five seconds. The error names the hosts, never the
// password.
func Check(ctx context.Context, uri string) error {
	parsed, err := connstring.ParseAndValidate(uri)
	if err != nil {
		if strings.Contains(uri, "@") {
			return errors.New("not a MongoDB connection string") // the cause may quote the password
		}
		return fmt.Errorf("not a MongoDB connection string: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetServerSelectionTimeout(checkTimeout))
	if err != nil {
		return fmt.Errorf("connect to %s: %w", strings.Join(parsed.Hosts, ", "), err)
	}
	defer disconnect(client)
	if err := client.Ping(ctx, readpref.Nearest()); err != nil {
		return fmt.Errorf("no MongoDB server answers at %s within %s: %w", strings.Join(parsed.Hosts, ", "), checkTimeout, selectionCause(err))
	}
	return nil
}

// disconnect gives up soon: the driver wants to end its sessions on the server, and would wait for one that
// is gone.
func disconnect(client *mongo.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = client.Disconnect(ctx)
}

// selectionCause takes what went wrong with the servers out of the driver's description of the topology.
func selectionCause(err error) error {
	var selection topology.ServerSelectionError
	if !errors.As(err, &selection) {
		return err
	}
	var causes []error
	for _, server := range selection.Desc.Servers {
		if server.LastError != nil {
			causes = append(causes, server.LastError)
		}
	}
	if len(causes) == 0 {
		return err
	}
	return errors.Join(causes...)
}

// awaitReady waits until the server takes connections and a driver gets an answer to ping and hello as from
// a server that takes writes. It returns the connection string.
func awaitReady(ctx context.Context, proc *child.Process, port int, query string, initiate bool) (string, error) {
	if err := child.AwaitListening(ctx, proc, port); err != nil {
		return "", err
	}
	// A stranger that listens on the port could keep us waiting: the end of our process ends all waiting.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-proc.Done:
			cancel(child.ErrEnded)
		case <-ctx.Done():
		}
	}()
	// The direct connection talks to the server whatever state its replica set is in.
	if query != "" {
		query = "&" + query
	}
	direct := fmt.Sprintf("mongodb://%s/?directConnection=true%s", child.Addr(port), query)
	client, err := mongo.Connect(options.Client().ApplyURI(direct).SetServerSelectionTimeout(startTimeout))
	if err != nil {
		return "", err
	}
	defer disconnect(client)
	if err := client.Ping(ctx, readpref.Nearest()); err != nil {
		return "", endedOr(proc, err)
	}
	admin := client.Database("admin")
	if initiate {
		if err := initiateReplicaSet(ctx, admin, child.Addr(port)); err != nil {
			return "", endedOr(proc, err)
		}
	}
	for {
		var hello struct {
			IsWritablePrimary bool     `bson:"isWritablePrimary"`
			SetName           string   `bson:"setName"`
			Hosts             []string `bson:"hosts"`
		}
		if err := admin.RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Decode(&hello); err != nil {
			return "", endedOr(proc, err)
		}
		if hello.IsWritablePrimary {
			if proc.Ended() {
				return "", child.ErrEnded // whoever answered is another server on that port
			}
			shortenTransactions(ctx, admin)
			if len(hello.Hosts) == 1 && hello.Hosts[0] == child.Addr(port) {
				return fmt.Sprintf("mongodb://%s/?replicaSet=%s%s", child.Addr(port), hello.SetName, query), nil
			}
			return direct, nil
		}
		if err := child.Pause(ctx, proc); err != nil {
			return "", err
		}
	}
}

// initiateReplicaSet makes the server the only member of a replica set under its present address. Storage
// of an earlier run knows the set already, maybe under another port.
func initiateReplicaSet(ctx context.Context, admin *mongo.Database, host string) error {
	const alreadyInitialized = 23
	members := bson.A{bson.D{{Key: "_id", Value: 0}, {Key: "host", Value: host}}}
	err := admin.RunCommand(ctx, bson.D{{Key: "replSetInitiate", Value: bson.D{
		{Key: "_id", Value: replicaSet},
		{Key: "members", Value: members},
	}}}).Err()
	if commandErr := (mongo.CommandError{}); !errors.As(err, &commandErr) || commandErr.Code != alreadyInitialized {
		return wrap("initiate the replica set", err)
	}
	var current struct {
		Config struct {
			Version int32 `bson:"version"`
			Members []struct {
				Host string `bson:"host"`
			} `bson:"members"`
		} `bson:"config"`
	}
	if err := admin.RunCommand(ctx, bson.D{{Key: "replSetGetConfig", Value: 1}}).Decode(&current); err != nil {
		return wrap("read the replica set's configuration", err)
	}
	if m := current.Config.Members; len(m) == 1 && m[0].Host == host {
		return nil
	}
	// force, because a member that does not find itself in the configuration is no primary and would
	// refuse the change otherwise.
	return wrap("give the replica set its present port", admin.RunCommand(ctx, bson.D{
		{Key: "replSetReconfig", Value: bson.D{
			{Key: "_id", Value: replicaSet},
			{Key: "version", Value: current.Config.Version + 1},
			{Key: "members", Value: members},
		}},
		{Key: "force", Value: true},
	}).Err())
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

func endedOr(proc *child.Process, err error) error {
	if proc.Ended() {
		return child.ErrEnded
	}
	return err
}

// orphanLifetime is how long the transaction of a killed process stays open. By default it is a minute, and
// what waits for it, in a test that kills processes or beside one, would wait as long.
const orphanLifetime = 25 * time.Second

// shortenTransactions asks the server for orphanLifetime. One that does not know the parameter keeps its own.
func shortenTransactions(ctx context.Context, admin *mongo.Database) {
	_ = admin.RunCommand(ctx, bson.D{
		{Key: "setParameter", Value: 1},
		{Key: "transactionLifetimeLimitSeconds", Value: int32(orphanLifetime / time.Second)},
	}).Err()
}
