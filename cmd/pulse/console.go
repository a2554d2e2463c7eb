package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/user"
	"time"

	"github.com/orionjs/orion-go/cmd/pulse/internal/session"
	"github.com/orionjs/orion-go/pulse/admin"
	"github.com/orionjs/orion-go/pulse/console"
)

type consoleCommand struct {
	session.Flags `embed:""`
	Listen        string `help:"Address to listen on; port 0 takes a free one. Default: ${default}." default:"127.0.0.1:8270" placeholder:"HOST:PORT"`
	ReadWrite     bool   `help:"Let the page retry and cancel deliveries, pause and resume topics. Default: it only looks."`
	HidePayloads  bool   `help:"Leave out the data and the headers of events."`
}

// Help is the long text of `pulse console --help`.
func (consoleCommand) Help() string {
	return `Shows groups and topics with what waits, how far they are behind, how fast they work and what fails, and
deliveries with their attempts, errors and payloads. Ctrl-C ends it.

It asks nobody who they are: whoever can reach the address sees everything. With the default address these are the
users of this machine. To give it to others, let a service mount it behind its own authentication: docs/console.md.

The address is printed, with --json as {"url": ADDRESS}. The database is asked every 5 seconds while a page is open, however many are, and not at all while none is.

Examples:
  pulse console
  pulse console --read-write --listen 127.0.0.1:0
  pulse console --hide-payloads`
}

// Validate is called by the parser of the command line.
func (c *consoleCommand) Validate() error {
	_, port, err := net.SplitHostPort(c.Listen)
	if err == nil {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil {
		return fmt.Errorf("--listen %s is no address: give HOST:PORT, as 127.0.0.1:8270, or 127.0.0.1:0 for a free port", c.Listen)
	}
	return c.Flags.Validate()
}

// Run serves the console until Ctrl-C.
func (c *consoleCommand) Run() error {
	return administer(c.Flags, func(ctx context.Context, s *session.Session, a *admin.Admin) error {
		listener, err := net.Listen("tcp", c.Listen)
		if err != nil {
			return fmt.Errorf("%w; --listen 127.0.0.1:0 takes a free port", err)
		}
		address := listener.Addr().(*net.TCPAddr)
		var handler http.Handler = console.New(a, console.Config{
			Name: c.title(), ReadWrite: c.ReadWrite, HidePayloads: c.HidePayloads,
			Operator: func(*http.Request) string { return osUser() },
		})
		if address.IP.IsLoopback() {
			handler = onlyLocal(handler)
		} else {
			tell("whoever can reach %s sees everything: the console asks nobody who they are", address)
		}
		if c.JSON {
			if err := printJSON(map[string]string{"url": consoleURL(address)}); err != nil {
				return err
			}
		} else {
			fmt.Println(consoleURL(address))
		}
		return serveConsole(ctx, listener, handler)
	})
}

func (c *consoleCommand) title() string {
	if c.Prefix == "orionjs.pulse" {
		return c.Database
	}
	return c.Database + " · " + c.Prefix
}

// osUser is who runs this command.
func osUser() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return u.Username
	}
	return os.Getenv("USER")
}

// consoleURL is where a browser of this machine finds it.
func consoleURL(address *net.TCPAddr) string {
	host := address.IP.String()
	if address.IP.IsUnspecified() {
		host = "localhost"
	}
	return "http://" + net.JoinHostPort(host, fmt.Sprint(address.Port)) + "/"
}

// onlyLocal refuses requests under any other name than this machine's own: a page of another site whose name was made
// to lead here would count as of the same origin.
func onlyLocal(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			http.Error(w, "pulse console answers at localhost and 127.0.0.1 only", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// consoleGrace is how long a page that is being made may take at the end.
const consoleGrace = 5 * time.Second

// serveConsole serves until the context ends.
func serveConsole(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), consoleGrace)
	defer cancel()
	err := server.Shutdown(ending)
	if err != nil {
		err = errors.Join(err, server.Close())
	}
	if end := <-served; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return err
}
