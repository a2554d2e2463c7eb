package directive

import (
	"fmt"
	"go/ast"
	"go/token"
	"strings"
)

// parseArgs reads the arguments of a directive into l and reports what is wrong
// with them.
func (s *scanner) parseArgs(l *Listener, d ast.Directive) {
	args, err := d.ParseArgs()
	if err != nil {
		s.report(d.ArgsPos, fmt.Sprintf("//%s:%s: a quote is not closed", d.Tool, d.Name), `write topic=order.created, or "topic=order created" when it has blanks`)
		return
	}
	given := make(map[Key]Setting)
	bad := make(map[Key]bool) // keys whose value is not known because of a problem
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if strings.HasPrefix(arg.Arg, "//") || strings.HasPrefix(arg.Arg, "/*") || strings.HasPrefix(arg.Arg, "#") {
			s.report(arg.Pos, "a directive has no room for a comment", "move the text to the doc comment above it")
			break
		}
		name, value, hasValue := strings.Cut(arg.Arg, "=")
		if !hasValue || name == "" || value == "" {
			key, used := s.malformed(args, i, name)
			bad[key] = true
			i += used - 1
			continue
		}
		if quote := openingQuote(value); quote != "" {
			bad[Key(name)] = true
			// A quote in the middle does not hold blanks together: take what was meant.
			for !closes(value, quote) && i+1 < len(args) {
				i++
				value += " " + args[i].Arg
			}
			plain := strings.NewReplacer(quote, "", closing(quote), "").Replace(value)
			fix := fmt.Sprintf("write %s=%s", name, plain)
			if strings.Contains(plain, " ") {
				fix = fmt.Sprintf("a quote encloses key and value: write %q", name+"="+plain)
			}
			s.report(arg.Pos, fmt.Sprintf("%s: the value is quoted", name), fix)
			continue
		}
		if joined := separator.FindAllStringSubmatch(value, -1); joined != nil {
			bad[Key(name)] = true
			for _, m := range joined {
				bad[Key(strings.TrimSuffix(m[1], "="))] = true
			}
			s.report(arg.Pos, fmt.Sprintf("%s holds further settings: %s", name, value),
				"only blanks separate settings: write "+separator.ReplaceAllString(arg.Arg, " $1"))
			continue
		}
		key, read, ok := s.findKey(arg.Pos, name, l.Kind)
		if !ok {
			bad[key] = true
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
	if bad[Topic] {
		l.Topic = ""
	}
}

// malformed reports argument i, which is not key=value. It returns the key that
// it was meant to set, if that is clear, and how many of the arguments it was
// spread over by blanks.
func (s *scanner) malformed(args []ast.DirectiveArg, i int, name string) (Key, int) {
	arg := args[i]
	name, _, _ = strings.Cut(name, ":")
	for _, k := range keys {
		if !strings.EqualFold(name, string(k.key)) {
			continue
		}
		value, used := spread(args[i:], name)
		if value == "" {
			value = "VALUE"
		}
		s.report(arg.Pos, fmt.Sprintf("%s is not followed by = and a value", name), fmt.Sprintf("write %s=%s", k.key, value))
		return k.key, used
	}
	switch {
	case i > 0 && strings.HasPrefix(args[i-1].Arg, string(Topic)+"=") && !strings.Contains(arg.Arg, "="):
		s.report(arg.Pos, fmt.Sprintf("%q is not key=value", arg.Arg), fmt.Sprintf("write %q if it belongs to the topic", args[i-1].Arg+" "+arg.Arg))
		return Topic, 1
	case strings.HasPrefix(arg.Arg, "="):
		s.report(arg.Pos, fmt.Sprintf("%q has no key", arg.Arg), "write key=value without blanks")
	case strings.HasSuffix(arg.Arg, "="):
		s.report(arg.Pos, fmt.Sprintf("unknown key %s, without a value", name), "the keys are "+strings.Join(keyNames(), ", "))
	default:
		s.report(arg.Pos, fmt.Sprintf("%q is not key=value", arg.Arg), fmt.Sprintf("write topic=%s if it is the topic", arg.Arg))
	}
	return "", 1
}

// spread finds the value in "key = value", "key= value", "key =value", "key:
// value" and "key:value", and how many arguments that takes.
func spread(args []ast.DirectiveArg, name string) (value string, used int) {
	sign := false
	for i, arg := range args {
		text := arg.Arg
		if i == 0 {
			text = text[len(name):]
		} else if strings.Contains(strings.TrimLeft(text, "="), "=") {
			return "", i // the next setting
		}
		if rest := strings.TrimLeft(text, "=:"); rest != text {
			sign, text = true, rest
		}
		switch {
		case text != "" && (sign || i == 1):
			return text, i + 1
		case i >= 2:
			return "", 1
		}
	}
	return "", min(len(args), 1)
}

// findKey returns a key and how its value is read. After a problem ok is false,
// and the key is the one that was probably meant.
func (s *scanner) findKey(pos token.Pos, name string, kind Kind) (Key, func(string) (any, *problem), bool) {
	for _, k := range keys {
		if string(k.key) != name {
			continue
		}
		if k.key == BatchSize && kind == Event {
			s.report(pos, "batchSize is for batches, and this is //echoes:event", "use //echoes:batch, or remove it")
			return "", nil, false
		}
		if k.key == OnInvalid && kind == Event {
			s.report(pos, "onInvalid is for batches: a single event that cannot be decoded fails", "remove it")
			return "", nil, false
		}
		return k.key, k.read, true
	}
	if near, ok := nearestKey(name); ok {
		s.report(pos, fmt.Sprintf("unknown key %s", name), fmt.Sprintf("did you mean %s?", near))
		return near, nil, false
	}
	if fix, ok := elsewhere[strings.ToLower(name)]; ok {
		s.report(pos, fmt.Sprintf("unknown key %s", name), fix)
		return "", nil, false
	}
	s.report(pos, fmt.Sprintf("unknown key %s", name), "the keys are "+strings.Join(keyNames(), ", "))
	return "", nil, false
}
