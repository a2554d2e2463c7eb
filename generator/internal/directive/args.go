package directive

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"

	"github.com/orionjs/orion-go/generator/internal/diag"
)

// parseArgs reads the arguments of a directive into l and reports what is wrong
// with them.
func (s *scanner) parseArgs(l *Listener, d ast.Directive) {
	args, err := d.ParseArgs()
	if err != nil {
		s.report(d.ArgsPos, fmt.Sprintf("//%s:%s: a quote is not closed", d.Tool, d.Name), `quote a whole argument, like "topic=order created", or nothing`)
		return
	}
	given := make(map[Key]Setting)
	bad := make(map[Key]bool)
	for i, arg := range args {
		if strings.HasPrefix(arg.Arg, "//") || strings.HasPrefix(arg.Arg, "/*") || strings.HasPrefix(arg.Arg, "#") {
			s.report(arg.Pos, "a directive has no room for a comment", "move the text to the doc comment above it")
			break
		}
		name, value, hasValue := strings.Cut(arg.Arg, "=")
		if !hasValue || name == "" || value == "" {
			next := ""
			if i+1 < len(args) {
				next = args[i+1].Arg
			}
			if key, ok := s.malformed(arg, name, next); ok {
				bad[key] = true
			}
			if hasValue && name != "" && next != "" && !strings.Contains(next, "=") || strings.HasPrefix(next, "=") {
				break // what follows belongs to this argument
			}
			continue
		}
		if strings.ContainsAny(value[:1], "\"'`") {
			s.report(arg.Pos, fmt.Sprintf("%s: the value is quoted", name), fmt.Sprintf("write %s=%s", name, strings.Trim(value, "\"'`")))
			bad[Key(name)] = true
			if strings.Count(value, value[:1]) < 2 {
				break // the rest of the quoted text follows
			}
			continue
		}
		key, read, ok := s.findKey(arg.Pos, name, l.Kind)
		if !ok {
			continue
		}
		if first, twice := given[key]; twice {
			s.report(arg.Pos, fmt.Sprintf("%s is given twice, first as %v", key, first.Value), "remove one")
			continue
		}
		v, p := read(value)
		if p != nil {
			bad[key] = true
			s.report(arg.Pos+token.Pos(len(name)+1), fmt.Sprintf("%s: %s", key, p.message), p.fix)
			continue
		}
		given[key] = Setting{key, v, arg.Pos}
	}
	s.check(l, given, bad)
	for _, k := range keys {
		setting, ok := given[k.key]
		switch {
		case !ok:
		case k.key == Topic:
			l.Topic, l.TopicPos = setting.Value.(string), setting.Pos
		case k.key == BatchSize:
			l.BatchSize = setting.Value.(int)
		default:
			l.Settings = append(l.Settings, setting)
		}
	}
}

// malformed reports an argument that is not key=value, and returns the key that
// it was meant to set if that is clear.
func (s *scanner) malformed(arg ast.DirectiveArg, name, next string) (Key, bool) {
	for _, k := range keys {
		key := string(k.key)
		switch {
		case !strings.EqualFold(name, key) && !strings.HasPrefix(strings.ToLower(arg.Arg), strings.ToLower(key)+":"):
		case strings.Contains(arg.Arg, ":"):
			value := arg.Arg[len(key)+1:]
			if value == "" {
				value = next
			}
			s.report(arg.Pos, fmt.Sprintf("%s is not key=value", arg.Arg), fmt.Sprintf("write %s=%s", key, value))
			return k.key, true
		case next != "" && (strings.HasPrefix(next, "=") || !strings.Contains(next, "=")):
			s.report(arg.Pos, fmt.Sprintf("%s has no value", key), fmt.Sprintf("write %s=%s without blanks", key, strings.TrimPrefix(next, "=")))
			return k.key, true
		default:
			s.report(arg.Pos, fmt.Sprintf("%s has no value", key), fmt.Sprintf("write %s=VALUE", key))
			return k.key, true
		}
	}
	switch {
	case strings.HasPrefix(arg.Arg, "="):
		s.report(arg.Pos, fmt.Sprintf("%q has no key", arg.Arg), "write key=value without blanks")
	case strings.HasSuffix(arg.Arg, "="):
		s.report(arg.Pos, fmt.Sprintf("unknown key %s, without a value", name), "the keys are "+strings.Join(keyNames(), ", "))
	default:
		s.report(arg.Pos, fmt.Sprintf("%q is not key=value", arg.Arg), fmt.Sprintf("write topic=%s if it is the topic", arg.Arg))
	}
	return "", false
}

func (s *scanner) findKey(pos token.Pos, name string, kind Kind) (Key, func(string) (any, *problem), bool) {
	for _, k := range keys {
		if string(k.key) != name {
			continue
		}
		if k.key == BatchSize && kind == Event {
			s.report(pos, "batchSize is for batches, and this is //echoes:event", "use //echoes:batch, or remove it")
			return "", nil, false
		}
		return k.key, k.read, true
	}
	if near, ok := diag.Nearest(name, keyNames()); ok {
		s.report(pos, fmt.Sprintf("unknown key %s", name), fmt.Sprintf("did you mean %s?", near))
	} else {
		s.report(pos, fmt.Sprintf("unknown key %s", name), "the keys are "+strings.Join(keyNames(), ", "))
	}
	return "", nil, false
}
