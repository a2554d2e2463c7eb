package admin

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// DefaultMax is how many deliveries one RetryMatching or CancelMatching changes unless it is told otherwise.
const DefaultMax = 1000

// Bulk says how many deliveries are changed, and how.
type Bulk struct {
	// By is who does it; required unless DryRun.
	By By
	// DryRun counts what would be changed, up to Max, and changes nothing.
	DryRun bool
	// Max ends the work after so many deliveries. Default DefaultMax.
	Max int
	// Progress is called after each delivery, by the goroutine of the caller. It may be nil.
	Progress func(Changes)
}

// Changes is what became of many deliveries.
type Changes struct {
	// Matched is how many the query selected, Changed how many of them were changed; the others had moved on, or were
	// refused.
	Matched, Changed int
	// More tells that the work ended at Bulk.Max, and that there may be others.
	More bool
	// Errors are the first ten reasons of those that were not changed.
	Errors []error
}

// maxErrors is how many errors are kept.
const maxErrors = 10

func (c *Changes) failed(err error) {
	if len(c.Errors) < maxErrors {
		c.Errors = append(c.Errors, err)
	}
}

// RetryMatching grants one more attempt to each delivery that the query selects, the newest events first, one by one
// and each as Retry does. Without States those that failed are meant. The query's Cursor and Limit are not used.
//
// Deliveries that cannot be retried are in Changes.Errors, and the work goes on. An error of the call itself, such as
// MongoDB out of reach, ends it; what was changed until then is in Changes. To go on after More, call it again: what was
// retried is no longer selected, unless it has failed again meanwhile.
func (a *Admin) RetryMatching(ctx context.Context, q DeliveryQuery, b Bulk) (Changes, error) {
	return a.matching(ctx, q, b, "retried", ended, []State{Failed}, a.Retry)
}

// CancelMatching ends each delivery that the query selects, as Cancel does, otherwise like RetryMatching. Without States those
// that wait are meant, pending and retrying ones.
func (a *Admin) CancelMatching(ctx context.Context, q DeliveryQuery, b Bulk) (Changes, error) {
	return a.matching(ctx, q, b, "cancelled", active, []State{Pending, Retrying}, a.Cancel)
}

func (a *Admin) matching(ctx context.Context, q DeliveryQuery, b Bulk, word string, allowed, byDefault []State,
	change func(context.Context, string, By) (Change, error),
) (Changes, error) {
	var done Changes
	if len(q.States) == 0 {
		q.States = byDefault
	}
	for _, s := range q.States {
		if !slices.Contains(allowed, s) {
			return done, &QueryError{fmt.Sprintf("deliveries in state %q cannot be %s: only those in %v can", s, word, allowed)}
		}
	}
	if b.Max == 0 {
		b.Max = DefaultMax
	}
	if b.Max < 0 {
		return done, &QueryError{fmt.Sprintf("Bulk.Max %d: must be positive, or 0 for %d", b.Max, DefaultMax)}
	}
	if !b.DryRun {
		if err := b.By.check(); err != nil {
			return done, err
		}
	}
	for q.Cursor = ""; ; {
		q.Limit = MaxLimit
		page, err := a.Deliveries(ctx, q)
		if err != nil {
			return done, err
		}
		for _, d := range page.Deliveries {
			if done.Matched == b.Max {
				done.More = true
				return done, nil
			}
			done.Matched++
			if b.DryRun {
				continue
			}
			switch _, err := change(ctx, d.ID, b.By); {
			case err == nil:
				done.Changed++
			case refused(err):
				done.failed(err)
			default:
				return done, err
			}
			if b.Progress != nil {
				b.Progress(done)
			}
		}
		if q.Cursor = page.Next; page.Next == "" {
			return done, nil
		}
	}
}

// refused tells an answer about one delivery from a failure that the others would meet as well.
func refused(err error) bool {
	var missing *NotFoundError
	var state *StateError
	var expired *ExpiredError
	return errors.As(err, &missing) || errors.As(err, &state) || errors.As(err, &expired)
}
