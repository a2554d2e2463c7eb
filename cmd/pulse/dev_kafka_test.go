//go:build unix

package main

import (
	"net"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/matryer/is"
)

// kafkaDir is where the fetched Kafka belongs, below the cache directory.
const kafkaDir = "pulse/kafka_2.13-4.4.0"

// javaScript is a Java virtual machine for Kafka.
const javaScript = `
case $* in *StorageTool*) exit 0 ;; esac
exec "$SELF" helper:kafka "$@"`

// mvnScript is an mvn that fetches at once.
const mvnScript = `
for a; do case $a in -DoutputDirectory=*) /bin/mkdir -p "${a#*=}" ;; esac; done`

// withKafka is a machine on which mongod, java and mvn are installed.
func withKafka(t testing.TB) *machine {
	m := withMongod(t)
	m.put("java", javaScript)
	m.put("mvn", mvnScript)
	return m
}

func TestDevKafka_ExportsReachableBrokerAndPassesExitStatusOn(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := withKafka(t)
	p := m.pulse(append([]string{"dev", "--kafka", "--"}, m.helper("pingkafka", "7")...)...)
	is.Equal(p.wait(), 7)
	is.True(strings.Contains(p.out.String(), "pulse dev: Kafka: a broker at 127.0.0.1:"))
	is.True(strings.Contains(p.out.String(), "reached both"))
	for _, l := range m.witness.expect("mongod", "kafka", "pingkafka") {
		l.awaitEnd(t)
	}
	is.Equal(len(m.leftovers()), 0)
}

func TestDevKafka_WithoutTheFlagThereIsNone(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := withKafka(t)
	p := m.pulse(append([]string{"dev", "--"}, m.helper("ping")...)...)
	is.Equal(p.wait(), 0)
	m.witness.expect("mongod", "ping")
	is.True(!strings.Contains(p.out.String(), "Kafka"))
}

func TestDevKafka_UsesBrokerOfKAFKA_BROKERS(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := withKafka(t)
	first := m.pulse("dev", "--kafka")
	first.await("export KAFKA_BROKERS='")
	_, rest, _ := strings.Cut(first.out.String(), "export KAFKA_BROKERS='")
	brokers, _, _ := strings.Cut(rest, "'")

	second := m.start(m.environ("KAFKA_BROKERS="+brokers), m.self, append([]string{"dev", "--kafka", "--"}, m.helper("pingkafka", "0")...)...)
	is.Equal(second.wait(), 0)
	is.True(strings.Contains(second.out.String(), "Kafka: the broker of KAFKA_BROKERS"))
	broker := m.witness.expect("kafka", "mongod", "mongod", "pingkafka")[0]
	is.True(!broker.gone()) // it belongs to the first

	first.signal(syscall.SIGINT)
	is.Equal(first.wait(), 0)
	broker.awaitEnd(t)
}

func TestDevKafka_KAFKA_BROKERSUnreachable(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := withKafka(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	is.NoErr(err)
	addr := l.Addr().String()
	is.NoErr(l.Close()) // nobody listens there any more
	p := m.start(m.environ("KAFKA_BROKERS="+addr), m.self, append([]string{"dev", "--kafka", "--"}, m.helper("ping")...)...)
	is.Equal(p.wait(), 125)
	is.True(strings.Contains(p.out.String(), "KAFKA_BROKERS is set, but no Kafka broker answers at "+addr))
	is.True(strings.Contains(p.out.String(), "start that broker, or unset KAFKA_BROKERS"))
	m.witness.expect("mongod")[0].awaitEnd(t)
}

func TestDevKafka_SaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	const ways = "or set KAFKA_BROKERS to the addresses of a broker of yours\n"
	for name, test := range map[string]struct {
		java string
		want string
	}{
		"java": {"", "no Kafka broker can be started, because PATH lacks java: install Java 17 or newer ("},
		"mvn":  {"exit 1", "no Kafka broker is there yet, and to fetch one PATH lacks mvn: install Maven ("},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			m := withMongod(t)
			if test.java != "" {
				m.put("java", test.java)
			}
			p := m.pulse(append([]string{"dev", "--kafka", "--"}, m.helper("ping")...)...)
			is.Equal(p.wait(), 125)
			is.True(strings.Contains(p.out.String(), "pulse dev: "+test.want))
			is.True(strings.HasSuffix(p.out.String(), ways))
			m.witness.expect("mongod")[0].awaitEnd(t)
		})
	}
}

func TestDevKafka_OldJava(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := withKafka(t)
	m.put("java", `echo 'Exception in thread "main" java.lang.UnsupportedClassVersionError: kafka/Kafka has been compiled by' >&2; exit 1`)
	p := m.pulse(append([]string{"dev", "--kafka", "--"}, m.helper("ping")...)...)
	is.Equal(p.wait(), 125)
	is.True(strings.Contains(p.out.String(), "is too old for Kafka 4.4.0: install 17 or newer"))
	is.Equal(len(m.leftovers()), 0)
}

func TestDevKafka_FailedFetchSaysWhyAndWhereTheLogIs(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := withKafka(t)
	m.put("mvn", `echo "[ERROR] Could not transfer artifact"; exit 1`)
	p := m.pulse(append([]string{"dev", "--kafka", "--"}, m.helper("ping")...)...)
	is.Equal(p.wait(), 125)
	log := filepath.Join(m.home, kafkaDir+".log")
	is.True(strings.Contains(p.out.String(), "(exit status 1): Could not transfer artifact; the whole output is in "+log+"; to do without it, set KAFKA_BROKERS"))
}

func TestDevKafka_FetchesOnceForAllProcesses(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := withKafka(t)
	// mvn's helper lives until the test ends it, which is when the second process has said that it waits.
	m.put("mvn", `echo run >> "$HOME/runs"; "$SELF" helper:hang & echo $! > "$HOME/pid"; wait`+mvnScript)
	args := append([]string{"dev", "--kafka", "--"}, m.helper("pingkafka", "0")...)
	first := m.pulse(args...)
	fetch := m.witness.expect("mongod", "hang")[1]
	second := m.pulse(args...)
	second.await("another process is fetching Kafka: waiting for it")
	is.NoErr(syscall.Kill(m.pid("pid"), syscall.SIGKILL))
	fetch.awaitEnd(t)
	is.Equal(first.wait(), 0)
	is.Equal(second.wait(), 0)
	third := m.pulse(args...) // finds it
	is.Equal(third.wait(), 0)
	is.Equal(m.read("runs"), "run\n")
	fetched, err := filepath.Glob(filepath.Join(m.home, "pulse", "*"))
	is.NoErr(err)
	is.Equal(fetched, []string{filepath.Join(m.home, kafkaDir), filepath.Join(m.home, kafkaDir+".lock"), filepath.Join(m.home, kafkaDir+".log")})
}

func TestDevKafka_FetchOfKilledProcessIsTakenOver(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := withKafka(t)
	m.put("mvn", `exec "$SELF" helper:hang`)
	args := append([]string{"dev", "--kafka", "--"}, m.helper("pingkafka", "0")...)
	first := m.pulse(args...)
	fetch := m.witness.expect("mongod", "hang")[1]
	second := m.pulse(args...)
	second.await("waiting for it")
	m.put("mvn", mvnScript)
	first.signal(syscall.SIGKILL)
	is.Equal(second.wait(), 0)
	fetch.awaitEnd(t)
}

func TestDevKafka_InterruptedFetchStopsMaven(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := withKafka(t)
	m.put("mvn", `"$SELF" helper:hang`)
	p := m.pulse(append([]string{"dev", "--kafka", "--"}, m.helper("ping")...)...)
	fetch := m.witness.expect("mongod", "hang")
	p.signal(syscall.SIGINT)
	is.Equal(p.wait(), 130)
	fetch[0].awaitEnd(t)
	fetch[1].awaitEnd(t)
}

func TestDevKafka_LostBrokerEndsCommand(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := withKafka(t)
	m.put("java", `echo $$ > "$HOME/pid"`+javaScript)
	p := m.pulse(append([]string{"dev", "--kafka", "--"}, m.helper("hang")...)...)
	lives := m.witness.expect("mongod", "kafka", "hang")
	is.NoErr(syscall.Kill(m.pid("pid"), syscall.SIGKILL))
	is.Equal(p.wait(), 125)
	is.True(strings.Contains(p.out.String(), "a service ended by itself: Kafka: a broker at"))
	lives[0].awaitEnd(t)
	lives[2].awaitEnd(t)
}

func TestDevKafka_KilledLeavesNothingRunning(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Log("only Linux ends a server whose owner was killed")
		return
	}
	is := is.New(t)
	m := withKafka(t)
	p := m.pulse(append([]string{"dev", "--kafka", "--"}, m.helper("hang")...)...)
	p.await("ready")
	p.signal(syscall.SIGKILL)
	for _, l := range m.witness.expect("mongod", "kafka", "hang") {
		l.awaitEnd(t)
	}
	p.wait()
	is.Equal(len(m.leftovers()), 2) // the killed one could not remove its storage
	next := m.pulse(append([]string{"dev", "--kafka", "--"}, m.helper("exit", "0")...)...)
	is.Equal(next.wait(), 0)
	is.Equal(len(m.leftovers()), 0) // but the next one does
}

func TestDevKafka_KeepsData(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := withKafka(t)
	m.put("java", `for a; do config=$a; done; while read -r line; do case $line in log.dirs=*) echo "$line" > "$HOME/dir" ;; esac; done < "$config"`+javaScript)
	p := m.pulse(append([]string{"dev", "--kafka", "--keep", "--"}, m.helper("exit", "0")...)...)
	is.Equal(p.wait(), 0)
	is.True(strings.Contains(p.out.String(), ", data kept"))
	is.Equal(m.read("dir"), "log.dirs="+m.home+"/pulse/kafka-data\n")
}

// The real broker, fetched if this machine has none yet.
func TestDevKafka_RealBroker(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a real broker is not started under -short")
	}
	is := is.New(t)
	m := newMachine(t)
	p := m.start(append(realEnviron(), roleEnv+"=pulse", witnessEnv+"="+m.witness.addr()), m.self, append([]string{"dev", "--kafka", "--"}, m.helper("pingkafka", "3")...)...)
	is.Equal(p.wait(), 3)
	is.True(strings.Contains(p.out.String(), "reached both"))
}
