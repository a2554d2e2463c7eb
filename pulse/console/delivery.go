package console

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/orionjs/orion-go/internal/visible"
	"github.com/orionjs/orion-go/pulse/admin"
	"github.com/orionjs/orion-go/pulse/internal/clock"
)

// maxEvents is how many events of a batch are shown.
const maxEvents = 20

type deliveryPage struct {
	admin.Delivery
	Status              status
	When                string
	MayRetry, MayCancel bool
	Runs                []run
	// Ending is what it ended with, if that is not of an attempt.
	Ending     *admin.Failure
	Contents   []content
	MoreEvents int
	Facts      []fact
	read       time.Time
}

// run is an attempt.
type run struct {
	Status status
	When   string
	Error  *admin.Failure
}

// content is an event with its payload, or without.
type content struct {
	ID, Publisher string
	CreatedAt     time.Time
	// For is the later time that it was published for; zero for at once.
	For          time.Time
	Gone, Hidden bool
	Headers      []fact
	Payload      payload
}

func (c *Console) delivery(w http.ResponseWriter, r *http.Request) {
	page, err := c.details.get(r.Context(), r.URL.Query().Get("id"))
	if _, ok := errors.AsType[*admin.NotFoundError](err); ok {
		c.problem(w, r, http.StatusNotFound, problem{What: "There is no such delivery", Text: "It may have been deleted: what has ended is kept for the history retention of its group.", Back: "deliveries", BackText: "All deliveries"})
		return
	}
	if err != nil {
		c.unreadable(w, r, err)
		return
	}
	live := 0
	if page.EndedAt.IsZero() {
		live = liveSeconds
	}
	c.render(w, r, "delivery", layout{Title: "Delivery " + short(page.EventID), Place: "deliveries", Live: live, Read: page.read, Body: page})
}

// readDelivery reads a delivery and keeps only what is shown of it.
func (c *Console) readDelivery(ctx context.Context, id string) (*deliveryPage, error) {
	d, err := c.admin.Delivery(ctx, id)
	if err != nil {
		return nil, err
	}
	now := clock.Now()
	page := &deliveryPage{
		Delivery: d.Delivery, Status: statusOf(d.Delivery), When: when(d.Delivery, now), read: now,
		MayRetry:  d.State == admin.Failed || d.State == admin.Succeeded,
		MayCancel: d.EndedAt.IsZero() && d.State != admin.Unknown,
		Facts:     factsOf(d.Delivery),
	}
	for _, a := range slices.Backward(d.Attempts) {
		page.Runs = append(page.Runs, runOf(a, now))
	}
	ofAttempt := func(a admin.Attempt) bool { return a.Error != nil && d.Error != nil && *a.Error == *d.Error }
	if d.State == admin.Failed && !slices.ContainsFunc(d.Attempts, ofAttempt) {
		page.Ending = d.Error
	}
	shown := d.Events[:min(len(d.Events), maxEvents)]
	for _, e := range shown {
		page.Contents = append(page.Contents, c.contentOf(e))
	}
	page.MoreEvents = len(d.EventIDs) - len(shown)
	return page, nil
}

func runOf(a admin.Attempt, now time.Time) run {
	out := run{Status: statusOfState(a.State), Error: a.Error}
	out.Status.Label = "Attempt " + strconv.Itoa(a.Number) + " " + verb(a.State)
	var parts []string
	switch {
	case !a.EndedAt.IsZero():
		parts = append(parts, precise(a.StartedAt), "took "+duration(a.Duration))
	case a.State == admin.Processing && !a.StartedAt.IsZero():
		parts = append(parts, "since "+precise(a.StartedAt))
	case a.NextAttemptAt.After(now):
		parts = append(parts, "due at "+precise(a.NextAttemptAt))
	case !a.NextAttemptAt.IsZero():
		parts = append(parts, "due since "+precise(a.NextAttemptAt))
	}
	if a.Worker != "" {
		parts = append(parts, visible.Name(a.Worker))
	}
	if a.ExpiredEvents > 0 {
		parts = append(parts, plural(a.ExpiredEvents, "event was gone", "events were gone"))
	}
	out.When = strings.Join(parts, " · ")
	return out
}

func verb(s admin.State) string {
	switch s {
	case admin.Succeeded:
		return "succeeded"
	case admin.Failed:
		return "failed"
	case admin.Processing:
		return "is running"
	default:
		return "is to come"
	}
}

func (c *Console) contentOf(e admin.Event) content {
	out := content{ID: e.ID, Publisher: e.Publisher, CreatedAt: e.CreatedAt, For: e.NotBefore, Gone: e.Gone, Hidden: c.config.HidePayloads}
	if e.Gone {
		return out
	}
	if c.config.HidePayloads {
		out.Payload.Bytes = len(e.Data.Value)
		return out
	}
	for name, value := range e.Headers {
		out.Headers = append(out.Headers, fact{Name: name, Value: value})
	}
	slices.SortFunc(out.Headers, func(a, b fact) int { return strings.Compare(a.Name, b.Name) })
	out.Payload = formatPayload(e.Data)
	return out
}

func factsOf(d admin.Delivery) []fact {
	facts := []fact{
		{Name: "Group", Value: visible.Name(d.Group)},
		{Name: "Topic", Value: visible.Name(d.Topic)},
		{Name: "Published", Value: instant(d.EventCreatedAt)},
		{Name: "Delivery made", Value: instant(d.CreatedAt)},
		{Name: "Attempts begun", Value: number(d.Attempt)},
		{Name: "Execution version", Value: number(d.ExecutionVersion)},
	}
	add := func(name string, t time.Time) {
		if !t.IsZero() {
			facts = append(facts, fact{Name: name, Value: instant(t)})
		}
	}
	add("Ended", d.EndedAt)
	if d.State == admin.Pending || d.State == admin.Retrying {
		add("Next attempt", d.NextAttemptAt)
	}
	if d.State == admin.Processing {
		add("Lease until", d.LockedUntil)
	}
	add("Kept until", d.ExpiresAt)
	if d.ExpiredEvents > 0 {
		facts = append(facts, fact{Name: "Events gone before it ran", Value: number(d.ExpiredEvents)})
	}
	for _, g := range d.Grants {
		facts = append(facts, fact{Name: "Attempt " + strconv.Itoa(g.Attempt) + " granted", Value: "by " + visible.Name(g.Name) + ", " + instant(g.At), Note: visible.Name(g.Reason), Wide: true})
	}
	if d.HalfDone {
		facts = append(facts, fact{Name: "Half done", Value: "a step over two collections is not complete", Note: "a client of the group completes it", Wide: true})
	}
	facts = append(facts, fact{Name: "Delivery ID", Value: visible.Name(d.ID), Mono: true, Wide: true}, fact{Name: "Event ID", Value: visible.Name(d.EventID), Mono: true, Wide: true})
	if d.Worker != "" {
		facts = append(facts, fact{Name: "Worker", Value: visible.Name(d.Worker), Mono: true, Wide: true})
	}
	return facts
}
