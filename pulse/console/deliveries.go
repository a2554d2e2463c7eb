package console

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/orionjs/orion-go/pulse/admin"
)

// pageSize is how many deliveries are on a page.
const pageSize = 50

// deliveryList is a table of deliveries.
type deliveryList struct {
	Rows []deliveryRow
	// OneTopic and OneState leave out columns that would say the same in each row.
	OneTopic, OneState bool
}

type deliveryRow struct {
	admin.Delivery
	Status status
	When   string
}

func listOf(deliveries []admin.Delivery, now time.Time) deliveryList {
	var list deliveryList
	for _, d := range deliveries {
		list.Rows = append(list.Rows, deliveryRow{Delivery: d, Status: statusOf(d), When: when(d, now)})
	}
	return list
}

// when says what happened to a delivery, or will happen.
func when(d admin.Delivery, now time.Time) string {
	switch {
	case !d.EndedAt.IsZero():
		return "ended " + ago(d.EndedAt, now)
	case d.State == admin.Processing && d.LeaseEnded:
		return "its lease ended " + ago(d.LockedUntil, now)
	case d.State == admin.Processing && !d.StartedAt.IsZero():
		return "running for " + duration(max(0, now.Sub(d.StartedAt)))
	case d.State == admin.Processing:
		return "claimed, about to start"
	case d.NextAttemptAt.After(now):
		return "due in " + duration(d.NextAttemptAt.Sub(now).Round(time.Second))
	case !d.NextAttemptAt.IsZero():
		return "due since " + duration(now.Sub(d.NextAttemptAt))
	default:
		return "waiting since " + ago(d.CreatedAt, now)
	}
}

func ago(t, now time.Time) string {
	d := now.Sub(t)
	if d < time.Second {
		return "just now"
	}
	return duration(d) + " ago"
}

type deliveriesPage struct {
	Query          admin.DeliveryQuery
	From, To       string
	Groups, Topics []string
	States         []option
	// Filtered tells that anything is selected, More that it is by what is folded away otherwise.
	Filtered, More bool
	List           deliveryList
	// Next and First are the addresses of other pages; Earlier tells that this one is not the first.
	Next, First string
	Earlier     bool
	Bulk        []bulkLink
}

type option struct {
	Value, Label string
	Checked      bool
}

// bulkLink leads to the confirmation of a change to all that the filter selects.
type bulkLink struct{ Label, Link string }

func (c *Console) deliveries(w http.ResponseWriter, r *http.Request) {
	values := r.URL.Query()
	q, err := queryOf(values)
	if err != nil {
		c.problem(w, r, http.StatusBadRequest, problem{What: "The filter makes no sense", Text: err.Error(), Back: "deliveries", BackText: "All deliveries"})
		return
	}
	// The names to choose from, and the server's time.
	shot, shotErr := c.watch.current(r.Context())
	if shot == nil {
		c.unreadable(w, r, shotErr)
		return
	}
	page, err := c.lists.get(r.Context(), q)
	if wrong, ok := errors.AsType[*admin.QueryError](err); ok {
		c.problem(w, r, http.StatusBadRequest, problem{What: "The filter makes no sense", Text: wrong.Problem, Back: "deliveries", BackText: "All deliveries"})
		return
	}
	if err != nil {
		c.unreadable(w, r, err)
		return
	}
	body := deliveriesPage{Query: q, From: values.Get("from"), To: values.Get("to"), Earlier: q.Cursor != "", List: listOf(page.Deliveries, shot.rates.now)}
	body.List.OneTopic = q.Group != "" && q.Topic != ""
	body.Groups, body.Topics = names(shot, q)
	for _, s := range admin.States {
		body.States = append(body.States, option{string(s), statusOfState(s).Label, slices.Contains(q.States, s)})
	}
	values.Del("cursor")
	body.First = "deliveries?" + values.Encode()
	body.More = q.EventID != "" || q.ErrorCode != "" || !q.From.IsZero() || !q.To.IsZero()
	body.Filtered = body.More || q.Group != "" || q.Topic != "" || len(q.States) > 0
	if c.config.ReadWrite {
		body.Bulk = bulkOf(q, values)
	}
	if page.Next != "" {
		values.Set("cursor", page.Next)
		body.Next = "deliveries?" + values.Encode()
	}
	c.render(w, r, "deliveries", layout{Title: "Deliveries", Place: "deliveries", Read: shot.read, Body: body})
}

// queryOf reads the filter of a list.
func queryOf(values url.Values) (admin.DeliveryQuery, error) {
	q := admin.DeliveryQuery{
		Group: values.Get("group"), Topic: values.Get("topic"), EventID: values.Get("event"), ErrorCode: values.Get("code"),
		Cursor: values.Get("cursor"), Limit: pageSize,
	}
	for _, s := range values["state"] {
		q.States = append(q.States, admin.State(s))
	}
	var err error
	if q.From, err = timeOf(values.Get("from")); err == nil {
		q.To, err = timeOf(values.Get("to"))
	}
	return q, err
}

// timeOf reads what a browser sends for a date and time, which leaves out seconds that are zero.
func timeOf(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, form := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if t, err := time.Parse(form, text); err == nil {
			return t, nil
		}
	}
	return time.Time{}, errors.New(text + " is no date and time: write it like 2026-05-17T13:45")
}

// names lists the groups and topics to choose from, with those that the query names.
func names(shot *snapshot, q admin.DeliveryQuery) (groups, topics []string) {
	for _, s := range shot.subscriptions {
		groups, topics = append(groups, s.Group), append(topics, s.Topic)
	}
	tidy := func(list []string, chosen string) []string {
		if chosen != "" {
			list = append(list, chosen)
		}
		slices.Sort(list)
		return slices.Compact(list)
	}
	return tidy(groups, q.Group), tidy(topics, q.Topic)
}

// bulkOf are the changes to all deliveries of a filter that names what it selects: a whole state of a topic, not
// whatever there is.
func bulkOf(q admin.DeliveryQuery, values url.Values) []bulkLink {
	if len(q.States) == 0 || q.Group == "" || q.EventID != "" {
		return nil
	}
	only := func(states ...admin.State) bool {
		return !slices.ContainsFunc(q.States, func(s admin.State) bool { return !slices.Contains(states, s) })
	}
	link := func(label, action string) []bulkLink {
		v := url.Values{"action": {action}}
		for key, list := range values {
			if slices.Contains(bulkFields, key) {
				v[key] = list
			}
		}
		return []bulkLink{{label, "confirm?" + v.Encode()}}
	}
	switch {
	case only(admin.Failed):
		return link("Retry all of these…", retryMatching)
	case only(admin.Pending, admin.Retrying):
		return link("Cancel all of these…", cancelMatching)
	default:
		return nil
	}
}
