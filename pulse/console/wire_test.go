package console_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse/admin"
	"github.com/orionjs/orion-go/pulse/console"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// wire reads what a client sends, byte by byte as it leaves the process: a monitor of commands may leave some out.
type wire struct {
	mu   sync.Mutex
	sent map[string]int
}

// through makes a client send through the wire.
func (w *wire) through(opts *options.ClientOptions) { opts.SetDialer(w) }

// DialContext opens a connection that is read along.
func (w *wire) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	return &wiredConn{Conn: conn, wire: w}, err
}

// wiredConn is one connection. Nobody writes to it from two goroutines.
type wiredConn struct {
	net.Conn
	wire   *wire
	unread []byte
}

// Write reads the messages of MongoDB's protocol: a length, three more numbers, then the flags, the kind of the section
// and the command, whose first field is its name.
func (c *wiredConn) Write(p []byte) (int, error) {
	c.unread = append(c.unread, p...)
	for len(c.unread) >= 16 {
		length := int(binary.LittleEndian.Uint32(c.unread))
		if len(c.unread) < length {
			break
		}
		name := "hello" // older drivers greet with another kind of message
		if binary.LittleEndian.Uint32(c.unread[12:]) == 2013 {
			elements, err := bson.Raw(c.unread[21:length]).Elements()
			if err != nil || len(elements) == 0 {
				name = fmt.Sprintf("unreadable: %v", err)
			} else {
				name = elements[0].Key()
			}
		}
		c.wire.mu.Lock()
		c.wire.sent[name]++
		c.wire.mu.Unlock()
		c.unread = c.unread[length:]
	}
	return c.Conn.Write(p)
}

// take returns what was sent since the last time, without the driver's own heartbeat.
func (w *wire) take() (n int, names string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.sent, "hello")
	for _, name := range slices.Sorted(maps.Keys(w.sent)) {
		n += w.sent[name]
		names += fmt.Sprintf("%s %d ", name, w.sent[name])
	}
	w.sent = map[string]int{}
	return n, names
}

// A minute of thirty viewers costs what docs/console.md says, and nothing else leaves the process: the commands are
// counted on the wire.
func TestCost_OnTheWireIsWhatIsStated(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := eventfulDay(t, pulsetest.Database(t))
	w := &wire{sent: map[string]int{}}
	a, err := admin.New(pulsetest.Client(t, w.through).Database(s.db.Name()), admin.Config{})
	is.NoErr(err)
	c := console.New(a, console.Config{})
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	client := viewer(t)
	_, names := w.take()
	is.Equal(names, "") // before anybody looks

	look := func() {
		var all sync.WaitGroup
		for range 30 {
			all.Go(func() {
				answer, err := client.Get(server.URL)
				if err != nil {
					t.Error(err)
					return
				}
				if code, _ := read(t, answer); code != http.StatusOK {
					t.Errorf("status %d", code)
				}
			})
		}
		all.Wait()
	}
	look()
	w.take() // for how long groups keep what has ended, and the server's clock, which are asked once a minute
	for range 12 {
		console.Expire(c)
		look()
	}
	if n, names := w.take(); n != 12*perLook {
		t.Errorf("a minute of looks sent %d commands: %s", n, names)
	}
}
