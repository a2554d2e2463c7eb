package tcpproxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestURI_KeepsTheRestOfTheConnectionString(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{"mongodb://a:1", "mongodb://proxy:9/?directConnection=true"},
		{"mongodb://a:1/", "mongodb://proxy:9/?directConnection=true"},
		{"mongodb://a:1,b:2/db?replicaSet=rs", "mongodb://proxy:9/db?replicaSet=rs&directConnection=true"},
		{"mongodb://u:p%40@a:1/?authSource=admin", "mongodb://u:p%40@proxy:9/?authSource=admin&directConnection=true"},
		{"mongodb://a?appName=x@y", "mongodb://proxy:9/?appName=x@y&directConnection=true"},
	} {
		is.New(t).Equal(through(c[0], "proxy:9"), c[1])
	}
}

func TestProxy_DelayIsNoLimitOfBandwidth(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	proxy := newProxy(t)
	const delay = 300 * time.Millisecond
	proxy.Delay(0, delay)
	near := dial(t, proxy)
	lines := bufio.NewReader(near)
	start := time.Now()
	for i := range 20 {
		fmt.Fprintf(near, "%d\n", i)
		time.Sleep(time.Millisecond) // a parcel of its own
	}
	for i := range 20 {
		line, err := lines.ReadString('\n')
		is.NoErr(err)
		is.Equal(line, fmt.Sprintf("%d\n", i)) // in order
		is.True(i > 0 || time.Since(start) >= delay)
	}
	is.True(time.Since(start) < 10*delay) // 20 if each waited for the one before it
}

func TestProxy_CutEndsAndBlackHoleHolds(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	proxy := newProxy(t)
	near := dial(t, proxy)
	lines := bufio.NewReader(near)
	say := func(text string) { fmt.Fprintln(near, text) }
	hear := func(text string) {
		line, err := lines.ReadString('\n')
		is.NoErr(err)
		is.Equal(line, text+"\n")
	}
	say("one")
	hear("one")
	proxy.BlackHole()
	say("two")
	is.NoErr(near.SetReadDeadline(time.Now().Add(50 * time.Millisecond)))
	_, err := lines.ReadByte()
	is.True(err != nil) // held
	is.NoErr(near.SetReadDeadline(time.Time{}))
	proxy.Restore()
	hear("two")
	proxy.Cut()
	_, err = lines.ReadByte()
	is.True(err != nil) // closed
	refused := dial(t, proxy)
	_, err = refused.Read(make([]byte, 1))
	is.True(err != nil)
	proxy.Restore()
	again := dial(t, proxy)
	fmt.Fprintln(again, "three")
	line, err := bufio.NewReader(again).ReadString('\n')
	is.NoErr(err)
	is.Equal(line, "three\n")
}

func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// newProxy is a proxy before a server that says what it hears.
func newProxy(t *testing.T) *Proxy {
	t.Helper()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			conns.Go(func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			})
		}
	})
	t.Cleanup(func() { _ = server.Close(); conns.Wait() })
	proxy, err := New("mongodb://" + server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	return proxy
}
