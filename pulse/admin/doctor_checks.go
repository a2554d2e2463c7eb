package admin

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/orionjs/orion-go/pulse/internal/backoff"
	"github.com/orionjs/orion-go/pulse/internal/delivery"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

// The checks of one subscription.

func some(ids []string) string { return "such as " + strings.Join(ids, ", ") }

func (d *doctor) leader(_ context.Context, p patient) error {
	switch {
	case p.Paused != nil:
		severity := Note
		if p.waiting() {
			severity = Warning
		}
		d.found(Finding{
			Severity: severity, Check: CheckPause, Where: p.where(),
			Text:   fmt.Sprintf("It has been paused since %s by %s%s. %s", p.Paused.At.Format(time.RFC3339), p.Paused.Name, reason(p.Paused.Reason), p.work()),
			Remedy: fmt.Sprintf("Run %s when its handlers may run again, before the events expire.", command("pulse resume", p.ConsumerGroup, p.Topic)),
		})
	case !p.Leader.Until.After(d.store.Now()) && p.waiting():
		last := "Nobody has ever led it"
		if p.Leader.Owner != "" {
			last = fmt.Sprintf("Nobody has led it since %s (%s)", p.Leader.Until.Format(time.RFC3339), p.Leader.Owner)
		}
		d.found(Finding{
			Severity: Problem, Check: CheckLeader, Where: p.where(),
			Text:   fmt.Sprintf("%s, and there is work. %s", last, p.work()),
			Remedy: fmt.Sprintf("Start a replica of %s that subscribes to %s: none is running, or none reaches this database.", p.ConsumerGroup, p.Topic),
		})
	}
	return nil
}

func reason(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

// failures tells of what handlers could not do. It is a note: the clients have done their part.
func (d *doctor) failures(_ context.Context, p patient) error {
	b := p.backlog
	list := func(state string) string {
		return "pulse deliveries --state " + state + " --group=" + quote(p.ConsumerGroup) + " --topic=" + quote(p.Topic)
	}
	if b.Failed.N > 0 {
		d.found(Finding{
			Severity: Note, Check: CheckFailures, Where: p.where(),
			Text:   fmt.Sprintf("Deliveries that have ended with an error, or were cancelled, and are kept: %s.", countOf(b.Failed)),
			Remedy: list("error") + " says why. When the cause is mended, pulse retry gives them one attempt more.",
		})
	}
	if age := d.store.Now().Sub(b.OldestRetry); !b.OldestRetry.IsZero() && age > patience {
		d.found(Finding{
			Severity: Note, Check: CheckFailures, Where: p.where(),
			Text:   fmt.Sprintf("Deliveries whose attempts fail and are repeated: %s, one of them waits for %v already.", countOf(b.Retrying), age.Round(time.Second)),
			Remedy: list("retrying") + " says why. One that can never succeed ends with pulse cancel.",
		})
	}
	return nil
}

func (d *doctor) leases(ctx context.Context, p patient) error {
	if p.backlog.Expired.N == 0 {
		return nil
	}
	fixed := false
	inOrder := p.Settings.Over(store.Settings{}).InOrder()
	if d.options.Fix && !inOrder {
		for _, format := range store.Formats {
			if err := d.reap(ctx, p, format); err != nil {
				return err
			}
		}
		again, err := d.store.Backlogs(ctx, []store.Overview{p.Overview}, doctorLimit)
		if err != nil {
			return err
		}
		fixed = again[0].Expired.N == 0
	}
	f := Finding{
		Severity: Warning, Check: CheckLeases, Where: p.where(), Fixable: !inOrder, Fixed: fixed,
		Text:   fmt.Sprintf("Claimed deliveries whose worker has not renewed its lease: %s. Their workers are lost.", countOf(p.backlog.Expired)),
		Remedy: "The leader ends them within seconds. If they stay: " + byFix,
	}
	if inOrder {
		f.Remedy = "The holder of the order ends them when the ordered lease has run out. If they stay, start a replica of the group."
	}
	if !p.Leader.Until.After(d.store.Now()) {
		f.Severity = Problem // nobody is there to end them
		f.Remedy = "Start a replica of the group. Or: " + byFix
	}
	d.found(f)
	return nil
}

// reap ends expired leases as the leader does.
func (d *doctor) reap(ctx context.Context, p patient, format store.Format) error {
	policy := p.Settings.Over(store.Settings{}).Policy()
	for done := 0; done < doctorLimit; {
		expired, err := d.store.ExpiredLeases(ctx, p.ConsumerGroup, format, []string{p.Topic}, mendBatch)
		if err != nil || len(expired) == 0 {
			return err
		}
		progress := 0
		for _, e := range expired {
			verdict, delay := delivery.Decide(e.Attempt, delivery.Outcome{Failure: delivery.WorkerLost(), Permanent: e.Granted}, policy)
			ended, err := d.store.Reap(ctx, e, verdict, delay, p.retention)
			if err != nil {
				return err
			}
			if ended {
				progress++
			}
		}
		if done += progress; progress == 0 || len(expired) < mendBatch {
			return nil
		}
	}
	return nil
}

func (d *doctor) retention(ctx context.Context, p patient) error {
	kept, known, err := d.store.EventRetention(ctx, p.Topic)
	if err != nil || !known || kept == 0 {
		return err
	}
	window := retryWindow(p.Settings.Over(store.Settings{}).Policy())
	if window < kept {
		return nil
	}
	d.found(Finding{
		Severity: Warning, Check: CheckRetention, Where: p.where(),
		Text:   fmt.Sprintf("Its retries take up to %v, and events are kept for %v only: a delivery that fails for long ends as event_expired.", window.Round(time.Second), kept.Round(time.Second)),
		Remedy: "Raise Config.EventRetention of the publishers above the longest retry window and outage, or lower maxRetries, retryDelay or retryBackoffMultiplier, with a higher configVersion.",
	})
	return nil
}

// retryWindow is how long after its first attempt a delivery's last one is due at most, without the handlers' time.
func retryWindow(policy delivery.Policy) time.Duration {
	var window time.Duration
	for attempt := 1; attempt <= min(policy.Retries(), 100_000); attempt++ {
		delay := backoff.Delay(policy.RetryDelay, policy.Multiplier, attempt)
		if window > math.MaxInt64-delay || window > backoff.MaxDelay {
			return backoff.MaxDelay
		}
		window += delay
	}
	return window
}

func (d *doctor) states(ctx context.Context, p patient) error {
	unknown, err := d.store.UnknownStates(ctx, p.ConsumerGroup, p.Topic, doctorLimit)
	if err != nil || unknown.N == 0 {
		return err
	}
	d.found(Finding{
		Severity: Problem, Check: CheckStates, Where: p.where(),
		Text:   fmt.Sprintf("Deliveries in a state that no version of Pulse writes: %s, %s. No client runs or ends them.", countOf(unknown.Count), some(unknown.IDs)),
		Remedy: "Look at one with pulse deliveries show ID and find out who wrote it. To have it run, store it by mongosh with the status v2-pending, a new attemptId, attempt 0 and nextAttemptAt; to be rid of it, delete it.",
	})
	return nil
}

func (d *doctor) dueTimes(ctx context.Context, p patient) error {
	undated, err := d.store.Undated(ctx, p.ConsumerGroup, []string{p.Topic}, doctorLimit)
	if err != nil || len(undated) == 0 {
		return err
	}
	fixed := 0
	ids := make([]string, 0, mendBatch)
	for _, m := range undated {
		if len(ids) < 5 {
			ids = append(ids, m.ID)
		}
		if !d.options.Fix {
			continue
		}
		mended, err := d.store.Mend(ctx, m, p.retention)
		if err != nil {
			return err
		}
		if mended {
			fixed++
		}
	}
	d.found(Finding{
		Severity: Problem, Check: CheckDueTimes, Where: p.where(), Fixable: true, Fixed: fixed == len(undated),
		Text:   fmt.Sprintf("Pending deliveries that say nowhere when they are due: %d, %s. No look for work finds them.", len(undated), some(ids)),
		Remedy: "The leader mends them about once a minute. If none runs: " + byFix,
	})
	return nil
}

func (d *doctor) halfDone(ctx context.Context, p patient) error {
	before := d.store.Now().Add(-patience)
	marked, err := d.store.HalfDone(ctx, p.ConsumerGroup, p.Topic, before, doctorLimit)
	if err != nil || marked.N == 0 {
		return err
	}
	fixed := false
	if d.options.Fix {
		policy := p.Settings.Over(store.Settings{}).Policy()
		decide := func(_ string, attempt int, code string) (delivery.Verdict, time.Duration) {
			return delivery.Decide(attempt, delivery.Outcome{Failure: &delivery.Failure{Code: code}}, policy)
		}
		for done := 0; done < doctorLimit; {
			n, err := d.store.Repair(ctx, p.ConsumerGroup, []string{p.Topic}, mendBatch, p.retention, decide)
			if err != nil {
				return err
			}
			if done += n; n < mendBatch {
				break
			}
		}
		left, err := d.store.HalfDone(ctx, p.ConsumerGroup, p.Topic, before, doctorLimit)
		if err != nil {
			return err
		}
		fixed = left.N == 0
	}
	d.found(Finding{
		Severity: Warning, Check: CheckHalfDone, Where: p.where(), Fixable: true, Fixed: fixed,
		Text:   fmt.Sprintf("Steps of version 1 that were left half done more than %v ago: %s, %s.", patience, countOf(marked.Count), some(marked.IDs)),
		Remedy: "Clients of the group finish them every 30 s. If none runs: " + byFix,
	})
	return nil
}

func (d *doctor) skipped(ctx context.Context, p patient) error {
	skipped, err := d.store.Skipped(ctx, p.Overview, doctorLimit)
	if err != nil || len(skipped) == 0 {
		return err
	}
	d.found(Finding{
		Severity: Problem, Check: CheckSkippedEvents, Where: p.where(),
		Text:   fmt.Sprintf("Events behind the cursor that have no delivery: %d of the newest %d, %s. The group has not got them and will not.", len(skipped), doctorLimit, some(skipped[:min(len(skipped), 5)])),
		Remedy: "Publish their data again under new IDs (" + command("pulse publish", p.Topic) + "), or process them in a new consumer group from OffsetReset(Earliest). Find out why: a delivery was deleted by hand, or a foreign writer numbers its events in transactions that are longer than Config.LookBack.",
	})
	return nil
}

func (d *doctor) largeEvents(ctx context.Context, p patient) error {
	large, err := d.store.LargeDocuments(ctx, "", p.Topic, largeSize, largeLook)
	if err != nil {
		return err
	}
	d.large(large, "topic "+p.Topic, "Events", "Publish a reference to the data in place of the data: an event that grows beyond 16 MB is refused, and batches of large ones are cut early.")
	return nil
}

func (d *doctor) largeDeliveries(ctx context.Context, p patient) error {
	large, err := d.store.LargeDocuments(ctx, p.ConsumerGroup, p.Topic, largeSize, largeLook)
	if err != nil {
		return err
	}
	d.large(large, p.where(), "Pending deliveries", "Lower batchSize with a higher configVersion: a delivery carries the IDs of all of its events, and its last attempts.")
	return nil
}

func (d *doctor) large(large []store.Large, where, what, remedy string) {
	if len(large) == 0 {
		return
	}
	ids, most := make([]string, len(large)), 0
	for i, l := range large {
		ids[i], most = l.ID, max(most, l.Size)
	}
	d.found(Finding{
		Severity: Warning, Check: CheckDocumentSize, Where: where, Remedy: remedy,
		Text: fmt.Sprintf("%s of more than %d MB among the newest %d, up to %.1f MB, %s. MongoDB stores no document of more than 16 MB.", what, largeSize>>20, largeLook, float64(most)/(1<<20), some(ids)),
	})
}
