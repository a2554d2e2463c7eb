package discovery

import (
	"fmt"
	"testing"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse/internal/store"
)

// The page is read, then an event of its range appears and is shown, then the cursor moves past it: the event is
// looked for at once. With the poll alone it would wait for seconds.
func TestLookBack_3_5_EventShownWhileTheCursorMovesPastIt(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	at := func(n uint32) store.Position {
		return store.Position{Sequence: bson.Timestamp{T: 9, I: n}, EventID: fmt.Sprint("e", n)}
	}
	l, tm := New(Config{}), &term{}
	tm.begin(store.Subscription{Cursor: at(1)})
	tm.settled.rescan = false
	l.terms["t"] = tm
	for _, n := range []uint32{2, 3, 4, 9} {
		l.Seen("t", at(n))
	}
	is.True(!tm.settled.rescan) // ahead of the cursor: the next page has them
	tm.cursor = at(4)
	tm.settled.delivered = map[string]bson.Timestamp{"e2": at(2).Sequence, "e4": at(4).Sequence}
	is.True(tm.overtook()) // e3 was not on the page
	is.True(!tm.overtook())
	is.Equal(len(tm.settled.shown), 1) // e9 is still ahead
	tm.cursor = at(9)
	tm.settled.delivered["e9"] = at(9).Sequence
	is.True(!tm.overtook())
	for n := range uint32(maxShown + 10) {
		l.Seen("t", at(100+n))
	}
	is.Equal(len(tm.settled.shown), maxShown)
}
