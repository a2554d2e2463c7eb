package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/pulse/internal/clock"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

// Config configures an Admin. The zero value of every field is its default.
type Config struct {
	// CollectionPrefix begins the names of the four collections, as in pulse.Config. Default "orionjs.pulse".
	CollectionPrefix string

	// Timeout bounds each call; Tail alone lasts until its context ends, and RetryMatching and CancelMatching bound
	// each delivery by it. A context that ends earlier wins. Default 30 s.
	Timeout time.Duration

	// HistoryRetention is how long a delivery that Cancel ends is kept, as in pulse.Config, where the services
	// have it: the database does not tell. Default 7 days; pulse.NoTTL keeps it for ever.
	HistoryRetention time.Duration
}

// Admin looks into one database with one collection prefix. It is safe for concurrent use, holds nothing open, and
// needs no Close; the database's client stays the caller's.
type Admin struct {
	store  *store.Store
	config Config

	mu     sync.Mutex
	synced time.Time // when the server was last asked for its time; zero before the first call

	keptMu sync.Mutex
	kept   map[string][]time.Duration // for how long each group keeps what has ended; not changed once it is here
	keptAt time.Time
}

// New returns an Admin. It sends nothing: the first call asks the server what it is. Whatever the client is set to,
// reads go to the primary and writes wait for the majority.
func New(db *mongo.Database, config Config) (*Admin, error) {
	if config.CollectionPrefix == "" {
		config.CollectionPrefix = "orionjs.pulse"
	}
	if config.Timeout == 0 {
		config.Timeout = 30 * time.Second
	}
	if config.HistoryRetention == 0 {
		config.HistoryRetention = 7 * 24 * time.Hour
	}
	switch {
	case db == nil:
		return nil, errors.New("pulse/admin: the database is nil: pass client.Database(name)")
	case strings.ContainsAny(config.CollectionPrefix, "$\x00"):
		return nil, fmt.Errorf("pulse/admin: CollectionPrefix %q must not contain $ or NUL", config.CollectionPrefix)
	case config.Timeout < 0:
		return nil, fmt.Errorf("pulse/admin: Timeout %v must be positive, or 0 for the default of 30 s", config.Timeout)
	}
	return &Admin{store: store.New(db, config.CollectionPrefix), config: config}, nil
}

// syncInterval is how long a measurement of the server's clock is good for.
const syncInterval = time.Minute

// begin bounds a call, and asks the server for its time when the last answer is old.
func (a *Admin) begin(ctx context.Context) (context.Context, context.CancelFunc, error) {
	ctx, cancel := context.WithTimeout(mongo.NewSessionContext(ctx, nil), a.config.Timeout)
	a.mu.Lock()
	defer a.mu.Unlock()
	var err error
	switch {
	case a.synced.IsZero():
		err = a.store.Detect(ctx)
	case clock.Since(a.synced) > syncInterval:
		err = a.store.SyncClock(ctx)
	default:
		return ctx, cancel, nil
	}
	if err != nil {
		cancel()
		return nil, nil, err
	}
	a.synced = clock.Now()
	return ctx, cancel, nil
}
