package pulsetest

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/pulse/internal/clock"
)

// Proxy is a TCP connection to the server of the tests that can fail: Cut it, BlackHole it, Delay it,
// Restore it. A client that uses it talks to the server through it alone. Make one with NewProxy; all
// methods may be called at any time by any goroutine.
type Proxy struct {
	listener net.Listener
	target   string
	uri      string
	tasks    sync.WaitGroup
	ctx      context.Context // ends with the proxy

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	cut    bool
	closed bool
	delay  time.Duration
	flow   chan struct{} // closed while bytes pass, open while they are held
}

// NewProxy starts a proxy before the first server of URI. It is closed, with all its connections, when the
// test and its subtests have ended.
func NewProxy(t testing.TB) *Proxy {
	t.Helper()
	uri := URI(t)
	hosts := options.Client().ApplyURI(uri).Hosts
	if len(hosts) == 0 {
		t.Fatalf("%s names no server", uriVariable)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("open a port for the proxy: %v", err)
	}
	p := &Proxy{listener: listener, target: hosts[0], uri: uri, conns: map[net.Conn]struct{}{}, flow: make(chan struct{})}
	close(p.flow)
	ctx, cancel := context.WithCancel(context.Background())
	p.ctx = ctx
	p.tasks.Go(p.accept)
	t.Cleanup(func() {
		cancel()
		_ = listener.Close()
		p.mu.Lock()
		p.closed = true
		p.closeAll()
		p.mu.Unlock()
		p.tasks.Wait()
	})
	return p
}

// Use makes a client that is about to connect go through the proxy. The connection is direct: the driver
// would otherwise learn the server's own address and go around. Pass it to Client.
func (p *Proxy) Use(opts *options.ClientOptions) {
	opts.SetHosts([]string{p.Addr()}).SetDirect(true)
}

// Addr returns the proxy's address, host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// URI returns the connection string through the proxy, for another process.
func (p *Proxy) URI() string { return throughProxy(p.uri, p.Addr()) }

// throughProxy replaces the servers of a connection string by one address and keeps the rest.
func throughProxy(uri, addr string) string {
	scheme, rest, _ := strings.Cut(uri, "://")
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	user := rest[:strings.LastIndex(rest[:end], "@")+1]
	path, query, _ := strings.Cut(strings.TrimPrefix(rest[end:], "/"), "?")
	if query != "" {
		query += "&"
	}
	return strings.TrimSuffix(scheme, "+srv") + "://" + user + addr + "/" + path + "?" + query + "directConnection=true"
}

// Cut closes all connections and every new one, as a server that has died does, until Restore.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = true
	p.closeAll()
}

// BlackHole holds all bytes, of old connections and new ones, until Restore, as a network that has failed
// without a word does: nothing arrives, nothing is closed. Bytes that were held arrive after Restore.
func (p *Proxy) BlackHole() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.flowing() {
		p.flow = make(chan struct{})
	}
}

// Delay holds what passes in either direction for d, until Restore. It costs bandwidth as well, since the
// next bytes of a connection wait behind.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Restore ends Cut, BlackHole and Delay. Connections that Cut has closed stay closed.
func (p *Proxy) Restore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut, p.delay = false, 0
	if !p.flowing() {
		close(p.flow)
	}
}

func (p *Proxy) flowing() bool {
	select {
	case <-p.flow:
		return true
	default:
		return false
	}
}

func (p *Proxy) closeAll() {
	for conn := range p.conns {
		_ = conn.Close()
	}
	clear(p.conns)
}

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.tasks.Go(func() { p.serve(conn) })
	}
}

// keep registers a connection to be closed by Cut and at the end; it closes it now if it is too late.
func (p *Proxy) keep(conn net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cut || p.closed {
		_ = conn.Close()
		return false
	}
	p.conns[conn] = struct{}{}
	return true
}

func (p *Proxy) drop(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close()
		delete(p.conns, conn)
	}
}

func (p *Proxy) serve(near net.Conn) {
	if !p.keep(near) {
		return
	}
	defer p.drop(near)
	far, err := (&net.Dialer{}).DialContext(p.ctx, "tcp", p.target)
	if err != nil || !p.keep(far) {
		return
	}
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		both.Go(func() {
			defer p.drop(near, far) // one side's end is the other's
			p.copy(way[1], way[0])
		})
	}
	both.Wait()
}

func (p *Proxy) copy(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			p.mu.Lock()
			delay, flow := p.delay, p.flow
			p.mu.Unlock()
			if clock.Sleep(p.ctx, delay) != nil {
				return
			}
			select {
			case <-flow:
			case <-p.ctx.Done():
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
