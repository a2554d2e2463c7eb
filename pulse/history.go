package pulse

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/orionjs/orion-go/pulse/internal/store"
)

// AttemptStatus is the state of one attempt.
type AttemptStatus string

// The states of an attempt. A pending one waits, or runs: see LockState.
const (
	AttemptPending   AttemptStatus = "pending"
	AttemptSucceeded AttemptStatus = "success"
	AttemptFailed    AttemptStatus = "error"
)

// LockState is the state of a pending attempt's claim.
type LockState string

// The states of a claim.
const (
	// LockQueued is a pending attempt that nobody has claimed.
	LockQueued LockState = store.LockQueued
	// LockActive is a claimed attempt whose lease holds.
	LockActive LockState = store.LockActive
	// LockExpired is a claimed attempt whose lease has ended: its worker is lost.
	LockExpired LockState = store.LockExpired
)

// The page sizes of HistoryQuery.Limit.
const (
	DefaultHistoryLimit = 100
	MaxHistoryLimit     = 500
)

// HistoryQuery selects attempts; empty fields select all (spec 5.1).
type HistoryQuery struct {
	// ConsumerGroup selects a group. Default: the client's; AllGroups selects every group.
	ConsumerGroup string
	// Topic and EventID select attempts of a topic or an event; a batch is found by each of its events.
	Topic, EventID string
	Status         AttemptStatus
	// Lock selects pending attempts by their claim; it needs no Status, and contradicts any but pending.
	Lock LockState
	// From (included) and To (not) bound when attempts were created.
	From, To time.Time
	// Cursor continues a listing: HistoryPage.Next of the page before.
	Cursor string
	// Limit is the size of the page. Default DefaultHistoryLimit, at most MaxHistoryLimit.
	Limit int
}

// AllGroups is the HistoryQuery.ConsumerGroup that selects every group.
const AllGroups = "*"

// Attempt is one run, past, present or to come, of a handler for a delivery.
type Attempt struct {
	// ID identifies the attempt, DeliveryID the delivery.
	ID, DeliveryID string
	// EventIDs are the delivery's events, one unless it is a batch.
	EventIDs             []string
	ConsumerGroup, Topic string
	// ExecutionVersion tells where the attempt is stored.
	ExecutionVersion int
	// Attempt counts from 1.
	Attempt int
	Status  AttemptStatus
	// Lock is empty unless the attempt is pending.
	Lock LockState
	// CreatedAt is when the attempt was scheduled, NextAttemptAt when it is or was due.
	CreatedAt, NextAttemptAt time.Time
	// StartedAt, EndedAt and Duration are zero until then.
	StartedAt, EndedAt time.Time
	Duration           time.Duration
	// LockOwner and LockedUntil tell whose claim it is or was.
	LockOwner   string
	LockedUntil time.Time
	// Error is nil unless the attempt failed.
	Error *AttemptError
	// ExpiredEvents counts events of a batch that were gone before the handler ran.
	ExpiredEvents int
}

// AttemptError is the stored failure of an attempt: valid UTF-8, cut to 256, 2,048 and 4,096 characters.
type AttemptError struct {
	// Code is handler_error, decode_error, event_expired, worker_lost, cancelled, delivery_missing or
	// delivery_already_terminal.
	Code string
	// Name is the error's type, Message its text, Stack the one of a panic.
	Name, Message, Stack string
}

// HistoryPage is one page of attempts.
type HistoryPage struct {
	// Attempts are the newest first, by creation.
	Attempts []Attempt
	// Next is the cursor of the next page; empty when this is the last.
	Next string
}

// History returns the attempts that are recorded or pending. It works before Start.
func (c *Client) History() History { return History{client: c} }

// History reads attempts of both execution versions. Version 2 keeps the last ten of a delivery.
type History struct{ client *Client }

// Find returns a page of attempts, newest first. Attempts that are created while a listing is under way do
// not disturb its pages: they lie before the first. The cursor stays valid when attempts are deleted.
//
// A malformed query is a *ConfigurationError.
func (h History) Find(ctx context.Context, query HistoryQuery) (HistoryPage, error) {
	if h.client.closed() {
		return HistoryPage{}, ErrClosed
	}
	q, err := h.resolve(query)
	if err != nil {
		return HistoryPage{}, err
	}
	q.Limit++ // one more tells whether there is a next page
	found, err := h.client.store.History(ctx, q)
	if err != nil {
		return HistoryPage{}, err
	}
	page := HistoryPage{}
	if len(found) == q.Limit {
		found = found[:q.Limit-1]
		last := found[len(found)-1]
		page.Next = encodeCursor(store.AttemptKey{CreatedAt: last.CreatedAt, ID: last.ID})
	}
	now := h.client.store.Now()
	for _, a := range found {
		page.Attempts = append(page.Attempts, newAttempt(a, now))
	}
	return page, nil
}

func (h History) resolve(query HistoryQuery) (store.HistoryQuery, error) {
	q := store.HistoryQuery{
		ConsumerGroup: query.ConsumerGroup, Topic: query.Topic, EventID: query.EventID,
		Status: string(query.Status), Lock: string(query.Lock), From: query.From, To: query.To, Limit: query.Limit,
	}
	setDefault(&q.ConsumerGroup, h.client.config.ConsumerGroup)
	setDefault(&q.Limit, DefaultHistoryLimit)
	if q.ConsumerGroup == AllGroups {
		q.ConsumerGroup = ""
	}
	var problems []ConfigurationProblem
	wrong := func(format string, args ...any) {
		problems = append(problems, ConfigurationProblem{Text: "history: " + fmt.Sprintf(format, args...)})
	}
	switch query.Status {
	case "", AttemptPending, AttemptSucceeded, AttemptFailed:
	default:
		wrong("Status %q: must be pending, success or error", query.Status)
	}
	switch query.Lock {
	case "", LockQueued, LockActive, LockExpired:
		if query.Lock != "" && query.Status != "" && query.Status != AttemptPending {
			wrong("Lock %q with Status %q: only pending attempts have a claim; remove one of the two", query.Lock, query.Status)
		}
	default:
		wrong("Lock %q: must be queued, active or expired", query.Lock)
	}
	if q.Limit < 1 || q.Limit > MaxHistoryLimit {
		wrong("Limit %d: must be 1 to %d, or 0 for %d", q.Limit, MaxHistoryLimit, DefaultHistoryLimit)
	}
	if query.Cursor != "" {
		key, err := decodeCursor(query.Cursor)
		if err != nil {
			wrong("Cursor %q is not one that a page returned as Next", query.Cursor)
		}
		q.After = &key
	}
	return q, configurationError(problems)
}

func newAttempt(a store.Attempt, now time.Time) Attempt {
	out := Attempt{
		ID: a.ID, DeliveryID: a.DeliveryID, EventIDs: a.EventIDs, ConsumerGroup: a.ConsumerGroup, Topic: a.Topic,
		ExecutionVersion: int(a.Format), Attempt: a.Attempt, Status: AttemptStatus(a.Status),
		CreatedAt: a.CreatedAt, NextAttemptAt: a.NextAttemptAt, StartedAt: a.StartedAt, EndedAt: a.EndedAt,
		Duration:  time.Duration(a.DurationMs * float64(time.Millisecond)),
		LockOwner: a.LockOwner, LockedUntil: a.LockedUntil, ExpiredEvents: a.Expired,
	}
	if out.Status == AttemptPending {
		switch {
		case !a.Locked:
			out.Lock = LockQueued
		case a.LockedUntil.After(now):
			out.Lock = LockActive
		default:
			out.Lock = LockExpired
		}
	}
	if f := a.Failure; f != nil {
		out.Error = &AttemptError{Code: f.Code, Name: f.Name, Message: f.Message, Stack: f.Stack}
	}
	return out
}

// A cursor is the creation time in milliseconds and the ID of the last attempt of a page.
func encodeCursor(key store.AttemptKey) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(key.CreatedAt.UnixMilli(), 10) + "." + key.ID))
}

func decodeCursor(cursor string) (store.AttemptKey, error) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return store.AttemptKey{}, err
	}
	ms, id, found := strings.Cut(string(raw), ".")
	millis, err := strconv.ParseInt(ms, 10, 64)
	if err != nil || !found {
		return store.AttemptKey{}, strconv.ErrSyntax
	}
	return store.AttemptKey{CreatedAt: time.UnixMilli(millis).UTC(), ID: id}, nil
}
