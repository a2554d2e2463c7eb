//go:build unix

package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/matryer/is"
)

// secantusDir is where the built server belongs, below the cache directory.
const secantusDir = "pulse/secantus-mdb-0.5.3-beta.196"

// withTools is a machine that can build, but for the given tools.
func withTools(t testing.TB, cargo string, without ...string) *machine {
	m := newMachine(t)
	if cargo != "" {
		m.put("cargo", cargo)
	}
	for _, tool := range []string{"cmake", "cc"} {
		missing := false
		for _, w := range without {
			missing = missing || w == tool
		}
		if !missing {
			m.put(tool, "exit 1")
		}
	}
	return m
}

func TestDev_MissingToolsAreNamedTogether(t *testing.T) {
	t.Parallel()
	const ways = ": install that, or set MONGODB_URI, put mongod or secantusd-rs on PATH, or start docker or podman\n"
	for name, test := range map[string]struct {
		m    *machine
		want string
	}{
		"all":      {withTools(t, "", "cmake", "cc"), "cargo and cmake and a C compiler (cc)"},
		"cargo":    {withTools(t, ""), "cargo"},
		"cmake":    {withTools(t, "exit 1", "cmake"), "cmake"},
		"compiler": {withTools(t, "exit 1", "cc"), "a C compiler (cc)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			p := test.m.pulse(append([]string{"dev", "--"}, test.m.helper("ping")...)...)
			is.Equal(p.wait(), 125)
			is.Equal(p.out.String(), "pulse dev: no MongoDB server found, and to build one PATH lacks "+test.want+ways)
		})
	}
}

func TestDev_FailedBuildSaysWhyAndWhereTheLogIs(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := withTools(t, `
echo "   Compiling ring v1" >&2
printf '    Building [=======>  ] 12/30: ring\r' >&2
echo "error: failed to run custom build command for wiredtiger" >&2
exit 101`)
	p := m.pulse(append([]string{"dev", "--"}, m.helper("ping")...)...)
	is.Equal(p.wait(), 125)
	out := p.out.String()
	log := filepath.Join(m.home, secantusDir+".log")
	is.True(strings.Contains(out, "building secantusd-rs 0.5.3-beta.196 with cargo, once for all later runs"))
	is.True(strings.Contains(out, "(exit status 101): error: failed to run custom build command for wiredtiger; the whole output is in "+log+"; to do without it, set MONGODB_URI"))
	is.Equal(m.read(secantusDir+".log"), "   Compiling ring v1\nerror: failed to run custom build command for wiredtiger\n") // without redrawn bars
}

// installScript is a cargo that installs a server at once.
const installScript = `
while [ "$1" != --root ]; do shift; done
/bin/mkdir -p "$2/bin"
printf '#!/bin/sh\nexec "%s" helper:secantusd "$@"\n' "$SELF" > "$2/bin/secantusd-rs"
/bin/chmod +x "$2/bin/secantusd-rs"`

func TestDev_BuildsOnceForAllProcesses(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	// cargo's helper lives until the test ends it, which is when the second process has said that it waits.
	m := withTools(t, `echo run >> "$HOME/runs"; echo "$@" > "$HOME/args"; "$SELF" helper:hang & echo $! > "$HOME/pid"; wait`+installScript)
	args := append([]string{"dev", "--"}, m.helper("ping")...)
	first := m.pulse(args...)
	build := m.witness.expect("hang")[0]
	second := m.pulse(args...)
	second.await("another process is building secantusd-rs: waiting for it")
	is.NoErr(syscall.Kill(m.pid("pid"), syscall.SIGKILL))
	build.awaitEnd(t)

	is.Equal(first.wait(), 0)
	is.Equal(second.wait(), 0)
	is.True(strings.Contains(first.out.String(), "built secantusd-rs in"))
	third := m.pulse(args...) // finds it
	is.Equal(third.wait(), 0)
	for _, p := range []*program{first, second, third} {
		is.True(strings.Contains(p.out.String(), "MongoDB: secantusd-rs at mongodb://127.0.0.1:"))
		is.True(strings.Contains(p.out.String(), "reached"))
	}
	is.Equal(m.read("runs"), "run\n")
	is.Equal(m.read("args"), "install secantus-mdb --version 0.5.3-beta.196 --locked --ignore-rust-version --force --root "+
		filepath.Join(m.home, secantusDir+".build", "root")+"\n")
	built, err := filepath.Glob(filepath.Join(m.home, "pulse", "*"))
	is.NoErr(err)
	is.Equal(built, []string{filepath.Join(m.home, secantusDir), filepath.Join(m.home, secantusDir+".lock"), filepath.Join(m.home, secantusDir+".log")})
}

func TestDev_BuildOfKilledProcessIsTakenOver(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := withTools(t, `exec "$SELF" helper:hang`)
	args := append([]string{"dev", "--"}, m.helper("ping")...)
	first := m.pulse(args...)
	build := m.witness.expect("hang")[0]
	second := m.pulse(args...)
	second.await("waiting for it")
	m.put("cargo", installScript)
	first.signal(syscall.SIGKILL)
	is.Equal(second.wait(), 0)
	is.True(strings.Contains(second.out.String(), "built secantusd-rs in"))
	build.awaitEnd(t)
}

func TestDev_InterruptedBuildStopsCargo(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := withTools(t, `"$SELF" helper:hang`)
	p := m.pulse(append([]string{"dev", "--"}, m.helper("ping")...)...)
	build := m.witness.expect("hang")[0]
	p.signal(syscall.SIGINT)
	is.Equal(p.wait(), 130)
	build.awaitEnd(t) // not only cargo, what it runs too
}

func TestDev_RuntimeWithoutDaemonIsSkipped(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMachine(t)
	m.put("docker", `echo "Cannot connect to the Docker daemon" >&2; exit 1`)
	m.put("podman", `exec "$SELF" helper:hang`) // a daemon that never answers
	m.put("secantusd-rs", `exec "$SELF" helper:secantusd "$@"`)
	p := m.pulse(append([]string{"dev", "--"}, m.helper("ping")...)...)
	is.Equal(p.wait(), 0)
	is.True(strings.Contains(p.out.String(), "MongoDB: secantusd-rs at"))
	is.True(!strings.Contains(p.out.String(), "Cannot connect"))
	m.witness.expect("hang", "secantusd", "ping")[0].awaitEnd(t)
}

func TestDev_ContainerRuntimeWithDaemon(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	m := newMachine(t)
	m.put("docker", `
echo "$@" >> "$HOME/calls"
case $1 in
image) exit 1 ;;
run) exec "$SELF" helper:mongod "$@" ;;
esac`)
	p := m.pulse(append([]string{"dev", "--"}, m.helper("ping")...)...)
	is.Equal(p.wait(), 0)
	is.True(strings.Contains(p.out.String(), "docker pulls the image mongo:8 (once)"))
	is.True(strings.Contains(p.out.String(), "MongoDB: docker at mongodb://127.0.0.1:"))
	m.witness.expect("mongod", "ping")[0].awaitEnd(t)

	calls := strings.Split(strings.TrimSpace(m.read("calls")), "\n")
	is.Equal(len(calls), 6)
	is.Equal(calls[0], "ps --quiet")
	is.True(strings.HasPrefix(calls[1], "ps --all --filter name=pulse-mongoserver-"))
	is.Equal(calls[2], "image inspect mongo:8")
	is.Equal(calls[3], "pull mongo:8")
	name := strings.Fields(calls[4])[2]
	is.True(strings.HasPrefix(calls[4], "run --name "+name+" --publish 127.0.0.1:"))
	is.True(strings.Contains(calls[4], " mongo:8 mongod --bind_ip_all --port "))
	is.True(strings.HasSuffix(calls[4], " --setParameter enableTestCommands=1 --replSet pulse"))
	is.Equal(calls[5], "rm --force --volumes "+name) // after the end, with its data
}
