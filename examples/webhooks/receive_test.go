package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"golang.org/x/sync/errgroup"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/examples/webhooks/github"
	"github.com/orionjs/orion-go/examples/webhooks/receiver"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

func TestWebhooks_1_3_ADeliveryIDWithOtherContentIsAConflict(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := startSystem(t, pulsetest.Database(t))
	first := newDelivery("star", []byte(`{"action":"created","stars":1}`))
	s.postAll([]delivery{first}, http.StatusAccepted)

	for _, other := range []delivery{
		{ID: first.ID, Event: "star", Payload: []byte(`{"action":"created","stars":2}`)},
		{ID: first.ID, Event: "watch", Payload: first.Payload},
	} {
		status, text, err := s.post(other)
		is.NoErr(err)
		is.Equal(status, http.StatusConflict)
		is.True(strings.HasPrefix(text, "another delivery is stored under the ID "+first.ID+", with the topic github.star"))
	}
	// White space, the order of keys and ways to write a character are no content.
	status, text, err := s.post(delivery{ID: first.ID, Event: "star", Payload: []byte(`{ "stars": 1, "\u0061ction": "created" }`)})
	is.NoErr(err)
	is.Equal(status, http.StatusOK)
	is.Equal(text, "stored before: delivery "+first.ID+"\n")
	is.Equal(s.count("events", bson.D{}), 1)
	is.NoErr(sameAsSent(s.storedPayload(first), first.Payload))
}

func TestWebhooks_1_3_OfManyAtOnceOneIsStored(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := startSystem(t, pulsetest.Database(t))
	d := ownDelivery(t, "push")
	statuses := make([]int, 16)
	var group errgroup.Group
	for i := range statuses {
		group.Go(func() (err error) {
			statuses[i], _, err = s.post(d)
			return err
		})
	}
	is.NoErr(group.Wait())
	counts := map[int]int{}
	for _, status := range statuses {
		counts[status]++
	}
	is.Equal(counts, map[int]int{http.StatusAccepted: 1, http.StatusOK: 15})
	s.feed.Wait(t, 1)
	s.stop()
	is.Equal(s.feed.Len(), 1)
}

func TestWebhooks_RefuseWhatIsNoDelivery(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := startSystem(t, pulsetest.Database(t))
	for _, c := range []struct {
		d    delivery
		text string
	}{
		{newDelivery("", []byte(`{}`)), "the header X-GitHub-Event is missing"},
		{delivery{Event: "push", Payload: []byte(`{}`)}, "the header X-GitHub-Delivery is missing"},
		{newDelivery("push", []byte(`{"ref":}`)), "the body cannot be stored: no valid JSON: "},
		{newDelivery("push", []byte(`{"a":"`+strings.Repeat("x", 15<<20)+`"}`)), "the body is too large: "},
	} {
		status, text, err := s.post(c.d)
		is.NoErr(err)
		is.Equal(status, http.StatusBadRequest)
		is.True(strings.HasPrefix(text, c.text))
	}
	response, err := s.server.Client().Get(s.server.URL + "/webhook")
	is.NoErr(err)
	is.NoErr(response.Body.Close())
	is.Equal(response.StatusCode, http.StatusMethodNotAllowed)
	is.Equal(s.count("events", bson.D{}), 0)
}

// The largest payload that the receiver accepts fits into an event.
func TestWebhooks_1_6_TheLargestPayloadFits(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := startSystem(t, pulsetest.Database(t))
	text := strings.Repeat("x", receiver.MaxPayload-13) // 13 bytes are the frame around it
	payload, err := bson.Marshal(bson.D{{Key: "a", Value: text}})
	is.NoErr(err)
	is.Equal(len(payload), receiver.MaxPayload)
	_, err = s.app.Publish(t.Context(), github.Topic("large"), bson.Raw(payload), echoes.WithID("d-1"))
	is.NoErr(err)
	is.True(bytes.Equal(s.storedPayload(delivery{ID: "d-1", Event: "large"}), payload))
}

// MongoDB goes away and comes back: the sender is told to try again, and then the delivery is stored.
func TestWebhooks_SayThatMongoDBIsOut(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	proxy := pulsetest.NewProxy(t)
	s := startSystem(t, pulsetest.Client(t, proxy.Use).Database(db.Name()))
	impatient := httptest.NewServer(&receiver.Receiver{
		Publisher: s.app, Topic: github.Topic, Timeout: 300 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
	})
	t.Cleanup(impatient.Close)

	d := ownDelivery(t, "issues")
	proxy.Cut()
	status, text, err := send(impatient.Client(), impatient.URL, d)
	is.NoErr(err)
	is.Equal(status, http.StatusServiceUnavailable)
	is.Equal(text, "the delivery could not be stored, try again later\n")
	proxy.Restore()
	pulsetest.Eventually(t, "the delivery is stored", func(context.Context) error {
		status, _, err := s.post(d)
		if err == nil && status != http.StatusAccepted && status != http.StatusOK {
			err = fmt.Errorf("status %d", status)
		}
		return err
	})
	activities := s.feed.Wait(t, 1)
	is.Equal(activities[0].DeliveryID, d.ID)
}

// A payload that the handler's type does not fit is stored, and its delivery says what is wrong and where.
func TestWebhooks_7_3_APayloadThatDoesNotFitIsADecodeError(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := startSystem(t, pulsetest.Database(t))
	d := newDelivery("push", []byte(`{"ref":"refs/heads/main","repository":{"id":1,"full_name":"a/b","created_at":"yesterday"},"sender":{"login":"ada","id":1.5}}`))
	s.postAll([]delivery{d}, http.StatusAccepted)
	var stored struct {
		Attempts []struct {
			Error struct{ Code, Message string }
		}
	}
	pulsetest.Eventually(t, "the first attempt has failed", func(ctx context.Context) error {
		err := s.db.Collection("orionjs.pulse.deliveries").FindOne(ctx, bson.D{{Key: "eventId", Value: d.ID}}).Decode(&stored)
		if err == nil && len(stored.Attempts) == 0 {
			err = errors.New("no attempt is stored")
		}
		return err
	})
	is.Equal(stored.Attempts[0].Error.Code, "decode_error")
	is.True(strings.Contains(stored.Attempts[0].Error.Message, "topic github.push, event "+d.ID+": repository.created_at: "))
	is.Equal(s.feed.Len(), 0)
}

func TestWebhooks_KeepAFeed(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := startSystem(t, pulsetest.Database(t))
	all := ownDeliveries(t)
	s.postAll(all, http.StatusAccepted)
	s.feed.Wait(t, 11)
	s.stop()

	cursor, err := s.db.Collection("activity").Find(t.Context(), bson.D{})
	is.NoErr(err)
	var stored []github.Activity
	is.NoErr(cursor.All(t.Context(), &stored))
	is.Equal(len(stored), 11)
	texts := map[string]bool{}
	for _, a := range stored {
		is.Equal(a.Repository, "orchard/cider")
		is.True(a.Payload != nil)
		texts[a.Actor+" "+a.Text] = true
	}
	for _, text := range []string{
		"ada created main",
		"räder-bot[bot] deleted v0.9",
		"ada opened issue #7: Kelter 壊れた “quoted”",
		"mei created a comment on issue #7: Same here 🙂",
		"mei edited a comment on pull request #7: Same here 🙂",
		"ada opened pull request #8: Sort apples (ada:sort into main, +120 -5)",
		"mei merged pull request #8: Sort apples (ada:sort into main, +120 -5)",
		"räder-bot[bot] published release v1.0.0 with 2 files",
		"räder-bot[bot] edited release v1.0.0 with 0 files",
	} {
		if !texts[text] {
			t.Errorf("no activity %q in %v", text, texts)
		}
	}
}
