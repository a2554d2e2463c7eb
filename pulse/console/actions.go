package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/orionjs/orion-go/internal/visible"
	"github.com/orionjs/orion-go/pulse/admin"
)

// The actions, as forms name them.
const (
	retry          = "retry"
	cancel         = "cancel"
	pause          = "pause"
	resume         = "resume"
	retryMatching  = "retry-matching"
	cancelMatching = "cancel-matching"
)

// done says what was changed, on the page that comes after it.
func done(values url.Values) string {
	action := values.Get("done")
	if text, ok := doneTexts[action]; ok {
		return text
	}
	changed, err := strconv.Atoi(values.Get("changed"))
	of, err2 := strconv.Atoi(values.Get("of"))
	if err != nil || err2 != nil {
		return ""
	}
	text := ""
	switch action {
	case retryMatching:
		text = plural(changed, "delivery gets", "deliveries get") + " one more attempt."
	case cancelMatching:
		text = plural(changed, "delivery is", "deliveries are") + " cancelled."
	default:
		return ""
	}
	if rest := of - changed; rest > 0 {
		text += " " + plural(rest, "other has", "others have") + " moved on, or could not be changed."
	}
	return text
}

var doneTexts = map[string]string{
	retry:  "One more attempt is granted. It starts when a worker of the group is free.",
	cancel: "The delivery is cancelled.",
	pause:  "Paused. Replicas stop claiming at their next poll, running handlers finish.",
	resume: "Resumed. Replicas claim again at their next poll.",
}

// bulkFields are the parts of a filter that a change to many deliveries takes.
var bulkFields = []string{"group", "topic", "state", "code", "from", "to"}

// bulkMax bounds how many deliveries one click changes.
const bulkMax = 1000

// question is what a viewer confirms.
type question struct {
	Action, Question string
	Text, Points     []string
	AskReason        bool
	Fields           []fact
	Do, Tone, Back   string
}

// confirm asks before something is changed.
func (c *Console) confirm(w http.ResponseWriter, r *http.Request) {
	values := r.URL.Query()
	q, err := c.questionOf(r.Context(), values)
	if err != nil {
		c.refuse(w, r, values, err)
		return
	}
	q.Action = "change"
	q.Fields = append(q.Fields, fact{Name: "action", Value: values.Get("action")})
	c.render(w, r, "confirm", layout{Title: q.Question, Token: token(w, r), Body: q})
}

// errNoAction answers a form that no page of the console has.
var errNoAction = &admin.QueryError{Problem: "there is no such action"}

func (c *Console) questionOf(ctx context.Context, values url.Values) (question, error) {
	group, topic, id := values.Get("group"), values.Get("topic"), values.Get("id")
	subscription := []fact{{Name: "group", Value: group}, {Name: "topic", Value: topic}}
	switch values.Get("action") {
	case retry:
		d, err := c.details.get(ctx, id)
		if err != nil {
			return question{}, err
		}
		q := question{
			Question: "Retry this delivery?", Do: "Retry", Tone: "first", Back: back(values), Fields: []fact{{Name: "id", Value: id}},
			Text:   []string{fmt.Sprintf("%s of %s gets exactly one more attempt of %s.", eventsOf(d), visible.Name(d.Topic), visible.Name(d.Group))},
			Points: []string{"The handler runs again with the same event ID: an idempotent one does nothing twice.", "If it fails, the delivery has failed again. No retries follow by themselves."},
		}
		if d.State == admin.Succeeded {
			q.Points = append(q.Points, "It has succeeded before.")
		}
		return q, nil
	case cancel:
		d, err := c.details.get(ctx, id)
		if err != nil {
			return question{}, err
		}
		q := question{
			Question: "Cancel this delivery?", Do: "Cancel it", Tone: "danger", Back: back(values), AskReason: true, Fields: []fact{{Name: "id", Value: id}},
			Text: []string{fmt.Sprintf("%s of %s will not be handled by %s. The delivery ends as an error, and can be retried later.", eventsOf(d), visible.Name(d.Topic), visible.Name(d.Group))},
		}
		if d.State == admin.Processing {
			q.Points = []string{"Its handler is running. It loses its lease, and its context ends at the next heartbeat. What it has done by then stays done."}
		}
		return q, nil
	case pause:
		if err := c.subscribed(ctx, group, topic); err != nil {
			return question{}, err
		}
		return question{
			Question: "Pause " + visible.Name(topic) + "?", Do: "Pause", Tone: "first", Back: back(values), AskReason: true, Fields: subscription,
			Text:   []string{fmt.Sprintf("No replica of %s starts another handler of this topic until somebody resumes it. It outlasts restarts and deploys.", visible.Name(group))},
			Points: []string{"Running handlers finish.", "Events go on to become deliveries, which wait.", "Node clients of the group do not see the pause and go on."},
		}, nil
	case resume:
		if err := c.subscribed(ctx, group, topic); err != nil {
			return question{}, err
		}
		return question{
			Question: "Resume " + visible.Name(topic) + "?", Do: "Resume", Tone: "first", Back: back(values), AskReason: true, Fields: subscription,
			Text: []string{fmt.Sprintf("The replicas of %s take up at their next poll what has waited.", visible.Name(group))},
		}, nil
	case retryMatching, cancelMatching:
		return c.bulkQuestion(ctx, values)
	default:
		return question{}, errNoAction
	}
}

// subscribed returns an *unknownError if there is no such subscription.
func (c *Console) subscribed(ctx context.Context, group, topic string) error {
	shot, err := c.watch.current(ctx)
	if shot == nil {
		return err
	}
	if _, ok := shot.subscription(group, topic); !ok {
		return &unknownError{shot.missing(group, topic)}
	}
	return nil
}

// unknownError says what has no subscription.
type unknownError struct{ text string }

func (e *unknownError) Error() string { return e.text }

func eventsOf(d *deliveryPage) string {
	if d.Batch {
		return "The batch of " + plural(len(d.EventIDs), "event", "events")
	}
	return "The event " + short(d.EventID)
}

// bulkQuestion counts what would be changed.
func (c *Console) bulkQuestion(ctx context.Context, values url.Values) (question, error) {
	sel, err := bulkQuery(values)
	if err != nil {
		return question{}, err
	}
	q := question{Back: back(values)}
	for name, list := range bulkValues(values) {
		for _, value := range list {
			q.Fields = append(q.Fields, fact{Name: name, Value: value})
		}
	}
	bulk := admin.Bulk{DryRun: true, Max: bulkMax}
	var would admin.Changes
	if values.Get("action") == retryMatching {
		would, err = c.admin.RetryMatching(ctx, sel, bulk)
		q.Do, q.Tone = "Retry them", "first"
		q.Question = "Retry " + atMost(would) + "?"
		q.Text = []string{"Each gets exactly one more attempt."}
		q.Points = []string{"The handlers run again with the same event IDs."}
	} else {
		would, err = c.admin.CancelMatching(ctx, sel, bulk)
		q.Do, q.Tone, q.AskReason = "Cancel them", "danger", true
		q.Question = "Cancel " + atMost(would) + "?"
		q.Text = []string{"They end as errors without being handled, and can be retried later."}
	}
	if err == nil && would.Matched == 0 {
		err = &admin.QueryError{Problem: "No delivery is selected: " + filterText(sel) + "."}
	}
	q.Text = append(q.Text, "Selected: "+filterText(sel)+".")
	if would.More {
		q.Points = append(q.Points, fmt.Sprintf("One click changes at most %s. Repeat it for the others.", number(bulkMax)))
	}
	return q, err
}

func atMost(c admin.Changes) string {
	if c.More {
		return "the newest " + plural(c.Matched, "delivery", "deliveries")
	}
	return plural(c.Matched, "delivery", "deliveries")
}

// filterText says in words what a filter selects.
func filterText(q admin.DeliveryQuery) string {
	states := make([]string, len(q.States))
	for i, s := range q.States {
		states[i] = strings.ToLower(statusOfState(s).Label)
	}
	text := strings.Join(states, " or ") + " of " + visible.Name(q.Group)
	if q.Topic != "" {
		text += ", topic " + visible.Name(q.Topic)
	}
	if q.ErrorCode != "" {
		text += ", with the error " + visible.Name(q.ErrorCode)
	}
	if !q.From.IsZero() {
		text += ", published from " + instant(q.From)
	}
	if !q.To.IsZero() {
		text += ", published before " + instant(q.To)
	}
	return text
}

// bulkQuery reads the filter of a change to many.
func bulkQuery(values url.Values) (admin.DeliveryQuery, error) {
	q, wrong := queryOf(bulkValues(values))
	q.Limit = 0
	if len(wrong) > 0 {
		return q, &admin.QueryError{Problem: strings.Join(wrong, " ")}
	}
	return q, nil
}

// bulkValues are its parts.
func bulkValues(values url.Values) url.Values {
	out := url.Values{}
	for _, field := range bulkFields {
		if list := values[field]; len(list) > 0 && list[0] != "" {
			out[field] = list
		}
	}
	return out
}

// back is the page that a change was asked for on, and that shows it afterwards.
func back(values url.Values) string {
	v := url.Values{}
	switch {
	case values.Get("id") != "":
		v.Set("id", values.Get("id"))
		return "delivery?" + v.Encode()
	case len(values["state"]) > 0:
		return "deliveries?" + bulkValues(values).Encode()
	default:
		v.Set("group", values.Get("group"))
		v.Set("topic", values.Get("topic"))
		return "subscription?" + v.Encode()
	}
}

// change does what was confirmed, and leads to where it shows: a reload of that page repeats nothing.
func (c *Console) change(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	err := r.ParseForm()
	if err == nil && !isText(r.PostForm) {
		err = errNoText
	}
	if err != nil {
		c.problem(w, r, http.StatusBadRequest, problem{What: "The form could not be read", Text: trouble(err), Back: "./", BackText: "Overview"})
		return
	}
	if !genuine(r) {
		c.problem(w, r, http.StatusForbidden, problem{What: "Nothing was changed", Text: "The form does not come from a page of this console, or cookies are off. Open the page again and repeat it.", Back: "./", BackText: "Overview"})
		return
	}
	values := r.PostForm
	said, err := c.act(r.Context(), values, admin.By{Name: c.operator(r), Reason: strings.TrimSpace(values.Get("reason"))})
	c.changed() // also after an error: something may have moved
	if err != nil {
		c.refuse(w, r, values, err)
		return
	}
	// Relative, and not by http.Redirect, which makes it absolute and does not know where the console is mounted.
	w.Header().Set("Location", back(values)+"&"+said.Encode())
	w.WriteHeader(http.StatusSeeOther)
}

// refuse says why nothing was changed.
func (c *Console) refuse(w http.ResponseWriter, r *http.Request, values url.Values, err error) {
	p := problem{What: "Nothing was changed", Text: trouble(err), Back: back(values), BackText: "Look at it again"}
	code := http.StatusServiceUnavailable
	if e, ok := errors.AsType[*admin.StateError](err); ok {
		code, p.Text = http.StatusConflict, fmt.Sprintf("The delivery is %s by now.", strings.ToLower(statusOfState(e.Is).Label))
	} else if _, ok := errors.AsType[*admin.NotFoundError](err); ok {
		code, p.Text = http.StatusNotFound, "It is not stored any more, or has another name."
	} else if e, ok := errors.AsType[*unknownError](err); ok {
		code, p.Text = http.StatusNotFound, e.text
	} else if e, ok := errors.AsType[*admin.ExpiredError](err); ok {
		code, p.Text = http.StatusConflict, fmt.Sprintf("Its events (%d) are no longer stored, so that a handler would get nothing. Publish them again.", e.Events)
	} else if e, ok := errors.AsType[*admin.QueryError](err); ok {
		code, p.Text = http.StatusBadRequest, visible.Text(e.Problem)
	}
	c.problem(w, r, code, p)
}
