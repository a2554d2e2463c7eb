package console_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse/console"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// sent are the parts of a page that go back to the console as they are, and are not shown.
var sent = regexp.MustCompile(`(<option|<input type="(?:hidden|search|text|checkbox)"[^>]*) value="[^"]*"`)

// hidden are the characters of a page that nobody can see, or that change how others look.
func hidden(page string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\n' || r == '\u202f' { // the space within numbers
			return -1
		}
		return r
	}, html.UnescapeString(sent.ReplaceAllString(page, "$1")))
}

// Whoever confirms a change sees what it is made to: a name with characters that cannot be seen, or that turn the
// direction of writing, would look like another one (spec 6.3).
func TestPages_6_3_ShowWhatCannotBeSeen(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	w := newWorld(t, pulsetest.Database(t))
	const odd, shown = "order\u202e.decalp\u200b\x1b[1m", `order\u202e.decalp\u200b\u001b[1m`
	w.subscription(odd, odd, true,
		bson.E{Key: "paused", Value: bson.D{{Key: "by", Value: odd}, {Key: "reason", Value: odd}, {Key: "at", Value: w.now}}},
		bson.E{Key: "discoveryLockOwner", Value: odd}, bson.E{Key: "orderedLockOwner", Value: odd}, bson.E{Key: "delivery", Value: odd}, bson.E{Key: "offsetReset", Value: odd})
	event := w.event(odd, 0, bson.D{{Key: odd, Value: odd}}, odd, odd)
	of := func(status string, more ...bson.E) string {
		w.number++
		return w.delivery(odd, odd, status, event+odd+string(rune('a'+w.number)), 0, append(more, bson.E{Key: "_id", Value: odd + status + newID()})...)
	}
	attempt := append(w.attempt(1, 0, 0, odd, odd, odd), bson.E{Key: "lockOwner", Value: odd})
	failed := of("v2-error", bson.E{Key: "eventId", Value: event}, bson.E{Key: "error", Value: failure(odd, odd, odd)},
		bson.E{Key: "attempts", Value: bson.A{attempt}},
		bson.E{Key: "grants", Value: bson.A{bson.D{{Key: "attempt", Value: 2}, {Key: "by", Value: odd}, {Key: "reason", Value: odd}, {Key: "at", Value: w.now}}}})
	gone := of("v2-processing", bson.E{Key: "lockOwner", Value: odd}, bson.E{Key: "lockedUntil", Value: w.now}, bson.E{Key: "lockToken", Value: odd})
	w.store()
	server, client := serve(t, w.db, console.Config{Name: odd, ReadWrite: true}), viewer(t)
	of2 := "group=" + url.QueryEscape(odd) + "&topic=" + url.QueryEscape(odd)
	for _, path := range []string{
		"", "?q=" + url.QueryEscape(odd+"?"), "deliveries", "deliveries?" + of2, "deliveries?state=" + url.QueryEscape(odd), "deliveries?from=" + url.QueryEscape(odd),
		"deliveries?cursor=" + url.QueryEscape(odd), "deliveries?" + url.QueryEscape(odd) + "=1", "deliveries?group=" + url.QueryEscape(odd+"?"),
		"delivery?id=" + url.QueryEscape(failed), "delivery?id=" + url.QueryEscape(gone), "subscription?" + of2, "subscription?group=a&topic=" + url.QueryEscape(odd),
		"confirm?action=pause&" + of2, "confirm?action=resume&" + of2, "confirm?action=pause&group=a&topic=" + url.QueryEscape(odd),
		"confirm?action=retry&id=" + url.QueryEscape(failed), "confirm?action=cancel&id=" + url.QueryEscape(gone),
		"confirm?action=retry-matching&state=error&" + of2, "confirm?action=retry-matching&state=" + url.QueryEscape(odd),
		"confirm?action=retry-matching&state=error&group=" + url.QueryEscape(odd) + "&code=" + url.QueryEscape(odd),
	} {
		code, page := get(t, client, server.URL+"/pulse/"+path)
		is.True(code != http.StatusServiceUnavailable)
		if found := hidden(page); found != "" {
			t.Errorf("%s shows %q", path, found)
		}
		has(t, page, shown)
	}

	// The name that is sent back is the one that is stored.
	_, page := get(t, client, server.URL+"/pulse/confirm?action=pause&"+of2)
	has(t, page, "Pause "+shown+"?", "No replica of "+shown)
	o := newOperator(t, server)
	o.Client = client
	_, form := o.form(t, "action=resume&"+of2)
	code, page := o.post(t, form)
	is.Equal(code, http.StatusOK)
	has(t, page, "Resumed.")
}
