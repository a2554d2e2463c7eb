package pulsetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// CommandMonitor counts the MongoDB commands that the watched clients start, by name: find, insert, update,
// aggregate, getMore, commitTransaction and so on. Retries by the driver count again; the driver's own
// greetings and heartbeats do not. It is for assertions on commands per event, which hold on every server
// where times do not. Make one with NewCommandMonitor; it is safe for concurrent use.
type CommandMonitor struct {
	mu     sync.Mutex
	counts map[string]int
}

// NewCommandMonitor returns a monitor that has counted nothing.
func NewCommandMonitor() *CommandMonitor { return &CommandMonitor{counts: map[string]int{}} }

// Watch makes a client that is about to connect report to the monitor. It replaces a monitor that the
// options have. Pass it to Client:
//
//	commands := pulsetest.NewCommandMonitor()
//	client := pulsetest.Client(t, commands.Watch)
func (m *CommandMonitor) Watch(opts *options.ClientOptions) {
	opts.SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.counts[e.CommandName]++
	}})
}

// Count returns how many commands of these names were started, of any name if none is given.
func (m *CommandMonitor) Count(names ...string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum := 0
	for name, n := range m.counts {
		if len(names) == 0 || slices.Contains(names, name) {
			sum += n
		}
	}
	return sum
}

// Counts returns a copy of the counts by name.
func (m *CommandMonitor) Counts() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.counts)
}

// Reset starts counting from zero.
func (m *CommandMonitor) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.counts)
}

// String lists the counts by name, for a test's log.
func (m *CommandMonitor) String() string {
	counts := m.Counts()
	parts := make([]string, 0, len(counts))
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return strings.Join(parts, ", ")
}
