package orders

import (
	"errors"
	"sync"
	"testing"

	"github.com/matryer/is"
	"go.uber.org/goleak"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Several replicas, or transports, may bring one event at once.
func TestPlaced_BooksAnEventOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	book, err := OpenBook(t.Context(), pulsetest.Database(t))
	is.NoErr(err)
	var all sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		all.Go(func() {
			transport := []string{"kafka", "pulse"}[i%2]
			errs[i] = (&Orders{Book: book}).Placed(t.Context(), echoes.Item[Order]{
				Params:       Order{ID: "a", Amount: 3},
				EventContext: echoes.EventContext{EventID: "placed-a", Transport: transport, Attempt: 1},
			})
		})
	}
	all.Wait()
	is.NoErr(errors.Join(errs...))
	entries, err := book.Entries(t.Context())
	is.NoErr(err)
	is.Equal(len(entries), 1)
	is.Equal(entries[0].Amount, int64(3))
	repeats, err := book.Repeats(t.Context())
	is.NoErr(err)
	is.Equal(len(repeats), len(errs)-1)
	missing, err := book.Missing(t.Context(), []string{"placed-a", "placed-b"})
	is.NoErr(err)
	is.Equal(missing, []string{"placed-b"})
}

func TestPlaced_FlakyOrdersFailOnce(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	book, err := OpenBook(t.Context(), pulsetest.Database(t))
	is.NoErr(err)
	order := echoes.Item[Order]{Params: Order{ID: "a", Flaky: true}, EventContext: echoes.EventContext{EventID: "placed-a", Attempt: 1}}
	is.True(errors.Is((&Orders{Book: book}).Placed(t.Context(), order), errFlaky))
	order.Attempt = 2
	is.NoErr((&Orders{Book: book}).Placed(t.Context(), order))
}
