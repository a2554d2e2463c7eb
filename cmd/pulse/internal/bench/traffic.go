package bench

import (
	"context"
	"maps"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/cmd/pulse/internal/fleet"
)

// Traffic is what the driver sent and got: commands by their names, and the bytes of commands and replies
// (without the headers of messages). Greetings and heartbeats do not count.
type Traffic struct {
	Commands map[string]int `json:"commands"`
	Bytes    int64          `json:"bytes"`
}

// Sum is the number of all commands.
func (t Traffic) Sum() int {
	sum := 0
	for _, n := range t.Commands {
		sum += n
	}
	return sum
}

func (t *Traffic) add(other Traffic) {
	if t.Commands == nil {
		t.Commands = map[string]int{}
	}
	for name, n := range other.Commands {
		t.Commands[name] += n
	}
	t.Bytes += other.Bytes
}

// monitor counts the traffic of a client.
type monitor struct {
	mu      sync.Mutex
	traffic Traffic
}

func (m *monitor) connect(uri string) (*mongo.Client, error) {
	m.traffic.Commands = map[string]int{}
	return mongo.Connect(options.Client().ApplyURI(uri).SetMonitor(&event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.traffic.Commands[e.CommandName]++
			m.traffic.Bytes += int64(len(e.Command))
		},
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.traffic.Bytes += int64(len(e.Reply))
		},
	}))
}

func (m *monitor) read() Traffic {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Traffic{Commands: maps.Clone(m.traffic.Commands), Bytes: m.traffic.Bytes}
}

// meter measures a process, from its making on.
type meter struct {
	watch  *monitor
	before Traffic
	cpu    time.Duration
	start  time.Time
}

func newMeter(watch *monitor) *meter {
	return &meter{watch: watch, before: watch.read(), cpu: fleet.CPU(), start: time.Now()}
}

// read adds to a report what was used since the meter was made.
func (m *meter) read(report *measured) {
	report.Traffic, report.CPU, report.Start = m.watch.read(), fleet.CPU()-m.cpu, m.start.UnixMicro()
	report.Bytes -= m.before.Bytes
	for name, n := range m.before.Commands {
		if report.Commands[name] -= n; report.Commands[name] == 0 {
			delete(report.Commands, name)
		}
	}
}
