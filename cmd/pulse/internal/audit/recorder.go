// Package audit records what handlers did, to compare it afterwards with what was published.
//
// The record is kept in a collection beside those of Pulse, so that it outlives processes that are killed.
package audit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Collection is the record's name.
const Collection = "audit"

// Entry is one call of a handler.
type Entry struct {
	ID bson.ObjectID `bson:"_id"`
	// Replica is the process, Topic what it handled, Batch whether by a handler of batches.
	Replica string `bson:"r"`
	Topic   string `bson:"t"`
	Batch   bool   `bson:"b"`
	// Attempt counts from 1; Events are the numbers of the events of the call, in its order.
	Attempt int   `bson:"a"`
	Events  []int `bson:"n"`
	// OK tells whether the handler returned no error.
	OK bool `bson:"ok"`
	// Start and End are Unix times in microseconds, by the clock of the machine, which all processes share.
	Start int64 `bson:"s"`
	End   int64 `bson:"e"`
}

const (
	lingerLongest = 250 * time.Millisecond
	retryPause    = 100 * time.Millisecond
	writeTimeout  = 30 * time.Second
	storeTimeout  = 2 * time.Minute
)

// Recorder stores entries, many at once. Make one with NewRecorder and Close it.
type Recorder struct {
	entries *mongo.Collection
	linger  time.Duration
	wake    chan struct{}
	ended   chan struct{}

	mu      sync.Mutex
	waiting []Entry
	stored  chan struct{} // closed when what waits now is stored
	closed  bool
}

// NewRecorder records into a database. A hurried recorder stores at once, for handlers that wait for it;
// another one lets entries gather, so that recording is no load worth mentioning.
func NewRecorder(db *mongo.Database, hurried bool) *Recorder {
	r := &Recorder{
		entries: db.Collection(Collection), linger: lingerLongest,
		wake: make(chan struct{}, 1), ended: make(chan struct{}), stored: make(chan struct{}),
	}
	if hurried {
		r.linger = 0
	}
	go r.run()
	return r
}

// Add records an entry. The channel is closed when it is stored.
func (r *Recorder) Add(e Entry) <-chan struct{} {
	e.ID = bson.NewObjectID()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = append(r.waiting, e)
	r.kick()
	return r.stored
}

func (r *Recorder) kick() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Close returns when all is stored.
func (r *Recorder) Close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.kick()
	<-r.ended
}

func (r *Recorder) run() {
	defer close(r.ended)
	for range r.wake {
		r.mu.Lock()
		closed := r.closed
		r.mu.Unlock()
		if !closed && r.linger > 0 {
			time.Sleep(r.linger)
		}
		r.mu.Lock()
		entries, stored := r.waiting, r.stored
		r.waiting, r.stored = nil, make(chan struct{})
		closed = r.closed
		r.mu.Unlock()
		if len(entries) > 0 {
			r.store(entries)
		}
		close(stored)
		if closed {
			return
		}
	}
}

// store does not go on without: a record with holes would accuse the handlers of what it has lost itself. When
// the server is gone for good it ends the process. Entries that an unclear try has stored are refused by their
// IDs.
func (r *Recorder) store(entries []Entry) {
	for start := time.Now(); ; {
		ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
		_, err := r.entries.InsertMany(ctx, entries, options.InsertMany().SetOrdered(false))
		cancel()
		if err == nil || onlyDuplicates(err) {
			return
		}
		if time.Since(start) > storeTimeout {
			panic(fmt.Sprintf("the record of the handlers' calls could not be stored for %s: %v", storeTimeout, err))
		}
		time.Sleep(retryPause)
	}
}

func onlyDuplicates(err error) bool {
	var bulk mongo.BulkWriteException
	if !errors.As(err, &bulk) || bulk.WriteConcernError != nil {
		return false
	}
	for _, e := range bulk.WriteErrors {
		if e.Code != 11000 {
			return false
		}
	}
	return true
}
