// Package view is what the operator's commands print for programs: JSON documents whose field names stay.
package view

import (
	"encoding/json"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/cmd/pulse/internal/eventfile"
	"github.com/orionjs/orion-go/cmd/pulse/internal/terminal"
	"github.com/orionjs/orion-go/pulse"
)

// Time is written as RFC 3339 text in UTC with milliseconds. Fields without a time are left out by omitzero.
type Time struct{ time.Time }

// MarshalText is encoding.TextMarshaler.
func (t Time) MarshalText() ([]byte, error) { return []byte(terminal.Exact(t.Time)), nil }

// MarshalJSON replaces that of time.Time.
func (t Time) MarshalJSON() ([]byte, error) { return json.Marshal(terminal.Exact(t.Time)) }

// Published is an event that was published.
type Published struct {
	ID        string `json:"id"`
	Topic     string `json:"topic"`
	CreatedAt Time   `json:"createdAt,omitzero"`
	NotBefore Time   `json:"notBefore,omitzero"`
	// Duplicate: it had been stored before.
	Duplicate bool `json:"duplicate"`
}

// PublishedEvent describes what a publication returned.
func PublishedEvent(e *pulse.Event[bson.RawValue]) Published {
	return Published{ID: e.ID, Topic: e.Topic, CreatedAt: Time{e.CreatedAt}, NotBefore: Time{e.NotBefore}, Duplicate: e.Duplicate}
}

// Failure is the stored error of an attempt.
type Failure struct {
	Code    string `json:"code"`
	Name    string `json:"name,omitempty"`
	Message string `json:"message"`
	Stack   string `json:"stack,omitempty"`
}

// Attempt is one run of a handler, past, present or to come.
type Attempt struct {
	ID               string   `json:"id"`
	DeliveryID       string   `json:"deliveryId"`
	EventIDs         []string `json:"eventIds"`
	ConsumerGroup    string   `json:"consumerGroup"`
	Topic            string   `json:"topic"`
	ExecutionVersion int      `json:"executionVersion"`
	Attempt          int      `json:"attempt"`
	// Status is pending, success or error; Lock, of a pending one, queued, active or expired.
	Status        string   `json:"status"`
	Lock          string   `json:"lock,omitempty"`
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

// NewAttempt describes an attempt of the history.
func NewAttempt(a pulse.Attempt) Attempt {
	v := Attempt{
		ID: a.ID, DeliveryID: a.DeliveryID, EventIDs: a.EventIDs, ConsumerGroup: a.ConsumerGroup, Topic: a.Topic,
		ExecutionVersion: a.ExecutionVersion, Attempt: a.Attempt, Status: string(a.Status), Lock: string(a.Lock),
		CreatedAt: Time{a.CreatedAt}, NextAttemptAt: Time{a.NextAttemptAt}, StartedAt: Time{a.StartedAt}, EndedAt: Time{a.EndedAt},
		DurationMs: float64(a.Duration) / float64(time.Millisecond), LockOwner: a.LockOwner, LockedUntil: Time{a.LockedUntil},
		ExpiredEvents: a.ExpiredEvents,
	}
	if e := a.Error; e != nil {
		v.Error = &Failure{Code: e.Code, Name: e.Name, Message: e.Message, Stack: e.Stack}
	}
	return v
}

// Data is a payload as relaxed Extended JSON, which pulse publish reads.
func Data(value bson.RawValue) json.RawMessage {
	if value.IsZero() {
		return nil
	}
	text, err := eventfile.Format(value)
	if err != nil {
		text, _ = json.Marshal("unreadable: " + err.Error())
	}
	return text
}
