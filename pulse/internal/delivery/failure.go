package delivery

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/orionjs/orion-go/internal/hostile"
)

// The codes of a stored failure (spec 4.2).
const (
	CodeHandlerError = "handler_error"
	CodeDecodeError  = "decode_error"
	CodeEventExpired = "event_expired"
	CodeWorkerLost   = "worker_lost"
	CodeCancelled    = "cancelled"

	// CodeHandlerTimeout is of a handler that failed after its time was up.
	CodeHandlerTimeout = "handler_timeout"

	// CodeOperatorCancelled is of a delivery that an operator has ended (spec 9.2).
	CodeOperatorCancelled = "cancelled_by_operator"

	// CodeAlreadyTerminal is of a version 1 attempt whose delivery had ended without it.
	CodeAlreadyTerminal = "delivery_already_terminal"
)

// Limits of a stored failure, in characters.
const (
	maxName    = 256
	maxMessage = 2048
	maxStack   = 4096
)

// ErrClosed reports a client that is closed, or closing: then it is the cause of its handlers' contexts.
var ErrClosed = errors.New("pulse: the client is closed")

// ErrLockLost reports that a delivery's lease ended before its outcome was stored.
var ErrLockLost = errors.New("pulse: the lease of this delivery was lost: another worker may run it; stop, and leave the outcome to that worker")

// ErrHandlerTimeout reports that a handler ran longer than its subscription allows.
var ErrHandlerTimeout = errors.New("pulse: the handler ran longer than its HandlerTimeout")

// Failure is the stored description of a failed attempt: valid UTF-8, bounded in size.
type Failure struct {
	Code, Name, Message, Stack string
}

// NewFailure describes err under a code. It never panics, whatever err's methods do.
func NewFailure(code string, err error, stack string) *Failure {
	return &Failure{
		Code:    code,
		Name:    cut(errorName(err), maxName),
		Message: cut(hostile.Text(err), maxMessage),
		Stack:   cut(stack, maxStack),
	}
}

// WorkerLost is the failure of an attempt whose lease expired (spec 4.3).
func WorkerLost() *Failure {
	return &Failure{
		Code: CodeWorkerLost, Name: "WorkerLost",
		Message: "the worker's lease expired before it stored an outcome: its process was stopped, cut off from MongoDB, or frozen for longer than the lease",
	}
}

// OperatorCancelled is the failure of a delivery that an operator has ended.
func OperatorCancelled(by, reason string) *Failure {
	message := "cancelled by " + by
	if reason != "" {
		message += ": " + reason
	}
	return &Failure{Code: CodeOperatorCancelled, Name: "Cancelled", Message: cut(message, maxMessage)}
}

// TakenAway tells whether an attempt with that failure was ended by another than its worker: what the worker makes of
// it comes too late.
func TakenAway(code string) bool { return code == CodeWorkerLost || code == CodeOperatorCancelled }

// AlreadyTerminal is the failure of an attempt whose delivery had ended, or was gone, before it ran.
func AlreadyTerminal() *Failure {
	return &Failure{
		Code: CodeAlreadyTerminal, Name: "AlreadyTerminal",
		Message: "the delivery had ended, or was deleted, before this attempt ran: the handler was not called",
	}
}

// EventExpired is the failure of a delivery whose events were all gone before it ran (spec 3.6).
func EventExpired(events int) *Failure {
	what := "the event was"
	if events != 1 {
		what = fmt.Sprintf("all %d events were", events)
	}
	return &Failure{
		Code: CodeEventExpired, Name: "EventExpired",
		Message: what + " no longer stored when the handler was to run: keep the event retention longer than the longest outage or retry window",
	}
}

// FromHandler turns what a handler returned into an outcome: nil is a success; Permanent,
// RetryAfter and decode errors are found through wrapping.
func FromHandler(err error) Outcome {
	if err == nil {
		return Outcome{}
	}
	out := Outcome{Failure: NewFailure(codeOf(err), err, stackOf(err))}
	_, out.Permanent = hostile.As[*PermanentError](err)
	if after, ok := hostile.As[*RetryAfterError](err); ok {
		out.RetryAfter = &after.Delay
	}
	return out
}

func codeOf(err error) string {
	if _, ok := hostile.As[*DecodeError](err); ok {
		return CodeDecodeError
	}
	if _, ok := hostile.As[*TimeoutError](err); ok {
		return CodeHandlerTimeout
	}
	return CodeHandlerError
}

func stackOf(err error) string {
	if p, ok := hostile.As[*PanicError](err); ok {
		return p.Stack
	}
	return ""
}

// errorName names the cause behind wrappers that say nothing, ours and fmt's, so that operators see the
// type that the handler's author wrote.
func errorName(err error) string {
	for {
		switch e := err.(type) {
		case *PermanentError:
			err = e.Err
			continue
		case *RetryAfterError:
			err = e.Err
			continue
		case *TimeoutError:
			if e.Err == nil {
				return "HandlerTimeout"
			}
			err = e.Err
			continue
		case *PanicError:
			return "panic"
		case *DecodeError:
			return "DecodeError"
		}
		name := fmt.Sprintf("%T", err)
		if name != fmtWrapper {
			return name
		}
		err = errors.Unwrap(err)
	}
}

// fmtWrapper is the type that fmt.Errorf makes of one %w.
var fmtWrapper = fmt.Sprintf("%T", fmt.Errorf("%w", errors.New("")))

// cut returns s as valid UTF-8 of at most n characters.
func cut(s string, n int) string {
	// Each character takes at most four bytes, so what lies behind can be dropped unseen: a
	// message of megabytes must not cost megabytes of validation. Cutting inside a character
	// leaves invalid bytes, which the next line replaces.
	if len(s) > 4*n+4 {
		s = s[:4*n+4]
	}
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	i := 0
	for at := range s {
		if i == n {
			return s[:at]
		}
		i++
	}
	return s
}

// PermanentError marks a failure that no retry can mend.
type PermanentError struct{ Err error }

func (e *PermanentError) Error() string { return e.Err.Error() }
func (e *PermanentError) Unwrap() error { return e.Err }

// RetryAfterError carries the pause before the next attempt.
type RetryAfterError struct {
	Err   error
	Delay time.Duration
}

func (e *RetryAfterError) Error() string { return e.Err.Error() }
func (e *RetryAfterError) Unwrap() error { return e.Err }

// TimeoutError is ErrHandlerTimeout with the limit: the cause of the handler's context, and then, with what the
// handler returned, its failure.
type TimeoutError struct {
	Limit time.Duration
	Err   error // nil in a cause
}

func (e *TimeoutError) Error() string {
	text := fmt.Sprintf("%v(%v): let it end with its context, or raise the limit", ErrHandlerTimeout, e.Limit)
	if e.Err != nil {
		text += ": " + hostile.Text(e.Err)
	}
	return text
}

// Is makes it ErrHandlerTimeout.
func (e *TimeoutError) Is(target error) bool { return target == ErrHandlerTimeout }

// Unwrap returns what the handler returned.
func (e *TimeoutError) Unwrap() error { return e.Err }

// DecodeError reports an event whose stored data does not fit the handler's type.
type DecodeError struct {
	// Topic and EventID name the event.
	Topic, EventID string
	// Err says what does not fit, and where in the data.
	Err error
}

func (e *DecodeError) Error() string {
	return fmt.Sprintf("pulse: topic %s, event %s: cannot decode the data: %v", e.Topic, e.EventID, e.Err)
}

// Unwrap returns the cause.
func (e *DecodeError) Unwrap() error { return e.Err }

// PanicError is a panic (or a runtime.Goexit) of a handler.
type PanicError struct {
	Value any
	Stack string
}

func (e *PanicError) Error() string { return "panic: " + hostile.Print(e.Value) }
