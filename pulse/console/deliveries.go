package console

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/orionjs/orion-go/internal/visible"
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
	Title string
	// Wrong says what is wrong with the filter, if there is anything.
	Wrong          []string
	Query          admin.DeliveryQuery
	From, To       moment
	Groups, Topics []string
	States         []option
	// Filtered tells that anything is selected, More that it is by what is folded away otherwise.
	Filtered, More bool
	List           deliveryList
	// Where says where an event is that was asked for and has no such delivery.
	Where string
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
	// The names to choose from, and the server's time.
	shot, err := c.watch.current(r.Context())
	if shot == nil {
		c.unreadable(w, r, err)
		return
	}
	q, wrong := queryOf(values)
	wrong = append(wrong, strangers(values)...)
	var page admin.DeliveryPage
	if len(wrong) == 0 {
		page, err = c.lists.get(r.Context(), q)
		if problem, ok := errors.AsType[*admin.QueryError](err); ok {
			wrong = append(wrong, visible.Text(problem.Problem))
		} else if err != nil {
			c.unreadable(w, r, err)
			return
		}
	}
	code, title := http.StatusOK, "Deliveries"
	body := deliveriesPage{Query: q, Earlier: q.Cursor != "", List: listOf(page.Deliveries, shot.rates.now)}
	if len(wrong) > 0 {
		code, title, body.Wrong = http.StatusBadRequest, "The filter makes no sense", wrong
	} else if unknown := shot.unknown(q.Group, q.Topic); unknown != "" && len(page.Deliveries) == 0 && page.Next == "" {
		// What is no longer subscribed may still have deliveries; those are shown.
		code, title, body.Wrong = http.StatusNotFound, "There is nothing of that name", []string{unknown}
	}
	if len(body.Wrong) == 0 && q.EventID != "" && len(page.Deliveries) == 0 {
		event, err := c.events.get(r.Context(), q.EventID)
		if err != nil {
			c.unreadable(w, r, err)
			return
		}
		if event.Gone {
			code, title = http.StatusNotFound, "There is nothing of that name"
			body.Wrong = []string{"No event " + quoted(q.EventID) + " is stored. It has another ID, was cancelled before its time, or its retention has deleted it."}
		}
		body.Where = whereIs(event, shot.rates.now)
	}
	body.fill(shot, values)
	if c.config.ReadWrite {
		body.Bulk = bulkOf(q, values)
	}
	for _, field := range append(doneFields, "cursor") {
		values.Del(field)
	}
	body.First = "deliveries?" + values.Encode()
	if page.Next != "" {
		values.Set("cursor", page.Next)
		body.Next = "deliveries?" + values.Encode()
	}
	body.Title = title
	c.renderStatus(w, r, code, "deliveries", layout{Title: title, Place: "deliveries", Read: shot.read, Body: body})
}

// whereIs says where an event is that has no delivery of those that were asked for.
func whereIs(e admin.Event, now time.Time) string {
	switch {
	case e.Waiting && e.NotBefore.After(now):
		return "The event waits for its time, " + instant(e.NotBefore) + ". No group gets it before."
	case e.Waiting && !e.NotBefore.IsZero():
		return "The event has been due since " + instant(e.NotBefore) + ", and no client has published it yet."
	case e.Waiting:
		return "The event was stored in a transaction. A client gives it its place in the order within a poll."
	default:
		return "The event is published. A group that is behind has no delivery of it yet; one that ended may have been deleted by the history retention of its group."
	}
}

// fill puts into the form what was asked for, as it was typed.
func (p *deliveriesPage) fill(shot *snapshot, values url.Values) {
	p.From, p.To = momentOf(values.Get("from")), momentOf(values.Get("to"))
	p.List.OneTopic = p.Query.Group != "" && p.Query.Topic != ""
	p.Groups, p.Topics = names(shot, p.Query)
	for _, s := range admin.States {
		p.States = append(p.States, option{string(s), statusOfState(s).Label, slices.Contains(p.Query.States, s)})
	}
	for _, s := range p.Query.States {
		if !slices.Contains(admin.States, s) {
			p.States = append(p.States, option{string(s), string(s), true})
		}
	}
	p.More = p.Query.EventID != "" || p.Query.ErrorCode != "" || p.From.Text != "" || p.To.Text != ""
	p.Filtered = p.More || len(p.Wrong) > 0 || p.Query.Group != "" || p.Query.Topic != "" || len(p.Query.States) > 0
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
