package console

import (
	"fmt"
	"net/http"

	"github.com/orionjs/orion-go/internal/visible"
	"github.com/orionjs/orion-go/pulse/admin"
)

// fact is a name and a value.
type fact struct {
	Name, Value, Note string
	Mono, Wide        bool
}

type subscriptionPage struct {
	Row     row
	NotYet  string
	Caption string
	Bars    []bar
	// Failed are the newest that failed.
	Failed     deliveryList
	MoreFailed bool
	Facts      []fact
}

// failedShown is how many of them.
const failedShown = 8

func (c *Console) subscription(w http.ResponseWriter, r *http.Request) {
	group, topic := r.URL.Query().Get("group"), r.URL.Query().Get("topic")
	shot, err := c.watch.current(r.Context())
	if shot == nil {
		c.unreadable(w, r, err)
		return
	}
	s, ok := shot.subscription(group, topic)
	if !ok {
		c.problem(w, r, http.StatusNotFound, problem{What: "There is no such subscription", Text: shot.missing(group, topic), Back: "./", BackText: "Overview"})
		return
	}
	page := subscriptionPage{Row: rowOf(s, shot), Facts: settingsOf(s)}
	if b := s.Backlog; b.Undiscovered.N > 0 {
		page.NotYet = plural(b.Undiscovered.N, "event has", "events have") + " no delivery yet"
	}
	page.Bars = page.Row.Rate.Bars()
	page.Caption = caption(page.Row.Rate)
	if s.Backlog.Failed.N > 0 {
		failed, listErr := c.lists.get(r.Context(), admin.DeliveryQuery{Group: group, Topic: topic, States: []admin.State{admin.Failed}, Limit: failedShown})
		if err == nil {
			err = listErr
		}
		page.Failed = listOf(failed.Deliveries, shot.rates.now)
		page.MoreFailed = failed.Next != ""
	}
	page.Failed.OneTopic, page.Failed.OneState = true, true
	c.render(w, r, "subscription", layout{Title: visible.Name(topic) + " of " + visible.Name(group), Place: "overview", Live: liveSeconds, Read: shot.read, Trouble: trouble(err), Body: page})
}

func caption(r rate) string {
	switch {
	case !r.Known:
		return "Nothing of this group that has ended is kept, or nothing has ended yet: so nothing can be counted."
	case r.Finished() == 0:
		return "Nothing ended in this time."
	case r.Failed == 0:
		return fmt.Sprintf("%s, all succeeded. In the last minute %s.", plural(r.Finished(), "delivery", "deliveries"), eventsPerSecond(r))
	default:
		return fmt.Sprintf("%s, %s of them failed (%s). In the last minute %s.", plural(r.Finished(), "delivery", "deliveries"), number(r.Failed), percent(r.ErrorShare()), eventsPerSecond(r))
	}
}

func eventsPerSecond(r rate) string { return perSecond(r.PerSecond) + " in events" }

func settingsOf(s admin.Subscription) []fact {
	set := s.Settings
	mode := "one event a call"
	if set.ReceiverMode == "batch" {
		mode = fmt.Sprintf("batches of up to %s", plural(set.BatchSize, "event", "events"))
	}
	order := "in parallel"
	if set.Ordered && set.ReceiverMode != "batch" {
		order = "one at a time, in order"
	}
	leader := fact{Name: "Discovery leader", Value: missing, Note: "nobody has led this topic", Wide: true}
	if s.Leader.Owner != "" {
		leader.Value, leader.Mono, leader.Note = visible.Name(s.Leader.Owner), true, ""
		if !s.Leader.Held {
			leader.Note = "until " + instant(s.Leader.Until)
		}
	}
	facts := []fact{
		{Name: "Receives", Value: mode},
		{Name: "Runs", Value: order},
		{Name: "Delivery", Value: visible.Name(set.Delivery)},
		{Name: "Retries", Value: retriesOf(set)},
		{Name: "Execution version", Value: number(set.ExecutionVersion)},
		{Name: "Config version", Value: number(set.ConfigVersion)},
		{Name: "Starts at", Value: visible.Name(set.OffsetReset), Note: "used when it was created"},
		{Name: "Since", Value: instant(s.CreatedAt)},
		{Name: "Cursor", Value: instant(s.Cursor.Time), Note: "the last event that has a delivery"},
		leader,
	}
	if s.Resumed != nil {
		facts = append(facts, fact{Name: "Last resumed", Value: "by " + visible.Name(s.Resumed.Name) + ", " + instant(s.Resumed.At), Note: visible.Name(s.Resumed.Reason), Wide: true})
	}
	if s.OrderHolder.Owner != "" {
		facts = append(facts, fact{Name: "Runs the order", Value: visible.Name(s.OrderHolder.Owner), Mono: true, Wide: true})
	}
	return facts
}

func retriesOf(s admin.Settings) string {
	if s.MaxRetries == 0 {
		return "none"
	}
	return fmt.Sprintf("up to %d, first after %s, then × %g", s.MaxRetries, duration(s.RetryDelay), s.RetryBackoffMultiplier)
}
