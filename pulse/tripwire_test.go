package pulse_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// command describes a command to MongoDB: by its name, the end of its collection's name, and texts that its
// bytes contain.
type command struct {
	name, coll string
	texts      []string
}

// tripwire is a proxy that waits for certain commands, one after the other, and stops everything at the last of
// them: before the server receives it or, with answered, when the server has answered it, which the client does
// not hear of. From then on no byte passes in either direction, on any connection. Whoever is killed then has
// died at exactly that point.
type tripwire struct {
	target, uri string
	answered    bool
	tripped     pulsetest.Recorder[string]
	cancel      context.CancelFunc
	serving     sync.WaitGroup

	mu    sync.Mutex
	steps []command
	over  bool
	conns []net.Conn
}

func newTripwire(t *testing.T, uri string, answered bool, steps ...command) *tripwire {
	t.Helper()
	is := is.New(t)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	is.NoErr(err)
	host := options.Client().ApplyURI(uri).Hosts[0]
	w := &tripwire{
		target: host, answered: answered, steps: steps,
		uri: strings.Replace(uri, host, listener.Addr().String(), 1) + map[bool]string{true: "&", false: "?"}[strings.Contains(uri, "?")] + "directConnection=true",
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = func() {
		cancel()
		_ = listener.Close()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.over = true
		for _, conn := range w.conns {
			_ = conn.Close()
		}
	}
	w.serving.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := (&net.Dialer{}).DialContext(ctx, "tcp", w.target)
			if err != nil {
				_ = near.Close()
				continue
			}
			w.mu.Lock()
			w.conns = append(w.conns, near, far)
			w.mu.Unlock()
			w.serve(ctx, near, far)
		}
	})
	t.Cleanup(w.hangUp)
	return w
}

// hangUp ends all connections, as the system does for a process that has died.
func (w *tripwire) hangUp() {
	w.cancel()
	w.serving.Wait()
}

func (w *tripwire) serve(ctx context.Context, near, far net.Conn) {
	last := make(chan struct{}) // closed when the command that trips the wire is on its way on this connection
	w.serving.Go(func() {
		defer far.Close()
		for {
			message, err := readMessage(near)
			if err != nil {
				return
			}
			switch pass, trips := w.sees(message); {
			case trips && w.answered:
				close(last)
				_, _ = far.Write(message)
				fallthrough
			case !pass:
				<-ctx.Done()
				return
			default:
				if _, err := far.Write(message); err != nil {
					return
				}
			}
		}
	})
	w.serving.Go(func() {
		defer near.Close()
		for {
			message, err := readMessage(far)
			if err != nil {
				return
			}
			select {
			case <-last:
				w.tripped.Add("answered")
			default:
			}
			w.mu.Lock()
			over := w.over
			w.mu.Unlock()
			if over {
				<-ctx.Done()
				return
			}
			if _, err := near.Write(message); err != nil {
				return
			}
		}
	})
}

// sees tells whether the message may pass, and whether it trips the wire.
func (w *tripwire) sees(message []byte) (pass, trips bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return false, false
	}
	if len(w.steps) == 0 || !w.steps[0].is(message) {
		return true, false
	}
	if w.steps = w.steps[1:]; len(w.steps) > 0 {
		return true, false
	}
	w.over = true
	if !w.answered {
		w.tripped.Add("held")
	}
	return false, true
}

// readMessage reads one message of MongoDB's wire protocol.
func readMessage(conn net.Conn) ([]byte, error) {
	header := make([]byte, 16)
	if _, err := io.ReadFull(conn, header); err != nil {
		return nil, err
	}
	message := make([]byte, binary.LittleEndian.Uint32(header))
	copy(message, header)
	_, err := io.ReadFull(conn, message[len(header):])
	return message, err
}

// is tells whether a message is the command.
func (c command) is(message []byte) bool {
	const opMsg, body = 2013, 16 + 4 + 1 // a header, flags, and the kind of the first section
	if binary.LittleEndian.Uint32(message[12:]) != opMsg || message[body-1] != 0 {
		return false
	}
	first, err := bson.Raw(message[body:]).IndexErr(0)
	if err != nil || first.Key() != c.name {
		return false
	}
	coll, _ := first.Value().StringValueOK()
	if !strings.HasSuffix(coll, c.coll) {
		return false
	}
	for _, text := range c.texts {
		if !bytes.Contains(message, []byte(text)) {
			return false
		}
	}
	return true
}
