package main

import (
	"bufio"
	"context"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/matryer/is"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.uber.org/goleak"

	"github.com/orionjs/orion-go/echoes"
	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("internal/poll.runtime_pollWait"), // idle connections of http.Get
		goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"),
		goleak.Cleanup(func(status int) {
			_ = os.RemoveAll(built)
			os.Exit(status)
		}))
}

// built is the folder of the binary.
var built string

// binary builds the service with the command of the Containerfile, once.
var binary = sync.OnceValues(func() (string, error) {
	containerfile, err := os.ReadFile("Containerfile")
	if err != nil {
		return "", err
	}
	build := regexp.MustCompile(`(?m)^RUN (CGO_ENABLED=0 go build .* -o )/service( .*)$`).FindSubmatch(containerfile)
	if build == nil {
		return "", errors.New("the Containerfile has no command that builds /service")
	}
	if built, err = os.MkdirTemp("", "container"); err != nil {
		return "", err
	}
	service := filepath.Join(built, "service")
	cmd := exec.Command("sh", "-c", string(build[1])+service+string(build[2]))
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return service, nil
})

// service is a running process.
type service struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines pulsetest.Recorder[map[string]any] // of its log
	read  chan struct{}                      // closed when all was read
}

func startService(t *testing.T, database string) *service {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	s := &service{t: t, cmd: exec.Command(path), read: make(chan struct{})}
	s.cmd.Env = []string{"MONGODB_URI=" + pulsetest.URI(t), "DATABASE=" + database, "ADDR=127.0.0.1:0", "SEND_TIME=50ms"}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.cmd.Stderr = s.cmd.Stdout
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			line := map[string]any{}
			if json.Unmarshal(lines.Bytes(), &line) != nil {
				line["msg"] = lines.Text()
			}
			s.lines.Add(line)
		}
	}()
	t.Cleanup(func() {
		if s.cmd.ProcessState == nil { // the test failed before the end
			s.end(syscall.SIGKILL)
		}
	})
	return s
}

// wait waits for a message in the log.
func (s *service) wait(message string) map[string]any {
	s.t.Helper()
	var found map[string]any
	s.lines.WaitFor(s.t, message, func(lines []map[string]any) bool {
		for _, line := range lines {
			if line["msg"] == message {
				found = line
				return true
			}
		}
		return false
	})
	return found
}

// end sends a signal, and returns how the process ended.
func (s *service) end(with syscall.Signal) *os.ProcessState {
	_ = s.cmd.Process.Signal(with)
	<-s.read
	_ = s.cmd.Wait()
	return s.cmd.ProcessState
}

// request publishes mails.
func request(t *testing.T, db *mongo.Database, n int) {
	t.Helper()
	is := is.New(t)
	app, err := echoes.New(echoes.Config{Pulse: &echoes.Pulse{Client: db.Client(), Config: pulse.Config{ConsumerGroup: "web", Database: db.Name()}}})
	is.NoErr(err)
	is.NoErr(app.Start(t.Context()))
	drafts := make([]echoes.Draft[Mail], n)
	for i := range drafts {
		drafts[i].Params = Mail{To: fmt.Sprintf("reader-%d@example.com", i), Subject: "News"}
	}
	_, err = PublishManyMail(t.Context(), app, drafts)
	is.NoErr(err)
	is.NoErr(app.Close(t.Context()))
}

// sent returns how many mails were sent, and for how many events.
func sent(t *testing.T, db *mongo.Database) (mails, events int) {
	t.Helper()
	is := is.New(t)
	n, err := db.Collection("sent").CountDocuments(t.Context(), bson.D{})
	is.NoErr(err)
	var ids []string
	is.NoErr(db.Collection("sent").Distinct(t.Context(), "event", bson.D{}).Decode(&ids))
	return int(n), len(ids)
}

func waitForSome(t *testing.T, db *mongo.Database) {
	t.Helper()
	pulsetest.Eventually(t, "some mails are sent", func(ctx context.Context) error {
		n, err := db.Collection("sent").CountDocuments(ctx, bson.D{})
		if err == nil && n < 8 {
			err = fmt.Errorf("%d are", n)
		}
		return err
	})
}

const mails = 100

// SIGTERM in the middle of the work: what was begun is finished, and recorded. The next replica does the rest, and
// nothing twice.
func TestContainer_2_9_SIGTERMLosesNothingAndRepeatsNothing(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	request(t, db, mails)

	first := startService(t, db.Name())
	addr := "http://" + first.wait("listening")["addr"].(string)
	first.wait("ready")
	is.Equal(status(t, addr+"/livez"), http.StatusOK)
	is.Equal(status(t, addr+"/readyz"), http.StatusOK)
	waitForSome(t, db)
	is.Equal(first.end(syscall.SIGTERM).ExitCode(), 0)
	first.wait("stopping")
	first.wait("stopped")

	done, events := sent(t, db)
	is.True(done < mails) // it was in the middle
	is.Equal(done, events)

	second := startService(t, db.Name())
	second.wait("ready")
	pulsetest.Group{DB: db, Name: "mails"}.WaitQuiet(t)
	is.Equal(second.end(syscall.SIGTERM).ExitCode(), 0)
	done, events = sent(t, db)
	is.Equal([]int{done, events}, []int{mails, mails})
}

// SIGKILL in its place, as when the machine is gone: nothing is lost either, but what was running is repeated. Crash
// spares the test the wait for the leases of the killed process.
func TestContainer_6_2_SIGKILLLosesNothing(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	request(t, db, mails)
	first := startService(t, db.Name())
	waitForSome(t, db)
	is.True(!first.end(syscall.SIGKILL).Success())

	second := startService(t, db.Name())
	second.wait("ready")
	group := pulsetest.Group{DB: db, Name: "mails"}
	group.Crash(t)
	for group.RetryNow(t) > 0 {
	}
	is.Equal(second.end(syscall.SIGTERM).ExitCode(), 0)
	done, events := sent(t, db)
	is.Equal(events, mails)
	is.True(done >= events)
}

func status(t *testing.T, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	is.New(t).NoErr(err)
	answer, err := http.DefaultClient.Do(req)
	is.New(t).NoErr(err)
	defer answer.Body.Close()
	return answer.StatusCode
}

func TestHealth_IsReadyOnlyWhileEverythingIs(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var down error
	h := &health{ping: func(context.Context) error { return down }}
	probe := func(path string) int {
		w := httptest.NewRecorder()
		h.handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return w.Code
	}
	is.Equal(probe("/readyz"), http.StatusServiceUnavailable) // it starts
	h.ready.Store(true)
	is.Equal(probe("/readyz"), http.StatusOK)
	down = errors.New("no primary")
	is.Equal(probe("/readyz"), http.StatusServiceUnavailable)
	is.Equal(probe("/livez"), http.StatusOK) // a restart would not help
}

// The image has nothing but the binary, so the binary must need nothing.
func TestContainer_TheBinaryIsStatic(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	path, err := binary()
	is.NoErr(err)
	file, err := elf.Open(path)
	if runtime.GOOS != "linux" {
		is.True(err != nil) // what containers run is Linux's
		return
	}
	is.NoErr(err)
	defer file.Close()
	libraries, err := file.ImportedLibraries()
	is.NoErr(err)
	is.Equal(len(libraries), 0)
	for _, part := range file.Progs {
		is.True(part.Type != elf.PT_INTERP)
	}
}

func TestRun_SaysWhatIsMissing(t *testing.T) {
	is := is.New(t)
	path, err := binary()
	is.NoErr(err)
	cmd := exec.Command(path)
	cmd.Env = []string{"HOME=/"}
	out, err := cmd.CombinedOutput()
	is.True(err != nil)
	is.True(strings.Contains(string(out), "MONGODB_URI is not set"))
}
