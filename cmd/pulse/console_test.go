//go:build unix

package main

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// The command prints where the page is, serves it to this machine under its own names only, and ends with Ctrl-C.
func TestConsole_ServesThisMachine(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	d := newDesk(t)
	cmd := exec.CommandContext(t.Context(), filepath.Join(d.bin, "pulse"), "console", "--listen", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), d.environ()...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	is.NoErr(err)
	is.NoErr(cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	is.NoErr(err)
	address := strings.TrimSpace(line)
	is.True(strings.HasPrefix(address, "http://127.0.0.1:"))

	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	ask := func(host string) (int, string) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		is.NoErr(err)
		request.Host = host
		answer, err := (&http.Client{Transport: transport}).Do(request)
		is.NoErr(err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		is.NoErr(err)
		return answer.StatusCode, string(text)
	}
	for _, host := range []string{"127.0.0.1", "localhost:9000", "[::1]:80"} {
		code, text := ask(host)
		is.Equal(code, http.StatusOK)
		is.True(strings.Contains(text, "Nothing is subscribed here yet"))
		is.True(strings.Contains(text, d.db.Name())) // whose console it is
		is.True(strings.Contains(text, "Read-only"))
	}
	// A page of another site whose name leads to this machine is refused.
	code, _ := ask("pulse.example.com")
	is.Equal(code, http.StatusMisdirectedRequest)

	transport.CloseIdleConnections()
	is.NoErr(cmd.Process.Signal(os.Interrupt))
	is.NoErr(cmd.Wait())
}
