package terminal_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/orionjs/orion-go/cmd/pulse/internal/terminal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func table() *terminal.Table {
	t := terminal.NewTable(
		terminal.Column{Title: "TOPIC", Least: 8},
		terminal.Column{Title: "ID"},
		terminal.Column{Title: "N", Right: true},
		terminal.Column{Title: "ERROR", Least: 6, Most: 20},
	)
	t.Row("invoice.created", "0197f2b1", "7", "the warehouse does not answer at all")
	t.Row("注文", "0197f2b2", "1,200")
	return t
}

// An error of 2,000 characters is one readable line where no terminal is.
func TestTable_IsReadableInAPipe(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	text := strings.Repeat("no such customer ", 200)
	tab := terminal.NewTable(terminal.Column{Title: "ID"}, terminal.Column{Title: "ERROR", Most: 60}, terminal.Column{Title: "NAME"})
	tab.Row("7", text, strings.Repeat("x", 300))
	var out strings.Builder
	is.NoErr(tab.Write(&out, 0))
	row := strings.Split(out.String(), "\n")[1]
	is.True(strings.HasPrefix(row, "7   "+text[:159]+"…  xxx"))
	is.True(strings.HasSuffix(row, strings.Repeat("x", 300))) // a column without a bound is whole
}

func TestTable_TakesTheRoomThatItHas(t *testing.T) {
	t.Parallel()
	for columns, want := range map[int]string{
		0: `
TOPIC            ID            N  ERROR
invoice.created  0197f2b1      7  the warehouse does not answer at all
注文             0197f2b2  1,200  -
`,
		80: `
TOPIC            ID            N  ERROR
invoice.created  0197f2b1      7  the warehouse does …
注文             0197f2b2  1,200  -
`,
		40: `
TOPIC       ID            N  ERROR
invoice.c…  0197f2b1      7  the wareho…
注文        0197f2b2  1,200  -
`,
		20: `
topic  invoice.created
id     0197f2b1
n      7
error  the warehouse does not answer at all

topic  注文
id     0197f2b2
n      1,200
error  -
`,
	} {
		is := is.New(t)
		var out strings.Builder
		is.NoErr(table().Write(&out, columns))
		if got := "\n" + out.String(); got != want {
			t.Errorf("%d columns:%s\nwant:%s", columns, got, want)
		}
	}
}

// What is stored must not command the terminal of whoever looks at it.
func TestClean_LeavesNothingThatATerminalObeys(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	is.Equal(terminal.Clean("a\x1b[2Jb\rc\n\td"), "a\\u001b[2Jb\\u000dc  d")
	is.Equal(terminal.Clean("x\u202etxt.exe"), "x\\u202etxt.exe") // turns the direction of writing
	is.Equal(terminal.Clean("plain, ñ, 注文"), "plain, ñ, 注文")
	is.Equal(terminal.CleanLines("a\n\tb\x07\n"), "a\n    b\\u0007\n")
	rapid.Check(t, func(t *rapid.T) {
		for _, r := range terminal.Clean(rapid.String().Draw(t, "text")) {
			if r < ' ' || r >= 0x7f && r < 0xa0 {
				t.Fatalf("%q is left", r)
			}
		}
	})
}

func TestTimes(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		0:                         "0ms",
		850 * time.Millisecond:    "850ms",
		999900 * time.Microsecond: "1s",
		2340 * time.Millisecond:   "2.3s",
		59 * time.Second:          "59s",
		59900 * time.Millisecond:  "1m",
		200 * time.Second:         "3m20s",
		3600 * time.Second:        "1h",
		125 * time.Minute:         "2h5m",
		99 * time.Hour:            "4d3h",
		-time.Minute:              "-1m",
	} {
		is.Equal(terminal.Span(d), want)
	}
	is.Equal(terminal.Relative(now.Add(-4*time.Second), now), "4s ago")
	is.Equal(terminal.Relative(now.Add(3*time.Minute), now), "in 3m")
	is.Equal(terminal.Relative(time.Time{}, now), "")
	is.Equal(terminal.Both(now.Add(-time.Minute), now), "2026-03-01T11:59:00.000Z (1m ago)")
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	is.Equal(terminal.Number(1234567), "1,234,567")
	is.Equal(terminal.Number(-1000), "-1,000")
	is.Equal(terminal.Number(999), "999")
	is.Equal(terminal.Plural(1, "delivery"), "1 delivery")
	is.Equal(terminal.Plural(1200, "delivery"), "1,200 deliveries")
	is.Equal(terminal.Plural(0, "event"), "0 events")
}

func TestConfirm_WithoutATerminalAsksNobody(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	r, w, err := os.Pipe()
	is.NoErr(err)
	defer r.Close()
	defer w.Close()
	yes, err := terminal.Confirm(t.Context(), r, w, "Really?")
	is.True(!yes)
	is.Equal(err, terminal.ErrNoTerminal)
}
