package admin

import (
	"fmt"
	"slices"
	"strings"
)

// NotFoundError says that what was named does not exist, or no longer.
type NotFoundError struct {
	// What is "delivery" or "subscription", Name what was asked for.
	What, Name string
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("pulse/admin: there is no %s %s: it has another name, or has been deleted by its retention", e.What, e.Name)
}

// StateError says that a delivery is in a state in which the change makes no sense, or has left the one in which it
// was read while the change was on its way. Nothing was changed.
type StateError struct {
	Delivery string
	// Is is the state that it is in, Want those of which it would have to be in one.
	Is   State
	Want []State
}

func (e *StateError) Error() string {
	if slices.Contains(e.Want, e.Is) {
		return fmt.Sprintf("pulse/admin: delivery %s has changed since it was read, and is %s now: nothing was changed; look at it again", e.Delivery, e.Is)
	}
	want := make([]string, len(e.Want))
	for i, s := range e.Want {
		want[i] = string(s)
	}
	return fmt.Sprintf("pulse/admin: delivery %s is %s, and would have to be %s: nothing was changed", e.Delivery, e.Is, strings.Join(want, " or "))
}

// ExpiredError says that none of a delivery's events is stored any more, so that a handler would get nothing. Nothing
// was changed.
type ExpiredError struct {
	Delivery string
	Events   int
}

func (e *ExpiredError) Error() string {
	return fmt.Sprintf("pulse/admin: delivery %s cannot be retried: its retention has deleted all of its events (%d): publish them again, and keep the event retention longer than it takes to notice a failure", e.Delivery, e.Events)
}

// QueryError says what is wrong with the arguments of a call. Nothing was sent.
type QueryError struct{ Problem string }

func (e *QueryError) Error() string { return "pulse/admin: " + e.Problem }
