// Package kafkaserver starts Kafka brokers of its own for tests and for `pulse dev --kafka`.
//
// A broker is Apache Kafka itself, one node that is broker and controller, with a small heap, a free port and
// empty storage, so that tests which stop, kill and restart it can run in parallel. It runs with the java of
// JAVA_HOME or PATH (17 or newer). The first Start fetches Kafka with mvn into the user's cache directory;
// processes that need it at the same time wait for one of them. Tests that only need some broker share the
// one of KAFKA_BROKERS, which this package never touches: see [Check].
//
// A broker ends with the process that started it: Stop ends it, and on Linux the kernel ends it when its owner
// is killed. What a killed owner left on the disk is removed by a later Start.
package kafkaserver
