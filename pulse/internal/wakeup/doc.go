// Package wakeup says which topic deserves a look, and when: a change stream says so within
// milliseconds, a jittered poll is the safety net (spec 3.4). Signals carry no data and are coalesced:
// whoever is woken reads the database.
package wakeup
