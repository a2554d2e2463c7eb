package console

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/orionjs/orion-go/internal/spelling"
	"github.com/orionjs/orion-go/internal/visible"
	"github.com/orionjs/orion-go/pulse/admin"
)

// filterFields are the parts of a filter of deliveries; only state may be there several times.
var filterFields = []string{"group", "topic", "state", "event", "code", "from", "to", "cursor"}

// doneFields say what was changed, on the page that comes after it.
var doneFields = []string{"done", "changed", "of"}

// queryOf reads the filter of a list, and says what is wrong with it.
func queryOf(values url.Values) (q admin.DeliveryQuery, wrong []string) {
	q = admin.DeliveryQuery{
		Group: values.Get("group"), Topic: values.Get("topic"), EventID: values.Get("event"), ErrorCode: values.Get("code"),
		Cursor: values.Get("cursor"), Limit: pageSize,
	}
	for _, text := range values["state"] {
		s := admin.State(text)
		q.States = append(q.States, s)
		if !slices.Contains(admin.States, s) {
			wrong = append(wrong, fmt.Sprintf("There is no state %s.", quoted(text)))
		}
	}
	at := func(name string) time.Time {
		text := values.Get(name)
		t, ok := timeOf(text)
		if !ok && text != "" {
			wrong = append(wrong, fmt.Sprintf("The time %s of %s is none. Write it like 2026-05-17T13:45.", quoted(text), quoted(name)))
		}
		return t
	}
	q.From, q.To = at("from"), at("to")
	return q, wrong
}

// strangers says what of an address is no filter: what is left out silently would show deliveries that were not
// asked for.
func strangers(values url.Values) (wrong []string) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		switch {
		case slices.Contains(doneFields, name):
		case !slices.Contains(filterFields, name):
			wrong = append(wrong, fmt.Sprintf("There is no filter %s%s. There are %s.", quoted(name), meant(name, filterFields), strings.Join(filterFields, ", ")))
		case name != "state" && len(values[name]) > 1:
			wrong = append(wrong, fmt.Sprintf("The filter %s is there %d times, and can be there once.", quoted(name), len(values[name])))
		}
	}
	return wrong
}

// moment is a time in a form, as it was typed.
type moment struct{ Text, Input string }

// momentOf returns a time for a field of the form. A browser shows in a field for times nothing but times: what is
// none gets one for text.
func momentOf(text string) moment {
	if _, ok := timeOf(text); !ok && text != "" {
		return moment{text, "text"}
	}
	return moment{text, "datetime-local"}
}

// timeOf reads what a browser sends for a date and time, which leaves out seconds that are zero.
func timeOf(text string) (time.Time, bool) {
	for _, form := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if t, err := time.Parse(form, text); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}

// unknown says which of the names is none of the subscriptions'; an empty name is any. It returns nothing when there is
// such a subscription.
func (s *snapshot) unknown(group, topic string) string {
	var groups, topics []string
	together := false
	for _, sub := range s.subscriptions {
		groups, topics = append(groups, sub.Group), append(topics, sub.Topic)
		together = together || (group == "" || sub.Group == group) && (topic == "" || sub.Topic == topic)
	}
	switch {
	case together || group == "" && topic == "":
		return ""
	case group != "" && !slices.Contains(groups, group):
		return fmt.Sprintf("There is no group %s%s.", quoted(group), meant(group, groups))
	case topic != "" && !slices.Contains(topics, topic):
		return fmt.Sprintf("No group is subscribed to a topic %s%s.", quoted(topic), meant(topic, topics))
	default:
		return fmt.Sprintf("The group %s is not subscribed to the topic %s.", quoted(group), quoted(topic))
	}
}

// missing says why there is no subscription.
func (s *snapshot) missing(group, topic string) string {
	if group == "" || topic == "" {
		return "The address has to name a group and a topic."
	}
	return s.unknown(group, topic)
}

// meant suggests the candidate that is nearly the same.
func meant(name string, candidates []string) string {
	if near, ok := spelling.Nearest(name, candidates); ok {
		return "; is " + quoted(near) + " meant?"
	}
	return ""
}

func quoted(name string) string { return "“" + visible.Name(name) + "”" }

// readable refuses addresses and forms that are no text: what a name would become on its way to the database is
// anybody's guess.
func (c *Console) readable(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		values, err := url.ParseQuery(r.URL.RawQuery)
		if err == nil && !isText(values, r.URL.Path) {
			err = errNoText
		}
		if err != nil {
			c.problem(w, r, http.StatusBadRequest, problem{What: "The address cannot be read", Text: trouble(err), Back: "./", BackText: "Overview"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// errNoText says what readable and change refuse.
var errNoText = errors.New("it has bytes that are no text: names and IDs are written in UTF-8, and sent percent-encoded")

// isText tells that all of it is UTF-8.
func isText(values url.Values, more ...string) bool {
	for name, list := range values {
		more = append(append(more, name), list...)
	}
	return !slices.ContainsFunc(more, func(s string) bool { return !utf8.ValidString(s) })
}
