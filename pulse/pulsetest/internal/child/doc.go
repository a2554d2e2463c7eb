// Package child has what every kind of test server needs from the operating system.
//
// A server is a [Process] that ends with its owner, has a [Dir] that a later one sweeps when its owner was
// killed, and listens on a port of its own. What takes long to make is made by one process at a time: see
// [AwaitLock].
package child
