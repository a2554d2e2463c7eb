//go:build unix

package doccheck

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/orionjs/orion-go/internal/masked"
	"github.com/orionjs/orion-go/pulse/pulsetest"
	"github.com/orionjs/orion-go/pulse/pulsetest/kafkaserver"
	"github.com/orionjs/orion-go/pulse/pulsetest/mongoserver"
	"github.com/orionjs/orion-go/templates"
)

var update = flag.Bool("update", false, "write what the commands of the pages print into them")

// TestPages_CommandsRun runs every block of sh, the blocks of a page in their order, with the real programs, and compares
// what they print with the block of text that follows. The servers are this test's own, so that pages can name
// databases and topics as readers do.
func TestPages_CommandsRun(t *testing.T) {
	t.Parallel()
	sources(t)
	w := newWorkshop(t)
	var mu sync.Mutex
	seen := map[string]bool{}
	t.Run("pages", func(t *testing.T) {
		for _, p := range append(pages(t), w.rendered(t)...) {
			if !slices.ContainsFunc(p.blocks, block.runs) {
				continue
			}
			t.Run(strings.ReplaceAll(p.name, "/", "_"), func(t *testing.T) {
				t.Parallel()
				run := w.read(t, p)
				mu.Lock()
				defer mu.Unlock()
				maps.Copy(seen, run)
			})
		}
	})
	if strings.Contains(flag.Lookup("test.run").Value.String(), "/") {
		return // some pages alone
	}
	for _, entry := range slices.Concat(slices.Collect(maps.Keys(excused)), slices.Collect(maps.Keys(untilCtrlC))) {
		if !seen[entry] {
			t.Errorf("no page has the command %q any more: take it out of the lists in standin_test.go", entry)
		}
	}
}

// runs tells whether the block is run here. Those of the tutorial are run by TestReadme_TutorialWorksAsWritten.
func (b block) runs() bool {
	_, tutorial := b.note("tutorial")
	return b.lang == "sh" && !tutorial
}

// workshop has what all pages share.
type workshop struct {
	top, bin     string // the repository; the stand-ins
	path         string // the stand-ins, the programs of this repository, and what the machine has
	uri, brokers string
	done         sync.Map // the blocks that some page has had run, with what they show
}

func newWorkshop(t *testing.T) *workshop {
	t.Helper()
	is := is.New(t)
	top, err := filepath.Abs(root)
	is.NoErr(err)
	w := &workshop{top: top, bin: t.TempDir()}
	server, err := mongoserver.Start(t.Context(), mongoserver.Options{Progress: t.Output()})
	is.NoErr(err)
	t.Cleanup(func() { is.NoErr(server.Stop()) })
	w.uri = server.URI()
	broker, err := kafkaserver.Start(t.Context(), kafkaserver.Options{Progress: t.Output()})
	is.NoErr(err)
	t.Cleanup(func() { is.NoErr(broker.Stop()) })
	w.brokers = broker.Addr()

	installed := t.TempDir()
	install := exec.CommandContext(t.Context(), "go", "install", "./cmd/...")
	install.Dir, install.Env = top, append(os.Environ(), "GOWORK=off", "GOFLAGS=", "GOBIN="+installed)
	out, err := install.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	w.path = strings.Join([]string{w.bin, installed, os.Getenv("PATH")}, string(os.PathListSeparator))
	self, err := os.Executable()
	is.NoErr(err)
	names := []string{"pulse", "echoesgen", "go", "make", "curl"}
	for begin := range excused {
		name, _, _ := strings.Cut(begin, " ")
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		is.NoErr(os.Symlink(self, filepath.Join(w.bin, name)))
	}
	return w
}

// rendered are the pages that echoesgen init writes into a new service, each in its service.
func (w *workshop) rendered(t *testing.T) []page {
	t.Helper()
	is := is.New(t)
	var all []page
	for _, template := range templates.All() {
		dir := filepath.Join(t.TempDir(), "billing")
		_, _, err := templates.Render(dir, templates.Service{Template: template.Name, Name: "billing_" + template.Name, Module: "example.com/billing"})
		is.NoErr(err)
		text, err := os.ReadFile(filepath.Join(dir, "README.md"))
		is.NoErr(err)
		p := parse("templates/"+template.Name+"/README.md", string(text))
		p.dir = dir
		all = append(all, p)
	}
	return all
}

// reader is somebody who works through a page.
type reader struct {
	t       *testing.T
	w       *workshop
	page    page
	dir     string
	env     []string
	story   *story
	known   ids
	seen    string
	text    string // of the page, with what was printed
	running []*service
	skipped bool            // some blocks, which another page has, too
	found   map[string]bool // entries of the lists that the page needs
}

// read works through the page, and returns which entries of excused and untilCtrlC it needs.
func (w *workshop) read(t *testing.T, p page) map[string]bool {
	is := is.New(t)
	r := &reader{t: t, w: w, page: p, dir: w.top, known: ids{}, found: map[string]bool{}, seen: filepath.Join(t.TempDir(), "seen"), env: []string{
		"PATH=" + w.path,
		standInEnv + "=" + w.bin, topEnv + "=" + w.top, uriEnv + "=" + w.uri, addressEnv + "=" + freeAddress(t),
		"KAFKA_BROKERS=" + w.brokers, "MONGODB_URI=" + w.uri, "GOWORK=off", "GOFLAGS=-mod=mod", "GORACE=atexit_sleep_ms=0",
	}}
	r.env = append(r.env, seenEnv+"="+r.seen)
	if p.dir != "" {
		r.dir = p.dir
	}
	if slices.Contains(ofBilling, p.name) {
		r.story = newStory(t, w.uri, p.name)
		r.dir = r.story.dir
		r.env = append(r.env, "PULSE_DATABASE="+r.story.db.Name())
		if p.name != operatorPage { // whose first commands these are
			out, err := r.shell(t.Context(), r.dir, "pulse publish invoice.created invoices.ndjson --id-prefix INV >&2")
			t.Log(out)
			is.NoErr(err)
			r.known[anyDelivery] = r.story.failed()
		}
	}
	if p.dir == "" {
		text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(p.name)))
		is.NoErr(err)
		r.text = string(text)
	}
	defer r.stop()
	for i, b := range p.blocks {
		if !b.runs() {
			continue
		}
		shown := ""
		if i+1 < len(p.blocks) && p.blocks[i+1].lang == "text" && p.blocks[i+1].line == b.end+2 {
			shown = p.blocks[i+1].text
		}
		if err := r.block(b, shown); err != nil {
			t.Fatalf("%s:%d: %v", p.name, b.line, err)
		}
	}
	r.stop()
	if *update && r.story != nil {
		is.NoErr(os.WriteFile(filepath.Join(root, filepath.FromSlash(p.name)), []byte(r.known.real(r.text)), 0o600))
	}
	r.commands()
	return r.found
}

// commands looks at those that stand-ins have seen: one that failed fails the test.
func (r *reader) commands() {
	r.t.Helper()
	text, err := os.ReadFile(r.seen)
	if errors.Is(err, os.ErrNotExist) && r.skipped {
		return // the page has nothing of its own
	}
	if err != nil {
		r.t.Errorf("%s: no command was seen: %v", r.page.name, err)
	}
	for line := range strings.Lines(string(text)) {
		how, command, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch {
		case how == "excused":
			r.found[command] = true
		case how == fmt.Sprint(answerNo) && strings.HasPrefix(command, "pulse "):
		case how == "1" && strings.HasPrefix(command, "go ") && untilCtrlCOf(command) != "": // it reports the interruption
		case how != "0":
			r.t.Errorf("%s: exit status %s of: %s", r.page.name, how, command)
		}
	}
}

// block runs one block: to its end, or until it says what its note promises, and then on beside those that follow.
func (r *reader) block(b block, shown string) error {
	dir := r.dir
	if from, ok := b.note("in"); ok {
		dir = r.copyOf(from, strings.Contains(b.text, "go mod init"))
	}
	if part := untilCtrlCOf(b.text); part != "" {
		r.found[part] = true
		return r.serve(dir, b.text, untilCtrlC[part])
	}
	if _, again := r.w.done.LoadOrStore(b.text+shown, true); again && dir == r.w.top {
		r.skipped = true // another page has the same
		return nil
	}
	text := b.text
	if r.story != nil {
		text = r.known.real(text)
		r.story.before(text)
	}
	var out string
	run := func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		var err error
		if out, err = r.shell(ctx, dir, text); err != nil {
			return fmt.Errorf("%w\n%s", err, out)
		}
		if shown != "" && !(*update && r.story != nil) && masked.Text(out) != masked.Text(shown) {
			return fmt.Errorf("it prints\n%s\nand the page shows\n%s", masked.Text(out), masked.Text(shown))
		}
		return nil
	}
	if r.story != nil && !changes.MatchString(text) {
		// What runs in the background may not have come as far yet.
		pulsetest.Eventually(r.t, text, run)
	} else if err := run(r.t.Context()); err != nil { // once: what it does cannot be done again
		return err
	}
	r.known.learn(shown, out)
	if *update && shown != "" && r.story != nil {
		out = r.story.presentable(out)
		r.text = strings.Replace(r.text, shown, out, 1)
		r.known.learn(out, out)
	}
	return nil
}

// untilCtrlCOf is the entry of untilCtrlC that the commands contain.
func untilCtrlCOf(commands string) string {
	for part := range untilCtrlC {
		if strings.Contains(commands, part) {
			return part
		}
	}
	return ""
}

// patience ends a block that hangs. It is no measure of anything.
const patience = 3 * time.Minute

// aside is what pages leave out of outputs: where the servers are, and the log.
var aside = regexp.MustCompile(`(?m)^(pulse dev: |\d{4}/\d\d/\d\d \d\d:\d\d:\d\d INFO ).*\n`)

func (r *reader) shell(ctx context.Context, dir, text string) (string, error) {
	cmd := r.command(ctx, dir, text)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return aside.ReplaceAllString(out.String(), ""), err
}

func (r *reader) command(ctx context.Context, dir, text string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "sh", "-c", "set -e\n"+text)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), r.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	return cmd
}

// service is a block that goes on until Ctrl-C.
type service struct {
	cmd    *exec.Cmd
	out    *watched
	ended  chan error
	cancel context.CancelFunc
}

// serve starts a block, and returns when its output has the text.
func (r *reader) serve(dir, text, until string) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	s := &service{cmd: r.command(ctx, dir, text), out: &watched{until: until, found: make(chan struct{})}, ended: make(chan error, 1), cancel: cancel}
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	if err := s.cmd.Start(); err != nil {
		cancel()
		return err
	}
	go func() { s.ended <- s.cmd.Wait() }()
	r.running = append(r.running, s)
	select {
	case <-s.out.found:
		return nil
	case err := <-s.ended:
		s.ended <- err
		return fmt.Errorf("it ended before it said %q: %w\n%s", until, err, s.out)
	case <-time.After(patience):
		return fmt.Errorf("it does not say %q:\n%s", until, s.out)
	}
}

// stop presses Ctrl-C where services run. How they end their stand-ins have written down.
func (r *reader) stop() {
	for _, s := range slices.Backward(r.running) {
		_ = syscall.Kill(-s.cmd.Process.Pid, syscall.SIGINT)
		select {
		case <-s.ended:
		case <-time.After(patience):
			r.t.Errorf("%s: it does not end:\n%s", r.page.name, s.out)
		}
		s.cancel()
	}
	r.running = nil
}

// watched is an output that somebody waits for.
type watched struct {
	until string
	found chan struct{}

	mu   sync.Mutex
	text strings.Builder
	told bool
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.text.Write(p)
	if !w.told && strings.Contains(w.text.String(), w.until) {
		w.told = true
		close(w.found)
	}
	return n, err
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// copyOf is an empty folder with the files of one of the repository, a module of its own unless the reader makes it one.
func (r *reader) copyOf(folder string, bare bool) string {
	is := is.New(r.t)
	dir := r.t.TempDir()
	if !bare {
		dir = moduleBeside(r.t)
	}
	is.NoErr(os.CopyFS(dir, os.DirFS(filepath.Join(r.w.top, filepath.FromSlash(folder)))))
	return dir
}

// freeAddress is one that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	is.New(t).NoErr(err)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
