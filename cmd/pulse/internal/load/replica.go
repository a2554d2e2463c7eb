package load

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/cmd/pulse/internal/audit"
	"github.com/orionjs/orion-go/cmd/pulse/internal/fleet"
	"github.com/orionjs/orion-go/pulse"
)

// ReplicaRole is the role of a process that handles events and records each call.
const ReplicaRole = "replica"

// Replica is the order of such a process.
type Replica struct {
	Client
	Name      string
	Receivers []Receiver
	// RecordURI leads to the server for the record, around any proxy of the client's.
	RecordURI string
	// RecordFirst stores the record of a call before the handler returns: a process that is killed has then
	// recorded whatever counts as handled. Without it the record is stored in bulk, at the latest at the end.
	RecordFirst bool
	// FailOnce lets the first attempt fail of every so many events, by their number: 1 of all, 0 of none.
	FailOnce int
	// Work is how long a handler takes.
	Work time.Duration
	// Meet lets calls wait until so many run at the same time, once, but not for ever.
	Meet int
}

// meetTimeout ends the wait of calls for others that do not come.
const meetTimeout = 20 * time.Second

// errPlanned is why attempts fail that are to fail.
var errPlanned = errors.New("this attempt was to fail")

// ServeReplica is the role. The process reports nothing at the end: the record says it all.
func ServeReplica(ctx context.Context, raw json.RawMessage, m *fleet.Member) (any, error) {
	var order Replica
	if err := json.Unmarshal(raw, &order); err != nil {
		return nil, err
	}
	connect := func(uri string) (*mongo.Client, error) {
		return mongo.Connect(options.Client().ApplyURI(uri))
	}
	records, err := connect(order.RecordURI)
	if err != nil {
		return nil, err
	}
	defer func() { _ = records.Disconnect(context.Background()) }()
	connections, err := connect(order.URI)
	if err != nil {
		return nil, err
	}
	defer func() { _ = connections.Disconnect(context.Background()) }()
	client, err := order.New(ctx, connections)
	if err != nil {
		return nil, err
	}
	r := &replica{order: order, member: m, meeting: newMeeting(order.Meet)}
	r.recorder = audit.NewRecorder(records.Database(order.Database), order.RecordFirst)
	defer r.recorder.Close() // after the client: handlers wait for it
	defer func() { _ = client.Close(context.Background()) }()
	for _, receiver := range order.Receivers {
		if err := receiver.Subscribe(ctx, client, r.handle); err != nil {
			return nil, err
		}
	}
	if err := m.Begin(ctx); err != nil {
		return nil, err
	}
	if err := startPatiently(ctx, client); err != nil {
		return nil, err
	}
	<-ctx.Done()
	// What is unfinished is left to others, after its lease.
	if err := client.Close(context.WithoutCancel(ctx)); err != nil {
		slog.Warn("close", "error", err)
	}
	return nil, nil
}

// startPatiently starts a client while its connection may be cut. What the configuration forbids is an error.
func startPatiently(ctx context.Context, client *pulse.Client) error {
	for {
		err := client.Start(ctx)
		if err == nil || ctx.Err() != nil || !(mongo.IsNetworkError(err) || mongo.IsTimeout(err)) {
			return err
		}
		select {
		case <-time.After(retryPause):
		case <-ctx.Done():
			return nil
		}
	}
}

const retryPause = 200 * time.Millisecond

type replica struct {
	order    Replica
	member   *fleet.Member
	recorder *audit.Recorder
	meeting  *meeting

	mu      sync.Mutex
	handled int
}

func (r *replica) handle(ctx context.Context, call Call) error {
	entry := audit.Entry{Replica: r.order.Name, Topic: call.Topic, Attempt: call.Attempt, Start: time.Now().UnixMicro(), OK: true}
	for _, receiver := range r.order.Receivers {
		entry.Batch = entry.Batch || receiver.Topic == call.Topic && receiver.Batch > 0
	}
	for _, event := range call.Events {
		entry.Events = append(entry.Events, event.Data.N)
		if r.order.FailOnce > 0 && call.Attempt == 1 && event.Data.N%r.order.FailOnce == 0 {
			entry.OK = false
		}
	}
	r.meeting.attend()
	if r.order.Work > 0 {
		time.Sleep(r.order.Work)
	}
	entry.End = time.Now().UnixMicro()
	stored := r.recorder.Add(entry)
	if r.order.RecordFirst {
		<-stored
	}
	if !entry.OK {
		return errPlanned
	}
	r.mu.Lock()
	r.handled += len(entry.Events)
	handled := r.handled
	r.mu.Unlock()
	r.member.Tell(fleet.Message{Handled: handled})
	return nil
}

// meeting lets calls wait for each other, once.
type meeting struct {
	begun chan struct{}

	mu      sync.Mutex
	missing int
}

func newMeeting(size int) *meeting {
	m := &meeting{begun: make(chan struct{}), missing: size}
	if size < 1 {
		close(m.begun)
	}
	return m
}

func (m *meeting) attend() {
	m.mu.Lock()
	if m.missing--; m.missing == 0 {
		close(m.begun)
	}
	m.mu.Unlock()
	select {
	case <-m.begun:
	case <-time.After(meetTimeout):
	}
}
