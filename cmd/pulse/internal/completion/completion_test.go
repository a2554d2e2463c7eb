package completion_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/matryer/is"

	"github.com/orionjs/orion-go/cmd/pulse/internal/completion"
)

type grammar struct {
	Verbose bool `help:"Say more."`
	Publish struct {
		Topic  string   `arg:"" help:"Topic."`
		Files  []string `arg:"" optional:"" complete:"files"`
		ID     string   `name:"id" help:"The ID."`
		Header []string `help:"A header."`
		Format string   `enum:"json,yaml" default:"json" short:"f" help:"The form."`
		Wait   bool     `negatable:""`
	} `cmd:"" help:"Publish events."`
	Show struct {
		What string `arg:"" enum:"events,topics"`
	} `cmd:"" help:"Show things."`
	Group struct {
		One struct{} `cmd:""`
		Two struct{} `cmd:""`
	} `cmd:""`
	List struct {
		All struct {
			Wide bool
		} `cmd:"" default:"withargs"`
		One struct{} `cmd:""`
	} `cmd:""`
	Dev struct {
		Command []string `arg:"" optional:"" passthrough:""`
	} `cmd:""`
	Secret struct{} `cmd:"" hidden:""`
}

func complete(t *testing.T, line string) []string {
	t.Helper()
	parser, err := kong.New(&grammar{}, kong.Name("tool"))
	is.New(t).NoErr(err)
	var out []string
	for _, c := range completion.Complete(parser.Model.Node, strings.Split(line, " ")) {
		out = append(out, c.Value)
	}
	return out
}

func TestComplete(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		"":                                {"publish", "show", "group", "list", "dev"},
		"p":                               {"publish"},
		"group ":                          {"one", "two"},
		"group one ":                      nil,
		"show ":                           {"events", "topics"},
		"list ":                           {"all", "one"},
		"list --w":                        {"--wide"},
		"show t":                          {"topics"},
		"--ver":                           {"--verbose"},
		"publish --":                      {"--help", "--verbose", "--id", "--header", "--format", "--wait", "--no-wait"},
		"publish --id x --header a=b --i": nil, // once is enough
		"publish --header a=b --he":       {"--help", "--header"},
		"publish --format ":               {"json", "yaml"},
		"publish -f y":                    {"yaml"},
		"publish --format=j":              {"--format=json"},
		"publish --id ":                   nil, // its value: nobody knows
		"publish orders ":                 {":files"},
		"publish --id x orders a ":        {":files"}, // x is no topic
		"publish ":                        nil,
		"publish --wait orders ":          {":files"},
		"dev -- make ":                    {":files"},
		"publish --unknown=":              nil,
		"secret ":                         nil,
	} {
		if got := complete(t, line); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

func TestFormat_HasOneLineForEach(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	is.Equal(completion.Format([]completion.Candidate{{"a", "does\tthis\nand that"}, {"b", ""}}), "a\tdoes this\nb\n")
}

// Bash itself completes with the script, with a program that answers with what it was asked.
func TestScript_WorksInBash(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	script, err := completion.Script("bash", "tool")
	is.NoErr(err)
	bash := func(line string) []string {
		cmd := exec.Command("bash", "--norc", "-c", script+`
tool() {
    shift 2
    case "${!#}" in
    --format=*) printf -- '--format=json\n--format=yaml\n' ;;
    f*) echo :files ;;
    *) printf '%s\thelp\n' "$#" "last:${!#}" ;;
    esac
}
COMP_LINE=$1 COMP_POINT=${#1}
_tool_complete 2>/dev/null
printf '%s\n' "${COMPREPLY[@]}"`, "bash", line)
		cmd.Dir = t.TempDir()
		is.NoErr(exec.Command("touch", filepath.Join(cmd.Dir, "file.json")).Run())
		out, err := cmd.Output()
		is.NoErr(err)
		return strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	}
	is.Equal(bash("tool publish "), []string{"2", "last:"})
	is.Equal(bash("tool publish --i"), []string{"2", "last:--i"})
	is.Equal(bash("tool publish --format=j"), []string{"json", "yaml"})
	is.Equal(bash("tool publish f"), []string{"file.json"})
	_, err = completion.Script("csh", "tool")
	is.True(err != nil)
}
