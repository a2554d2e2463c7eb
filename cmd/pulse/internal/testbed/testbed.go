// Package testbed gives a measurement a MongoDB server with empty databases.
package testbed

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse/pulsetest/mongoserver"
)

// dropTimeout bounds the removal of a database, which happens after a Ctrl-C as well.
const dropTimeout = 30 * time.Second

// Bed is a server, with a client of this process. Close it.
type Bed struct {
	// URI leads to the server, Server says for people which one it is.
	URI, Server string

	client *mongo.Client
	own    *mongoserver.Server // nil when it is the user's
}

// Open uses the server of the URI, or starts one when that is empty. Progress receives lines for people.
func Open(ctx context.Context, uri string, progress io.Writer) (*Bed, error) {
	b := &Bed{URI: uri, Server: "the server of MONGODB_URI"}
	if uri == "" {
		own, err := mongoserver.Start(ctx, mongoserver.Options{Progress: progress})
		if err != nil {
			return nil, err
		}
		b.own, b.URI, b.Server = own, own.URI(), own.Name()
	} else if err := mongoserver.Check(ctx, uri); err != nil {
		return nil, fmt.Errorf("MONGODB_URI is set, but %w; start that server, or unset MONGODB_URI to have one started here", err)
	}
	client, err := mongo.Connect(options.Client().ApplyURI(b.URI))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connect to %s: %w", b.Server, err), b.Close())
	}
	b.client = client
	return b, nil
}

// Database returns an empty database, and what removes it.
func (b *Bed) Database() (db *mongo.Database, drop func() error) {
	db = b.client.Database("pulse_run_" + strings.ToLower(rand.Text()[:10]))
	return db, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), dropTimeout)
		defer cancel()
		if err := db.Drop(ctx); err != nil {
			return fmt.Errorf("drop the database %s, which is left behind: %w", db.Name(), err)
		}
		return nil
	}
}

// Close disconnects, and stops the server if Open has started it.
func (b *Bed) Close() error {
	var problems []error
	if b.client != nil {
		ctx, cancel := context.WithTimeout(context.Background(), dropTimeout)
		defer cancel()
		problems = append(problems, b.client.Disconnect(ctx))
	}
	if b.own != nil {
		problems = append(problems, b.own.Stop())
	}
	return errors.Join(problems...)
}
