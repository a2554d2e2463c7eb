// Package worker runs deliveries: claim, run, settle.
//
//	store --claim--> lane's buffer --slot--> handler --outcome--> settler --> store
//	                      \_____ held: leases renewed together, until settled _____/
//
// A Pool belongs to one client. Its workers are slots that no topic owns; each topic has a lane, and
// free slots go round the lanes. The claim loop keeps the lanes' buffers filled a little ahead of the
// workers where that is safe and useful (spec 4.7), so that one command claims many deliveries:
//
//   - ahead of a free slot only first attempts with retries behind them are claimed: a claim that dies
//     with its process costs an attempt, which must never be the last one;
//   - only as many as the lane's handlers run in a fraction of a second, by their measured time: slow
//     handlers must not hoard work that an idle replica could do.
//
// Everything else is claimed for a slot that was reserved before.
//
// Every claim counts as held until its outcome is stored or it is handed back. Held leases are renewed
// about every third of their length by one command; a handler's context ends with the cause ErrLockLost
// when the renewal finds the lease gone, or when the local monotonic deadline passes, without waiting
// for the network.
package worker
