package admin

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse/internal/delivery"
	"github.com/orionjs/orion-go/pulse/internal/store"
)

// State is where a delivery is in its life, the same for both execution versions.
type State string

// The states of a delivery. It is pending or retrying, then processing, and ends as success or error; an attempt that
// fails with retries left makes it retrying.
const (
	// Pending waits for its first attempt.
	Pending State = "pending"
	// Retrying waits for another attempt, for which it may not be due yet.
	Retrying State = "retrying"
	// Processing is claimed: its handler runs, or is about to, or its worker is lost.
	Processing State = "processing"
	Succeeded  State = "success"
	Failed     State = "error"
	// Unknown is a state that no version of Pulse writes. It is shown by Delivery and Doctor, and not selected.
	Unknown State = "unknown"
)

// States are all states that a query can select.
var States = []State{Pending, Retrying, Processing, Succeeded, Failed}

// The number of deliveries on a page.
const (
	DefaultLimit = 100
	MaxLimit     = 500
)

// DeliveryQuery selects deliveries. Empty fields select all.
type DeliveryQuery struct {
	Group, Topic string
	States       []State
	// EventID selects the deliveries of an event, of a batch as well, one in each group at most. A batch is found while
	// its event is stored. The states, times and the error code select among them; there is one page.
	EventID string
	// ErrorCode selects those whose last attempt failed with the code, such as handler_error.
	ErrorCode string
	// From and To bound when the event was published (of a batch: its last one), by the server's clock, to the
	// second: From included, To not.
	From, To time.Time
	// Cursor continues behind a page: its Next.
	Cursor string
	// Limit is the size of a page. Default DefaultLimit, at most MaxLimit.
	Limit int
}

// DeliveryPage is a part of a list.
type DeliveryPage struct {
	Deliveries []Delivery
	// Next is the Cursor of the page behind this one, empty on the last. A page may have fewer deliveries than Limit, or none,
	// and a Next: looking for rare ones ends after 10,000 others.
	Next string
}

// Delivery is one event, or one batch of events, owed to one group.
type Delivery struct {
	ID, Group, Topic string
	State            State
	// EventID is the event, of a batch the last one. EventIDs are all of them.
	EventID  string
	EventIDs []string
	Batch    bool
	// ExecutionVersion is where its attempts are stored: 1 in the history collection, 2 on the delivery.
	ExecutionVersion int
	// Attempt counts the attempts that were begun, the running one included.
	Attempt int
	// EventCreatedAt is the publication, or the later time that the event was published for, CreatedAt when the
	// delivery was made of it.
	EventCreatedAt, CreatedAt, UpdatedAt time.Time
	// NextAttemptAt is when a pending or retrying one is due; StartedAt, Worker and LockedUntil are of one that is
	// processing: LeaseEnded tells that its worker has not renewed its lease in time and counts as lost.
	NextAttemptAt, StartedAt, LockedUntil time.Time
	Worker                                string
	LeaseEnded                            bool
	// EndedAt is when it ended; ExpiresAt when it is deleted, zero for never.
	EndedAt, ExpiresAt time.Time
	// Error is what it ended with, or what its last attempt failed with.
	Error *Failure
	// ExpiredEvents counts events of it that were gone before its handler ran.
	ExpiredEvents int
	// Grants are the further attempts that Retry has granted, the last ten.
	Grants []Grant
	// HalfDone tells that a step of version 1 over two collections is not complete; a client of the group completes it.
	HalfDone bool
}

// Failure is what an attempt failed with. Code is one of handler_error, decode_error, event_expired, worker_lost,
// cancelled, cancelled_by_operator and, of Node, delivery_missing and delivery_already_terminal.
type Failure struct{ Code, Name, Message, Stack string }

// By is who does something, and why. It is stored with what was done.
type By struct {
	// Name is the person or program; required.
	Name   string
	Reason string
}

// Grant is a further attempt that an operator has granted to a delivery that had ended.
type Grant struct {
	By
	At time.Time
	// Attempt is its number.
	Attempt int
}

// Deliveries reads a page of deliveries of both execution versions, the newest events first. Its order is stable: what
// is added or changed meanwhile moves nothing from one page to another. It reads deliveries of groups and topics that
// have a subscription; name both Group and Topic for others.
func (a *Admin) Deliveries(ctx context.Context, q DeliveryQuery) (DeliveryPage, error) {
	sel, err := selectionOf(q)
	if err != nil {
		return DeliveryPage{}, err
	}
	ctx, cancel, err := a.begin(ctx)
	if err != nil {
		return DeliveryPage{}, err
	}
	defer cancel()
	return a.page(ctx, sel)
}

// selection is a checked query.
type selection struct {
	DeliveryQuery
	wanted map[State]bool
	after  *store.RecordKey
}

func selectionOf(q DeliveryQuery) (selection, error) {
	sel := selection{DeliveryQuery: q, wanted: map[State]bool{}}
	switch {
	case q.Limit == 0:
		sel.Limit = DefaultLimit
	case q.Limit < 0 || q.Limit > MaxLimit:
		return sel, &QueryError{fmt.Sprintf("Limit %d: must be between 1 and %d, or 0 for %d", q.Limit, MaxLimit, DefaultLimit)}
	}
	if len(q.States) == 0 {
		q.States = States
	}
	for _, s := range q.States {
		if !slices.Contains(States, s) {
			return sel, &QueryError{fmt.Sprintf("state %q: must be one of %v", s, States)}
		}
		sel.wanted[s] = true
	}
	if !q.From.IsZero() && !q.To.IsZero() && !q.From.Before(q.To) {
		return sel, &QueryError{"From must be before To"}
	}
	if q.Cursor != "" {
		after, err := decodeCursor(q.Cursor)
		if err != nil {
			return sel, &QueryError{"Cursor: is none that a page returned as its Next"}
		}
		sel.after = &after
	}
	return sel, nil
}

// How much is read to fill one page: as much as it needs when everything that is read is wanted, else chunks, up to a
// bound.
const (
	scanChunk = 500
	scanLimit = 10_000
)

func (a *Admin) page(ctx context.Context, sel selection) (DeliveryPage, error) {
	scopes, err := a.scopes(ctx, sel.Group, sel.Topic)
	if err != nil {
		return DeliveryPage{}, err
	}
	if sel.EventID != "" {
		records, err := a.store.RecordsOfEvent(ctx, sel.EventID, scopes)
		return DeliveryPage{Deliveries: a.chosen(records, sel, true)}, err
	}
	q := sel.query(scopes)
	var page DeliveryPage
	for read := 0; ; {
		records, err := a.store.Records(ctx, q)
		if err != nil {
			return DeliveryPage{}, err
		}
		for i := range records {
			page.Deliveries = append(page.Deliveries, a.chosen(records[i:i+1], sel, false)...)
			if last := i == len(records)-1 && len(records) < q.Limit; len(page.Deliveries) == sel.Limit && !last {
				page.Next = encodeCursor(records[i].RecordKey)
				return page, nil
			}
		}
		if read += len(records); len(records) < q.Limit {
			return page, nil
		}
		last := records[len(records)-1].RecordKey
		if read >= scanLimit {
			page.Next = encodeCursor(last)
			return page, nil
		}
		q.After = &last
	}
}

// scopes are the groups and topics that a query looks into.
func (a *Admin) scopes(ctx context.Context, group, topic string) ([]store.Scope, error) {
	if group != "" && topic != "" {
		return []store.Scope{{Group: group, Topics: []string{topic}}}, nil
	}
	subs, err := a.store.Overviews(ctx, group, topic)
	if err != nil {
		return nil, err
	}
	var scopes []store.Scope
	for _, sub := range subs {
		if n := len(scopes); n == 0 || scopes[n-1].Group != sub.ConsumerGroup {
			scopes = append(scopes, store.Scope{Group: sub.ConsumerGroup})
		}
		last := &scopes[len(scopes)-1]
		last.Topics = append(last.Topics, sub.Topic)
	}
	return scopes, nil
}

// query is what the store can select by: indexes know the stored status only.
func (sel selection) query(scopes []store.Scope) store.RecordQuery {
	q := store.RecordQuery{Scopes: scopes, From: sequenceAt(sel.From), To: sequenceAt(sel.To), After: sel.after, Limit: sel.Limit + 1}
	residual := sel.ErrorCode != ""
	add := func(when bool, statuses ...string) {
		if when {
			q.Statuses = append(q.Statuses, statuses...)
		}
	}
	waiting := sel.wanted[Pending] || sel.wanted[Retrying]
	add(waiting, delivery.StatusPending, delivery.StatusV1Pending)
	add(sel.wanted[Processing], delivery.StatusProcessing)
	add(sel.wanted[Succeeded], delivery.StatusSuccess, delivery.StatusV1Success)
	add(sel.wanted[Failed], delivery.StatusError, delivery.StatusV1Error)
	q.LockedV1 = sel.wanted[Processing] && !waiting
	if waiting && !(sel.wanted[Pending] && sel.wanted[Retrying] && sel.wanted[Processing]) {
		residual = true
	}
	if residual {
		q.Limit = scanChunk
	}
	return q
}

// sequenceAt is the first sequence of a second.
func sequenceAt(t time.Time) bson.Timestamp {
	if t.IsZero() {
		return bson.Timestamp{}
	}
	return bson.Timestamp{T: uint32(max(0, min(t.Unix(), 1<<32-1))), I: 0}
}

// chosen are the records that the query wants; with times those are looked at as well, which the store has not seen.
func (a *Admin) chosen(records []store.Record, sel selection, times bool) []Delivery {
	now := a.store.Now()
	var out []Delivery
	for _, r := range records {
		d := deliveryOf(r, now)
		at := timeOf(r.Sequence)
		switch {
		case !sel.wanted[d.State]:
		case sel.ErrorCode != "" && (d.Error == nil || d.Error.Code != sel.ErrorCode):
		case times && !sel.From.IsZero() && at.Before(sel.From.Truncate(time.Second)):
		case times && !sel.To.IsZero() && !at.Before(sel.To.Truncate(time.Second)):
		default:
			out = append(out, d)
		}
	}
	return out
}

func deliveryOf(r store.Record, now time.Time) Delivery {
	d := Delivery{
		ID: r.ID, Group: r.ConsumerGroup, Topic: r.Topic, State: stateOf(r), EventID: r.EventID, EventIDs: r.EventIDs,
		Batch: r.Batch, ExecutionVersion: int(r.Format), Attempt: r.Attempt, EventCreatedAt: r.EventCreatedAt,
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, NextAttemptAt: r.NextAttemptAt, EndedAt: r.EndedAt,
		ExpiresAt: r.ExpiresAt, Error: failure(r.Failure), ExpiredEvents: r.Expired, HalfDone: r.HalfDone,
	}
	if d.State == Processing {
		d.StartedAt, d.LockedUntil, d.Worker = r.StartedAt, r.LockedUntil, r.LockOwner
		d.LeaseEnded = !r.LockedUntil.After(now)
	}
	for _, g := range r.Grants {
		d.Grants = append(d.Grants, Grant{By: By(g.By), At: g.At, Attempt: g.Attempt})
	}
	return d
}

func failure(f *delivery.Failure) *Failure {
	if f == nil {
		return nil
	}
	return &Failure{Code: f.Code, Name: f.Name, Message: f.Message, Stack: f.Stack}
}

func stateOf(r store.Record) State {
	switch r.Status {
	case delivery.StatusPending:
		if r.Attempt > 0 {
			return Retrying
		}
		return Pending
	case delivery.StatusV1Pending:
		switch {
		case r.Locked:
			return Processing
		case r.Attempt > 0:
			return Retrying
		default:
			return Pending
		}
	case delivery.StatusProcessing:
		return Processing
	case delivery.StatusSuccess, delivery.StatusV1Success:
		return Succeeded
	case delivery.StatusError, delivery.StatusV1Error:
		return Failed
	default:
		return Unknown
	}
}

// wireCursor is a RecordKey in a cursor.
type wireCursor struct {
	T, I      uint32
	ID, Group string
}

func encodeCursor(k store.RecordKey) string {
	text, err := json.Marshal(wireCursor{k.Sequence.T, k.Sequence.I, k.EventID, k.ConsumerGroup})
	if err != nil {
		return "" // numbers and strings always have a form
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func decodeCursor(cursor string) (store.RecordKey, error) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return store.RecordKey{}, err
	}
	var w wireCursor
	err = json.Unmarshal(text, &w)
	return store.RecordKey{Position: store.Position{Sequence: bson.Timestamp{T: w.T, I: w.I}, EventID: w.ID}, ConsumerGroup: w.Group}, err
}
