//go:build unix

package admin_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/matryer/is"
	"pgregory.net/rapid"

	"github.com/orionjs/orion-go/pulse"
	"github.com/orionjs/orion-go/pulse/admin"
	"github.com/orionjs/orion-go/pulse/pulsetest"
)

// words are what a shell makes of the arguments of a command line that begins with `pulse resume`.
func words(t rapid.TB, line string) []string {
	t.Helper()
	line, found := strings.CutPrefix(line, "pulse resume")
	if !found {
		t.Fatalf("%q is no pulse resume", line)
	}
	out, err := exec.Command("sh", "-c", `words() { for w; do printf '%s\000' "$w"; done; }; words`+line).CombinedOutput()
	if err != nil {
		t.Fatalf("sh: %v: %s", err, out)
	}
	got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if len(got) > 0 && got[0] == "--" {
		got = got[1:]
	}
	return got
}

// A remedy can be given to a shell as it is, whatever the group and the topic are called.
func TestCommand_IsWhatAShellReads(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	is.Equal(admin.Command("pulse resume", "billing", "order.created"), "pulse resume billing order.created")
	is.Equal(admin.Command("pulse resume", "the shop's", "$HOME"), `pulse resume 'the shop'\''s' '$HOME'`)
	is.Equal(admin.Command("pulse resume", "-x", ""), `pulse resume -- -x ''`)
	is.Equal(admin.Command("pulse resume", "a\x1b[2J", "注文"), `pulse resume "$(printf 'a\033\1332J')" '注文'`)
	name := rapid.OneOf(
		rapid.StringMatching(`[ -~]{1,8}`),
		rapid.StringN(1, 8, -1),
		rapid.SampledFrom([]string{"", "--by", "-n", "~", "*", "a b", "`id`", "$(id)", "${HOME}", `\`, `'`, `"`, "!!", "#", "%s", "a\nb", "-\x01", "\x01%d\\n", "a\u00a0b", "\xff"}),
	)
	rapid.Check(t, func(t *rapid.T) {
		group, topic := name.Draw(t, "group"), name.Draw(t, "topic")
		for _, s := range []string{group, topic} {
			if strings.Contains(s, "\x00") || strings.HasSuffix(s, "\n") {
				t.Skip("no argument of a program, or one that no form of one line keeps")
			}
		}
		line := admin.Command("pulse resume", group, topic)
		for _, r := range line {
			if !unicode.IsPrint(r) {
				t.Fatalf("%q has %q", line, r)
			}
		}
		if got := words(t, line); !slices.Equal(got, []string{group, topic}) {
			t.Fatalf("%s\nis read as %q, want %q", line, got, []string{group, topic})
		}
	})
}

// The commands in the doctor's remedies name the group and the topic so.
func TestDoctor_RemediesAreForAShell(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	db := pulsetest.Database(t)
	cfg := config(db)
	cfg.ConsumerGroup = "the shop's $bills"
	const topic = "order created; rm -r ~"
	c := start(t, cfg)
	_, err := pulse.NewTopic[order](topic).Subscribe(t.Context(), c, handleNothing)
	is.NoErr(err)
	a := open(t, db)
	_, err = a.Pause(t.Context(), cfg.ConsumerGroup, topic, operator)
	is.NoErr(err)
	f := examine(t, a, admin.CheckPause, false)
	line, _, found := strings.Cut(strings.TrimPrefix(f.Remedy, "Run "), " when ")
	is.True(found)
	is.Equal(words(t, line), []string{cfg.ConsumerGroup, topic})
}
