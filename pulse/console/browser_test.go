package console_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/matryer/is"

	"github.com/orionjs/orion-go/pulse/console"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// chromiumNames are those under which Chromium, or Chrome, is installed.
var chromiumNames = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}

// browser is a tab of a real Chromium.
type browser struct {
	t   *testing.T
	is  *is.I
	ctx context.Context
	// base is where the console is.
	base string

	mu sync.Mutex
	// said is what the page wrote to its console: violations of the policy, errors of the script.
	said []string
}

// newBrowser starts a Chromium. Without one the test fails, except under -short.
func newBrowser(t *testing.T, base string) *browser {
	t.Helper()
	if testing.Short() {
		t.Skip("needs Chromium; not run under -short")
	}
	path := ""
	for _, name := range chromiumNames {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		t.Fatalf("no Chromium on PATH (%s): on Debian run `apt-get install chromium`; -short leaves out what needs one", strings.Join(chromiumNames, ", "))
	}
	// A sandbox of its own needs rights that containers rarely give, and the only page is ours.
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.UserDataDir(filepath.Join(t.TempDir(), "profile")), chromedp.Flag("disable-dev-shm-usage", true))
	// Not the test's context, which ends before its clean-ups: the browser is to end by its own command.
	allocator, stop := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(stop)
	ctx, closeTab := chromedp.NewContext(allocator)
	t.Cleanup(closeTab)
	b := &browser{t: t, is: is.New(t), ctx: ctx, base: base + "/pulse/"}
	messages := chromedp.Console(ctx)
	go func() {
		for message, err := range messages {
			if err != nil {
				return
			}
			b.mu.Lock()
			b.said = append(b.said, message.String())
			b.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Errorf("close Chromium: %v", err)
		}
	})
	return b
}

// do runs steps. A step that waits for something ends with the test's patience.
func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, pulsetest.Patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatalf("Chromium: %v\nthe page said: %q", err, b.console())
	}
}

func (b *browser) open(path string) {
	b.t.Helper()
	b.do(chromedp.Navigate(b.base + path))
}

func (b *browser) console() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.said...)
}

// eval runs an expression in the page.
func eval[T any](b *browser, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, pulsetest.Patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("Chromium: %s: %v", expression, err)
	}
	return value
}

// await waits until an expression is true in the page.
func (b *browser) await(expression string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, pulsetest.Patience)
	defer cancel()
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(pulsetest.Patience))); err != nil {
		b.t.Fatalf("Chromium: wait for %s: %v\nthe page said: %q", expression, err, b.console())
	}
}

// view sets the size of the window and the colour scheme.
func (b *browser) view(width, height int64, scheme string) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(width, height))
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	b.is.NoErr(err)
}

// focused describes the element that has the focus.
func (b *browser) focused() string {
	b.t.Helper()
	return eval[string](b, `(e => (e.innerText || e.getAttribute('aria-label') || e.name || e.tagName).trim())(document.activeElement)`)
}

// A page brings itself up to date while somebody looks, in place: what has the focus keeps it, and nobody is told more
// than what changed.
func TestBrowser_UpdatesInPlace(t *testing.T) {
	t.Parallel()
	s := newShop(t)
	s.failing.Store(true)
	b := newBrowser(t, serve(t, s.db, console.Config{Name: "shop"}).URL)
	b.open("")
	b.await(`document.querySelector('h1').innerText === 'The subscription is keeping up'`)
	b.do(chromedp.Focus(chromedp.CSS("th.topic a")))
	eval[bool](b, `window.kept = document.activeElement, true`)
	s.publish(t, 1)
	b.await(`document.querySelector('h1').innerText === '1 of 1 subscription needs a look'`)
	b.is.True(eval[bool](b, `document.activeElement === window.kept && window.kept.isConnected`))
	b.is.Equal(eval[string](b, `document.querySelector('h1 [role=status]').innerText`), "1 of 1 subscription needs a look")

	// It can be stopped.
	b.do(chromedp.Click(chromedp.CSS("#freshness + button")))
	b.is.Equal(eval[string](b, `document.querySelector('#freshness + button').innerText`), "Update again")
	b.is.Equal(len(b.console()), 0)
}

// The keyboard alone reaches everything in the order of the page, sees where it is, and gets out of the dialog.
func TestBrowser_KeyboardAndDialog(t *testing.T) {
	t.Parallel()
	s := eventfulDay(t, pulsetest.Database(t))
	b := newBrowser(t, serve(t, s.db, console.Config{ReadWrite: true}).URL)
	b.open("delivery?id=" + s.failed)
	b.do(chromedp.KeyEvent(kb.Tab))
	b.is.Equal(b.focused(), "Skip to content")
	for _, want := range []string{"Pulse", "Overview", "Deliveries", "Deliveries", "billing · invoice.created", "Retry…"} {
		b.do(chromedp.KeyEvent(kb.Tab))
		b.is.Equal(b.focused(), want)
		b.is.True(eval[string](b, `getComputedStyle(document.activeElement).outlineStyle`) != "none") // the focus can be seen
	}
	b.do(chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible(chromedp.CSS("dialog[open]")))
	b.is.Equal(eval[string](b, `document.querySelector('dialog').getAttribute('aria-labelledby')`), "confirm-title")
	b.is.True(eval[bool](b, `document.querySelector('dialog').contains(document.activeElement)`))
	b.is.Equal(b.focused(), "Leave it") // what changes nothing comes first
	b.do(chromedp.KeyEvent(kb.Escape), chromedp.WaitNotPresent(chromedp.CSS("dialog")))
	b.is.Equal(b.focused(), "Retry…")
	b.do(chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible(chromedp.CSS("dialog[open]")), chromedp.KeyEvent(kb.Tab))
	b.is.Equal(b.focused(), "Retry")
	b.do(chromedp.KeyEvent(kb.Enter), chromedp.WaitVisible(chromedp.CSS("#done")))
	b.is.True(strings.HasPrefix(eval[string](b, `document.querySelector('#done').innerText`), "One more attempt is granted"))
	b.is.Equal(len(b.console()), 0)
}

// Without scripts every page works, and so does a change.
func TestBrowser_WithoutJavaScript(t *testing.T) {
	t.Parallel()
	s := eventfulDay(t, pulsetest.Database(t))
	b := newBrowser(t, serve(t, s.db, console.Config{ReadWrite: true}).URL)
	_, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.is.NoErr(err)
	b.open("subscription?group=billing&topic=payment.received")
	b.do(chromedp.Click(chromedp.CSS("a[data-confirm]")), chromedp.WaitVisible(chromedp.CSS("#confirm")))
	b.do(chromedp.SendKeys(chromedp.CSS("#reason"), "audit"), chromedp.Submit(chromedp.CSS("#confirm")))
	b.do(chromedp.WaitVisible(chromedp.CSS("#done")))
	ctx, cancel := context.WithTimeout(b.ctx, pulsetest.Patience)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Text(chromedp.CSS("main")))
	b.is.NoErr(err)
	b.is.True(strings.Contains(text, "Paused by console"))
	b.is.True(strings.Contains(text, "audit"))
}

// Every page fits every width without a bar below, in both colour schemes, with contrast that can be read (4.5 to 1), one main
// landmark, one first heading, names on all that can be used, and nothing that the policy forbids.
func TestBrowser_EveryPageFitsReadsAndKeepsThePolicy(t *testing.T) {
	t.Parallel()
	s := eventfulDay(t, pulsetest.Database(t))
	b := newBrowser(t, serve(t, s.db, console.Config{Name: "shop · production", ReadWrite: true}).URL)
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{320, 390, 768, 1240} {
			b.view(width, 900, scheme)
			for _, path := range []string{
				"", "?q=none", "deliveries", "deliveries?state=error&group=billing&code=handler_error", "delivery?id=" + s.failed, "delivery?id=" + s.batch,
				"delivery?id=" + s.waiting, "subscription?group=billing&topic=invoice.created", "subscription?group=search&topic=product.changed",
				"confirm?action=cancel&id=" + s.waiting, "nothing",
			} {
				b.open(path)
				for _, fault := range eval[[]string](b, faults) {
					t.Errorf("%s at %d, %s: %s", path, width, scheme, fault)
				}
			}
		}
	}
	crowd := crowdedDay(t, pulsetest.Database(t))
	c := newBrowser(t, serve(t, crowd.db, console.Config{Name: "shop · production", ReadWrite: true}).URL)
	of := "group=" + longGroup + "-00&topic=" + longTopic
	for _, width := range []int64{320, 375, 768, 1240} {
		c.view(width, 812, "dark")
		for _, path := range []string{"", "deliveries?state=error&" + of, "deliveries?since=abc&state=lost&from=yesterday&" + of, "delivery?id=" + crowd.failed, "subscription?" + of, "confirm?action=pause&" + of} {
			c.open(path)
			for _, fault := range eval[[]string](c, faults) {
				t.Errorf("%s at %d, crowded: %s", path, width, fault)
			}
			// A long text has a bar of its own, and does not make the page endless.
			if height := eval[int](c, `Math.max(0, ...[...document.querySelectorAll('.failure, .headers, pre')].map((e) => e.offsetHeight))`); height > 1100 {
				t.Errorf("%s at %d, crowded: a part is %d high", path, width, height)
			}
		}
	}
	for _, line := range b.console() {
		if !strings.Contains(line, "404") { // the last page is meant not to be there
			t.Errorf("the page said: %s", line)
		}
	}
}

// faults lists what is wrong with a page.
const faults = `(() => {
	const found = [];
	const root = document.documentElement;
	if (root.scrollWidth > root.clientWidth) found.push('is ' + root.scrollWidth + ' wide');
	for (const [what, n] of [['main', 1], ['h1, main strong', 1]]) {
		if (document.querySelectorAll(what).length < n) found.push('lacks ' + what);
	}
	if (document.querySelectorAll('h1').length > 1) found.push('has several h1');
	if (!document.title || !root.lang) found.push('lacks a title or a language');
	const visible = (e) => e.checkVisibility() && e.getClientRects().length > 0;
	for (const e of document.querySelectorAll('a, button, input:not([type=hidden]), select')) {
		const name = e.innerText || e.textContent.trim() || e.getAttribute('aria-label') || (e.labels && e.labels[0] && e.labels[0].textContent);
		if (!name) found.push('has a nameless ' + e.outerHTML.slice(0, 80));
	}
	for (const t of document.querySelectorAll('table')) {
		if (!t.caption) found.push('has a table without a caption');
		for (const row of t.tBodies) for (const r of row.rows) if (!r.querySelector('th[scope]')) found.push('has a row without a header');
	}
	const ids = [...document.querySelectorAll('[id]')].map((e) => e.id);
	for (const id of ids.filter((id, i) => ids.indexOf(id) !== i)) found.push('has the id twice: ' + id);
	for (const use of document.querySelectorAll('use')) if (!document.querySelector(use.getAttribute('href'))) found.push('lacks the drawing ' + use.getAttribute('href'));

	const canvas = new OffscreenCanvas(1, 1).getContext('2d', { willReadFrequently: true });
	const rgba = (color) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
	const luminance = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
	const background = (e) => {
		for (; e; e = e.parentElement) { const c = rgba(getComputedStyle(e).backgroundColor); if (c[3] > 200) return c; }
		return [255, 255, 255];
	};
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	const seen = new Set();
	for (let n = walker.nextNode(); n; n = walker.nextNode()) {
		const e = n.parentElement;
		if (!n.nodeValue.trim() || seen.has(e) || !visible(e) || e.closest('option, script, style')) continue;
		seen.add(e);
		const [a, b] = [luminance(rgba(getComputedStyle(e).color)), luminance(background(e))].sort((x, y) => y - x);
		const ratio = (a + 0.05) / (b + 0.05);
		if (ratio < 4.5) found.push('has contrast ' + ratio.toFixed(2) + ': ' + n.nodeValue.trim().slice(0, 40));
	}
	return [...new Set(found)];
})()`
