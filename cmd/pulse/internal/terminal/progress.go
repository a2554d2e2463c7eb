package terminal

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// redraw is the least time between two drawings of a Progress.
const redraw = 100 * time.Millisecond

// Progress is a line in a terminal that tells how far a work is. Elsewhere it is nothing. Its methods may be called by
// any goroutine.
type Progress struct {
	out     *os.File // nil: nothing is drawn
	columns int
	began   time.Time

	mu    sync.Mutex
	drawn time.Time
	shown bool
}

// NewProgress returns one that draws to the file, if that is a terminal.
func NewProgress(out *os.File) *Progress {
	p := &Progress{began: time.Now()}
	if columns, ok := Width(out); ok {
		p.out, p.columns = out, columns
		if columns == 0 {
			p.columns = 80
		}
	}
	return p
}

// Set tells that n things are done, and which share of the work that is; a negative share is unknown.
func (p *Progress) Set(n int, noun string, share float64) {
	if p.out == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Sub(p.drawn) < redraw {
		return
	}
	p.drawn, p.shown = now, true
	_, _ = fmt.Fprintf(p.out, "\r%s\x1b[K", cut(progressLine(n, noun, share, now.Sub(p.began)), p.columns-1))
}

// progressLine is what Set draws.
func progressLine(n int, noun string, share float64, took time.Duration) string {
	line := Plural(n, noun)
	if seconds := took.Seconds(); seconds >= 1 {
		line += fmt.Sprintf(", %s a second", Number(int(float64(n)/seconds)))
	}
	if share < 0 {
		return line
	}
	const bar = 24
	done := int(min(share, 1) * bar)
	return fmt.Sprintf("[%s%s] %3.0f %%  %s", strings.Repeat("#", done), strings.Repeat("·", bar-done), 100*min(share, 1), line)
}

// Clear removes the line, so that something else can be printed.
func (p *Progress) Clear() {
	if p.out == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown {
		p.shown = false
		_, _ = fmt.Fprint(p.out, "\r\x1b[K")
	}
}
