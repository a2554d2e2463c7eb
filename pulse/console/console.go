package console

import (
	"context"
	"net/http"

	"github.com/orionjs/orion-go/pulse/admin"
)

// Config configures a Console. Its zero value is a console that changes nothing and shows payloads.
type Config struct {
	// Name is shown beside the word Pulse, to tell several consoles apart: the name of the database or of the
	// environment. Default: nothing.
	Name string

	// ReadWrite lets viewers retry and cancel deliveries, and pause and resume topics. Mount two consoles behind two
	// paths if only some people may.
	ReadWrite bool

	// HidePayloads leaves out the data and the headers of events. Messages and stacks of errors are shown, with
	// whatever the handlers put into them.
	HidePayloads bool

	// Operator names who sent a request, for the record of what they change: the user whom the service has
	// authenticated. Default: "console".
	Operator func(*http.Request) string
}

// Console is the handler of the web console. It holds no goroutine and nothing open, and needs no Close. It is safe
// for concurrent use; all requests should go to one Console, as its viewers share what is read.
type Console struct {
	admin   *admin.Admin
	config  Config
	watch   *watch
	lists   *cache[admin.DeliveryQuery, admin.DeliveryPage]
	details *cache[string, *deliveryPage]
	events  *cache[string, admin.Event]
	handler http.Handler
}

// New returns a console of the database that the Admin looks into. It sends nothing before somebody looks. It panics
// if the Admin is nil.
//
// The console is served at the root of what it is given: mount it with http.StripPrefix, at a path that ends in a
// slash. All its links are relative. It does not authenticate anybody: whoever can reach it sees, and with ReadWrite
// changes, everything.
func New(a *admin.Admin, config Config) *Console {
	if a == nil {
		panic("pulse/console: the Admin is nil: make one with admin.New")
	}
	c := &Console{admin: a, config: config, watch: newWatch(a)}
	c.lists = newCache(func(ctx context.Context, q admin.DeliveryQuery) (admin.DeliveryPage, error) {
		return a.Deliveries(ctx, q)
	})
	c.details = newCache(c.readDelivery)
	c.events = newCache(func(ctx context.Context, id string) (admin.Event, error) {
		events, err := a.Events(ctx, id)
		if err != nil {
			return admin.Event{}, err
		}
		return events[0], nil
	})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", c.overview)
	mux.HandleFunc("GET /subscription", c.subscription)
	mux.HandleFunc("GET /deliveries", c.deliveries)
	mux.HandleFunc("GET /delivery", c.delivery)
	mux.Handle("GET /assets/", assets())
	if config.ReadWrite {
		mux.HandleFunc("GET /confirm", c.confirm)
		mux.Handle("POST /change", sameSite(http.HandlerFunc(c.change)))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		c.problem(w, r, http.StatusNotFound, problem{What: "There is no such page", Text: "The console has an overview, deliveries, and a page for each topic of a group.", Back: "./", BackText: "Overview"})
	})
	c.handler = c.readable(mux)
	return c
}

// ServeHTTP serves the pages.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	// With no-referrer browsers would send "Origin: null" with a form of this very page.
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	// What is shown is nobody's to keep.
	h.Set("Cache-Control", "no-store")
	c.handler.ServeHTTP(w, r)
}

// sameSite refuses what another site made the browser send.
func sameSite(next http.Handler) http.Handler { return http.NewCrossOriginProtection().Handler(next) }

// operator is who sent a request.
func (c *Console) operator(r *http.Request) string {
	if c.config.Operator != nil {
		if name := c.config.Operator(r); name != "" {
			return name
		}
	}
	return "console"
}

// changed makes the next look read again.
func (c *Console) changed() {
	c.watch.cache.changed()
	c.lists.changed()
	c.details.changed()
	c.events.changed()
}
