// Package receiver stores webhook deliveries as events.
//
// It answers as soon as the event is stored, and decides nothing about its content: the work is done by
// whoever handles the topic, later and as often as it takes. A delivery that is sent again, under the same
// delivery ID, is stored once.
package receiver

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/examples/webhooks/jsonbson"
	"github.com/orionjs/orion-go/pulse"
)

// MaxPayload is the limit for a payload, as text and as it is stored. MongoDB's limit for a document is 16
// MiB, and the event around the payload needs some of it.
const MaxPayload = 15 << 20

// Publisher stores events; *echoes.App is one.
type Publisher interface {
	Publish(ctx context.Context, topic string, params any, opts ...echoes.PublishOption) (echoes.EventRef, error)
}

// Receiver is the HTTP handler for webhook deliveries. It answers
//
//	202  the delivery is stored
//	200  it was stored before
//	400  the request is no delivery; the text says why
//	401  it is not signed with the secret
//	409  another delivery is stored under its ID
//	503  it could not be stored now; the sender should try again
type Receiver struct {
	Publisher Publisher
	// Topic gives the topic for an event's name. Names have only lower case letters, digits and underscores.
	Topic func(event string) string
	// Secret, if set, is what the sender signs with (X-Hub-Signature-256). Without it everybody who can
	// reach the receiver can store events.
	Secret []byte
	// Timeout bounds how long storing may take. Default 8 s: GitHub waits 10 seconds for the answer.
	Timeout time.Duration
	// Log takes what an operator should know. Default: slog.Default().
	Log *slog.Logger
}

// The names go into a topic and into log lines, and come from outside.
var (
	eventName  = regexp.MustCompile(`^[a-z0-9_]{1,64}$`)
	deliveryID = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,128}$`)
)

// ServeHTTP stores the delivery that the request brings.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	event, id := request.Header.Get("X-GitHub-Event"), request.Header.Get("X-GitHub-Delivery")
	status, text := r.receive(w, request, event, id)
	if status >= 400 {
		level := slog.LevelWarn
		if status >= 500 {
			level = slog.LevelError
		}
		r.log().Log(request.Context(), level, "webhook refused", "status", status, "reason", text, "event", event, "delivery", id)
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "10")
		text = "the delivery could not be stored, try again later" // the cause is for the log
	}
	w.WriteHeader(status)
	fmt.Fprintln(w, text)
}

// receive returns the answer.
func (r *Receiver) receive(w http.ResponseWriter, request *http.Request, event, id string) (status int, text string) {
	body, err := io.ReadAll(http.MaxBytesReader(w, request.Body, MaxPayload))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return http.StatusBadRequest, fmt.Sprintf("the body is too large: at most %d bytes are accepted", MaxPayload)
	case err != nil:
		return http.StatusBadRequest, fmt.Sprintf("the body cannot be read: %v", err)
	case len(r.Secret) > 0 && !signed(body, r.Secret, request.Header.Get("X-Hub-Signature-256")):
		return http.StatusUnauthorized, "the header X-Hub-Signature-256 is missing or does not match the body: the webhook must have the secret that this receiver has"
	}
	if problem := checkHeaders(request.Header, event, id); problem != "" {
		return http.StatusBadRequest, problem
	}
	payload, err := jsonbson.Document(body, MaxPayload)
	if err != nil {
		return http.StatusBadRequest, fmt.Sprintf("the body cannot be stored: %v", err)
	}
	return r.store(request.Context(), event, id, payload)
}

// store publishes the delivery under its own ID.
func (r *Receiver) store(ctx context.Context, event, id string, payload bson.Raw) (status int, text string) {
	// A sender that hangs up is no reason to stop: what is stored now need not be sent again.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cmp.Or(r.Timeout, 8*time.Second))
	defer cancel()
	ref, err := r.Publisher.Publish(ctx, r.Topic(event), payload, echoes.WithID(id))
	var conflict *pulse.ConflictError
	switch {
	case errors.As(err, &conflict):
		return http.StatusConflict, fmt.Sprintf("another delivery is stored under the ID %s, with the topic %s: a delivery that is sent again must have the same event and body", id, conflict.StoredTopic)
	case err != nil:
		return http.StatusServiceUnavailable, err.Error()
	case ref.Duplicate:
		return http.StatusOK, "stored before: delivery " + id
	default:
		return http.StatusAccepted, "stored: delivery " + id
	}
}

func (r *Receiver) log() *slog.Logger {
	if r.Log == nil {
		return slog.Default()
	}
	return r.Log
}

// checkHeaders returns what is wrong with the headers, "" if nothing is.
func checkHeaders(h http.Header, event, id string) string {
	switch {
	case event == "":
		return "the header X-GitHub-Event is missing: it names the event, as in push"
	case !eventName.MatchString(event):
		return "the header X-GitHub-Event is no event name: want up to 64 lower case letters, digits and underscores"
	case id == "":
		return "the header X-GitHub-Delivery is missing: it identifies the delivery, so that one that is sent again is stored once"
	case !deliveryID.MatchString(id):
		return "the header X-GitHub-Delivery is no delivery ID: want up to 128 letters, digits and . _ : -"
	}
	// No content type at all is fine: what counts is that the body is JSON.
	if given := h.Get("Content-Type"); given != "" {
		if kind, _, err := mime.ParseMediaType(given); err != nil || kind != "application/json" {
			return "the body is no JSON: set the content type of the webhook to application/json"
		}
	}
	return ""
}

// signed checks the signature of the body, as in "sha256=757107ea...", in constant time.
func signed(body, secret []byte, header string) bool {
	digits, ok := strings.CutPrefix(header, "sha256=")
	if !ok {
		return false
	}
	got, err := hex.DecodeString(digits)
	if err != nil {
		return false
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write(body)
	return hmac.Equal(got, mac.Sum(nil))
}
