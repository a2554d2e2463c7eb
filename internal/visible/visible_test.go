package visible_test

import (
	"strings"
	"testing"
	"unicode"

	"github.com/matryer/is"
	"pgregory.net/rapid"

	"github.com/orionjs/orion-go/internal/visible"
)

func TestName_ShowsWhatCannotBeSeen(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	for text, want := range map[string]string{
		"order.placed, ñ, 注文, שלום":  "order.placed, ñ, 注文, שלום",
		"x\u202etxt.exe":             `x\u202etxt.exe`, // turns the direction of writing
		"a\x1b[2Jb\rc\nd\te":         `a\u001b[2Jb\u000dc\u000ad\u0009e`,
		"order\u200bplaced\ufeff":    `order\u200bplaced\ufeff`,
		"order\u00a0placed":          `order\u00a0placed`,
		"\U000e0041 \ue000 \x00\xff": `\U000e0041 \ue000 \u0000\ufffd`,
	} {
		is.Equal(visible.Name(text), want)
	}
	is.Equal(visible.Text("a\n\tb\r\u2028c"), "a\n\tb\\u000d\\u2028c")
}

// Whatever is stored, what is shown has nothing that is obeyed rather than shown, and loses nothing that can be seen.
func TestText_IsPrintable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		for _, shown := range []string{visible.Name(text), strings.NewReplacer("\n", "", "\t", "").Replace(visible.Text(text))} {
			if at := strings.IndexFunc(shown, func(r rune) bool { return !unicode.IsPrint(r) }); at >= 0 {
				t.Fatalf("%q has %q", shown, shown[at:])
			}
		}
		if strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }) < 0 && visible.Name(text) != text {
			t.Fatalf("%q became %q", text, visible.Name(text))
		}
	})
}
