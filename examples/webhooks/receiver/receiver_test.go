package receiver

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.uber.org/goleak"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/pulse"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store is a publisher that remembers one event, or fails.
type store struct {
	topic  string
	params any
	out    echoes.Outgoing
	ref    echoes.EventRef
	err    error
}

func (s *store) Publish(ctx context.Context, topic string, params any, opts ...echoes.PublishOption) (echoes.EventRef, error) {
	if _, bounded := ctx.Deadline(); !bounded || ctx.Err() != nil {
		return echoes.EventRef{}, errors.New("the context must have a deadline, and outlive a sender that hangs up")
	}
	s.topic, s.params = topic, params
	for _, opt := range opts {
		opt(&s.out)
	}
	return s.ref, s.err
}

// headers are the headers of a good delivery, with changes.
func headers(changes map[string]string) map[string]string {
	h := map[string]string{"X-GitHub-Event": "push", "X-GitHub-Delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958", "Content-Type": "application/json"}
	for name, value := range changes {
		h[name] = value
	}
	return h
}

func deliver(s *store, secret string, body io.Reader, headers map[string]string) *httptest.ResponseRecorder {
	ctx, hangUp := context.WithCancel(context.Background())
	request := httptest.NewRequestWithContext(ctx, http.MethodPost, "/webhook", body)
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	hangUp()
	w := httptest.NewRecorder()
	r := Receiver{Publisher: s, Topic: func(event string) string { return "topic." + event }, Secret: []byte(secret), Log: slog.New(slog.DiscardHandler)}
	r.ServeHTTP(w, request)
	return w
}

func TestReceiver_1_3_StoresUnderTheDeliveryID(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := &store{}
	w := deliver(s, "", strings.NewReader(`{"ref":"refs/heads/main","id":9007199254740993}`), headers(nil))
	is.Equal(w.Code, http.StatusAccepted)
	is.Equal(w.Body.String(), "stored: delivery 72d3162e-cc78-11e3-81ab-4c9367dc0958\n")
	is.Equal(s.topic, "topic.push")
	is.Equal(s.out.ID, "72d3162e-cc78-11e3-81ab-4c9367dc0958")
	want, err := bson.Marshal(bson.D{{Key: "ref", Value: "refs/heads/main"}, {Key: "id", Value: int64(9007199254740993)}})
	is.NoErr(err)
	is.Equal(s.params, bson.Raw(want))
}

func TestReceiver_1_3_TellsWhatHappenedToTheDelivery(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		ref    echoes.EventRef
		err    error
		status int
		text   string
	}{
		"new":       {echoes.EventRef{}, nil, 202, "stored: delivery d-1\n"},
		"duplicate": {echoes.EventRef{Duplicate: true}, nil, 200, "stored before: delivery d-1\n"},
		"conflict": {
			echoes.EventRef{},
			fmt.Errorf("publish: %w", &pulse.ConflictError{ID: "d-1", Topic: "topic.push", StoredTopic: "topic.issues"}), 409,
			"another delivery is stored under the ID d-1, with the topic topic.issues: a delivery that is sent again must have the same event and body\n",
		},
		"out": {echoes.EventRef{}, errors.New("dial tcp 10.0.0.7: connection refused"), 503, "the delivery could not be stored, try again later\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			w := deliver(&store{ref: c.ref, err: c.err}, "", strings.NewReader(`{}`), headers(map[string]string{"X-GitHub-Delivery": "d-1"}))
			is.Equal(w.Code, c.status)
			is.Equal(w.Body.String(), c.text)
			is.Equal(w.Header().Get("Retry-After") != "", c.status == 503)
		})
	}
}

func TestReceiver_RefusesWhatIsNoDelivery(t *testing.T) {
	t.Parallel()
	large := `{"text":"` + strings.Repeat("a", MaxPayload) + `"}`
	// Just small enough as text, and a few bytes larger as BSON.
	blownUp := `{"text":"` + strings.Repeat("a", MaxPayload-len(`{"text":""}`)) + `"}`
	for name, c := range map[string]struct {
		body    string
		changes map[string]string
		text    string
	}{
		"no event":       {`{}`, map[string]string{"X-GitHub-Event": ""}, "the header X-GitHub-Event is missing: "},
		"bad event":      {`{}`, map[string]string{"X-GitHub-Event": "Push!"}, "the header X-GitHub-Event is no event name: "},
		"long event":     {`{}`, map[string]string{"X-GitHub-Event": strings.Repeat("a", 65)}, "the header X-GitHub-Event is no event name: "},
		"no delivery":    {`{}`, map[string]string{"X-GitHub-Delivery": ""}, "the header X-GitHub-Delivery is missing: "},
		"bad delivery":   {`{}`, map[string]string{"X-GitHub-Delivery": "a b"}, "the header X-GitHub-Delivery is no delivery ID: "},
		"long delivery":  {`{}`, map[string]string{"X-GitHub-Delivery": strings.Repeat("a", 129)}, "the header X-GitHub-Delivery is no delivery ID: "},
		"form":           {`payload={}`, map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, "the body is no JSON: set the content type of the webhook"},
		"empty":          {``, nil, "the body cannot be stored: no valid JSON: "},
		"no JSON":        {`{"a":`, nil, "the body cannot be stored: no valid JSON: unexpected end of JSON input (at byte 5)"},
		"no object":      {`[]`, nil, "the body cannot be stored: want a JSON object"},
		"twice a key":    {`{"a":{"b":1,"b":1}}`, nil, "the body cannot be stored: a.b: the key occurs twice"},
		"large":          {large, nil, "the body is too large: at most 15728640 bytes are accepted"},
		"large as BSON":  {blownUp, nil, "the body cannot be stored: the document takes more than 15728640 bytes when stored"},
		"with a charset": {`{"a":0.`, map[string]string{"Content-Type": "application/json; charset=utf-8"}, "the body cannot be stored: no valid JSON: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			s := &store{}
			w := deliver(s, "", strings.NewReader(c.body), headers(c.changes))
			is.Equal(w.Code, http.StatusBadRequest)
			is.True(strings.HasPrefix(w.Body.String(), c.text))
			is.Equal(s.topic, "") // nothing was published
			if t.Failed() {
				t.Log(w.Body)
			}
		})
	}
}

func TestReceiver_RefusesABodyThatBreaksOff(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	w := deliver(&store{}, "", io.MultiReader(strings.NewReader("{"), iotest.ErrReader(io.ErrUnexpectedEOF)), headers(nil))
	is.Equal(w.Code, http.StatusBadRequest)
	is.Equal(w.Body.String(), "the body cannot be read: unexpected EOF\n")
}

func TestReceiver_ChecksTheSignature(t *testing.T) {
	t.Parallel()
	const body, secret = "{\"zen\":\"größe\"}", "It's a Secret to Everybody"
	sign := func(body, secret string) string {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(body))
		return "sha256=" + hex.EncodeToString(mac.Sum(nil))
	}
	good := sign(body, secret)
	for name, c := range map[string]struct {
		header string
		status int
	}{
		"right":         {good, 202},
		"upper case":    {"sha256=" + strings.ToUpper(strings.TrimPrefix(good, "sha256=")), 202},
		"other secret":  {sign(body, "guess"), 401},
		"other body":    {sign(body+" ", secret), 401},
		"none":          {"", 401},
		"no algorithm":  {strings.TrimPrefix(good, "sha256="), 401},
		"SHA-1":         {"sha1=" + strings.TrimPrefix(good, "sha256="), 401},
		"cut off":       {good[:len(good)-2], 401},
		"no hex":        {"sha256=zz", 401},
		"empty":         {"sha256=", 401},
		"with a suffix": {good + "00", 401},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			s := &store{}
			w := deliver(s, secret, strings.NewReader(body), headers(map[string]string{"X-Hub-Signature-256": c.header}))
			is.Equal(w.Code, c.status)
			is.Equal(s.topic != "", c.status == 202)
		})
	}

	// The example of GitHub's documentation.
	is := is.New(t)
	is.True(signed([]byte("Hello, World!"), []byte(secret), "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"))
}

// A sender without the secret learns nothing about the rest of its request.
func TestReceiver_ChecksTheSignatureFirst(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	w := deliver(&store{}, "secret", strings.NewReader("no JSON"), nil)
	is.Equal(w.Code, http.StatusUnauthorized)
}
