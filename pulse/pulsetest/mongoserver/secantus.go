package mongoserver

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/orionjs/orion-go/pulse/internal/clock"
	"github.com/orionjs/orion-go/pulse/pulsetest/internal/child"
)

const (
	secantusBinary  = "secantusd-rs"
	secantusPackage = "secantus-mdb"
	secantusVersion = "0.5.3-beta.196"

	// reportPause is the time between two lines about a build that goes on.
	reportPause = 15 * time.Second

	otherWays = "set MONGODB_URI, put mongod or " + secantusBinary + " on PATH, or start docker or podman"
)

// secantusPlaces are the places of one build, all below the user's cache directory.
type secantusPlaces struct {
	binary, lock, log, work string
}

func placesOfSecantus() (secantusPlaces, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return secantusPlaces{}, fmt.Errorf("no MongoDB server found and no cache directory to build one in (%w): %s", err, otherWays)
	}
	base := filepath.Join(cache, "pulse", secantusPackage+"-"+secantusVersion)
	return secantusPlaces{
		binary: filepath.Join(base, "bin", secantusBinary),
		lock:   base + ".lock",
		log:    base + ".log",
		work:   base + ".build",
	}, nil
}

// findSecantus returns the path of the server's binary, building it if it is nowhere.
func findSecantus(ctx context.Context, progress io.Writer) (string, error) {
	if path, err := exec.LookPath(secantusBinary); err == nil {
		return path, nil
	}
	places, err := placesOfSecantus()
	if err != nil {
		return "", err
	}
	if isExecutable(places.binary) {
		return places.binary, nil
	}
	if !child.CanLock {
		return "", fmt.Errorf("no MongoDB server found, and none can be built on this system: %s", otherWays)
	}
	if err := os.MkdirAll(filepath.Dir(places.lock), 0o755); err != nil {
		return "", fmt.Errorf("make the cache directory: %w", err)
	}
	unlock, err := child.AwaitLock(ctx, places.lock, "building "+secantusBinary, progress)
	if err != nil {
		return "", err
	}
	defer unlock()
	if isExecutable(places.binary) {
		return places.binary, nil // built by the process that had the lock before
	}
	return places.binary, buildSecantus(ctx, places, progress)
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// missingTools names what a build needs and PATH lacks.
func missingTools() []string {
	var missing []string
	for _, tool := range []string{"cargo", "cmake"} {
		if _, err := exec.LookPath(tool); err != nil {
			missing = append(missing, tool)
		}
	}
	for _, compiler := range []string{os.Getenv("CC"), "cc", "gcc", "clang"} {
		// CC may hold arguments after the compiler.
		if name, _, _ := strings.Cut(strings.TrimSpace(compiler), " "); name != "" {
			if _, err := exec.LookPath(name); err == nil {
				return missing
			}
		}
	}
	return append(missing, "a C compiler (cc)")
}

// buildSecantus builds into the work directory and moves the finished binary to its place in one step, so
// that nobody ever sees half a server. An interrupted build leaves the work directory, and the next one
// goes on from there. The caller holds the lock.
func buildSecantus(ctx context.Context, places secantusPlaces, progress io.Writer) error {
	if missing := missingTools(); len(missing) > 0 {
		return fmt.Errorf("no MongoDB server found, and to build one PATH lacks %s: install that, or %s", strings.Join(missing, " and "), otherWays)
	}
	say(progress, "no MongoDB server found: building %s %s with cargo, once for all later runs; this takes about five minutes (log: %s)", secantusBinary, secantusVersion, places.log)
	begin := clock.Now()
	root := filepath.Join(places.work, "root")
	if err := runCargo(ctx, places, root, progress); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("the build of %s was interrupted; the next run goes on from there", secantusBinary)
		}
		return fmt.Errorf("building %s with cargo failed after %s (%w): %s; the whole output is in %s; to do without it, %s",
			secantusBinary, clock.Since(begin).Round(time.Second), err, firstError(places.log), places.log, otherWays)
	}
	if err := os.MkdirAll(filepath.Dir(places.binary), 0o755); err != nil {
		return fmt.Errorf("make the cache directory: %w", err)
	}
	if err := os.Rename(filepath.Join(root, "bin", secantusBinary), places.binary); err != nil {
		return fmt.Errorf("cargo reported success, but its %s cannot be put in place: %w; its output is in %s", secantusBinary, err, places.log)
	}
	_ = os.RemoveAll(places.work) // hundreds of MB, only space
	say(progress, "built %s in %s", secantusBinary, clock.Since(begin).Round(time.Second))
	return nil
}

func runCargo(ctx context.Context, places secantusPlaces, root string, progress io.Writer) error {
	log, err := os.Create(places.log)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command("cargo", "install", secantusPackage, "--version", secantusVersion,
		"--locked", "--ignore-rust-version", "--force", "--root", root)
	cmd.Env = append(os.Environ(),
		// Little optimization: the server is for tests and demos, and full optimization takes three times as long.
		"CARGO_PROFILE_RELEASE_LTO=off", "CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16", "CARGO_PROFILE_RELEASE_OPT_LEVEL=1",
		"CARGO_TARGET_DIR="+filepath.Join(places.work, "target"),
		"CARGO_TERM_COLOR=never", "CARGO_TERM_PROGRESS_WHEN=always", "CARGO_TERM_PROGRESS_WIDTH=80")
	// A pipe of our own: Wait would close that of cmd.StderrPipe before the last lines, which say why a build
	// failed, have been read.
	output, stderr, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = output.Close() }()
	cmd.Stdout, cmd.Stderr = log, stderr
	proc, err := child.Start(cmd, syscall.SIGTERM)
	_ = stderr.Close()
	if err != nil {
		return err
	}
	stopped := context.AfterFunc(ctx, func() { child.KillGroup(cmd.Process) })
	defer stopped()
	report(output, log, progress)
	return proc.Wait()
}

var cargoProgress = regexp.MustCompile(`Building \[[=> ]*\] (\d+)/(\d+)`)

// report copies cargo's output to the log, without the redrawn progress bars, and says now and then how far
// the build is.
func report(output io.Reader, log, progress io.Writer) {
	counts := make(chan string)
	go func() {
		defer close(counts)
		lines := bufio.NewScanner(output)
		lines.Buffer(nil, 1<<20)
		lines.Split(splitAtReturns)
		for lines.Scan() {
			if m := cargoProgress.FindStringSubmatch(lines.Text()); m != nil {
				counts <- m[1] + " of " + m[2] + " crates"
				continue
			}
			_, _ = log.Write(append(lines.Bytes(), '\n'))
		}
		_, _ = io.Copy(log, output) // after a line that was too long
	}()
	begin, count, next := clock.Now(), "downloading", clock.After(reportPause)
	for {
		select {
		case c, open := <-counts:
			if !open {
				return
			}
			count = c
		case <-next:
			say(progress, "building %s: %s, %s", secantusBinary, count, clock.Since(begin).Round(time.Second))
			next = clock.After(reportPause)
		}
	}
}

// splitAtReturns is bufio.ScanLines that also ends a line at a carriage return, where a terminal would
// draw over it.
func splitAtReturns(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexAny(data, "\r\n"); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

// firstError returns the line of cargo's output that tells most about why it failed.
func firstError(logPath string) string {
	data, err := os.ReadFile(logPath)
	if err != nil {
		return "no output"
	}
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "error") {
			return line
		}
	}
	if last := child.Tail(logPath, 1); last != "" {
		return last
	}
	return "no output"
}
