package console_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/admin"
	"github.com/orionjs/orion-go/pulse/console"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

type order struct{ Number int }

var orders = pulse.NewTopic[order]("order.placed")

// shop is a real service: its handler fails while it is told to.
type shop struct {
	db      *mongo.Database
	admin   *admin.Admin
	client  *pulse.Client
	failing atomic.Bool
	handled pulsetest.Recorder[int]
}

func newShop(t *testing.T) *shop {
	t.Helper()
	is := is.New(t)
	s := &shop{db: pulsetest.Database(t)}
	var err error
	s.admin, err = admin.New(s.db, admin.Config{})
	is.NoErr(err)
	s.client, err = pulse.New(t.Context(), pulsetest.Client(t), pulse.Config{
		ConsumerGroup: "shipping", Database: s.db.Name(), PollInterval: 50 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	is.NoErr(err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		is.NoErr(s.client.Close(ctx))
	})
	_, err = orders.Subscribe(t.Context(), s.client, func(_ context.Context, e *pulse.Event[order]) error {
		if s.failing.Load() {
			return pulse.Permanent(errors.New("no parcel fits"))
		}
		s.handled.Add(e.Data.Number)
		return nil
	}, pulse.Unordered(), pulse.ExecutionVersion(2), pulse.OffsetReset(pulse.Earliest))
	is.NoErr(err)
	return s
}

func (s *shop) publish(t *testing.T, numbers ...int) {
	t.Helper()
	for _, n := range numbers {
		_, err := orders.Publish(t.Context(), s.client, order{n})
		is.New(t).NoErr(err)
	}
}

// await waits until so many deliveries are in a state, and returns them.
func (s *shop) await(t *testing.T, n int, state admin.State) []admin.Delivery {
	t.Helper()
	var page admin.DeliveryPage
	pulsetest.Eventually(t, fmt.Sprintf("%d deliveries are in the state %s", n, state), func(ctx context.Context) (err error) {
		page, err = s.admin.Deliveries(ctx, admin.DeliveryQuery{States: []admin.State{state}})
		if err == nil && len(page.Deliveries) != n {
			err = fmt.Errorf("%d are", len(page.Deliveries))
		}
		return err
	})
	return page.Deliveries
}

// operator is a viewer who confirms what a page asks.
type operator struct {
	*http.Client
	base string
}

func newOperator(t *testing.T, server *httptest.Server) operator {
	return operator{viewer(t), server.URL + "/pulse/"}
}

var field = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`)

// form reads the form of a confirmation.
func (o operator) form(t *testing.T, query string) (question string, fields url.Values) {
	t.Helper()
	code, page := get(t, o.Client, o.base+"confirm?"+query)
	is.New(t).Equal(code, http.StatusOK)
	fields = url.Values{}
	for _, m := range field.FindAllStringSubmatch(page, -1) {
		fields.Add(m[1], m[2])
	}
	return plain(page), fields
}

// post sends a form and returns the page behind the redirect.
func (o operator) post(t *testing.T, fields url.Values) (int, string) {
	t.Helper()
	answer, err := o.PostForm(o.base+"change", fields)
	is.New(t).NoErr(err)
	return read(t, answer)
}

// A delivery that failed is retried after a confirmation, by a name that stays with it; a second confirmation of the
// same page comes too late and says so (spec 9.2).
func TestRetry_9_2_AfterAConfirmation(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newShop(t)
	s.failing.Store(true)
	s.publish(t, 7)
	d := s.await(t, 1, admin.Failed)[0]
	o := newOperator(t, serve(t, s.db, console.Config{ReadWrite: true, Operator: func(*http.Request) string { return "Rosa" }}))

	question, form := o.form(t, "action=retry&id="+d.ID)
	is.True(strings.Contains(question, "Retry this delivery?"))
	is.Equal(len(s.handled.Values()), 0) // asking changes nothing
	s.failing.Store(false)
	code, page := o.post(t, form)
	is.Equal(code, http.StatusOK)
	has(t, page, "One more attempt is granted")
	is.Equal(s.handled.Wait(t, 1), []int{7})
	s.await(t, 1, admin.Succeeded)
	detail, err := s.admin.Delivery(t.Context(), d.ID)
	is.NoErr(err)
	is.Equal(detail.Grants[0].Name, "Rosa")
	_, page = get(t, o.Client, o.base+"delivery?id="+d.ID)
	has(t, page, "granted by Rosa")

	_, form = o.form(t, "action=cancel&id="+d.ID)
	code, page = o.post(t, form)
	is.Equal(code, http.StatusConflict)
	has(t, page, "Nothing was changed The delivery is succeeded by now.")
}

// A topic is paused with a reason, its work waits, one of it is cancelled, and it is resumed.
func TestPause_9_2_CancelAndResume(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newShop(t)
	o := newOperator(t, serve(t, s.db, console.Config{ReadWrite: true}))
	_, form := o.form(t, "action=pause&group=shipping&topic=order.placed")
	form.Set("reason", "the carrier is down")
	code, page := o.post(t, form)
	is.Equal(code, http.StatusOK)
	has(t, page, "Paused by console", "the carrier is down", "Resume…")
	subs, err := s.admin.Subscriptions(t.Context(), admin.SubscriptionQuery{})
	is.NoErr(err)
	is.Equal(subs[0].Paused.Reason, "the carrier is down")

	pulsetest.Eventually(t, "the replica pauses", func(ctx context.Context) error {
		before := len(s.handled.Values())
		s.publish(t, 0)
		page, err := s.admin.Deliveries(ctx, admin.DeliveryQuery{States: []admin.State{admin.Pending}})
		if err == nil && (len(page.Deliveries) == 0 || len(s.handled.Values()) != before) {
			err = errors.New("it handles")
		}
		return err
	})
	waiting, err := s.admin.Deliveries(t.Context(), admin.DeliveryQuery{States: []admin.State{admin.Pending}, Limit: 1})
	is.NoErr(err)
	id := waiting.Deliveries[0].ID
	_, form = o.form(t, "action=cancel&id="+id)
	form.Set("reason", "sold out")
	code, page = o.post(t, form)
	is.Equal(code, http.StatusOK)
	has(t, page, "The delivery is cancelled", "Cancelled", "sold out")

	_, form = o.form(t, "action=resume&group=shipping&topic=order.placed")
	code, page = o.post(t, form)
	is.Equal(code, http.StatusOK)
	has(t, page, "Resumed.", "Pause…")
	s.publish(t, 99)
	pulsetest.Eventually(t, "the replica goes on", func(context.Context) error {
		if all := s.handled.Values(); !slices.Contains(all, 99) { // in any order
			return fmt.Errorf("handled: %v", all)
		}
		return nil
	})
}

// All that a filter selects is retried together, after their number was shown.
func TestRetry_9_2_AllOfAFilter(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newShop(t)
	s.failing.Store(true)
	s.publish(t, 1, 2, 3)
	s.await(t, 3, admin.Failed)
	o := newOperator(t, serve(t, s.db, console.Config{ReadWrite: true}))
	_, page := get(t, o.Client, o.base+"deliveries?state=error&group=shipping")
	link := regexp.MustCompile(`href="confirm\?([^"]*)"`).FindStringSubmatch(page)
	is.True(link != nil)
	question, form := o.form(t, strings.ReplaceAll(link[1], "&amp;", "&"))
	is.True(strings.Contains(question, "Retry 3 deliveries?"))
	is.True(strings.Contains(question, "Selected: failed of shipping"))
	s.failing.Store(false)
	code, page := o.post(t, form)
	is.Equal(code, http.StatusOK)
	has(t, page, "3 deliveries get one more attempt.")
	s.handled.Wait(t, 3)
	s.await(t, 3, admin.Succeeded)

	_, page = get(t, o.Client, o.base+"deliveries?state=error") // of no group: too much for one click
	is.True(!strings.Contains(page, "confirm?"))
}

// Only a form of the console's own page changes anything: not another site's, not one without its token, not a link.
func TestChange_OnlyFromItsOwnPages(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newShop(t)
	o := newOperator(t, serve(t, s.db, console.Config{ReadWrite: true}))
	_, form := o.form(t, "action=pause&group=shipping&topic=order.placed")
	paused := func() bool {
		subs, err := s.admin.Subscriptions(t.Context(), admin.SubscriptionQuery{CountLimit: -1})
		is.NoErr(err)
		return subs[0].Paused != nil
	}
	send := func(method string, fields url.Values, headers ...string) int {
		request, err := http.NewRequestWithContext(t.Context(), method, o.base+"change", strings.NewReader(fields.Encode()))
		is.NoErr(err)
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for i := 0; i+1 < len(headers); i += 2 {
			request.Header.Set(headers[i], headers[i+1])
		}
		answer, err := o.Do(request)
		is.NoErr(err)
		code, _ := read(t, answer)
		return code
	}
	is.Equal(send("POST", form, "Sec-Fetch-Site", "cross-site"), http.StatusForbidden)
	is.Equal(send("POST", form, "Sec-Fetch-Site", "same-site"), http.StatusForbidden)
	is.Equal(send("POST", form, "Origin", "https://elsewhere.example"), http.StatusForbidden)
	is.Equal(send("GET", form), http.StatusNotFound)
	is.Equal(send("PUT", form), http.StatusNotFound)
	without := url.Values{}
	for key, list := range form {
		if key != "token" {
			without[key] = list
		}
	}
	is.Equal(send("POST", without), http.StatusForbidden)
	without.Set("token", strings.Repeat("A", 26))
	is.Equal(send("POST", without), http.StatusForbidden)
	stranger := operator{viewer(t), o.base} // has no cookie, or another one
	code, _ := stranger.post(t, form)
	is.Equal(code, http.StatusForbidden)
	is.True(!paused())
	code, _ = o.post(t, form)
	is.Equal(code, http.StatusOK)
	is.True(paused())
}

// A console that is read-only offers nothing and takes nothing.
func TestReadOnly_ChangesNothing(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newShop(t)
	s.failing.Store(true)
	s.publish(t, 1)
	d := s.await(t, 1, admin.Failed)[0]
	o := newOperator(t, serve(t, s.db, console.Config{}))
	for _, path := range []string{"", "delivery?id=" + d.ID, "subscription?group=shipping&topic=order.placed", "deliveries?state=error&group=shipping"} {
		_, page := get(t, o.Client, o.base+path)
		is.True(!strings.Contains(page, "confirm?"))
		is.True(!strings.Contains(page, `method="post"`))
	}
	code, _ := get(t, o.Client, o.base+"confirm?action=retry&id="+d.ID)
	is.Equal(code, http.StatusNotFound)
	code, _ = o.post(t, url.Values{"action": {"retry"}, "id": {d.ID}})
	is.Equal(code, http.StatusNotFound)
	s.await(t, 1, admin.Failed)
}

// What does not exist, or no longer, is named.
func TestConfirm_NamesWhatIsNotThere(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newShop(t)
	o := newOperator(t, serve(t, s.db, console.Config{ReadWrite: true}))
	for query, want := range map[string]int{"action=retry&id=none": 404, "action=cancel&id=none": 404, "action=erase": 400, "": 400} {
		code, page := get(t, o.Client, o.base+"confirm?"+query)
		is.Equal(code, want)
		has(t, page, "Nothing was changed")
	}
	_, form := o.form(t, "action=pause&group=shipping&topic=order.placed")
	form.Set("topic", "none")
	code, page := o.post(t, form)
	is.Equal(code, http.StatusNotFound)
	has(t, page, "It is not stored any more")
}
