package admin

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/orionjs/orion-go/pulse/internal/clock"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

// DoctorOptions says what is examined, and whether it is mended.
type DoctorOptions struct {
	// Group and Topic bound the subscriptions that are examined. Empty means all.
	Group, Topic string
	// Fix mends what is safe to mend: it creates missing indexes, ends expired leases as the leader would, finishes
	// half-done steps of version 1, gives committed events their place in the order, and makes pending deliveries
	// claimable that say nowhere when they are due, or ends those that cannot be run. Everything is fenced, and may
	// go on beside running clients.
	Fix bool
}

// Report is what a doctor has found: nothing, for a healthy database. The gravest comes first.
type Report struct {
	Findings []Finding
	// Subscriptions is how many were examined.
	Subscriptions int
}

// Healthy tells whether nothing was found that asks for something to be done, or that has not been fixed.
func (r Report) Healthy() bool {
	return !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Severity != Note && !f.Fixed })
}

// Finding is one thing that a doctor has found.
type Finding struct {
	Severity Severity
	Check    Check
	// Where is what it is about, such as "group billing, topic order.created".
	Where string
	// Text says what was found, Remedy what to do about it.
	Text, Remedy string
	// Fixable tells that DoctorOptions.Fix mends it, Fixed that it has.
	Fixable, Fixed bool
}

// Severity is how much a finding asks for somebody.
type Severity string

// The severities.
const (
	// Problem keeps work from being done, or has lost some.
	Problem Severity = "problem"
	// Warning may become a problem.
	Warning Severity = "warning"
	// Note is good to know.
	Note Severity = "note"
)

var severities = []Severity{Problem, Warning, Note}

// Check is what a doctor looks at.
type Check string

// The checks.
const (
	CheckIndexes       Check = "indexes"
	CheckClock         Check = "clock"
	CheckLeader        Check = "leader"
	CheckPause         Check = "pause"
	CheckLeases        Check = "leases"
	CheckFailures      Check = "failures"
	CheckRetention     Check = "retention"
	CheckStates        Check = "states"
	CheckDueTimes      Check = "due-times"
	CheckHalfDone      Check = "half-done"
	CheckSkippedEvents Check = "skipped-events"
	CheckUnstamped     Check = "unstamped"
	CheckScheduled     Check = "scheduled"
	CheckRollout       Check = "rollout"
	CheckDocumentSize  Check = "document-size"
)

// Bounds and patience of the checks.
const (
	doctorLimit = 1000            // documents counted, looked at or mended by one check of one subscription
	patience    = 2 * time.Minute // how long what mends itself may take
	clockLimit  = time.Second
	largeSize   = 8 << 20 // half of what a document may have
	largeLook   = 200
	mendBatch   = 25
)

// Doctor examines a database. It costs about fifteen commands and as many for each subscription, each of them bounded. An
// error means that the examination itself could not go on: the findings until then are in the report.
//
// What it cannot see: whether a handler is right, and what happens between two looks. Call it again after a few
// minutes before you act on what running clients mend by themselves.
func (a *Admin) Doctor(ctx context.Context, options DoctorOptions) (Report, error) {
	d := &doctor{Admin: a, options: options}
	err := d.examine(ctx)
	slices.SortStableFunc(d.report.Findings, func(x, y Finding) int {
		return slices.Index(severities, x.Severity) - slices.Index(severities, y.Severity)
	})
	return d.report, err
}

// doctor is one examination.
type doctor struct {
	*Admin
	options DoctorOptions
	report  Report
}

// step runs one check within the timeout of a call.
func (d *doctor) step(ctx context.Context, check func(context.Context) error) error {
	ctx, cancel, err := d.begin(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	return check(ctx)
}

func (d *doctor) examine(ctx context.Context) error {
	for _, check := range []func(context.Context) error{d.clock, d.indexes, d.unstamped, d.scheduled} {
		if err := d.step(ctx, check); err != nil {
			return err
		}
	}
	var patients []patient
	if err := d.step(ctx, func(ctx context.Context) (err error) {
		patients, err = d.patients(ctx)
		return err
	}); err != nil {
		return err
	}
	sized := map[string]bool{}
	for _, p := range patients {
		checks := []func(context.Context, patient) error{d.leader, d.leases, d.failures, d.retention, d.states, d.dueTimes, d.halfDone, d.rollout, d.skipped, d.largeDeliveries}
		if !sized[p.Topic] { // events belong to all groups
			sized[p.Topic] = true
			checks = append(checks, d.largeEvents)
		}
		for _, check := range checks {
			if err := d.step(ctx, func(ctx context.Context) error { return check(ctx, p) }); err != nil {
				return err
			}
		}
		d.report.Subscriptions++
	}
	d.store.Close(ctx)
	return nil
}

// patient is a subscription that is examined.
type patient struct {
	store.Overview
	backlog store.Backlog
	// retention is how long what is ended here is kept.
	retention time.Duration
}

func (p patient) where() string { return fmt.Sprintf("group %s, topic %s", p.ConsumerGroup, p.Topic) }

// waiting tells whether there is something that nobody has begun.
func (p patient) waiting() bool {
	b := p.backlog
	return b.Undiscovered.N+b.Pending.N+b.Retrying.N+b.Processing.N > 0
}

// work is what there is to do.
func (p patient) work() string {
	b := p.backlog
	return fmt.Sprintf("Undiscovered: %s, pending: %s, retrying: %s, processing: %s.",
		countOf(b.Undiscovered), countOf(b.Pending), countOf(b.Retrying), countOf(b.Processing))
}

func (d *doctor) patients(ctx context.Context) ([]patient, error) {
	overviews, err := d.store.Overviews(ctx, d.options.Group, d.options.Topic)
	if err != nil {
		return nil, err
	}
	backlogs, err := d.store.Backlogs(ctx, overviews, doctorLimit)
	if err != nil {
		return nil, err
	}
	patients := make([]patient, len(overviews))
	for i, o := range overviews {
		patients[i] = patient{Overview: o, backlog: backlogs[i], retention: d.config.HistoryRetention}
		retention, known, err := d.store.HistoryRetention(ctx, o.ConsumerGroup, o.Topic)
		if err != nil {
			return nil, err
		}
		if known {
			patients[i].retention = retention
		}
	}
	return patients, nil
}

func (d *doctor) found(f Finding) { d.report.Findings = append(d.report.Findings, f) }

// byFix is the remedy of what is fixable.
const byFix = "Run pulse doctor --fix."

func (d *doctor) clock(context.Context) error {
	if ahead := d.store.ClockAhead(); ahead.Abs() > clockLimit {
		word := "behind"
		if ahead < 0 {
			ahead, word = -ahead, "ahead of"
		}
		d.found(Finding{
			Severity: Warning, Check: CheckClock, Where: "this machine",
			Text:   fmt.Sprintf("Its clock is %v %s the server's (measured at %s).", ahead.Round(time.Millisecond), word, clock.Now().UTC().Format(time.RFC3339)),
			Remedy: "Keep the clocks of the server and of all replicas in step by NTP. Clients of this module judge leases by the server's clock and are safe all the same; Node clients use their own.",
		})
	}
	return nil
}

func (d *doctor) indexes(ctx context.Context) error {
	missing, conflicts, warnings, err := d.store.CheckIndexes(ctx)
	if err != nil {
		return err
	}
	fixed := false
	if len(missing) > 0 && len(conflicts) == 0 && d.options.Fix {
		if _, err := d.store.EnsureIndexes(ctx); err != nil {
			return err
		}
		fixed = true
	}
	for _, p := range missing {
		d.found(Finding{
			Severity: Problem, Check: CheckIndexes, Where: "collection " + p.Collection,
			Text:    fmt.Sprintf("The index %s is missing: no client starts without it unless it may create it.", p.Index),
			Remedy:  byFix + " Or in mongosh: " + p.Commands[0],
			Fixable: len(conflicts) == 0, Fixed: fixed,
		})
	}
	for _, p := range conflicts {
		remedy := "While no client runs, in mongosh:"
		for _, command := range p.Commands {
			remedy += " " + command + ";"
		}
		d.found(Finding{
			Severity: Problem, Check: CheckIndexes, Where: "collection " + p.Collection,
			Text: fmt.Sprintf("The index %s conflicts with what clients need, and none starts: %s.", p.Index, p.Problem), Remedy: remedy,
		})
	}
	for _, w := range warnings {
		d.found(Finding{Severity: Note, Check: CheckIndexes, Where: "the database", Text: w, Remedy: "Rename it when no client runs, if Node clients share the database."})
	}
	return nil
}

// scheduled looks for events that wait for a later time and were changed by hand, or refused by the server.
func (d *doctor) scheduled(ctx context.Context) error {
	never, err := d.store.Unstampable(ctx, DefaultCountLimit)
	if err != nil {
		return err
	}
	if never.N > 0 {
		d.found(Finding{
			Severity: Problem, Check: CheckScheduled, Where: "collection events",
			Text:   fmt.Sprintf("Events that wait for a later time and will never be published: %s, %s. Their _id or pendingTopic is no string, or they have a sequence already.", countOf(never.Count), some(never.IDs)),
			Remedy: "No client writes them so: somebody has changed them by hand. In mongosh, store pendingTopic as it should be, and remove sequence; or delete them.",
		})
	}
	displaced, err := d.store.Displaced(ctx, DefaultCountLimit)
	if err != nil || displaced.N == 0 {
		return err
	}
	d.found(Finding{
		Severity: Warning, Check: CheckScheduled, Where: "collection events",
		Text:   fmt.Sprintf("Events that wait for another time than they are published for: %s, %s. Clients look at them at the date in their field topic, and not before notBefore.", countOf(displaced.Count), some(displaced.IDs)),
		Remedy: "Either the server refuses to publish them, and clients try again (their log and OnError say why): mend the event, or the validator of the collection. Or somebody has changed them by hand: in mongosh, store one date in both fields.",
	})
	return nil
}

func (d *doctor) unstamped(ctx context.Context) error {
	waiting, err := d.store.Unstamped(ctx, d.store.Now().Add(-patience), doctorLimit)
	if err != nil || waiting.N == 0 {
		return err
	}
	fixed := false
	if d.options.Fix {
		due := func(ctx context.Context) (store.Stamped, error) { return d.store.StampDue(ctx, 0) }
		for _, stamp := range []func(context.Context) (store.Stamped, error){d.store.Stamp, due} {
			for more := true; more; {
				stamped, err := stamp(ctx)
				if err != nil {
					return err
				}
				more = stamped.More
			}
		}
		left, err := d.store.Unstamped(ctx, d.store.Now().Add(-patience), doctorLimit)
		if err != nil {
			return err
		}
		fixed = left.N == 0
	}
	d.found(Finding{
		Severity: Problem, Check: CheckUnstamped, Where: "collection events",
		Text:    fmt.Sprintf("Events of committed transactions, or whose later time has come, wait for their place in the order: %s, %s. No group gets them until a client runs.", countOf(waiting.Count), some(waiting.IDs)),
		Remedy:  byFix + " Or start a client of any group.",
		Fixable: true, Fixed: fixed,
	})
	return nil
}
