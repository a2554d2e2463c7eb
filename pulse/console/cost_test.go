package console_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/matryer/is"

	"github.com/orionjs/orion-go/pulse/admin"
	"github.com/orionjs/orion-go/pulse/console"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// perLook is what one look at nine subscriptions costs: their documents, their counts, what has ended. docs/console.md
// states it for a minute.
const perLook = 3

// Any number of viewers of any pages costs one look in an interval. Nothing is asked between two looks, and nothing
// before the first.
func TestCost_IsThatOfOneViewer(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := eventfulDay(t, pulsetest.Database(t))
	commands := pulsetest.NewCommandMonitor()
	a, err := admin.New(pulsetest.Client(t, commands.Watch).Database(s.db.Name()), admin.Config{})
	is.NoErr(err)
	c := console.New(a, console.Config{})
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	is.Equal(commands.Count(), 0)

	client := viewer(t)
	look := func(viewers int, paths ...string) int {
		commands.Reset()
		var all sync.WaitGroup
		for range viewers {
			for _, path := range paths {
				all.Go(func() {
					answer, err := client.Get(server.URL + "/" + path)
					if err != nil {
						t.Error(err)
						return
					}
					if code, _ := read(t, answer); code != http.StatusOK {
						t.Errorf("%s: %d", path, code)
					}
				})
			}
		}
		all.Wait()
		return commands.Count()
	}
	first := look(1, "")
	t.Logf("the first look: %s", commands)
	is.True(first <= perLook+6) // the server's clock, and for how long each group keeps what has ended

	for _, viewers := range []int{1, 40} {
		console.Expire(c)
		if n := look(viewers, "", "?q=bill", "subscription?group=audit&topic=customer.registered"); n != perLook {
			t.Errorf("a look of %d viewers: %s", viewers, commands)
		}
		is.Equal(look(viewers, "", "subscription?group=audit&topic=customer.registered"), 0) // within the interval
	}

	// A list of a topic and a delivery are read once for all that look at them.
	console.Expire(c)
	is.Equal(look(40, "deliveries?group=billing&topic=invoice.created&state=error"), perLook+1)
	is.Equal(look(40, "delivery?id="+s.failed), 2)
	is.Equal(look(40, "delivery?id="+s.failed, "deliveries?group=billing&topic=invoice.created&state=error"), 0)
}

// When the database does not answer, the last that is known is shown, with its time, and the database is not asked more often.
func TestCost_OfADatabaseInTrouble(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	s := eventfulDay(t, pulsetest.Database(t))
	commands := pulsetest.NewCommandMonitor()
	db := pulsetest.Client(t, commands.Watch).Database(s.db.Name())
	a, err := admin.New(db, admin.Config{})
	is.NoErr(err)
	c := console.New(a, console.Config{})
	server := httptest.NewServer(c)
	t.Cleanup(server.Close)
	client := viewer(t)
	_, page := get(t, client, server.URL)
	has(t, page, "3 of 9 subscriptions need a look")
	is.NoErr(db.Client().Disconnect(t.Context()))
	console.Expire(c)
	for range 3 {
		code, page := get(t, client, server.URL)
		is.Equal(code, http.StatusOK)
		has(t, page, "MongoDB did not answer. What is shown is from", "client is disconnected", "3 of 9 subscriptions need a look")
	}
	code, page := get(t, client, server.URL+"/delivery?id="+s.failed)
	is.Equal(code, http.StatusServiceUnavailable)
	has(t, page, "MongoDB did not answer", "Try again")

	unused := console.New(a, console.Config{})
	answer := httptest.NewRecorder()
	unused.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/", nil))
	is.Equal(answer.Code, http.StatusServiceUnavailable)
}
