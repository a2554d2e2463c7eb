package admin

import (
	"context"
	"fmt"
	"time"

	"github.com/orionjs/orion-go/pulse/internal/store"
)

// rollout looks for work of the version that the settings do not make any more: a change of the version that is not
// through (spec 4.13). Where that work is due, somebody leads the topic, and nobody runs it, the replicas that would
// are probably gone.
func (d *doctor) rollout(ctx context.Context, p patient) error {
	if !p.waiting() {
		return nil
	}
	work, err := d.store.Work(ctx, p.ConsumerGroup, p.Topic, doctorLimit)
	if err != nil {
		return err
	}
	f := Finding{Severity: Note, Check: CheckRollout, Where: p.where()}
	left, old, tells := work.V1.N, store.V1, ""
	if p.Settings.Over(store.Settings{}).Format() == store.V2 {
		f.Text = fmt.Sprintf("Its way to version 2 is half done: deliveries of version 1 are left, %s.", countOf(work.V1))
		f.Remedy = "Keep replicas that serve both versions until none is left; those of this module do."
		tells = "how many are left"
	} else {
		left, old = work.V2Pending.N+work.V2Processing.N, store.V2
		f.Text = fmt.Sprintf("Its way back to version 1 is half done: deliveries of version 2 are left, pending: %s, processing: %s.",
			countOf(work.V2Pending), countOf(work.V2Processing))
		f.Remedy = "Deploy no software that knows version 1 alone until none is left: it leaves them waiting."
		tells = "whether it may be deployed"
	}
	if left == 0 {
		return nil
	}
	f.Remedy += fmt.Sprintf(" %s tells %s.", command("pulse rollout", p.ConsumerGroup, p.Topic), tells)
	due, err := d.store.DueTopics(ctx, p.ConsumerGroup, map[store.Format][]string{old: {p.Topic}})
	if err != nil {
		return err
	}
	now := d.store.Now()
	if at, some := due[old][p.Topic]; some && at.Before(now.Add(-patience)) && p.Paused == nil && p.Leader.Until.After(now) {
		f.Severity = Warning
		f.Text += fmt.Sprintf(" The first has been due since %s, and nobody runs it%s.", at.Format(time.RFC3339), d.others(ctx))
		f.Remedy = "Start a replica that serves both versions, or free the workers of those that run. Then: " + f.Remedy
	}
	d.found(f)
	return nil
}

// others tells of connected clients that may not serve both versions. It is no reason to fail when that is not known.
func (d *doctor) others(ctx context.Context) string {
	connected, _, err := d.store.Connections(ctx)
	if err != nil {
		return ""
	}
	report := RolloutReport{Clients: clientsOf(connected)}
	if n := report.connections(OtherPulse); n > 0 {
		return fmt.Sprintf("; connections of Pulse clients whose name does not say that they serve both versions: %d", n)
	}
	return ""
}
