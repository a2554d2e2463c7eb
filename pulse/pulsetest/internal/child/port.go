package child

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/orionjs/orion-go/pulse/internal/clock"
)

// pollPause is the pause between two looks at a server that is coming up.
const pollPause = 20 * time.Millisecond

var (
	// ErrPortTaken is the cause of a start that failed because another process listens on the port.
	ErrPortTaken = errors.New("port taken")
	// ErrEnded is the cause of a start that failed because the server's process ended.
	ErrEnded = errors.New("its process ended")
)

// PortTakenError says so in a way that errors.Is finds ErrPortTaken.
func PortTakenError(port int) error {
	return fmt.Errorf("port %d on 127.0.0.1 is taken by another process: choose another port, or none to get a free one (%w)", port, ErrPortTaken)
}

// MentionsTakenPort says whether a server has written that its port is taken.
func MentionsTakenPort(log string) bool {
	return strings.Contains(strings.ToLower(log), "address already in use")
}

// CheckPort finds out before anything else starts whether the wanted port can be had. 0, any port, can.
func CheckPort(port int) error {
	if port == 0 {
		return nil
	}
	if port < 0 || port > 65535 {
		return fmt.Errorf("port %d does not exist: choose one from 1 to 65535, or 0 for a free one", port)
	}
	l, err := net.Listen("tcp", Addr(port))
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%w", PortTakenError(port))
	case err != nil:
		return fmt.Errorf("port %d cannot be listened on: %w", port, err)
	}
	return l.Close()
}

// FreePort returns a port that nobody listens on. A stranger may take it before the caller does.
func FreePort() (int, error) {
	l, err := net.Listen("tcp", Addr(0))
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

// Addr is a port's address, at 127.0.0.1.
func Addr(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// AwaitListening waits for the port alone: clients would wait longer between their tries.
func AwaitListening(ctx context.Context, proc *Process, port int) error {
	dialer := net.Dialer{Timeout: time.Second}
	for {
		conn, err := dialer.DialContext(ctx, "tcp", Addr(port))
		if err == nil {
			_ = conn.Close()
			return nil
		}
		if err := Pause(ctx, proc); err != nil {
			return err
		}
	}
}

// Pause waits a moment between two looks at a server, or says why waiting is over: the end of ctx or of the
// process.
func Pause(ctx context.Context, proc *Process) error {
	select {
	case <-proc.Done:
		return ErrEnded
	case <-ctx.Done():
		return fmt.Errorf("it does not answer: %w", context.Cause(ctx))
	case <-clock.After(pollPause):
		return nil
	}
}
