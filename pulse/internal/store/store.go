package store

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/orionjs/orion-go/pulse/internal/clock"
)

// DefaultTimeout bounds one command. It is far above an ordinary answer and below the default lease,
// so that a hanging connection is noticed while the lease still holds.
const DefaultTimeout = 10 * time.Second

// Store sends the commands of one client. It is safe for concurrent use.
type Store struct {
	db                                         *mongo.Database
	prefix                                     string
	events, subscriptions, deliveries, history *mongo.Collection

	// attempts keeps this client's own renewals out of its transactions over the same attempts: they
	// would only meet in write conflicts, and on some servers wait for each other.
	attempts sync.Mutex

	lastPending  atomic.Int64 // the last NextPending
	stampPage    int          // how many events one round of stamping looks at
	own          ownSession
	transactions bool         // set by Detect, before any other use
	offset       atomic.Int64 // server's clock minus ours, in nanoseconds
}

// New returns a Store over the collections prefix.events, prefix.subscriptions, prefix.deliveries and
// prefix.history. It sends nothing yet. Whatever the caller's client is set to, reads go to the
// primary and writes wait for the majority: a lease that a failover could undo would be none.
func New(db *mongo.Database, prefix string) *Store {
	opts := options.Collection().
		SetReadPreference(readpref.Primary()).
		SetReadConcern(readconcern.Local()).
		SetWriteConcern(writeconcern.Majority()).
		SetBSONOptions(&options.BSONOptions{}).
		SetRegistry(bson.NewRegistry())
	return &Store{
		db: db, prefix: prefix,
		events:        db.Collection(prefix+".events", opts),
		subscriptions: db.Collection(prefix+".subscriptions", opts),
		deliveries:    db.Collection(prefix+".deliveries", opts),
		history:       db.Collection(prefix+".history", opts),
		own:           ownSession{turn: make(chan struct{}, 1)},
		stampPage:     stampEvents,
	}
}

// Transactions tells whether the server has transactions: a replica set, a sharded cluster or a load
// balancer does, a standalone server does not (spec 3.3).
func (s *Store) Transactions() bool { return s.transactions }

// EnsureIndexes creates what is missing of the indexes of storage.md and reports what conflicts.
func (s *Store) EnsureIndexes(ctx context.Context) (warnings []string, err error) {
	return EnsureIndexes(ctx, s.db, s.prefix)
}

// Detect asks the server what it is and what time it has.
func (s *Store) Detect(ctx context.Context) error {
	hello, err := s.syncClock(ctx)
	if err != nil {
		return err
	}
	s.transactions = hello.str("setName") != "" || hello.str("msg") == "isdbgrid" || hello.has("serviceId")
	return nil
}

// SyncClock measures the server's clock again.
func (s *Store) SyncClock(ctx context.Context) error {
	_, err := s.syncClock(ctx)
	return err
}

// A measurement errs by up to half of its round trip, so the shortest of a few counts, unless the first is
// short enough.
const (
	clockSamples = 4
	shortTrip    = 10 * time.Millisecond
)

func (s *Store) syncClock(ctx context.Context) (answer fields, err error) {
	var best, ahead time.Duration
	for i := range clockSamples {
		hello, offset, took, err := s.hello(ctx)
		if err != nil {
			return nil, err
		}
		if i == 0 || took < best {
			answer, best, ahead = hello, took, offset
		}
		if best <= shortTrip {
			break
		}
	}
	s.offset.Store(int64(ahead))
	return answer, nil
}

// hello asks once, and tells how far the server's clock is ahead and how long the answer took.
func (s *Store) hello(ctx context.Context) (answer fields, offset, took time.Duration, err error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	sent := clock.Now()
	raw, err := s.db.RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Raw()
	if err != nil {
		return nil, 0, 0, fmt.Errorf("pulse: MongoDB does not answer; is the connection string right, and the server up? %w", err)
	}
	took, answer = clock.Since(sent), parse(raw)
	if remote, ok := answer.date("localTime"); ok {
		offset = remote.Sub(sent.Add(took / 2)) // taken at some instant within the round trip
	}
	return answer, offset, took, nil
}

// Now estimates the server's clock, to the millisecond that it stores. The error is half of a short round
// trip plus what the clocks drifted since the last SyncClock.
func (s *Store) Now() time.Time {
	return clock.Now().Add(time.Duration(s.offset.Load())).UTC().Truncate(time.Millisecond)
}

// deadline bounds one command, and takes the caller's session out of its context: only Publish may
// join a caller's transaction (spec 1.4), a lease or a cursor never must.
func (s *Store) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(mongo.NewSessionContext(ctx, nil), DefaultTimeout)
}

// joined bounds one command of a transaction, or outside one; unlike deadline it keeps the session.
func (s *Store) joined(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, DefaultTimeout)
}

// serverNowPlus is the pipeline expression for the server's time plus d.
func serverNowPlus(d time.Duration) bson.D {
	return bson.D{{Key: "$dateAdd", Value: bson.D{
		{Key: "startDate", Value: "$$NOW"},
		{Key: "unit", Value: "millisecond"},
		{Key: "amount", Value: d.Milliseconds()},
	}}}
}

// literal keeps text that may begin with a dollar sign from being read as an expression.
func literal(v any) bson.D { return bson.D{{Key: "$literal", Value: v}} }

// in is the filter value that matches any of the values.
func in[T any](values []T) bson.D { return bson.D{{Key: "$in", Value: values}} }

// pipelineSet is an update pipeline of one $set stage.
func pipelineSet(set bson.D) mongo.Pipeline { return mongo.Pipeline{{{Key: "$set", Value: set}}} }
