// Package completion completes command lines of a program whose grammar kong knows.
//
// A shell calls the program itself for every completion, by a few lines that Script returns: what is completed is
// always what the installed program understands.
package completion

import (
	"fmt"
	"strings"

	"github.com/alecthomas/kong"
)

// Candidate is one way to go on.
type Candidate struct{ Value, Help string }

// Files is what Complete returns where the shell is to complete names of files.
var Files = []Candidate{{Value: ":files"}}

// Complete returns the ways to complete the last of the words, which may be empty; the program's name is not among
// the words.
func Complete(app *kong.Node, words []string) []Candidate {
	if len(words) == 0 {
		words = []string{""}
	}
	s := scan(app, words[:len(words)-1])
	current := words[len(words)-1]
	switch {
	case s.other:
		return Files // behind --, or what another program will get
	case s.flag != nil:
		return values(s.flag.Value, current)
	case strings.HasPrefix(current, "--") && strings.Contains(current, "="):
		name, value, _ := strings.Cut(current, "=")
		flag := find(s.node, name)
		if flag == nil {
			return nil
		}
		found := values(flag.Value, value)
		for i, c := range found {
			if c != Files[0] {
				found[i].Value = name + "=" + c.Value
			}
		}
		return found
	case strings.HasPrefix(current, "-"):
		return flags(s, current)
	}
	var out []Candidate
	for _, child := range s.node.Children {
		if !child.Hidden && s.positionals == 0 && strings.HasPrefix(child.Name, current) {
			out = append(out, Candidate{child.Name, child.Help})
		}
	}
	if s.positionals < len(s.node.Positional) {
		out = append(out, values(s.node.Positional[s.positionals], current)...)
	} else if n := len(s.node.Positional); n > 0 && s.node.Positional[n-1].IsSlice() {
		out = append(out, values(s.node.Positional[n-1], current)...)
	}
	return out
}

// state is where words lead to.
type state struct {
	node        *kong.Node
	positionals int             // how many positional arguments of the node were given
	given       map[string]bool // flags that were given
	flag        *kong.Flag      // the last word is this flag, and its value is to come
	other       bool            // the words belong to somebody else from here on
}

func scan(app *kong.Node, words []string) state {
	s := state{node: app, given: map[string]bool{}}
	for _, word := range words {
		switch {
		case s.flag != nil:
			s.flag = nil
		case word == "--":
			s.other = true
			return s
		case strings.HasPrefix(word, "-") && word != "-":
			name, _, whole := strings.Cut(word, "=")
			if flag := find(s.node, name); flag != nil {
				s.given[flag.Name] = true
				if !whole && !flag.IsBool() && !flag.IsCounter() {
					s.flag = flag
				}
			}
		default:
			if child := childNamed(s.node, word); child != nil && s.positionals == 0 {
				s.node = child
				continue
			}
			s.positionals++
		}
	}
	return s
}

func childNamed(node *kong.Node, name string) *kong.Node {
	for _, child := range node.Children {
		if child.Name == name {
			return child
		}
	}
	return nil
}

// find returns the flag that a word of the command line names.
func find(node *kong.Node, word string) *kong.Flag {
	for _, level := range levels(node) {
		for _, flag := range level {
			name, long := strings.CutPrefix(word, "--")
			if long && (flag.Name == name || "no-"+flag.Name == name) || !long && flag.Short != 0 && word == "-"+string(flag.Short) {
				return flag
			}
		}
	}
	return nil
}

// levels are the flags of a node, of those above it, and of the command that it stands for when none is named.
func levels(node *kong.Node) [][]*kong.Flag {
	all := node.AllFlags(true)
	if node.DefaultCmd != nil {
		all = append(all, node.DefaultCmd.Flags)
	}
	return all
}

func flags(s state, current string) []Candidate {
	var out []Candidate
	for _, level := range levels(s.node) {
		for _, flag := range level {
			if s.given[flag.Name] && !flag.IsCumulative() {
				continue
			}
			if name := "--" + flag.Name; strings.HasPrefix(name, current) {
				out = append(out, Candidate{name, flag.Help})
			}
			if name := "--no-" + flag.Name; flag.Tag.Negatable != "" && strings.HasPrefix(name, current) {
				out = append(out, Candidate{name, ""})
			}
		}
	}
	return out
}

// values are those that an argument can have, as far as the grammar tells: it lists them, or marks names of files by
// the tag complete:"files".
func values(v *kong.Value, current string) []Candidate {
	if v.Tag.Get("complete") == "files" || strings.HasPrefix(v.Tag.Type, "existing") || v.Tag.Type == "path" {
		return Files
	}
	var out []Candidate
	if v.Enum == "" {
		return nil
	}
	for _, value := range v.EnumSlice() {
		if value != "" && strings.HasPrefix(value, current) {
			out = append(out, Candidate{Value: value})
		}
	}
	return out
}

// Shells are those that Script knows.
const Shells = "bash,zsh,fish"

// Script returns what a shell has to read to complete the program's command lines. The program answers
// `PROGRAM __complete WORD...` with Format of Complete.
func Script(shell, program string) (string, error) {
	script, known := map[string]string{"bash": bash, "zsh": zsh, "fish": fish}[shell]
	if !known {
		return "", fmt.Errorf("no completion for %s: the shells are %s", shell, Shells)
	}
	return strings.ReplaceAll(script, "PROGRAM", program), nil
}

// Format is what Script expects: a line for each candidate, with a tab before its help.
func Format(candidates []Candidate) string {
	var b strings.Builder
	for _, c := range candidates {
		b.WriteString(c.Value)
		if help, _, _ := strings.Cut(c.Help, "\n"); help != "" {
			b.WriteString("\t" + strings.ReplaceAll(help, "\t", " "))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// bash splits words at = and :, so that --flag=value are three of them: the line is taken up to the cursor and split
// at spaces, and of a candidate only what follows the last = is offered then.
const bash = `# Completion of PROGRAM for bash: source <(PROGRAM completion bash)
_PROGRAM_complete() {
    local current value line
    local -a words
    line=${COMP_LINE:0:COMP_POINT}
    read -ra words <<<"$line"
    [[ $line == *' ' ]] && words+=('')
    current=${words[${#words[@]}-1]}
    COMPREPLY=()
    while IFS=$'\t' read -r value _; do
        if [[ $value == :files ]]; then
            compopt -o filenames
            COMPREPLY=($(compgen -f -- "${current#*=}"))
            return
        fi
        [[ $current == --*=* ]] && value=${value#*=}
        COMPREPLY+=("$value")
    done < <("${words[0]}" __complete -- "${words[@]:1}" 2>/dev/null)
}
complete -F _PROGRAM_complete PROGRAM
`

const zsh = `#compdef PROGRAM
# Completion of PROGRAM for zsh: source <(PROGRAM completion zsh), after compinit
_PROGRAM() {
    local line value help
    local -a found
    while IFS= read -r line; do
        value=${line%%$'\t'*}
        if [[ $value == :files ]]; then
            compset -P '*='
            _files
            return
        fi
        help=${line#*$'\t'}
        [[ $help == $line ]] && help=
        found+=("${value//:/\\:}${help:+:$help}")
    done < <(${words[1]} __complete -- ${(@)words[2,CURRENT]} 2>/dev/null)
    _describe PROGRAM found
}
if (( $+functions[compdef] )); then compdef _PROGRAM PROGRAM; fi
`

const fish = `# Completion of PROGRAM for fish: PROGRAM completion fish | source
function __PROGRAM_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in ($words[1] __complete -- $words[2..-1] 2>/dev/null)
        if test "$line" = :files
            __fish_complete_path (string replace -r '^--[^=]*=' '' -- (commandline -ct))
        else
            echo $line
        end
    end
end
complete -c PROGRAM -f -a '(__PROGRAM_complete)'
`
