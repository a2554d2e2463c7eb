package pulse_test

import (
	"bytes"
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// lossy is a connection to the server on which answers get lost: the server executes the command, then the
// connection breaks. (A fail point that closes the connection does so before the command is executed.)
type lossy struct {
	target string
	addr   string
	loses  atomic.Int32 // how many answers
	lost   atomic.Int32
	open   atomic.Int32 // connections
	name   []byte       // the beginning of the command, as in its BSON
}

// newLossy returns a relay that loses the answers to so many commands of that name.
func newLossy(t *testing.T, command string, answers int) *lossy {
	t.Helper()
	l := &lossy{
		target: options.Client().ApplyURI(pulsetest.URI(t)).Hosts[0],
		name:   append(append([]byte{2}, command...), 0), // a string field of that name
	}
	l.loses.Store(int32(answers))
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	is.New(t).NoErr(err)
	l.addr = listener.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			l.open.Add(1)
			serving.Go(func() {
				defer l.open.Add(-1)
				l.serve(ctx, conn)
			})
		}
	})
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		serving.Wait()
	})
	return l
}

// use makes a client connect through the relay.
func (l *lossy) use(opts *options.ClientOptions) { opts.SetHosts([]string{l.addr}).SetDirect(true) }

func (l *lossy) serve(ctx context.Context, near net.Conn) {
	far, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.target)
	if err != nil {
		_ = near.Close()
		return
	}
	both := func() {
		_ = near.Close()
		_ = far.Close()
	}
	defer context.AfterFunc(ctx, both)()
	var doomed atomic.Bool
	var ways sync.WaitGroup
	ways.Go(func() {
		defer both()
		relay(near, far, func(sent []byte) bool {
			if bytes.Contains(sent, l.name) && l.loses.Add(-1) >= 0 {
				doomed.Store(true)
			}
			return true
		})
	})
	ways.Go(func() {
		defer both()
		relay(far, near, func([]byte) bool {
			if doomed.Load() {
				l.lost.Add(1)
			}
			return !doomed.Load()
		})
	})
	ways.Wait()
}

// relay copies until either end closes, or pass says no to what was read.
func relay(from, to net.Conn, pass func([]byte) bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !pass(buffer[:n]) {
			return
		}
		if _, failed := to.Write(buffer[:n]); err != nil || failed != nil {
			return
		}
	}
}
