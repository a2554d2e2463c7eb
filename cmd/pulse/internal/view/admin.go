package view

import (
	"encoding/json"
	"time"

	"github.com/orionjs/orion-go/pulse/admin"
)

// Subscription is a group's durable subscription to a topic.
type Subscription struct {
	ID            string   `json:"id"`
	ConsumerGroup string   `json:"consumerGroup"`
	Topic         string   `json:"topic"`
	Settings      Settings `json:"settings"`
	Cursor        Cursor   `json:"cursor"`
	Leader        *Holder  `json:"leader,omitempty"`
	OrderHolder   *Holder  `json:"orderHolder,omitempty"`
	Paused        *Done    `json:"paused,omitempty"`
	Resumed       *Done    `json:"resumed,omitempty"`
	Backlog       Backlog  `json:"backlog"`
	// Scheduled counts the topic's events for a later time, NextScheduled is when the first of them is due.
	Scheduled     Count `json:"scheduled"`
	NextScheduled Time  `json:"nextScheduled,omitzero"`
	CreatedAt     Time  `json:"createdAt,omitzero"`
	UpdatedAt     Time  `json:"updatedAt,omitzero"`
}

// Settings are those of a subscription.
type Settings struct {
	ConfigVersion          int     `json:"configVersion"`
	ExecutionVersion       int     `json:"executionVersion"`
	Ordered                bool    `json:"ordered"`
	ReceiverMode           string  `json:"receiverMode"`
	BatchSize              int     `json:"batchSize"`
	MaxRetries             int     `json:"maxRetries"`
	RetryDelayMs           float64 `json:"retryDelayMs"`
	RetryBackoffMultiplier float64 `json:"retryBackoffMultiplier"`
	OffsetReset            string  `json:"offsetReset"`
	Delivery               string  `json:"delivery"`
}

// Cursor is the last event that has deliveries. Without a time it is the very beginning.
type Cursor struct {
	Time    Time   `json:"time,omitzero"`
	EventID string `json:"eventId,omitempty"`
}

// Holder is who has, or last had, a lease.
type Holder struct {
	Owner string `json:"owner"`
	Until Time   `json:"until,omitzero"`
	Held  bool   `json:"held"`
}

// Done is who did something, why and when.
type Done struct {
	By     string `json:"by"`
	Reason string `json:"reason,omitempty"`
	At     Time   `json:"at,omitzero"`
}

// Backlog is what a group has not finished of a topic.
type Backlog struct {
	LagSeconds float64 `json:"lagSeconds"`
	Oldest     Time    `json:"oldest,omitzero"`
	Behind     Count   `json:"behind"`
	Pending    Count   `json:"pending"`
	Retrying   Count   `json:"retrying"`
	Processing Count   `json:"processing"`
	Failed     Count   `json:"failed"`
}

// Count is a number that is counted up to a bound; AtLeast tells that there are that many or more.
type Count struct {
	N       int  `json:"n"`
	AtLeast bool `json:"atLeast,omitempty"`
}

// NewSubscription describes a subscription, with what of its topic is scheduled for later.
func NewSubscription(s admin.Subscription, scheduled admin.Count, next time.Time) Subscription {
	b := s.Backlog
	return Subscription{
		ID: s.ID, ConsumerGroup: s.Group, Topic: s.Topic,
		Settings: newSettings(s.Settings),
		Cursor:   Cursor{Time: Time{s.Cursor.Time}, EventID: s.Cursor.EventID},
		Leader:   newHolder(s.Leader), OrderHolder: newHolder(s.OrderHolder),
		Backlog: Backlog{
			LagSeconds: b.LagSeconds, Oldest: Time{b.OldestPending}, Behind: Count(b.Undiscovered), Pending: Count(b.Pending),
			Retrying: Count(b.Retrying), Processing: Count(b.Processing), Failed: Count(b.Failed),
		},
		Scheduled: Count(scheduled), NextScheduled: Time{next},
		Paused: newPause(s.Paused), Resumed: newPause(s.Resumed),
		CreatedAt: Time{s.CreatedAt}, UpdatedAt: Time{s.UpdatedAt},
	}
}

func newPause(p *admin.Pause) *Done {
	if p == nil {
		return nil
	}
	return &Done{By: p.Name, Reason: p.Reason, At: Time{p.At}}
}

func newSettings(s admin.Settings) Settings {
	return Settings{
		ConfigVersion: s.ConfigVersion, ExecutionVersion: s.ExecutionVersion, Ordered: s.Ordered,
		ReceiverMode: s.ReceiverMode, BatchSize: s.BatchSize, MaxRetries: s.MaxRetries,
		RetryDelayMs: ms(s.RetryDelay), RetryBackoffMultiplier: s.RetryBackoffMultiplier,
		OffsetReset: s.OffsetReset, Delivery: s.Delivery,
	}
}

func newHolder(h admin.Holder) *Holder {
	if h.Owner == "" {
		return nil
	}
	return &Holder{Owner: h.Owner, Until: Time{h.Until}, Held: h.Held}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Delivery is one event, or one batch of events, owed to one group.
type Delivery struct {
	ID               string   `json:"id"`
	ConsumerGroup    string   `json:"consumerGroup"`
	Topic            string   `json:"topic"`
	State            string   `json:"state"`
	EventIDs         []string `json:"eventIds"`
	Batch            bool     `json:"batch"`
	ExecutionVersion int      `json:"executionVersion"`
	Attempt          int      `json:"attempt"`
	EventCreatedAt   Time     `json:"eventCreatedAt,omitzero"`
	CreatedAt        Time     `json:"createdAt,omitzero"`
	UpdatedAt        Time     `json:"updatedAt,omitzero"`
	NextAttemptAt    Time     `json:"nextAttemptAt,omitzero"`
	StartedAt        Time     `json:"startedAt,omitzero"`
	LockedUntil      Time     `json:"lockedUntil,omitzero"`
	LockOwner        string   `json:"lockOwner,omitempty"`
	LeaseEnded       bool     `json:"leaseEnded,omitempty"`
	EndedAt          Time     `json:"endedAt,omitzero"`
	ExpiresAt        Time     `json:"expiresAt,omitzero"`
	Error            *Failure `json:"error,omitempty"`
	ExpiredEvents    int      `json:"expiredEventCount,omitzero"`
	Grants           []Grant  `json:"grants,omitempty"`
	HalfDone         bool     `json:"halfDone,omitempty"`
}

// Grant is a further attempt that an operator has granted.
type Grant struct {
	Done
	Attempt int `json:"attempt"`
}

// NewDelivery describes a delivery.
func NewDelivery(d admin.Delivery) Delivery {
	v := Delivery{
		ID: d.ID, ConsumerGroup: d.Group, Topic: d.Topic, State: string(d.State), EventIDs: d.EventIDs, Batch: d.Batch,
		ExecutionVersion: d.ExecutionVersion, Attempt: d.Attempt, EventCreatedAt: Time{d.EventCreatedAt}, CreatedAt: Time{d.CreatedAt},
		UpdatedAt: Time{d.UpdatedAt}, NextAttemptAt: Time{d.NextAttemptAt}, StartedAt: Time{d.StartedAt}, LockedUntil: Time{d.LockedUntil},
		LockOwner: d.Worker, LeaseEnded: d.LeaseEnded, EndedAt: Time{d.EndedAt}, ExpiresAt: Time{d.ExpiresAt}, Error: newFailure(d.Error),
		ExpiredEvents: d.ExpiredEvents, HalfDone: d.HalfDone,
	}
	for _, g := range d.Grants {
		v.Grants = append(v.Grants, Grant{Done: Done{By: g.Name, Reason: g.Reason, At: Time{g.At}}, Attempt: g.Attempt})
	}
	return v
}

func newFailure(f *admin.Failure) *Failure {
	if f == nil {
		return nil
	}
	return &Failure{Code: f.Code, Name: f.Name, Message: f.Message, Stack: f.Stack}
}

// DeliveryDetail is a delivery with its attempts and events.
type DeliveryDetail struct {
	Delivery
	Attempts []DeliveryAttempt `json:"attempts"`
	Events   []Event           `json:"events"`
}

// DeliveryAttempt is one run of the handler, or one to come.
type DeliveryAttempt struct {
	Attempt       int      `json:"attempt"`
	State         string   `json:"state"`
	CreatedAt     Time     `json:"createdAt,omitzero"`
	NextAttemptAt Time     `json:"nextAttemptAt,omitzero"`
	StartedAt     Time     `json:"startedAt,omitzero"`
	EndedAt       Time     `json:"endedAt,omitzero"`
	DurationMs    float64  `json:"durationMs,omitzero"`
	LockOwner     string   `json:"lockOwner,omitempty"`
	LockedUntil   Time     `json:"lockedUntil,omitzero"`
	Error         *Failure `json:"error,omitempty"`
	ExpiredEvents int      `json:"expiredEventCount,omitzero"`
}

// Event is a published event. Gone tells that only its ID is left.
type Event struct {
	ID        string            `json:"id"`
	Topic     string            `json:"topic,omitempty"`
	Data      json.RawMessage   `json:"data,omitempty"`
	Headers   map[string]string `json:"headers,omitempty"`
	Publisher string            `json:"publisher,omitempty"`
	CreatedAt Time              `json:"createdAt,omitzero"`
	NotBefore Time              `json:"notBefore,omitzero"`
	ExpiresAt Time              `json:"expiresAt,omitzero"`
	Gone      bool              `json:"gone,omitempty"`
}

// NewDeliveryDetail describes a delivery with what belongs to it.
func NewDeliveryDetail(d admin.DeliveryDetail) DeliveryDetail {
	v := DeliveryDetail{Delivery: NewDelivery(d.Delivery), Attempts: []DeliveryAttempt{}, Events: []Event{}}
	for _, a := range d.Attempts {
		v.Attempts = append(v.Attempts, DeliveryAttempt{
			Attempt: a.Number, State: string(a.State), CreatedAt: Time{a.CreatedAt}, NextAttemptAt: Time{a.NextAttemptAt},
			StartedAt: Time{a.StartedAt}, EndedAt: Time{a.EndedAt}, DurationMs: ms(a.Duration), LockOwner: a.Worker,
			LockedUntil: Time{a.LockedUntil}, Error: newFailure(a.Error), ExpiredEvents: a.ExpiredEvents,
		})
	}
	for _, e := range d.Events {
		v.Events = append(v.Events, NewEvent(e))
	}
	return v
}

// NewEvent describes an event.
func NewEvent(e admin.Event) Event {
	return Event{
		ID: e.ID, Topic: e.Topic, Data: Data(e.Data), Headers: e.Headers, Publisher: e.Publisher,
		CreatedAt: Time{e.CreatedAt}, NotBefore: Time{e.NotBefore}, ExpiresAt: Time{e.ExpiresAt}, Gone: e.Gone,
	}
}
