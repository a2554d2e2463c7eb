package console_test

import (
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse/console"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// get reads a page.
func get(t *testing.T, client *http.Client, address string) (int, string) {
	t.Helper()
	answer, err := client.Get(address)
	is.New(t).NoErr(err)
	return read(t, answer)
}

func read(t *testing.T, answer *http.Response) (int, string) {
	t.Helper()
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	is.New(t).NoErr(err)
	return answer.StatusCode, string(text)
}

var tags = regexp.MustCompile(`<[^>]*>`)

// plain is the text of a page, with one space between words.
func plain(page string) string {
	return strings.Join(strings.Fields(strings.NewReplacer("&#39;", "'", "&#34;", `"`, "&amp;", "&", "\u202f", " ").Replace(tags.ReplaceAllString(page, " "))), " ")
}

func has(t *testing.T, page string, parts ...string) {
	t.Helper()
	text := plain(page)
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Fatalf("the page lacks %q: %s", part, text)
		}
	}
}

// The overview says in words what needs a look, with numbers, names and links that lead on.
func TestOverview_ShowsWhatNeedsALook(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := eventfulDay(t, pulsetest.Database(t))
	server, client := serve(t, s.db, console.Config{Name: "shop"}), viewer(t)
	code, page := get(t, client, server.URL+"/pulse/")
	is.Equal(code, http.StatusOK)
	has(t, page, "3 of 9 subscriptions need a look, 1 paused", "Read-only", "shop",
		"Failing billing · invoice.created 8 deliveries failed in the last ten minutes",
		"No replica mailing · customer.registered Work waits, and no replica of the group is there to do it.",
		"Retrying shipping · order.placed 4 deliveries wait for another attempt, for up to 3 min")
	// The same without a script: the path of the mount is in no link.
	is.True(strings.Contains(page, `href="subscription?group=billing&amp;topic=invoice.created"`))
	is.True(!strings.Contains(page, `="/`))
	is.True(!strings.Contains(page, secret))

	code, page = get(t, client, server.URL+"/pulse/?q=LEDG")
	is.Equal(code, http.StatusOK)
	has(t, page, "payment.received")
	is.True(!strings.Contains(page, "warehouse"))
	code, page = get(t, client, server.URL+"/pulse/?q="+url.QueryEscape("<script>alert(1)</script>"))
	is.Equal(code, http.StatusOK)
	is.True(!strings.Contains(page, "<script>alert"))
	has(t, page, "No group or topic has")
}

// A topic of a group shows its numbers, its chart, its settings and what failed.
func TestSubscription_ShowsOneTopic(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := eventfulDay(t, pulsetest.Database(t))
	server, client := serve(t, s.db, console.Config{}), viewer(t)
	_, page := get(t, client, server.URL+"/pulse/subscription?group=billing&topic=invoice.created")
	has(t, page, "8 of them failed", "card_declined", "up to 3, first after 1 s, then × 2", "in parallel", "go:billing-7d4b9c-x2k8f:1:mq3v")
	is.True(strings.Contains(page, `<rect class="fail"`))
	_, page = get(t, client, server.URL+"/pulse/subscription?group=search&topic=product.changed")
	has(t, page, "Paused by Rosa at", "reindexing", "Node clients of the group do not see the pause")
	_, page = get(t, client, server.URL+"/pulse/subscription?group=ledger&topic=payment.received")
	has(t, page, "one at a time, in order")
	_, page = get(t, client, server.URL+"/pulse/subscription?group=warehouse&topic=invoice.created")
	has(t, page, "batches of up to 120 events")
	code, page := get(t, client, server.URL+"/pulse/subscription?group=billing&topic=none")
	is.Equal(code, http.StatusNotFound)
	has(t, page, "There is no such subscription", "No group is subscribed to a topic “none”.")
}

// The filter selects, its page can be left for the next one and sent as a link, and nonsense is named.
func TestDeliveries_FilterAndPages(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := eventfulDay(t, pulsetest.Database(t))
	server, client := serve(t, s.db, console.Config{}), viewer(t)
	list := func(query string) string {
		t.Helper()
		code, page := get(t, client, server.URL+"/pulse/deliveries?"+query)
		is.Equal(code, http.StatusOK)
		return page
	}
	has(t, list("state=error"), "8 deliveries", "decode_error", "handler_error")
	has(t, list("state=error&code=decode_error"), "1 delivery", "invoiceId: want string, got int32")
	has(t, list("state=pending&group=shipping&topic=order.placed"), "1 delivery", "Waiting")
	has(t, list("state=retrying&state=processing"), "7 deliveries", "429", "running for")
	has(t, list("group=billing&code=event_expired"), "No deliveries", "Nothing that is stored fits")

	first := list("group=billing")
	next := regexp.MustCompile(`href="(deliveries\?[^"]*cursor=[^"]*)"`).FindStringSubmatch(first)
	is.True(next != nil)
	code, second := get(t, client, server.URL+"/pulse/"+strings.ReplaceAll(next[1], "&amp;", "&"))
	is.Equal(code, http.StatusOK)
	has(t, second, "First page", "50 deliveries on this page")
	is.True(plain(first) != plain(second))
}

// A delivery shows its attempts, its errors and the payload, unless the console was told not to show payloads: then no
// page has any part of them.
func TestDelivery_PayloadsAreHiddenWhenAskedTo(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := eventfulDay(t, pulsetest.Database(t))
	open, client := serve(t, s.db, console.Config{}), viewer(t)
	_, page := get(t, client, open.URL+"/pulse/delivery?id="+s.failed)
	has(t, page, "Attempt 3 failed", "Attempt 2 failed", "Attempt 1 failed", "worker_lost", "took 187 ms", "invoices.go:118", "traceparent", secret,
		"Ødegård & Söhne &lt;Handels GmbH&gt;", `"dueAt" : { "$date" : "2026-12-14T00:00:00Z" }`)
	_, page = get(t, client, open.URL+"/pulse/delivery?id="+s.batch)
	has(t, page, "Delivery of 120 events", "100 further events not shown", "INV-2026-005019")

	hidden := serve(t, s.db, console.Config{HidePayloads: true, ReadWrite: true})
	for _, path := range []string{
		"", "deliveries", "deliveries?state=error", "delivery?id=" + s.failed, "delivery?id=" + s.batch,
		"subscription?group=billing&topic=invoice.created", "confirm?action=retry&id=" + s.failed,
	} {
		code, page := get(t, client, hidden.URL+"/pulse/"+path)
		is.Equal(code, http.StatusOK)
		for _, part := range []string{secret, "Ødegård", "traceparent", "00-4bf92f", "INV-2026-005019"} {
			if strings.Contains(page, part) {
				t.Errorf("%s shows %q", path, part)
			}
		}
	}
	_, page = get(t, client, hidden.URL+"/pulse/delivery?id="+s.failed)
	has(t, page, "This console does not show payloads")

	code, page := get(t, client, open.URL+"/pulse/delivery?id=none")
	is.Equal(code, http.StatusNotFound)
	has(t, page, "There is no such delivery")
}

// Hostile names are text, wherever they appear (spec 6.3).
func TestPages_6_3_EscapeWhatIsStored(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	w := newWorld(t, pulsetest.Database(t))
	const evil = `"><img src=x onerror=alert(1)>`
	w.subscription(evil, evil, true)
	event := w.event(evil, 0, bson.D{{Key: evil, Value: evil}}, evil, evil)
	id := w.delivery(evil, evil, "v2-error", event, 0, bson.E{Key: "error", Value: failure(evil, evil, evil)},
		bson.E{Key: "attempts", Value: bson.A{w.attempt(1, 0, 0, evil, evil, evil)}})
	w.store()
	server, client := serve(t, w.db, console.Config{Name: evil, ReadWrite: true}), viewer(t)
	at := url.QueryEscape(evil)
	for _, path := range []string{
		"", "?q=" + at, "deliveries", "deliveries?group=" + at, "delivery?id=" + id, "subscription?group=" + at + "&topic=" + at,
		"confirm?action=pause&group=" + at + "&topic=" + at, "confirm?action=retry&id=" + id, "delivery?id=" + at, "?done=" + at,
	} {
		_, page := get(t, client, server.URL+"/pulse/"+path)
		if strings.Contains(page, "<img") {
			t.Errorf("%s has an element of the database", path)
		}
	}
	_, page := get(t, client, server.URL+"/pulse/delivery?id="+id)
	has(t, page, "Failed")
	is.True(strings.Contains(page, "onerror"))
}

// Nothing is loaded from elsewhere, nothing inline is run, nothing is kept but assets, which change their address
// when they change.
func TestAssets_AreOwnAndFramedByAPolicy(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	server, client := serve(t, pulsetest.Database(t), console.Config{}), viewer(t)
	answer, err := client.Get(server.URL + "/pulse/")
	is.NoErr(err)
	_, page := read(t, answer)
	has(t, page, "Nothing is subscribed here yet")
	policy := answer.Header.Get("Content-Security-Policy")
	is.True(strings.HasPrefix(policy, "default-src 'none';"))
	is.True(!strings.Contains(policy, "unsafe"))
	is.Equal(answer.Header.Get("Cache-Control"), "no-store")
	for _, wrong := range []string{"http://", "https://", "style=", "onclick", "javascript:"} {
		is.True(!strings.Contains(page, wrong))
	}
	for _, asset := range regexp.MustCompile(`(?:href|src)="(assets/[^"]+)"`).FindAllStringSubmatch(page, -1) {
		answer, err := client.Get(server.URL + "/pulse/" + asset[1])
		is.NoErr(err)
		code, _ := read(t, answer)
		is.Equal(code, http.StatusOK)
		is.True(strings.Contains(answer.Header.Get("Cache-Control"), "immutable"))
	}
	for path, want := range map[string]int{"assets/": 404, "assets/none.js": 404, "none": 404, "../pulse/assets/../templates/layout.html": 404} {
		code, _ := get(t, client, server.URL+"/pulse/"+path)
		is.Equal(code, want)
	}
	code, _ := get(t, client, server.URL+"/pulse/assets/console.css")
	is.Equal(code, http.StatusOK)
}
