package discovery

import (
	"context"
	"maps"
	"slices"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/orionjs/orion-go/pulse/internal/store"
)

// The look behind the cursor (spec 3.5). A server assigns an event's sequence before the insert becomes
// visible: with several publishers an event can appear behind a cursor that has passed it, within
// milliseconds outside transactions, by a transaction's whole length inside. So the leader reads a window
// behind its cursor again, and delivers what has arrived there.
//
// The deliveries in the database are the authority on what was delivered; the leader's memory of them is
// only a filter. The subscription's settledSequence says up to where nothing can be late any more: all of
// it was read at least a window after its time. What lies behind it is never read again, so once the
// window is settled an idle topic costs nothing, and a backlog older than the window is settled at once.

// settled is what a term knows of the sequences behind its cursor. Guarded by Leader.mu.
type settled struct {
	start  store.Position // where the subscription began: nothing before it is the group's
	upTo   bson.Timestamp // settled, as the term knows
	stored bson.Timestamp // settled, as the subscription has it
	// delivered holds events behind upTo that surely have a delivery, with their sequence. It is changed
	// only by whoever took the topic from the queue, who therefore may read it without the lock.
	delivered map[string]bson.Timestamp
	rescan    bool // something may have arrived behind the cursor
	// shown holds events that a change stream showed and that have no delivery yet, as far as is known.
	shown map[string]store.EventKey
}

// maxShown bounds what is remembered of a backlog; what is late beyond it is found by the scan of the next poll.
const maxShown = 4096

// overtaken returns the shown events that the cursor has passed without a delivery, and forgets those that have one
// or are settled. They appeared behind the cursor, or while it moved. Leader.mu is held.
func (t *term) overtaken() []store.EventKey {
	var late []store.EventKey
	maps.DeleteFunc(t.settled.shown, func(id string, at store.EventKey) bool {
		_, delivered := t.settled.delivered[id]
		if delivered || at.Sequence.Compare(t.settled.upTo) < 0 || !at.After(t.settled.start) {
			return true
		}
		if !at.After(t.cursor) {
			late = append(late, at)
		}
		return false
	})
	return late
}

// maxFromStream is up to how many events are taken from the change stream alone. For more, one read costs little
// for each.
const maxFromStream = 64

// next returns what a look has to make deliveries of: the events that the change stream has shown ahead of the
// cursor, in order, when they are all that can be there. Else, or when they are many or their sizes count, read
// says that the events are to be read. Leader.mu is held.
//
// They are all when a read reached the end of the topic and the stream has told of everything since. An event that
// it has not told of yet was committed after those that it has, and is overtaken as if it had been read too late.
func (t *term) next(sized bool) (page []store.EventKey, read bool) {
	if t.asked != t.answered {
		return nil, true
	}
	for id, e := range t.settled.shown {
		if _, delivered := t.settled.delivered[id]; !delivered && e.After(t.cursor) {
			page = append(page, e)
		}
	}
	if len(page) > maxFromStream || sized && len(page) > 0 {
		return nil, true
	}
	slices.SortFunc(page, inOrder)
	return page, false
}

func inOrder(a, b store.EventKey) int {
	if a.After(b.Position) {
		return 1
	}
	return -1
}

// Seen tells the leader of an event that a change stream showed.
func (l *Leader) Seen(topic string, e store.EventKey) {
	l.mu.Lock()
	t := l.terms[topic]
	if t == nil {
		l.mu.Unlock()
		return
	}
	_, delivered := t.settled.delivered[e.EventID]
	if !delivered && e.EventID != "" && len(t.settled.shown) < maxShown {
		t.settled.shown[e.EventID] = e
	} else if !delivered {
		t.asked++
	}
	l.mu.Unlock()
	if !delivered {
		l.queue.Add(topic)
	}
}

// LookBack asks for a look behind the cursor of each topic whose window is not settled.
func (l *Leader) LookBack() {
	l.mu.Lock()
	var open []string
	for topic, t := range l.terms {
		if t.settled.upTo.Compare(t.cursor.Sequence) < 0 {
			t.settled.rescan = true
			open = append(open, topic)
		}
	}
	l.mu.Unlock()
	for _, topic := range open {
		l.queue.Add(topic)
	}
}

// Settled returns, for the topics that this client leads, up to where nothing can be late any more, as
// stored: deliveries before it are not needed to tell what was delivered.
func (l *Leader) Settled() map[string]bson.Timestamp {
	l.mu.Lock()
	defer l.mu.Unlock()
	settled := make(map[string]bson.Timestamp, len(l.terms))
	for topic, t := range l.terms {
		settled[topic] = t.settled.stored
	}
	return settled
}

// begin takes over what the subscription says of the past; Leader.mu is held.
func (t *term) begin(sub store.Subscription) {
	t.cursor = sub.Cursor
	t.asked++
	t.settled = settled{
		start: sub.Start, upTo: later(sub.Settled, sub.Start.Sequence), stored: sub.Settled,
		delivered: map[string]bson.Timestamp{}, rescan: true, shown: map[string]store.EventKey{},
	}
}

func earlier(a, b bson.Timestamp) bson.Timestamp {
	if a.Compare(b) <= 0 {
		return a
	}
	return b
}

func later(a, b bson.Timestamp) bson.Timestamp {
	if a.Compare(b) >= 0 {
		return a
	}
	return b
}

// scan is one look behind the cursor, or, when all behind it is settled, at the page that follows it.
type scan struct {
	done bool
	at   time.Time      // when it began, by the server's clock
	to   bson.Timestamp // up to which sequence it read
	late []store.EventKey
}

// lookBehind reads what has arrived behind the cursor, if anything may have.
func (l *Leader) lookBehind(ctx context.Context, t *term, fresh bool) (scan, error) {
	s := scan{at: l.Store.Now()}
	l.mu.Lock()
	cursor, window := t.cursor, t.settled
	t.settled.rescan = false
	l.mu.Unlock()
	from := window.upTo
	if l.Retention > 0 {
		// Deliveries older than their retention may be gone, and no longer tell what was delivered.
		oldest := bson.Timestamp{T: uint32(max(s.at.Add(-l.Retention).Unix()+2, 0))}
		from = later(from, oldest)
	}
	if fresh {
		if err := l.learn(ctx, t, from, nil); err != nil {
			return s, err
		}
	}
	behind := func(at store.Position) bool {
		_, delivered := t.settled.delivered[at.EventID]
		return !delivered && at.After(window.start) && !at.After(cursor)
	}
	var late []store.EventKey
	var err error
	if window.rescan && window.upTo.Compare(cursor.Sequence) < 0 {
		s.done, s.to = true, cursor.Sequence
		late, err = l.Store.EventsBehind(ctx, t.receiver.Topic, from, cursor.Sequence, behind)
	} else {
		late, err = l.shownBehind(ctx, t)
	}
	if err != nil || len(late) == 0 {
		return s, err
	}
	if !fresh {
		// They are new to this term, but maybe not to the group. A delivery has the greatest sequence of its
		// events: one of theirs cannot lie before the first of them.
		first := late[0].Sequence
		for _, k := range late {
			first = earlier(first, k.Sequence)
		}
		if err := l.learn(ctx, t, first, eventIDs(late)); err != nil {
			return s, err
		}
		late = slices.DeleteFunc(late, func(k store.EventKey) bool { return !behind(k.Position) })
	}
	slices.SortFunc(late, inOrder)
	s.late = late
	return s, nil
}

// shownBehind reads the events that the cursor has passed and a change stream has shown: by their IDs, where the
// scan reads the whole window. With several publishers that happens many times a second.
func (l *Leader) shownBehind(ctx context.Context, t *term) ([]store.EventKey, error) {
	l.mu.Lock()
	shown := t.overtaken()
	l.mu.Unlock()
	if len(shown) == 0 {
		return nil, nil
	}
	found, err := l.Store.EventKeys(ctx, eventIDs(shown))
	if err != nil {
		return nil, err
	}
	there := make(map[string]bool, len(found))
	for _, k := range found {
		there[k.EventID] = true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range shown {
		if !there[k.EventID] {
			delete(t.settled.shown, k.EventID) // it is gone
		}
	}
	return found, nil
}

// learn reads which events at and behind a sequence have a delivery.
func (l *Leader) learn(ctx context.Context, t *term, from bson.Timestamp, candidates []string) error {
	ids, err := l.Store.Delivered(ctx, l.Group, t.receiver.Topic, from, candidates)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for id := range ids {
		if _, known := t.settled.delivered[id]; !known {
			// Its own sequence is not known; as late as the cursor's it is remembered long enough.
			t.settled.delivered[id] = t.cursor.Sequence
		}
	}
	return nil
}

// settle draws the conclusion of a scan: all that it read is settled, but for the window before it began.
// Leader.mu is held.
func (t *term) settle(s scan, window time.Duration) {
	if !s.done {
		return
	}
	edge := bson.Timestamp{T: uint32(max(s.at.Add(-window).Unix(), 0))}
	if s.to.Compare(edge) < 0 {
		edge = s.to
	}
	t.settled.upTo = later(t.settled.upTo, edge)
	maps.DeleteFunc(t.settled.delivered, func(_ string, at bson.Timestamp) bool { return at.Compare(t.settled.upTo) < 0 })
}
