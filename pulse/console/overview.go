package console

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/orionjs/orion-go/pulse/admin"
)

// maxLook bounds the list of what needs a look; the table has all of it.
const maxLook = 8

type overview struct {
	Headline, Lead, Query              string
	Total                              int
	Waiting, Running, Retrying, Failed admin.Count
	Rate                               rate
	Look                               []row
	LookMore                           int
	Groups                             []groupRows
}

// groupRows are the topics of a group.
type groupRows struct {
	Name string
	Rows []row
}

func (c *Console) overview(w http.ResponseWriter, r *http.Request) {
	shot, err := c.watch.current(r.Context())
	if shot == nil {
		c.unreadable(w, r, err)
		return
	}
	c.render(w, r, "overview", layout{Title: "Overview", Place: "overview", Live: liveSeconds, Read: shot.read, Trouble: trouble(err), Body: overviewOf(shot, strings.TrimSpace(r.URL.Query().Get("q")))})
}

func overviewOf(shot *snapshot, query string) overview {
	o := overview{Query: query, Total: len(shot.subscriptions)}
	var keys []subscriptionKey
	look, paused := 0, 0
	for _, s := range shot.subscriptions {
		r := rowOf(s, shot)
		keys = append(keys, subscriptionKey{s.Group, s.Topic})
		o.Waiting = sum(o.Waiting, r.Waiting)
		o.Running = sum(o.Running, s.Backlog.Processing)
		o.Retrying = sum(o.Retrying, s.Backlog.Retrying)
		o.Failed = sum(o.Failed, s.Backlog.Failed)
		if s.Paused != nil {
			paused++
		}
		if r.NeedsLook() {
			look++
		}
		if query != "" && !contains(s.Group, query) && !contains(s.Topic, query) {
			continue
		}
		if r.NeedsLook() {
			o.Look = append(o.Look, r)
		}
		if n := len(o.Groups); n == 0 || o.Groups[n-1].Name != s.Group {
			o.Groups = append(o.Groups, groupRows{Name: s.Group})
		}
		last := &o.Groups[len(o.Groups)-1]
		last.Rows = append(last.Rows, r)
	}
	o.Rate = shot.rates.of(keys...)
	o.Look = worstFirst(o.Look)
	o.LookMore = max(0, len(o.Look)-maxLook)
	o.Look = o.Look[:min(len(o.Look), maxLook)]
	o.Headline, o.Lead = headline(len(keys), look, paused)
	return o
}

func headline(all, look, paused int) (headline, lead string) {
	lead = "What each consumer group has not finished of its topics, and how fast it works."
	switch {
	case all == 0:
		return "No subscriptions", "Consumer groups and topics will be listed here."
	case look == 0 && all == 1:
		headline = "The subscription is keeping up"
	case look == 0:
		headline = fmt.Sprintf("All %s subscriptions are keeping up", number(all))
		if paused > 0 {
			headline = fmt.Sprintf("%s keeping up", plural(all-paused, "subscription is", "subscriptions are"))
		}
	case look == 1:
		headline = fmt.Sprintf("1 of %s needs a look", plural(all, "subscription", "subscriptions"))
	default:
		headline = fmt.Sprintf("%s of %s need a look", number(look), plural(all, "subscription", "subscriptions"))
	}
	if paused > 0 {
		headline += fmt.Sprintf(", %d paused", paused)
	}
	return headline, lead
}

// worstFirst orders by how much they ask for a look; among equals the order stays.
func worstFirst(rows []row) []row {
	var first, second []row
	for _, r := range rows {
		if r.State.Tone == bad {
			first = append(first, r)
		} else {
			second = append(second, r)
		}
	}
	return append(first, second...)
}

func contains(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}
