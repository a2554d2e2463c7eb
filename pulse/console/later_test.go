package console_test

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/admin"
	"github.com/orionjs/orion-go/pulse/console"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// What waits for its time is shown beside what waits, with when the next is due, and is not counted as late. The event of
// a delivery says for when it was published.
func TestLater_9_1_EventsThatWaitForTheirTime(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newShop(t)
	for i, ahead := range []time.Duration{90 * time.Minute, 3 * time.Hour, 50 * time.Hour} {
		_, err := orders.Publish(t.Context(), s.client, order{i}, pulse.NotBefore(time.Now().Add(ahead)))
		is.NoErr(err)
	}
	server, client := serve(t, s.db, console.Config{}), viewer(t)
	for _, path := range []string{"", "subscription?group=shipping&topic=order.placed"} {
		code, page := get(t, client, server.URL+"/pulse/"+path)
		is.Equal(code, http.StatusOK)
		has(t, page, "Idle")
		is.True(regexp.MustCompile(`3 scheduled, the next in 1 h \d+ min`).MatchString(plain(page)))
	}

	// One that is asked for says where it is, though it has no delivery.
	at := time.Now().Add(90 * time.Minute).UTC()
	waiting, err := orders.Publish(t.Context(), s.client, order{4}, pulse.NotBefore(at))
	is.NoErr(err)
	code, page := get(t, client, server.URL+"/pulse/deliveries?event="+waiting.ID)
	is.Equal(code, http.StatusOK)
	has(t, page, "No deliveries", "The event waits for its time, "+at.Format("2 Jan 2006, 15:04:05")+". No group gets it before.")
	code, page = get(t, client, server.URL+"/pulse/deliveries?event=none")
	is.Equal(code, http.StatusNotFound)
	has(t, page, "No event “none” is stored")

	due := time.Now().Add(time.Second).UTC()
	_, err = orders.Publish(t.Context(), s.client, order{7}, pulse.NotBefore(due))
	is.NoErr(err)
	is.Equal(s.handled.Wait(t, 1), []int{7})
	d := s.await(t, 1, admin.Succeeded)[0]
	_, page = get(t, client, server.URL+"/pulse/delivery?id="+d.ID)
	has(t, page, "for "+due.Format("2 Jan 2006, 15:04:05"))
}

// Resuming is recorded like pausing, and shown.
func TestPause_9_2_WhoResumedIsShown(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := newShop(t)
	o := newOperator(t, serve(t, s.db, console.Config{ReadWrite: true, Operator: func(*http.Request) string { return "Rosa" }}))
	_, form := o.form(t, "action=pause&group=shipping&topic=order.placed")
	_, page := o.post(t, form)
	has(t, page, "Paused by Rosa")
	question, form := o.form(t, "action=resume&group=shipping&topic=order.placed")
	is.True(strings.Contains(question, "Reason"))
	form.Set("reason", "the carrier is back")
	code, page := o.post(t, form)
	is.Equal(code, http.StatusOK)
	has(t, page, "Last resumed by Rosa", "the carrier is back")
	pulsetest.Eventually(t, "it is stored", func(ctx context.Context) error {
		subs, err := s.admin.Subscriptions(ctx, admin.SubscriptionQuery{CountLimit: -1})
		if err == nil && (subs[0].Resumed == nil || subs[0].Resumed.Reason != "the carrier is back") {
			err = fmt.Errorf("resumed: %+v", subs[0].Resumed)
		}
		return err
	})
}
