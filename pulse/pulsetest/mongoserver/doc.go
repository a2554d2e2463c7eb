// Package mongoserver starts MongoDB-compatible servers of its own for tests and for `pulse dev`.
//
// Start takes the first of these that is there:
//
//  1. mongod on PATH, as a replica set of one member;
//  2. a container runtime (docker, then podman) whose daemon answers, with the image mongo:8;
//  3. secantusd-rs, a small server that speaks the wire protocol of MongoDB 8, on PATH or in the user's
//     cache directory;
//  4. the same, built once with cargo into the user's cache directory, which takes minutes. Processes
//     that need it at the same time wait for one build.
//
// All of them accept the commands that provoke faults (configureFailPoint, replSetStepDown). Each Start is
// a server by itself with a free port and empty storage, so tests that stop, kill and restart it can run in
// parallel; tests that only need some database share the one of MONGODB_URI, which this package never
// touches: see [Check].
//
// A server ends with the process that started it: Stop ends it in an orderly way, and on Linux the kernel
// ends it when its owner is killed. What a killed owner left on the disk is removed by a later Start.
package mongoserver
