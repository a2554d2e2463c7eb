package echoes

import (
	"fmt"
	"strings"
)

// Problem is one reason why an App cannot start.
type Problem struct {
	// Position is where the annotation stands, as in "invoices.go:37". It and
	// Method and Topic are empty for a problem of the configuration.
	Position string
	// Method is the annotated method.
	Method string
	Topic  string
	// Text says what is wrong and what to change.
	Text string
}

// String gives "invoices.go:37: (*Invoices).Created (topic invoice.created):
// text", without the parts that are unknown.
func (p Problem) String() string {
	var parts []string
	if p.Position != "" {
		parts = append(parts, p.Position)
	}
	switch {
	case p.Method != "" && p.Topic != "":
		parts = append(parts, p.Method+" (topic "+p.Topic+")")
	case p.Topic != "":
		parts = append(parts, "topic "+p.Topic)
	case p.Method != "":
		parts = append(parts, p.Method)
	}
	return strings.Join(append(parts, p.Text), ": ")
}

// StartupError lists everything that keeps an App from starting (spec 7.6).
// App.Start returns it before anything connects, or, for what only the database
// can tell, after connecting and before any handler runs.
type StartupError struct {
	Problems []Problem
	// Err is the error of a transport that told the problems, if one did.
	Err error
}

// Error lists the problems, one a line when there are several.
func (e *StartupError) Error() string {
	if len(e.Problems) == 1 {
		return "echoes: cannot start: " + e.Problems[0].String()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "echoes: cannot start, %d problems:", len(e.Problems))
	for _, p := range e.Problems {
		b.WriteString("\n  - " + p.String())
	}
	return b.String()
}

// Unwrap returns Err.
func (e *StartupError) Unwrap() error { return e.Err }

// about makes a problem of l.
func (l Listener) about(format string, args ...any) Problem {
	return Problem{Position: l.position, Method: l.method, Topic: l.topic, Text: fmt.Sprintf(format, args...)}
}

// InvalidItemsError tells of the items of a batch that OnInvalid("skip") left
// out. The others were handled, and the batch succeeded.
type InvalidItemsError struct {
	Topic, Method, Position string
	// Total is the size of the batch, the left out items included.
	Total int
	// Items has the reason for each item that was left out.
	Items []*DecodeError
}

// Error says how many items were left out, and why the first one was.
func (e *InvalidItemsError) Error() string {
	at := Problem{Position: e.Position, Method: e.Method, Topic: e.Topic, Text: ""}.String()
	return fmt.Sprintf("echoes: %s%d of %d items were left out because they cannot be decoded, the first: %v", at, len(e.Items), e.Total, e.Items[0])
}
