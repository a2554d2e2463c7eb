package main

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	dto "github.com/prometheus/client_model/go"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse/admin"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// receipts are the labels of the receipts, with more.
func receipts(more ...string) map[string]string {
	labels := map[string]string{"messaging_destination_name": "receipt.wanted"}
	for i := 0; i+1 < len(more); i += 2 {
		labels[more[i]] = more[i+1]
	}
	return labels
}

// await scrapes until the service tells something, and returns the scrape.
func (w *watched) await(t *testing.T, what string, told func(map[string]*dto.MetricFamily) error) string {
	t.Helper()
	var text string
	pulsetest.Eventually(t, what, func(context.Context) error {
		var families map[string]*dto.MetricFamily
		text, families = w.scrape(t)
		return told(families)
	})
	return text
}

// calm are scrapes of the service before and after a customer's order was handled.
func (w *watched) calm(t *testing.T) string {
	t.Helper()
	is.New(t).Equal(w.order(t.Context(), t, `{"id": "1", "article": "tea", "cents": 490}`), http.StatusAccepted)
	return w.await(t, "the order and its receipt are settled, and both topics told of", func(families map[string]*dto.MetricFamily) error {
		if n := valueOf(families, "pulse_attempts_total", map[string]string{"pulse_outcome": "success"}); n != 2 {
			return fmt.Errorf("%v successes", n)
		}
		if n := len(families["pulse_subscription_paused"].GetMetric()); n != 2 {
			return fmt.Errorf("%d topics", n)
		}
		for _, state := range []string{"undiscovered", "pending", "processing"} {
			if n := valueOf(families, "pulse_backlog", map[string]string{"pulse_state": state}); n != 0 {
				return fmt.Errorf("%v deliveries are %s", n, state)
			}
		}
		return nil
	})
}

// minutes repeats a scrape, which is taken every quarter of a minute.
func minutes(n int, scrape string) []string { return slices.Repeat([]string{scrape}, 4*n) }

// Every query of the dashboard, and every rule, is accepted, names metrics, labels and values that the running service
// exports, and shows something. What went wrong fires where it should, and says it in words.
func TestTelemetry_DashboardAndAlertsOverWhatIsExported(t *testing.T) {
	is := is.New(t)
	w := watch(t)
	before := w.calm(t)
	for _, body := range []string{`{"id": "2", "article": "flaky", "cents": 1}`, `{"id": "3", "article": "tea", "cents": -1}`} {
		is.Equal(w.order(t.Context(), t, body), http.StatusAccepted)
	}
	is.Equal(w.order(t.Context(), t, `{"id": "1", "article": "another", "cents": 1}`), http.StatusServiceUnavailable) // the ID is taken
	is.Equal(w.order(t.Context(), t, `{}`), http.StatusBadRequest)
	w.spans.waitFor(t, "process receipt.wanted", 4) // one of them again
	after := w.await(t, "all is settled and told", func(families map[string]*dto.MetricFamily) error {
		for outcome, want := range map[string]float64{"success": 2, "retry": 1, "error": 1} {
			if n := valueOf(families, "pulse_attempts_total", receipts("pulse_outcome", outcome)); n != want {
				return fmt.Errorf("%v attempts with the outcome %s", n, outcome)
			}
		}
		if n := valueOf(families, "pulse_backlog", receipts("pulse_state", "failed")); n != 1 {
			return fmt.Errorf("%v failed deliveries", n)
		}
		return nil
	})
	all := queries(t)
	is.True(len(all) > 20)
	var texts []string
	for _, q := range all {
		texts = append(texts, q.text)
	}
	got := evaluate(t, 15, append(minutes(1, before), minutes(15, after)...), texts)
	is.Equal(got.Problems, nil)
	is.Equal(got.fired(), []string{"PulseTerminalErrors receipt.wanted"})
	is.Equal(got.Firing[0].Annotations["summary"], "warehouse has given up events of receipt.wanted (handler_error)")
	for i, q := range all {
		if len(got.Queries[i]) == 0 {
			t.Errorf("%s: nothing is shown of %s", q.where, q.text)
		}
		for _, label := range q.shown {
			if !slices.ContainsFunc(got.Queries[i], func(labels map[string]string) bool { return labels[label] != "" }) {
				t.Errorf("%s: it shows the label %s, which its result does not have: %v", q.where, label, got.Queries[i])
			}
		}
	}

	// What is not exported would be found, and so would what is no query.
	wrong := []string{
		`pulse_b`, `pulse_backlog{pulse_state="off"}`, `pulse_backlog{other="on"}`, `pulse_batch_size`, `sum by (le) (rate(pulse_batch_size_total[1m]))`, `sum(`,
	}
	is.Equal(len(evaluate(t, 15, []string{after}, wrong).Problems), len(wrong))
}

// set gives the series of a scrape another value; part is what its labels must have.
func set(scrape, metric, part string, value string) string {
	series := regexp.MustCompile(`(?m)^(` + metric + `\{[^}]*` + part + `[^}]*\}) .*$`)
	if value == "" {
		return series.ReplaceAllString(scrape, "")
	}
	return series.ReplaceAllString(scrape, "${1} "+value)
}

// Each alert fires for what it is there for, with the very series that the service exports, and for nothing else. Where
// an operator has paused the topic, what waits wakes nobody.
func TestTelemetry_9_2_EachAlertFiresForWhatItIsThereFor(t *testing.T) {
	w := watch(t)
	calm := w.calm(t)
	is.New(t).Equal(evaluate(t, 15, minutes(60, calm), nil).fired(), []string{})
	const ofReceipts = `messaging_destination_name="receipt\.wanted"[^}]*`
	for _, c := range []struct {
		alert, metric, part, value string
		// quiet is a value that is none of the alert's business, still that the alert is silent in a pause.
		quiet string
		still bool
	}{
		{alert: "PulseTerminalErrors", metric: "pulse_attempts_total", part: `error_type="decode_error"[^}]*` + ofReceipts + `pulse_outcome="error"`, value: "1", quiet: "0"},
		{alert: "PulseRetriesWait", metric: "pulse_retry_age_seconds", part: ofReceipts, value: "901", quiet: "900", still: true},
		{alert: "PulseLeasesExpired", metric: "pulse_backlog", part: ofReceipts + `pulse_state="expired"`, value: "1", quiet: "0"},
		{alert: "PulseWorkersLost", metric: "pulse_attempts_total", part: `error_type="worker_lost"[^}]*` + ofReceipts + `pulse_outcome="retry"`, value: "4", quiet: "2"},
		{alert: "PulseLeasesLost", metric: "pulse_leases_lost_total", part: ofReceipts, value: "4", quiet: "2"},
		{alert: "PulseBacklogOld", metric: "pulse_backlog_age_seconds", part: ofReceipts, value: "601", quiet: "600", still: true},
		{alert: "PulseBacklogGrows", metric: "pulse_backlog", part: ofReceipts + `pulse_state="pending"`, value: "5001", quiet: "5000", still: true},
		{alert: "PulseNobodyTells", metric: "pulse_backlog", value: ""},
	} {
		t.Run(c.alert, func(t *testing.T) {
			is := is.New(t)
			about := c.alert + " receipt.wanted"
			if c.alert == "PulseNobodyTells" {
				about = c.alert
			}
			troubled := set(calm, c.metric, c.part, c.value)
			is.True(troubled != calm) // there is such a series
			got := evaluate(t, 15, append(minutes(1, calm), minutes(20, troubled)...), nil)
			is.Equal(got.fired(), []string{about})
			is.True(!strings.Contains(fmt.Sprint(got.Firing[0].Annotations), "no value"))
			if c.quiet != "" {
				quiet := set(calm, c.metric, c.part, c.quiet)
				is.Equal(evaluate(t, 15, append(minutes(1, calm), minutes(20, quiet)...), nil).fired(), []string{})
			}
			if c.still {
				about = ""
			}
			paused := set(calm, "pulse_subscription_paused", ofReceipts, "1")
			got = evaluate(t, 15, append(minutes(1, paused), minutes(20, set(paused, c.metric, c.part, c.value))...), nil)
			is.Equal(strings.Join(got.fired(), ", "), about)
		})
	}

	t.Run("PulsePausedForLong", func(t *testing.T) {
		is := is.New(t)
		paused := set(calm, "pulse_subscription_paused", ofReceipts, "1")
		is.Equal(evaluate(t, 3600, slices.Repeat([]string{paused}, 24), nil).fired(), []string{})
		is.Equal(evaluate(t, 3600, slices.Repeat([]string{paused}, 26), nil).fired(), []string{"PulsePausedForLong receipt.wanted"})
	})
}

// What waits in a topic that somebody has really paused wakes nobody. Once it is resumed, it does.
func TestTelemetry_9_2_APausedTopicWakesNobody(t *testing.T) {
	is := is.New(t)
	w := watch(t)
	w.calm(t)
	a, err := admin.New(w.mongo.Database(w.database), admin.Config{})
	is.NoErr(err)
	_, err = a.Pause(t.Context(), "warehouse", "receipt.wanted", admin.By{Name: "Rosa", Reason: "the printer is being moved"})
	is.NoErr(err)
	w.await(t, "the pause is told of", func(families map[string]*dto.MetricFamily) error {
		if valueOf(families, "pulse_subscription_paused", receipts()) != 1 {
			return fmt.Errorf("it is not")
		}
		return nil
	})
	is.Equal(w.order(t.Context(), t, `{"id": "2", "article": "tea", "cents": 490}`), http.StatusAccepted)
	w.await(t, "the receipt waits", func(families map[string]*dto.MetricFamily) error {
		if n := valueOf(families, "pulse_backlog", receipts("pulse_state", "pending")); n != 1 {
			return fmt.Errorf("%v wait", n)
		}
		return nil
	})
	// It has been tried once, and waits for an hour, as it will for another one.
	ago, ahead := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	changed, err := w.mongo.Database(w.database).Collection("orionjs.pulse.deliveries").UpdateMany(t.Context(),
		bson.D{{Key: "topic", Value: "receipt.wanted"}, {Key: "status", Value: "v2-pending"}},
		bson.D{{Key: "$set", Value: bson.D{
			{Key: "attempt", Value: 1}, {Key: "eventCreatedAt", Value: ago}, {Key: "attemptCreatedAt", Value: ago}, {Key: "nextAttemptAt", Value: ahead},
		}}})
	is.NoErr(err)
	is.Equal(changed.ModifiedCount, int64(1))
	waits := func(paused float64) string {
		return w.await(t, "the receipt has waited for an hour", func(families map[string]*dto.MetricFamily) error {
			age, retry := valueOf(families, "pulse_backlog_age_seconds", receipts()), valueOf(families, "pulse_retry_age_seconds", receipts())
			if is := valueOf(families, "pulse_subscription_paused", receipts()); age < 3000 || retry < 3000 || is != paused {
				return fmt.Errorf("age %v, retry %v, paused %v", age, retry, is)
			}
			return nil
		})
	}
	paused := waits(1)
	is.Equal(evaluate(t, 15, minutes(20, paused), nil).fired(), []string{})
	_, err = a.Resume(t.Context(), "warehouse", "receipt.wanted", admin.By{Name: "Rosa"})
	is.NoErr(err)
	resumed := waits(0)
	got := evaluate(t, 15, append(minutes(20, paused), minutes(20, resumed)...), nil)
	is.Equal(got.fired(), []string{"PulseRetriesWait receipt.wanted", "PulseBacklogOld receipt.wanted"})
	for _, alert := range got.Firing {
		is.Equal(alert.After, 80+20) // five minutes after it was resumed
	}
}
