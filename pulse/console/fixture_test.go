package console_test

import (
	"flag"
	"math"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.uber.org/goleak"

	"github.com/orionjs/orion-go/pulse/admin"
	"github.com/orionjs/orion-go/pulse/console"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "2") // browsers are heavy
	goleak.VerifyTestMain(m)
}

const prefix = "orionjs.pulse"

// serve serves a console of the database at a path, as a service would.
func serve(t *testing.T, db *mongo.Database, config console.Config) *httptest.Server {
	t.Helper()
	a, err := admin.New(db, admin.Config{})
	is.New(t).NoErr(err)
	mux := http.NewServeMux()
	mux.Handle("/pulse/", http.StripPrefix("/pulse", console.New(a, config)))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

// viewer is a browser without JavaScript: it follows redirects and keeps cookies.
func viewer(t *testing.T) *http.Client {
	jar, err := cookiejar.New(nil)
	is.New(t).NoErr(err)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Jar: jar, Transport: transport}
}

// world fills a database with what a day leaves behind, in the documents of both formats.
type world struct {
	t          *testing.T
	db         *mongo.Database
	now        time.Time
	deliveries []any
	events     []any
	history    []any
	subs       []any
	number     uint32
}

func newWorld(t *testing.T, db *mongo.Database) *world {
	return &world{t: t, db: db, now: time.Now().UTC()}
}

const week = 7 * 24 * time.Hour

// subscription adds one, led by a replica unless led is false.
func (w *world) subscription(group, topic string, led bool, more ...bson.E) {
	until := w.now.Add(time.Hour)
	if !led {
		until = w.now.Add(-3 * time.Hour)
	}
	doc := bson.D{
		{Key: "_id", Value: newID()},
		{Key: "consumerGroup", Value: group},
		{Key: "topic", Value: topic},
		{Key: "configVersion", Value: 3},
		{Key: "executionVersion", Value: 2},
		{Key: "ordered", Value: false},
		{Key: "offsetReset", Value: "latest"},
		{Key: "delivery", Value: "at-least-once"},
		{Key: "maxRetries", Value: 3},
		{Key: "retryDelayMs", Value: 1000},
		{Key: "retryBackoffMultiplier", Value: 2},
		{Key: "receiverMode", Value: "single"},
		{Key: "createdAt", Value: w.now.Add(-20 * 24 * time.Hour)},
		{Key: "updatedAt", Value: w.now},
		{Key: "cursorSequence", Value: bson.Timestamp{T: uint32(w.now.Unix()), I: 1 << 30}},
		{Key: "cursorSequenceEventId", Value: newID()},
		{Key: "discoveryLockOwner", Value: "go:" + group + "-7d4b9c-x2k8f:1:mq3v"},
		{Key: "discoveryLockToken", Value: newID()},
		{Key: "discoveryLockedUntil", Value: until},
	}
	for _, e := range more {
		doc = set(doc, e)
	}
	w.subs = append(w.subs, doc)
}

func set(doc bson.D, e bson.E) bson.D {
	for i := range doc {
		if doc[i].Key == e.Key {
			doc[i] = e
			return doc
		}
	}
	return append(doc, e)
}

// event adds an event of some age and returns its ID.
func (w *world) event(topic string, age time.Duration, data any, headers ...string) string {
	id := newID()
	doc := bson.D{
		{Key: "_id", Value: id},
		{Key: "topic", Value: topic},
		{Key: "data", Value: bson.D{{Key: "params", Value: data}}},
		{Key: "publisher", Value: "checkout"},
		{Key: "createdAt", Value: w.now.Add(-age)},
		{Key: "sequence", Value: w.sequence(age)},
		{Key: "expiresAt", Value: w.now.Add(week - age)},
	}
	if len(headers) > 0 {
		all := bson.D{}
		for i := 0; i+1 < len(headers); i += 2 {
			all = append(all, bson.E{Key: headers[i], Value: headers[i+1]})
		}
		doc = append(doc, bson.E{Key: "headers", Value: all})
	}
	w.events = append(w.events, doc)
	return id
}

func (w *world) sequence(age time.Duration) bson.Timestamp {
	w.number++
	return bson.Timestamp{T: uint32(w.now.Add(-age).Unix()), I: w.number}
}

// delivery adds a version 2 delivery of an event and returns its ID.
func (w *world) delivery(group, topic, status, eventID string, age time.Duration, more ...bson.E) string {
	id := newID()
	published := w.now.Add(-age)
	doc := bson.D{
		{Key: "_id", Value: id},
		{Key: "eventId", Value: eventID},
		{Key: "consumerGroup", Value: group},
		{Key: "topic", Value: topic},
		{Key: "eventCreatedAt", Value: published},
		{Key: "eventSequence", Value: w.sequence(age)},
		{Key: "status", Value: status},
		{Key: "executionVersion", Value: 2},
		{Key: "createdAt", Value: published.Add(8 * time.Millisecond)},
		{Key: "updatedAt", Value: published.Add(30 * time.Millisecond)},
		{Key: "attempt", Value: 0},
	}
	switch status {
	case "v2-pending", "v2-processing":
		doc = append(doc, bson.E{Key: "attemptId", Value: newID()}, bson.E{Key: "attemptCreatedAt", Value: published}, bson.E{Key: "nextAttemptAt", Value: published})
	default:
		doc = append(doc, bson.E{Key: "endedAt", Value: published.Add(40 * time.Millisecond)}, bson.E{Key: "expiresAt", Value: published.Add(week + 40*time.Millisecond)}, bson.E{Key: "finalAttempt", Value: 1})
		doc = set(doc, bson.E{Key: "attempt", Value: 1})
	}
	for _, e := range more {
		doc = set(doc, e)
	}
	w.deliveries = append(w.deliveries, doc)
	return id
}

// attempt is one that has ended; an empty code is a success.
func (w *world) attempt(number int, age, took time.Duration, code, message, stack string) bson.D {
	start := w.now.Add(-age)
	doc := bson.D{
		{Key: "_id", Value: newID()},
		{Key: "attempt", Value: number},
		{Key: "status", Value: "success"},
		{Key: "createdAt", Value: start},
		{Key: "nextAttemptAt", Value: start},
		{Key: "startedAt", Value: start},
		{Key: "lockedUntil", Value: start.Add(30 * time.Second)},
		{Key: "lockOwner", Value: "go:billing-7d4b9c-x2k8f:1:mq3v"},
		{Key: "endedAt", Value: start.Add(took)},
		{Key: "durationMs", Value: took.Milliseconds()},
	}
	if code != "" {
		doc = set(doc, bson.E{Key: "status", Value: "error"})
		doc = append(doc, bson.E{Key: "error", Value: failure(code, message, stack)})
	}
	return doc
}

func failure(code, message, stack string) bson.D {
	return bson.D{{Key: "code", Value: code}, {Key: "name", Value: "*errors.errorString"}, {Key: "message", Value: message}, {Key: "stack", Value: stack}}
}

// finished adds successes over the last ten minutes, and the next seconds, in waves, at about so many a minute.
func (w *world) finished(group, topic string, perMinute float64, phase float64) {
	var owed float64
	for age := 10 * time.Minute; age > -20*time.Second; age -= 2 * time.Second {
		owed += perMinute / 30 * (1 + 0.55*math.Sin(phase+age.Minutes()*1.3) + 0.2*math.Sin(phase+age.Minutes()*5.1))
		for ; owed >= 1; owed-- {
			w.delivery(group, topic, "v2-success", newID(), age)
		}
	}
}

// store writes everything, with the indexes that every client makes sure of.
func (w *world) store() {
	w.t.Helper()
	if _, err := store.EnsureIndexes(w.t.Context(), w.db, prefix); err != nil {
		w.t.Fatal(err)
	}
	for name, docs := range map[string][]any{"subscriptions": w.subs, "deliveries": w.deliveries, "events": w.events, "history": w.history} {
		if len(docs) == 0 {
			continue
		}
		if _, err := w.db.Collection(prefix+"."+name).InsertMany(w.t.Context(), docs); err != nil {
			w.t.Fatalf("fill %s: %v", name, err)
		}
	}
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }
