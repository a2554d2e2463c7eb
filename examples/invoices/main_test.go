package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/matryer/is"
	"go.uber.org/goleak"

	"github.com/orionjs/orion-go/examples/invoices/billing"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// asService makes the test binary the service itself: the tests start it as a process of its own.
const asService = "INVOICES_TEST_RUN_SERVICE"

func TestMain(m *testing.M) {
	if os.Getenv(asService) != "" {
		main()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// process is a running service.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines pulsetest.Recorder[string]
	read  chan struct{} // closed when all output was read
}

func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(os.Args[0], args...), read: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), asService+"=1", "MONGODB_URI="+pulsetest.URI(t))
	pipe, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stderr = p.cmd.Stdout
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(p.read)
		for lines := bufio.NewScanner(pipe); lines.Scan(); {
			p.lines.Add(lines.Text())
		}
	}()
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil { // the test failed before the end
			_ = p.cmd.Process.Kill()
			<-p.read
			_ = p.cmd.Wait()
		}
		if t.Failed() {
			t.Logf("output of invoices %v:\n%s", args, p.output())
		}
	})
	return p
}

func (p *process) output() string { return strings.Join(p.lines.Values(), "\n") }

// wait waits for a line.
func (p *process) wait(text string) {
	p.t.Helper()
	p.lines.WaitFor(p.t, "a line with "+text, func(lines []string) bool {
		return strings.Contains(strings.Join(lines, "\n"), text)
	})
}

// end waits for the end and returns the exit status.
func (p *process) end() int {
	p.t.Helper()
	<-p.read
	_ = p.cmd.Wait()
	return p.cmd.ProcessState.ExitCode()
}

func (p *process) terminate() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
}

func TestDemo_7_1_HandlesTypedEventsInFullBatchesAndEnds(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	p := startProcess(t)
	is.Equal(p.end(), 0)
	out := p.output()
	for i := range demoInvoices / 100 {
		first, last := sampleInvoice("INV", 100*i), sampleInvoice("INV", 100*i+99)
		var total billing.Cents
		for n := range 100 {
			total += sampleInvoice("INV", 100*i+n).Total()
		}
		line := fmt.Sprintf("a batch of 100: %s (%s) to %s (%s), %s EUR in all", first.Number, first.Customer.Name, last.Number, last.Customer.Name, total)
		is.Equal(strings.Count(out, line), 1) // each full batch once
	}
	is.Equal(strings.Count(out, "a batch of 100:"), 10)
	is.True(strings.Contains(out, "Published 1008 events in "))
	is.True(strings.Contains(out, "1008 events, handled in 18 calls within "))
	is.True(strings.Contains(out, "a batch of 1: INV-1001"))
	is.True(strings.Contains(out, "neither stored nor handled a second time"))
	is.True(strings.Contains(out, "The ledger: 1001 invoices "))
	is.True(strings.Contains(out, "Every event was booked exactly once."))
}

func TestRun_SaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	err := run(context.Background(), nil, "", io.Discard)
	is.True(err != nil)
	is.True(strings.HasPrefix(err.Error(), "the environment variable MONGODB_URI is not set: start this with `go run ./cmd/pulse dev -- go run ./examples/invoices`"))
	err = run(context.Background(), nil, "http://db", io.Discard)
	is.True(err != nil)
	is.True(strings.HasPrefix(err.Error(), "the connection string in MONGODB_URI cannot be used: "))
	err = run(context.Background(), nil, "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=50", io.Discard)
	is.True(err != nil)
	is.True(strings.HasPrefix(err.Error(), "MongoDB does not answer where MONGODB_URI points: "))
}

// The service is stopped and started again while it works: nothing is lost, nothing is booked twice.
func TestServe_2_9_FinishesOnSIGTERMAndGoesOnAfterTheNextStart(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	const invoices = 600
	var out strings.Builder
	is.NoErr(run(t.Context(), []string{"-publish", fmt.Sprint(invoices), "-database", db.Name()}, pulsetest.URI(t), &out))
	is.Equal(out.String(), fmt.Sprintf("Published 605 events to database %q.\n", db.Name()))

	first := startProcess(t, "-serve", "-database", db.Name())
	first.wait("a batch of 100: INV-")
	first.terminate()
	is.Equal(first.end(), 0)
	is.True(strings.Contains(first.output(), "\nStopping: running handlers finish.\n"))
	is.True(strings.HasSuffix(first.output(), "\nStopped.")) // after the last handler

	second := startProcess(t, "-serve", "-database", db.Name())
	second.wait("Handling the events in database")
	ledger, err := billing.OpenLedger(t.Context(), db)
	is.NoErr(err)
	pulsetest.Eventually(t, "the ledger has every invoice and payment", func(ctx context.Context) error {
		balances, err := ledger.Balances(ctx)
		if n, m := balances[billing.Invoiced].Entries, balances[billing.Paid].Entries; err == nil && (n != invoices || m != 3) {
			err = fmt.Errorf("%d invoices and %d payments are booked", n, m)
		}
		return err
	})
	second.terminate()
	is.Equal(second.end(), 0)

	var want billing.Cents
	for i := range invoices {
		want += sampleInvoice("", i).Total()
	}
	balances, err := ledger.Balances(t.Context())
	is.NoErr(err)
	is.Equal(balances[billing.Invoiced], billing.Balance{Entries: invoices, Amount: want})
}
