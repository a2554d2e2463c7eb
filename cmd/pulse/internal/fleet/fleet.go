// Package fleet runs further processes of this program, which are told what to do and tell what they did.
//
// They are real processes, because what is to be seen happens between processes: they share nothing but the
// database, and can be killed. A process gets its order in the first line of its standard input, may start
// with the next line, and ends when the input does, so that none outlives the one that started it. What it
// tells are lines of JSON on its standard output; its log goes to standard error.
package fleet

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"
)

// Command is the name of the program's command that is such a process; the role is its argument.
const Command = "fleet-member"

// stopTimeout is what a process gets to end before it is killed.
const stopTimeout = 90 * time.Second

// Message is what a process tells; each has one of the fields.
type Message struct {
	// Ready says that the process has prepared everything and waits for Go.
	Ready bool `json:",omitempty"`
	// Handled is how many events were handled successfully so far.
	Handled int `json:",omitempty"`
	// Published is how many events of the topic were published so far.
	Published map[string]int `json:",omitempty"`
	// Report is the result of the whole, at the end.
	Report json.RawMessage `json:",omitempty"`
}

// Process is one that runs. Its methods may be called by several goroutines.
type Process struct {
	// Name tells it from others, for people.
	Name string

	cmd   *exec.Cmd
	stdin io.WriteCloser
	log   *tail
	ready chan struct{}
	done  chan struct{} // closed when the process is gone and all it told was heard

	mu       sync.Mutex
	report   json.RawMessage
	expected bool // its end was asked for
	err      error
}

// Start starts a process in a role with an order, which is sent as JSON. Heard is called with each message, by
// one goroutine at a time; log, if not nil, gets the process' log.
func Start(name, role string, order any, heard func(Message), log io.Writer) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program, to start it again: %w", err)
	}
	line, err := json.Marshal(order)
	if err != nil {
		return nil, err
	}
	p := &Process{Name: name, cmd: exec.Command(self, Command, role), log: &tail{to: log}, ready: make(chan struct{}), done: make(chan struct{})}
	p.cmd.Stderr = p.log
	ownGroup(p.cmd)
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	started := make(chan error)
	go func() {
		// Linux takes the end of this thread for ours, and would kill the process.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.listen(out, heard)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start process %s: %w", name, err)
	}
	if _, err := p.stdin.Write(append(line, '\n')); err != nil {
		p.Kill()
		return nil, fmt.Errorf("process %s took no order: %w; its log:\n%s", name, err, p.log)
	}
	return p, nil
}

func (p *Process) listen(out io.Reader, heard func(Message)) {
	defer close(p.done)
	in := bufio.NewReader(out)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			break
		}
		var m Message
		if json.Unmarshal(line, &m) != nil {
			continue // a line that was cut by a kill
		}
		switch {
		case m.Ready:
			close(p.ready)
		case m.Report != nil:
			p.mu.Lock()
			p.report = m.Report
			p.mu.Unlock()
		}
		if heard != nil {
			heard(m)
		}
	}
	err := p.cmd.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case err == nil && p.expected:
	case err == nil:
		p.err = fmt.Errorf("process %s ended by itself; its log:\n%s", p.Name, p.log)
	default:
		p.err = fmt.Errorf("process %s: %w; its log:\n%s", p.Name, err, p.log)
	}
}

// Ready waits until the process has prepared everything.
func (p *Process) Ready(ctx context.Context) error {
	select {
	case <-p.ready:
		return nil
	case <-p.done:
		return p.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Go lets the process begin.
func (p *Process) Go() error {
	if _, err := io.WriteString(p.stdin, "go\n"); err != nil {
		return fmt.Errorf("process %s cannot be told to begin: %w", p.Name, err)
	}
	return nil
}

// Stop lets the process finish what it does, waits for its end and reads its report into the given value, unless
// that is nil. It kills a process that does not end.
func (p *Process) Stop(report any) error {
	p.mu.Lock()
	p.expected = true
	p.mu.Unlock()
	_ = p.stdin.Close()
	select {
	case <-p.done:
	case <-time.After(stopTimeout):
		p.Kill()
		return fmt.Errorf("process %s did not end within %s and was killed; its log:\n%s", p.Name, stopTimeout, p.log)
	}
	if err := p.Err(); err != nil || report == nil {
		return err
	}
	if p.report == nil {
		return fmt.Errorf("process %s has left no report; its log:\n%s", p.Name, p.log)
	}
	return json.Unmarshal(p.report, report)
}

// Kill ends the process at once, as a crash would, and waits until it is gone. It may have ended already.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill()
	_ = p.stdin.Close()
	<-p.done
}

// Done is closed when the process is gone; Err says how it ended then, nil as was wished.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err says why the process is gone. It is nil while it runs.
func (p *Process) Err() error {
	select {
	case <-p.done:
	default:
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// StopAll stops the processes side by side.
func StopAll(all []*Process) error {
	errs := make([]error, len(all))
	var stopping sync.WaitGroup
	for i, p := range all {
		stopping.Go(func() { errs[i] = p.Stop(nil) })
	}
	stopping.Wait()
	return errors.Join(errs...)
}

// tail keeps the end of what is written to it, for errors.
type tail struct {
	to io.Writer

	mu  sync.Mutex
	end []byte
}

const tailBytes = 4 << 10

func (t *tail) Write(data []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.end = append(t.end, data...)
	if cut := len(t.end) - tailBytes; cut > 0 {
		t.end = append(t.end[:0], t.end[cut:]...)
	}
	if t.to != nil {
		return t.to.Write(data)
	}
	return len(data), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.end) == 0 {
		return "(it wrote nothing)"
	}
	return string(t.end)
}
