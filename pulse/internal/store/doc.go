// Package store holds the documents, indexes and queries of Pulse. It is the only package that sends
// commands to MongoDB; it takes and returns domain values, one file a collection and concern.
//
// Three rules hold for every command here:
//
//   - It has a deadline, whatever the caller's context says.
//   - A write that changes a delivery or a lease matches the state and the token that the writer
//     saw; "matched nothing" is a result with a name, not an error to retry.
//   - Leases are judged by the server's clock: _id-addressed writes compare with $$NOW, range scans
//     use Now, the estimate of that clock, and the write behind them decides again.
//
// Documents may have been written by other clients of the group, or by hand: null reads as absent,
// and a field of the wrong type reads as absent too, so that nothing stored can stop a client.
package store
