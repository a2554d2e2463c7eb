// Package console is a web page for the people who run services on Pulse.
//
// It shows consumer groups and topics with what waits, how far they are behind, how fast they work and what
// fails, and deliveries with their attempts, errors and payloads. Unless it is read-only, it retries and cancels
// deliveries, and pauses and resumes topics.
//
// A service mounts it behind its own authentication, since it has none:
//
//	mux.Handle("/pulse/", signedIn(http.StripPrefix("/pulse", console.New(admin, console.Config{}))))
//
// The pages need no JavaScript. With it they keep themselves up to date. Everything they load is in this package.
//
// # What it costs the database
//
// All viewers share one snapshot, which is read when somebody looks and it is older than five seconds. So any
// number of viewers costs as much as one, and nothing is asked while nobody looks. docs/console.md states the
// commands.
package console
