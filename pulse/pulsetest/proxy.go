package pulsetest

import (
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"github.com/orionjs/orion-go/internal/tcpproxy"
)

// Proxy is a TCP connection to the server of the tests that can fail: Cut it, BlackHole it, Delay it,
// Restore it. A client that uses it talks to the server through it alone. Make one with NewProxy; all
// methods may be called at any time by any goroutine.
type Proxy struct{ proxy *tcpproxy.Proxy }

// NewProxy starts a proxy before the first server of URI. It is closed, with all its connections, when the
// test and its subtests have ended.
func NewProxy(t testing.TB) *Proxy {
	t.Helper()
	proxy, err := tcpproxy.New(URI(t))
	if err != nil {
		t.Fatalf("a proxy before the server of %s: %v", uriVariable, err)
	}
	t.Cleanup(proxy.Close)
	return &Proxy{proxy}
}

// Use makes a client that is about to connect go through the proxy. The connection is direct: the driver
// would otherwise learn the server's own address and go around. Pass it to Client.
func (p *Proxy) Use(opts *options.ClientOptions) {
	opts.SetHosts([]string{p.Addr()}).SetDirect(true)
}

// Addr returns the proxy's address, host:port.
func (p *Proxy) Addr() string { return p.proxy.Addr() }

// URI returns the connection string through the proxy, for another process.
func (p *Proxy) URI() string { return p.proxy.URI() }

// Cut closes all connections and every new one, as a server that has died does, until Restore.
func (p *Proxy) Cut() { p.proxy.Cut() }

// BlackHole holds all bytes, of old connections and new ones, until Restore, as a network that has failed
// without a word does: nothing arrives, nothing is closed. Bytes that were held arrive after Restore.
func (p *Proxy) BlackHole() { p.proxy.BlackHole() }

// Delay makes what passes in either direction arrive later by d, until Restore.
func (p *Proxy) Delay(d time.Duration) { p.proxy.Delay(d, d) }

// Restore ends Cut, BlackHole and Delay. Connections that Cut has closed stay closed.
func (p *Proxy) Restore() { p.proxy.Restore() }
