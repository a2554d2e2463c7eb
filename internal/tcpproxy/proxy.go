// Package tcpproxy is a TCP connection to a MongoDB server that can fail or be slow when it is told to.
package tcpproxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Proxy stands between clients and a server. A client that uses it talks to the server through it alone.
// Make one with New; all methods may be called at any time by any goroutine.
type Proxy struct {
	listener net.Listener
	target   string
	uri      string
	tasks    sync.WaitGroup
	ctx      context.Context // ends with the proxy
	cancel   context.CancelFunc

	mu          sync.Mutex
	conns       map[net.Conn]struct{}
	cut, closed bool
	there, back time.Duration
	flow        chan struct{} // closed while bytes pass, open while they are held
}

// New starts a proxy at 127.0.0.1 before the first server of a connection string, which must be the primary
// if there are several. Close it.
func New(uri string) (*Proxy, error) {
	hosts := options.Client().ApplyURI(uri).Hosts
	if len(hosts) == 0 {
		return nil, errors.New("the connection string names no server")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open a port for the proxy: %w", err)
	}
	p := &Proxy{listener: listener, target: hosts[0], conns: map[net.Conn]struct{}{}, flow: make(chan struct{})}
	p.uri = through(uri, p.Addr())
	close(p.flow)
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.tasks.Go(p.accept)
	return p, nil
}

// Close ends the proxy with all its connections, and returns when nothing of it runs any more.
func (p *Proxy) Close() {
	p.cancel()
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	p.closeAll()
	p.mu.Unlock()
	p.tasks.Wait()
}

// Addr returns the proxy's address, host:port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// URI returns the connection string through the proxy. The connection is direct: the driver would otherwise
// learn the server's own address and go around.
func (p *Proxy) URI() string { return p.uri }

// through replaces the servers of a connection string by one address and keeps the rest.
func through(uri, addr string) string {
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

// Delay makes bytes arrive later, by one time on their way to the server and by another on the way back,
// until Restore. It costs no bandwidth: what follows is on its way meanwhile.
func (p *Proxy) Delay(there, back time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.there, p.back = there, back
}

// Restore ends Cut, BlackHole and Delay. Connections that Cut has closed stay closed.
func (p *Proxy) Restore() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut, p.there, p.back = false, 0, 0
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
	for _, way := range []struct {
		to, from net.Conn
		delay    *time.Duration
	}{{far, near, &p.there}, {near, far, &p.back}} {
		both.Go(func() {
			defer p.drop(near, far) // one side's end is the other's
			p.copy(way.to, way.from, way.delay)
		})
	}
	both.Wait()
}
