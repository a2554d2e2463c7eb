package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/examples/webhooks/github"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// handledEvents are the events with a handler, and what it decodes.
var handledEvents = map[string]reflect.Type{
	"push":          reflect.TypeFor[*github.Push](),
	"issues":        reflect.TypeFor[*github.Issues](),
	"issue_comment": reflect.TypeFor[*github.IssueComment](),
	"pull_request":  reflect.TypeFor[*github.PullRequestEvent](),
	"release":       reflect.TypeFor[*github.ReleaseEvent](),
}

// delivery is a webhook that the test sends.
type delivery struct {
	ID      string
	Event   string          `json:"event"`
	Payload json.RawMessage `json:"payload"`
}

func newDelivery(event string, payload []byte) delivery {
	return delivery{ID: uuid.NewString(), Event: event, Payload: payload}
}

// ownDeliveries reads testdata, where a file's name begins with its event.
func ownDeliveries(t *testing.T) []delivery {
	t.Helper()
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no testdata: %v", err)
	}
	var all []delivery
	for _, file := range files {
		payload, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		event, _, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), ".json"), "-")
		all = append(all, newDelivery(event, payload))
	}
	return all
}

// ownDelivery returns a delivery of the event from testdata.
func ownDelivery(t *testing.T, event string) delivery {
	t.Helper()
	for _, d := range ownDeliveries(t) {
		if d.Event == event {
			return d
		}
	}
	t.Fatalf("testdata has no %s", event)
	return delivery{}
}

// recordedDeliveries reads the file that WEBHOOKS_JSONL names, one delivery a line.
func recordedDeliveries(t *testing.T) []delivery {
	t.Helper()
	name := os.Getenv("WEBHOOKS_JSONL")
	if name == "" {
		t.Log("WEBHOOKS_JSONL is not set: only the payloads of testdata are sent")
		return nil
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var all []delivery
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		d := newDelivery("", nil)
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
			t.Fatalf("%s, line %d: %v", name, len(all)+1, err)
		}
		all = append(all, d)
	}
	if err := lines.Err(); err != nil || len(all) == 0 {
		t.Fatalf("%s: %d deliveries, %v", name, len(all), err)
	}
	return all
}

// system is the whole example: HTTP server, app and a feed that the test reads.
type system struct {
	t      *testing.T
	db     *mongo.Database
	app    *echoes.App
	server *httptest.Server
	feed   *feed
}

// feed records activities, and stores them as the service does.
type feed struct {
	github.Feed
	pulsetest.Recorder[github.Activity]
}

func (f *feed) Add(ctx context.Context, a github.Activity) error {
	f.Recorder.Add(a)
	return f.Feed.Add(ctx, a)
}

func startSystem(t *testing.T, db *mongo.Database) *system {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	s := &system{t: t, db: db, feed: &feed{Feed: github.Collection{Collection: db.Collection("activity")}}}
	app, err := newApp(db, s.feed, log)
	if err != nil {
		t.Fatal(err)
	}
	s.app = app
	if err := app.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.stop)
	s.server = httptest.NewServer(newHandler(app, "", log))
	t.Cleanup(s.server.Close)
	return s
}

// stop ends the app and waits for its handlers.
func (s *system) stop() {
	if err := within(shutdownTimeout, s.app.Close); err != nil {
		s.t.Error(err)
	}
}

// post sends a delivery and returns the answer. It may be called from any goroutine.
func (s *system) post(d delivery) (status int, text string, err error) {
	return send(s.server.Client(), s.server.URL, d)
}

func send(client *http.Client, url string, d delivery) (status int, text string, err error) {
	request, err := http.NewRequest(http.MethodPost, url+"/webhook", bytes.NewReader(d.Payload))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-GitHub-Event", d.Event)
	request.Header.Set("X-GitHub-Delivery", d.ID)
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// postAll sends deliveries, one after the other, and expects the same status for all.
func (s *system) postAll(all []delivery, want int) {
	s.t.Helper()
	for _, d := range all {
		status, text, err := s.post(d)
		if err == nil && status != want {
			err = fmt.Errorf("want status %d, got %d: %s", want, status, text)
		}
		if err != nil {
			s.t.Fatalf("delivery %s of %s: %v", d.ID, d.Event, err)
		}
	}
}

func (s *system) count(collection string, filter bson.D) int {
	s.t.Helper()
	n, err := s.db.Collection("orionjs.pulse."+collection).CountDocuments(s.t.Context(), filter)
	if err != nil {
		s.t.Fatal(err)
	}
	return int(n)
}

// storedPayload returns the params of the event that is stored for a delivery.
func (s *system) storedPayload(d delivery) bson.Raw {
	s.t.Helper()
	var event struct {
		Topic string
		Data  struct{ Params bson.Raw }
	}
	if err := s.db.Collection("orionjs.pulse.events").FindOne(s.t.Context(), bson.D{{Key: "_id", Value: d.ID}}).Decode(&event); err != nil {
		s.t.Fatalf("delivery %s of %s: %v", d.ID, d.Event, err)
	}
	if event.Topic != github.Topic(d.Event) {
		s.t.Errorf("delivery %s of %s is stored with the topic %s", d.ID, d.Event, event.Topic)
	}
	return event.Data.Params
}

func decodeJSON(t *testing.T, text []byte) any {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		t.Fatal(err)
	}
	return value
}

// TestWebhooks_7_3_EveryFieldArrivesAsItWasSent is the whole way: HTTP, event, delivery, generated decoding,
// handler.
func TestWebhooks_7_3_EveryFieldArrivesAsItWasSent(t *testing.T) {
	t.Parallel()
	t.Run("own", func(t *testing.T) {
		t.Parallel()
		seen := sendAndCompare(t, ownDeliveries(t), true)
		all := map[string]bool{}
		for _, payload := range handledEvents {
			fieldsOf(payload, all)
		}
		for _, field := range slices.Sorted(maps.Keys(all)) {
			if !seen[field] {
				t.Errorf("testdata has no value for %s", field)
			}
		}
	})
	t.Run("recorded", func(t *testing.T) {
		t.Parallel()
		if all := recordedDeliveries(t); len(all) > 0 {
			sendAndCompare(t, all, false)
		}
	})
}

// sendAndCompare sends the deliveries twice, compares what was stored and what was handled, and returns the
// fields that had a value.
func sendAndCompare(t *testing.T, all []delivery, thorough bool) map[string]bool {
	is := is.New(t)
	s := startSystem(t, pulsetest.Database(t))
	s.postAll(all, http.StatusAccepted)
	s.postAll(all, http.StatusOK) // sent again
	byID := map[string]delivery{}
	handled := 0
	for _, d := range all {
		byID[d.ID] = d
		if handledEvents[d.Event] != nil {
			handled++
		}
	}
	s.feed.Wait(t, handled)
	s.stop()

	// Each is stored once and as it was sent; those that nobody handles have no delivery.
	is.Equal(s.count("events", bson.D{}), len(all))
	is.Equal(s.count("deliveries", bson.D{}), handled)
	is.Equal(s.count("deliveries", bson.D{{Key: "status", Value: "v2-success"}}), handled)
	for _, d := range all {
		if err := sameAsSent(s.storedPayload(d), d.Payload); err != nil {
			t.Errorf("%s (%s): %v", d.Event, d.ID, err)
		}
		if handledEvents[d.Event] == nil {
			is.Equal(s.count("deliveries", bson.D{{Key: "topic", Value: github.Topic(d.Event)}}), 0)
		}
	}

	// Each is handled once, and decoded to what was sent.
	c := &comparison{seen: map[string]bool{}}
	for _, a := range s.feed.Values() {
		d, ok := byID[a.DeliveryID]
		if !ok {
			t.Fatalf("the delivery %s was handled twice, or never sent", a.DeliveryID)
		}
		delete(byID, a.DeliveryID)
		is.Equal(reflect.TypeOf(a.Payload), handledEvents[d.Event])
		is.Equal(a.Topic, github.Topic(d.Event))
		sent := decodeJSON(t, d.Payload)
		c.value(d.Event, reflect.ValueOf(a.Payload), sent)
		if !thorough || len(c.differences) > 0 {
			continue
		}
		// The comparison itself is put to the test: whatever is changed in the payload, it notices.
		alterations("", reflect.ValueOf(a.Payload).Elem(), func(path string) {
			altered := &comparison{seen: map[string]bool{}}
			altered.value(d.Event, reflect.ValueOf(a.Payload), sent)
			if len(altered.differences) == 0 {
				t.Errorf("%s%s: the comparison does not notice a change", d.Event, path)
			}
		})
	}
	for _, difference := range c.differences {
		t.Error(difference)
	}
	is.Equal(len(byID), len(all)-handled)
	t.Logf("%d deliveries stored, %d handled, %d fields compared", len(all), handled, c.fields)
	return c.seen
}
