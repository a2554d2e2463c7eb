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
	at := func(n uint32) store.EventKey {
		return store.EventKey{Position: store.Position{Sequence: bson.Timestamp{T: 9, I: n}, EventID: fmt.Sprint("e", n)}}
	}
	l, tm := New(Config{}), &term{}
	tm.begin(store.Subscription{Cursor: at(1).Position})
	tm.settled.rescan = false
	l.terms["t"] = tm
	for _, n := range []uint32{2, 3, 4, 9} {
		l.Seen("t", at(n))
	}
	is.Equal(len(tm.overtaken()), 0) // ahead of the cursor: the next page has them
	tm.cursor = at(4).Position
	tm.settled.delivered = map[string]bson.Timestamp{"e2": at(2).Sequence, "e4": at(4).Sequence}
	is.Equal(tm.overtaken(), []store.EventKey{at(3)}) // was not on the page
	is.Equal(len(tm.settled.shown), 2)                // e9 is still ahead
	tm.settled.delivered["e3"] = at(3).Sequence
	is.Equal(len(tm.overtaken()), 0)
	tm.cursor = at(9).Position
	is.Equal(tm.overtaken(), []store.EventKey{at(9)})
	tm.settled.upTo = bson.Timestamp{T: 10} // too late to tell what was delivered
	is.Equal(len(tm.overtaken()), 0)
	is.Equal(len(tm.settled.shown), 0)
	for n := range uint32(maxShown + 10) {
		l.Seen("t", at(100+n))
	}
	is.Equal(len(tm.settled.shown), maxShown)
}

// What a change stream shows behind the cursor is delivered by a look that reads it by its ID.
func TestLookBack_3_5_ShownEventsAreReadByTheirIDs(t *testing.T) {
	t.Parallel()
	for kind, settings := range everyKind {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			ids := []string{f.at(t, 5, 1), f.at(t, 4, 1)}
			l := f.leads(t, settings)
			lookAll(t, l)
			is := is.New(t)
			tm := l.term("t")
			is.True(!tm.settled.rescan)
			late := f.at(t, 4, 0) // behind the cursor
			doc, err := f.db.Collection("p.events").FindOne(t.Context(), bson.D{{Key: "_id", Value: late}}).Raw()
			is.NoErr(err)
			sequence := doc.Lookup("sequence")
			var at store.EventKey
			at.Sequence.T, at.Sequence.I = sequence.Timestamp()
			at.EventID = late
			l.Seen("t", at)
			l.Seen("t", store.EventKey{Position: store.Position{Sequence: at.Sequence, EventID: "gone"}})
			is.NoErr(l.look(t.Context(), "t"))
			f.deliveredOnce(t, append(ids, late)...)
			is.Equal(len(tm.settled.shown), 0)
			l.Seen("t", at) // again, as after a new stream
			is.NoErr(l.look(t.Context(), "t"))
			f.deliveredOnce(t, append(ids, late)...)
		})
	}
}

// What a change stream shows ahead of the cursor is delivered without being read; what it may have missed is
// read first.
func TestLook_3_4_TheStreamsEventsAreNotReadAgain(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	f := newFixture(t)
	first := f.at(t, 8, 1)
	l := f.leads(t, everyKind["version 2"])
	lookAll(t, l)
	shown := func(id string) store.EventKey {
		keys, err := f.store.EventKeys(t.Context(), []string{id})
		is.NoErr(err)
		return keys[0]
	}
	unseen, second := f.at(t, 7, 1), f.at(t, 6, 1)
	l.Seen("t", shown(second))
	is.NoErr(l.look(t.Context(), "t"))
	f.deliveredOnce(t, first, second) // the other one is committed, and the stream is about to tell
	is.Equal(l.term("t").cursor.EventID, second)
	l.Seen("t", shown(unseen))
	is.NoErr(l.look(t.Context(), "t"))
	f.deliveredOnce(t, first, second, unseen)

	missed, third := f.at(t, 5, 1), f.at(t, 4, 1)
	l.Missed() // a new stream, which does not tell of the first of the two
	l.Seen("t", shown(third))
	is.NoErr(l.look(t.Context(), "t"))
	f.deliveredOnce(t, first, second, unseen, missed, third)

	lost, fourth := f.at(t, 3, 1), f.at(t, 2, 1)
	l.Seen("t", shown(fourth))
	is.NoErr(l.look(t.Context(), "t"))
	f.deliveredOnce(t, first, second, unseen, missed, third, fourth)
	lookAll(t, l) // what no stream ever tells of is found behind the cursor
	f.deliveredOnce(t, first, second, unseen, missed, third, fourth, lost)
}
