package console_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/matryer/is"

	"github.com/orionjs/orion-go/pulse/console"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// What is wrong with a filter is said, and the form stays as it was typed, so that it can be put right. Nothing is left
// out silently: a list of more than was asked for misleads whoever acts on it.
func TestDeliveries_SayWhatIsWrongWithTheFilter(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := eventfulDay(t, pulsetest.Database(t))
	server, client := serve(t, s.db, console.Config{ReadWrite: true}), viewer(t)
	for query, texts := range map[string][]string{
		"state=lost&state=error": {"There is no state “lost”."},
		"from=yesterday&to=x":    {"The time “yesterday” of “from” is none. Write it like 2026-05-17T13:45.", "The time “x” of “to” is none."},
		"cursor=x":               {"Cursor"},
		"from=2026-05-17T13:45&to=2026-05-16T13:45": {"From must be before To"},
		"since=abc":                              {"There is no filter “since”. There are group, topic, state, event, code, from, to, cursor."},
		"grup=billing":                           {"There is no filter “grup”; is “group” meant?"},
		"group=billing&group=search":             {"The filter “group” is there 2 times"},
		"code=handler_error&status=error&from=1": {"There is no filter “status”", "The time “1”"},
	} {
		code, page := get(t, client, server.URL+"/pulse/deliveries?"+query)
		is.Equal(code, http.StatusBadRequest) // of the query
		has(t, page, append(texts, "The filter makes no sense")...)
		is.True(!strings.Contains(page, "No deliveries")) // that would be an answer
	}
	_, page := get(t, client, server.URL+"/pulse/deliveries?group=billing&state=error&state=lost&code=handler_error&from=yesterday&to=2026-05-16T13:45")
	for _, part := range []string{
		`<option value="billing" selected>`, `value="error" checked>Failed`, `value="lost" checked>lost`, `name="code" value="handler_error"`,
		`<input type="text" id="from" name="from" value="yesterday">`, `<input type="datetime-local" id="to" name="to" value="2026-05-16T13:45">`, "<details open>",
	} {
		if !strings.Contains(page, part) {
			t.Errorf("the form lacks %s", part)
		}
	}

	// The same of a change to many: nothing is changed.
	code, page := get(t, client, server.URL+"/pulse/confirm?action=retry-matching&group=billing&state=lost&from=x")
	is.Equal(code, http.StatusBadRequest)
	has(t, page, "Nothing was changed", "There is no state “lost”. The time “x”")
	code, page = get(t, client, server.URL+"/pulse/confirm?action=retry-matching&group=billing&state=error&code=event_expired")
	is.Equal(code, http.StatusBadRequest)
	has(t, page, "Nothing was changed", "No delivery is selected: failed of billing, with the error event_expired.")
}

// A name that nothing has is named, with the one that was probably meant.
func TestPages_SayWhichNameIsUnknown(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := eventfulDay(t, pulsetest.Database(t))
	server, client := serve(t, s.db, console.Config{ReadWrite: true}), viewer(t)
	for query, text := range map[string]string{
		"group=biling&topic=invoice.created":  "There is no group “biling”; is “billing” meant?",
		"group=billing&topic=invoice.creatd":  "No group is subscribed to a topic “invoice.creatd”; is “invoice.created” meant?",
		"group=billing&topic=product.changed": "The group “billing” is not subscribed to the topic “product.changed”.",
	} {
		for _, page := range []string{"deliveries?", "subscription?", "confirm?action=pause&", "confirm?action=resume&"} {
			code, got := get(t, client, server.URL+"/pulse/"+page+query)
			is.Equal(code, http.StatusNotFound) // of the page
			has(t, got, text)
		}
	}
	_, page := get(t, client, server.URL+"/pulse/deliveries?group=biling")
	is.True(strings.Contains(page, `<option value="biling" selected>`))
	code, page := get(t, client, server.URL+"/pulse/subscription")
	is.Equal(code, http.StatusNotFound)
	has(t, page, "The address has to name a group and a topic.")

	// A group that has gone may have left deliveries.
	w := newWorld(t, s.db)
	w.delivery("gone", "old", "v2-error", newID(), 0)
	w.store()
	code, page = get(t, client, server.URL+"/pulse/deliveries?group=gone&topic=old")
	is.Equal(code, http.StatusOK)
	has(t, page, "1 delivery")
}

// Bytes that are no text are the address's fault, not the database's: it is not even asked.
func TestPages_RefuseAddressesThatAreNoText(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	server, client := serve(t, pulsetest.Database(t), console.Config{ReadWrite: true}), viewer(t)
	for _, path := range []string{
		"?q=%ff", "deliveries?group=%ff", "deliveries?event=%c3%28", "deliveries?%ff=1", "delivery?id=%ff", "subscription?group=a&topic=%ed%a0%80",
		"confirm?action=retry&id=%ff", "%ff", "deliveries?group=%zz", "deliveries?group=a;topic=b",
	} {
		code, page := get(t, client, server.URL+"/pulse/"+path)
		if code != http.StatusBadRequest {
			t.Errorf("%s: %d", path, code)
		}
		has(t, page, "The address cannot be read")
	}
	o := newOperator(t, server)
	o.Client = client
	_, page := get(t, client, server.URL+"/pulse/confirm?action=retry&id=x") // gives a cookie with nothing to confirm
	is.True(strings.Contains(page, "Nothing was changed"))
	code, page := o.post(t, url.Values{"action": {"retry"}, "id": {"\xff"}})
	is.Equal(code, http.StatusBadRequest)
	has(t, page, "The form could not be read", "no text")
}
