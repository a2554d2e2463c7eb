package pulsetest

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		_ = flag.Set("test.skip", "^Example") // those that run need a server
	}
	goleak.VerifyTestMain(m)
}

// fakeT stands for a test that may fail: it records what a helper reports, and ends as a failed test does.
type fakeT struct {
	testing.TB // the real test, for everything that is not replaced
	deadline   time.Time
	failure    string
}

func (f *fakeT) Helper()                        {}
func (f *fakeT) Fatal(args ...any)              { f.fail(fmt.Sprint(args...)) }
func (f *fakeT) Fatalf(format string, a ...any) { f.fail(fmt.Sprintf(format, a...)) }
func (f *fakeT) Deadline() (time.Time, bool)    { return f.deadline, !f.deadline.IsZero() }
func (f *fakeT) Context() context.Context       { return f.TB.Context() }

func (f *fakeT) fail(text string) {
	f.failure = text
	runtime.Goexit()
}

// run returns what the helper reported, "" if it did not fail.
func (f *fakeT) run(helper func(t testing.TB)) string {
	done := make(chan struct{})
	go func() {
		defer close(done)
		helper(f)
	}()
	<-done
	return f.failure
}

// wantParts fails unless all parts are in the text.
func wantParts(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q does not say %q", text, part)
		}
	}
}
