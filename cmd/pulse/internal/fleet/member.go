package fleet

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Role is what a process does: it prepares everything, waits for m.Begin, works until ctx ends, and returns its
// report, which may be nil.
type Role func(ctx context.Context, order json.RawMessage, m *Member) (report any, err error)

// Member is a process' own side.
type Member struct {
	begin <-chan struct{}

	mu  sync.Mutex
	out *json.Encoder
}

// Tell sends a message to whoever has started the process.
func (m *Member) Tell(message Message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = m.out.Encode(message) // nobody hears any more: our input ends, too
}

// Begin tells that everything is prepared, and waits for the word to begin.
func (m *Member) Begin(ctx context.Context) error {
	m.Tell(Message{Ready: true})
	select {
	case <-m.begin:
		return nil
	case <-ctx.Done():
		select {
		case <-m.begin: // the word to end came close behind
			return nil
		default:
			return context.Cause(ctx)
		}
	}
}

// Serve is all that such a process does, with its standard input and output.
func Serve(name string, roles map[string]Role, stdin io.Reader, stdout io.Writer) error {
	role, known := roles[name]
	if !known {
		return fmt.Errorf("no role %q: this command is started by others of this program, with one of %s", name, strings.Join(slices.Sorted(maps.Keys(roles)), ", "))
	}
	in := bufio.NewReader(stdin)
	order, err := in.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("no order: this command is started by others of this program: %w", err)
	}
	ctx, end := context.WithCancel(context.Background())
	defer end()
	begin := make(chan struct{})
	go func() {
		defer end()
		if _, err := in.ReadBytes('\n'); err != nil {
			return
		}
		close(begin)
		_, _ = io.Copy(io.Discard, in)
	}()
	m := &Member{begin: begin, out: json.NewEncoder(stdout)}
	report, err := role(ctx, order, m)
	if err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s: %w", name, err)
	}
	if report == nil {
		return nil
	}
	encoded, err := json.Marshal(report)
	if err != nil {
		return err
	}
	m.Tell(Message{Report: encoded})
	return nil
}
