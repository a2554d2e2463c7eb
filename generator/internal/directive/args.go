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
		if isComment(arg.Arg) {
			s.report(arg.Pos, "a directive has no room for a comment", "move the text to the doc comment above it")
			break
		}
		if arg.Arg == "\\" {
			s.report(arg.Pos, "a directive is one line", "put all settings on it, without a backslash")
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
			plain := strings.TrimRight(strings.NewReplacer(quote, "", closing(quote), "").Replace(value), ",;")
			if plain == "" {
				s.report(arg.Pos, name+" has no value", "write "+example(Key(name)))
				continue
			}
			fix := fmt.Sprintf("write %s=%s", name, plain)
			if strings.Contains(plain, " ") {
				fix = fmt.Sprintf("a quote encloses key and value: write %q", name+"="+plain)
			}
			s.report(arg.Pos, fmt.Sprintf("%s: the value is quoted", name), fix)
			continue
		}
		if plain := strings.TrimLeft(value, "="); plain != value && plain != "" {
			bad[Key(name)] = true
			s.report(arg.Pos, name+" is followed by more than one =", fmt.Sprintf("write %s=%s", name, strings.Trim(plain, "\"'`")))
			continue
		}
		if plain := strings.TrimRight(value, ",;"); plain != value && plain != "" {
			bad[Key(name)] = true
			s.report(arg.Pos, fmt.Sprintf("%s: a setting ends before %q", name, strings.Replace(value, plain, "", 1)), fmt.Sprintf("only blanks separate settings: write %s=%s", name, plain))
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
		if quote := openingQuote(name); quote != "" {
			setting := strings.NewReplacer(quote, "", closing(quote), "").Replace(arg.Arg)
			bad[Key(strings.TrimPrefix(name, quote))] = true
			s.report(arg.Pos, fmt.Sprintf("%s does not quote", quote), "write "+setting+", or with \" around all of it")
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
			// "5 s" is one value.
			if unit := i + 1; isDuration(key) && unit < len(args) && longUnit.MatchString(value+args[unit].Arg) {
				p = &problem{fmt.Sprintf("%s %s has a blank", value, args[unit].Arg), durationFix(value + args[unit].Arg)}
				i++
			}
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
		fix := "write " + example(k.key)
		if value = strings.TrimRight(value, ",;"); value != "" {
			fix = fmt.Sprintf("write %s=%s", k.key, value)
		}
		if strings.HasSuffix(arg.Arg, "=") && value == "" {
			s.report(arg.Pos, name+" has no value", fix)
		} else {
			s.report(arg.Pos, name+" is not followed by = and a value", fix)
		}
		return k.key, used
	}
	if key, ok := nearestKey(strings.TrimLeft(arg.Arg, "-")); ok && strings.HasPrefix(arg.Arg, "-") {
		fix, used := "write "+example(key), 1
		if i+1 < len(args) && !strings.Contains(args[i+1].Arg, "=") {
			fix, used = fmt.Sprintf("write %s=%s", key, args[i+1].Arg), 2
		}
		s.report(arg.Pos, fmt.Sprintf("%q is not key=value", arg.Arg), fix)
		return key, used
	}
	plain := strings.Trim(arg.Arg, "!,;()[]{}<>\"'`")
	if setting, ok := bare[strings.ToLower(plain)]; ok {
		if arg.Arg == "!"+string(Ordered) {
			setting = bare["unordered"]
		}
		s.report(arg.Pos, fmt.Sprintf("%q is not key=value", arg.Arg), "write "+setting)
		key, _, _ := strings.Cut(setting, "=")
		return Key(key), 1
	}
	switch {
	case i > 0 && strings.HasPrefix(args[i-1].Arg, string(Topic)+"=") && !strings.Contains(arg.Arg, "="):
		s.report(arg.Pos, fmt.Sprintf("%q is not key=value", arg.Arg), fmt.Sprintf("write %q if it belongs to the topic", args[i-1].Arg+" "+arg.Arg))
		return Topic, 1
	case strings.HasPrefix(arg.Arg, "="):
		s.report(arg.Pos, fmt.Sprintf("%q has no key", arg.Arg), "write key=value without blanks")
	case strings.HasSuffix(arg.Arg, "="):
		s.report(arg.Pos, fmt.Sprintf("unknown key %s, without a value", name), "the keys are "+strings.Join(keyNames(), ", "))
	case strings.ContainsAny(arg.Arg, "(){}[]<>:"):
		s.report(arg.Pos, fmt.Sprintf("%q is not key=value", arg.Arg), "settings are like topic=order.created maxRetries=5, without brackets and colons")
	default:
		s.report(arg.Pos, fmt.Sprintf("%q is not key=value", arg.Arg), fmt.Sprintf("write topic=%s if it is the topic", arg.Arg))
	}
	return "", 1
}

// isComment reports whether an argument begins a comment in one of the languages
// that people know.
func isComment(arg string) bool {
	for _, sign := range []string{"//", "/*", "#"} {
		if strings.HasPrefix(arg, sign) {
			return true
		}
	}
	return arg == "-" || arg == "--" || arg == "–" || arg == "—"
}

// bare are words that say by themselves which setting is meant.
var bare = map[string]string{
	"ordered": "ordered=true", "unordered": "ordered=false", "fifo": "ordered=true",
	"latest": "offsetReset=latest", "earliest": "offsetReset=earliest",
	"at-least-once": "delivery=at-least-once", "at-most-once": "delivery=at-most-once",
	"pulse": "transport=pulse", "kafka": "transport=kafka",
	"skip": "onInvalid=skip", "fail": "onInvalid=fail", "zerocopy": "zeroCopy=true", "zero-copy": "zeroCopy=true",
	"retry": "maxRetries=3", "noretry": "maxRetries=0", "no-retry": "maxRetries=0",
}

// examples has a setting of each key.
var examples = map[Key]string{
	Topic: "order.created", BatchSize: "100", Ordered: "true", OffsetReset: "earliest", Delivery: "at-most-once",
	MaxRetries: "5", RetryDelay: "30s", RetryBackoffMultiplier: "1.5", ConfigVersion: "1", ExecutionVersion: "2",
	MaxConcurrency: "4", Transport: "pulse", OnInvalid: "skip", ZeroCopy: "true",
	MaxRetryDelay: "10m", RetryJitter: "0.2", HandlerTimeout: "30s", RateLimit: "10", RateBurst: "20",
}

// example shows how a key is set.
func example(key Key) string {
	value := examples[key]
	if value == "" {
		value = "VALUE"
	}
	return fmt.Sprintf("%s=%s", key, value)
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
