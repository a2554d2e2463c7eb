//go:build unix

package main

import (
	"net"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"
)

func TestDev_PassesExitStatusOn(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		helper, arg string
		want        int
	}{
		"success": {"exit", "0", 0},
		"failure": {"exit", "7", 7},
		"signal":  {"die", strconv.Itoa(int(syscall.SIGKILL)), 137},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			m := withMongod(t)
			p := m.pulse(append([]string{"dev", "--"}, m.helper(test.helper, test.arg)...)...)
			is.Equal(p.wait(), test.want)
			server := m.witness.expect("mongod", test.helper)[0]
			server.awaitEnd(t)              // its connection is closed by its end, which was before pulse's
			is.Equal(len(m.leftovers()), 0) // nothing stays on the disk
		})
	}
}

func TestDev_CommandNotFoundStartsNothing(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := withMongod(t)
	p := m.pulse("dev", "--", "nosuchcommand", "--port", "3")
	is.Equal(p.wait(), 127)
	is.Equal(p.out.String(), "pulse dev: the command \"nosuchcommand\" was not found: check its name and PATH\n")
}

func TestDev_ExportsReachableURIAndStdin(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := withMongod(t)
	p := m.pulse(append([]string{"dev", "--"}, m.helper("ping")...)...)
	is.Equal(p.wait(), 0)
	is.True(strings.Contains(p.out.String(), `reached, read "some input"`))
	is.True(strings.Contains(p.out.String(), "pulse dev: MongoDB: mongod at mongodb://127.0.0.1:"))
}

func TestDev_UsesServerOfMONGODB_URI(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := withMongod(t)
	first := m.pulse("dev")
	first.await("export MONGODB_URI='")
	_, rest, _ := strings.Cut(first.out.String(), "export MONGODB_URI='")
	uri, _, _ := strings.Cut(rest, "'")

	second := m.start(m.environ("MONGODB_URI="+uri), m.self, append([]string{"dev", "--port", "1", "--"}, m.helper("ping")...)...)
	is.Equal(second.wait(), 0)
	is.True(strings.Contains(second.out.String(), "reached"))
	is.True(strings.Contains(second.out.String(), "--port, --keep and --server-arg have no effect"))
	server := m.witness.expect("mongod", "ping")[0]
	is.True(!server.gone()) // it belongs to the first

	first.signal(syscall.SIGINT)
	is.Equal(first.wait(), 0) // staying up until Ctrl-C is what it was started for
	server.awaitEnd(t)
}

func TestDev_MONGODB_URIUnreachable(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := withMongod(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	is.NoErr(err)
	addr := l.Addr().String()
	is.NoErr(l.Close()) // nobody listens there any more

	p := m.start(m.environ("MONGODB_URI=mongodb://user:secret@"+addr+"/"), m.self, append([]string{"dev", "--"}, m.helper("ping")...)...)
	is.Equal(p.wait(), 125)
	is.True(strings.Contains(p.out.String(), "MONGODB_URI is set, but no MongoDB server answers at "+addr+" within 5s"))
	is.True(strings.Contains(p.out.String(), "start that server, or unset MONGODB_URI"))
	is.True(!strings.Contains(p.out.String(), "secret"))
}

func TestDev_PortTaken(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := withMongod(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	is.NoErr(err)
	defer l.Close()
	port := strconv.Itoa(l.Addr().(*net.TCPAddr).Port)

	p := m.pulse(append([]string{"dev", "--port", port, "--"}, m.helper("ping")...)...)
	is.Equal(p.wait(), 125)
	is.True(strings.Contains(p.out.String(), "port "+port+" on 127.0.0.1 is taken by another process: choose another port, or none to get a free one"))
}

func TestDev_ServerThatDoesNotComeUpIsReportedWithItsOutput(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMachine(t)
	m.put("mongod", `echo "out of unicorns" >&2; exit 14`)
	p := m.pulse(append([]string{"dev", "--"}, m.helper("ping")...)...)
	is.Equal(p.wait(), 125)
	is.True(strings.Contains(p.out.String(), "did not come up: its process ended"))
	is.True(strings.Contains(p.out.String(), "out of unicorns"))
	is.Equal(len(m.leftovers()), 0)
}

func TestDev_LostServerEndsCommand(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMachine(t)
	m.put("mongod", `echo $$ > "$HOME/pid"; exec "$SELF" helper:mongod "$@"`)
	p := m.pulse(append([]string{"dev", "--"}, m.helper("hang")...)...)
	lives := m.witness.expect("mongod", "hang")
	is.NoErr(syscall.Kill(m.pid("pid"), syscall.SIGKILL))
	is.Equal(p.wait(), 125)
	is.True(strings.Contains(p.out.String(), "a service ended by itself: MongoDB: mongod"))
	lives[1].awaitEnd(t)
}

func TestDev_KeepsData(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMachine(t)
	m.put("mongod", `
while [ "$1" != --dbpath ]; do set -- "$@" "$1"; shift; done
if [ -e "$2/seen" ]; then echo "again $2"; fi > "$HOME/report"
: > "$2/seen"
exec "$SELF" helper:mongod "$@"`)
	run := func(args ...string) *program {
		p := m.pulse(append(append([]string{"dev"}, args...), append([]string{"--"}, m.helper("exit", "0")...)...)...)
		is.Equal(p.wait(), 0)
		return p
	}
	run("--keep")
	is.Equal(m.read("report"), "")
	run("--keep")
	is.Equal(m.read("report"), "again "+m.home+"/pulse/data\n")
	run()
	is.Equal(m.read("report"), "") // without --keep the storage is new

	first := m.pulse("dev", "--keep")
	first.await("export MONGODB_URI=")
	second := m.pulse("dev", "--keep")
	is.Equal(second.wait(), 125)
	is.True(strings.Contains(second.out.String(), "is in use by another server"))
	first.signal(syscall.SIGTERM)
	is.Equal(first.wait(), 0)
}

func TestDev_HandsServerArgumentsOn(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMachine(t)
	m.put("mongod", `for a; do echo "$a"; done > "$HOME/args"; exec "$SELF" helper:mongod "$@"`)
	p := m.pulse(append([]string{"dev", "--server-arg=--sync-on-commit", "--server-arg=a,b", "--"}, m.helper("exit", "0")...)...)
	is.Equal(p.wait(), 0)
	is.True(strings.HasSuffix(m.read("args"), "--sync-on-commit\na,b\n"))
}

// The real server, whichever this machine has.
func TestDev_RealServer(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a real server is not started under -short")
	}
	is := is.New(t)
	m := newMachine(t)
	begin := time.Now()
	p := m.start(append(realEnviron(), roleEnv+"=pulse", witnessEnv+"="+m.witness.addr()), m.self, append([]string{"dev", "--"}, m.helper("ping")...)...)
	is.Equal(p.wait(), 0)
	is.True(strings.Contains(p.out.String(), "reached"))
	t.Logf("%s\nin %s", p.out, time.Since(begin))
}
