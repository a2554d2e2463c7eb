// Package admin looks into a Pulse database and acts on it, as an operator's tool does: the command line of cmd/pulse
// and the console are built on it, and so can be yours.
//
// An Admin sees all consumer groups of a database and takes part in none: it runs no handler, leads no topic, and
// needs no client of package pulse. Everything it changes is fenced like what the clients change: a delivery that
// has moved on since it was read stays as it is, and the answer is a *StateError.
//
// What it asks of the database is bounded. Counts end at a limit (Count.AtLeast says so), lists are pages, and every
// query walks an index that Pulse has anyway.
//
// The rights that a user needs are those of docs/security.md: to read for what only looks, to write for what changes.
package admin
