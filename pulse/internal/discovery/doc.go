// Package discovery turns the events of a topic into deliveries of one consumer group.
//
// One client of the group leads each topic, by a lease on the subscription. The leader reads the events
// behind the cursor in (sequence, ID) order and stores their deliveries together with the new cursor in
// one transaction that only the lease's holder can commit. A leader that was frozen past its lease
// therefore changes nothing when it wakes, and a crash at any point leaves both or neither.
//
// The leader remembers nothing that it could not read again: after a takeover, or an answer that never
// came, it reads the cursor, and the deliveries at and behind it, before it goes on.
package discovery
