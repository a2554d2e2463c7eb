// Package delivery holds the life of a delivery as pure functions: what an attempt's outcome, the
// retry policy and the attempt number make of it. It does no I/O and reads no clock; only
// the jitter of a pause is left to chance.
//
// A delivery is born pending, is claimed (processing) under a lease, and each attempt ends it in
// success, in a terminal error, or back in pending for the next attempt:
//
//	pending --claim--> processing --success--> success
//	   ^                   |------permanent, expired, or last attempt--> error
//	   +-------retry-------+
//
// The rules are the same for both execution versions (spec 4.8, 4.10); only where an attempt is
// stored differs, and that is package store's business.
package delivery
