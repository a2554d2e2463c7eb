package directive

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/orionjs/orion-go/generator/internal/diag"
)

func topicValue(s string) (any, *problem) {
	switch {
	case !utf8.ValidString(s):
		return nil, &problem{"topic is not valid UTF-8", "use text"}
	case strings.HasSuffix(s, ",") || strings.HasSuffix(s, ";"):
		return nil, &problem{fmt.Sprintf("topic %q ends with %q", s, s[len(s)-1:]), "settings are separated by spaces alone"}
	case strings.TrimSpace(s) != s || strings.ContainsFunc(s, unicode.IsControl):
		return nil, &problem{fmt.Sprintf("topic %q begins or ends with a blank, or contains control characters", s), "use a name like order.created"}
	}
	return s, nil
}

func boolean(s string) (any, *problem) {
	switch s {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return nil, &problem{fmt.Sprintf("want true or false, got %q", s), ""}
}

// maxInt is the largest number that the stored settings hold.
const maxInt = math.MaxInt32

func integer(least int) func(string) (any, *problem) {
	return func(s string) (any, *problem) {
		n, err := strconv.Atoi(s)
		switch {
		case err != nil && isNumber(s):
			return nil, &problem{fmt.Sprintf("want an integer from %d to %d, got %s", least, maxInt, s), ""}
		case err != nil:
			return nil, &problem{fmt.Sprintf("want an integer, got %q", s), ""}
		case n < least:
			return nil, &problem{fmt.Sprintf("want at least %d, got %d", least, n), ""}
		case n > maxInt:
			return nil, &problem{fmt.Sprintf("want at most %d, got %d", maxInt, n), ""}
		}
		return n, nil
	}
}

func isNumber(s string) bool {
	_, err := strconv.ParseFloat(s, 64)
	return err == nil
}

func executionVersion(s string) (any, *problem) {
	switch s {
	case "1":
		return 1, nil
	case "2":
		return 2, nil
	}
	return nil, &problem{fmt.Sprintf("want 1 or 2, got %q", s), ""}
}

func multiplier(s string) (any, *problem) {
	f, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil:
		return nil, &problem{fmt.Sprintf("want a number, got %q", s), "write it like 1.5"}
	case math.IsNaN(f) || math.IsInf(f, 0) || f <= 0:
		return nil, &problem{fmt.Sprintf("want a finite number above 0, got %s", s), "1 keeps the delay constant"}
	}
	return f, nil
}

// durationForm matches what can only be wrong as a duration by its length.
var durationForm = regexp.MustCompile(`^[+-]?([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$`)

func duration(s string) (any, *problem) {
	d, err := time.ParseDuration(s)
	switch {
	case err != nil && isNumber(s):
		return nil, &problem{fmt.Sprintf("%s has no unit", s), fmt.Sprintf("write %ss or %sms", s, s)}
	case err != nil && durationForm.MatchString(s):
		return nil, &problem{fmt.Sprintf("%s is too long", s), "durations end at 2562047h"}
	case err != nil:
		return nil, &problem{fmt.Sprintf("want a duration, got %q", s), "write it like 500ms, 5s or 1m30s"}
	case d < 0:
		return nil, &problem{fmt.Sprintf("want a duration that is not negative, got %s", s), ""}
	case d%time.Millisecond != 0:
		return nil, &problem{fmt.Sprintf("%s is stored in whole milliseconds", s), fmt.Sprintf("write %s", max(d.Round(time.Millisecond), time.Millisecond))}
	}
	return d, nil
}

func oneOf(values ...string) func(string) (any, *problem) {
	return func(s string) (any, *problem) {
		for _, v := range values {
			if s == v {
				return v, nil
			}
		}
		p := &problem{fmt.Sprintf("want %s, got %q", orList(values), s), ""}
		if near, ok := diag.Nearest(s, values); ok {
			p.fix = fmt.Sprintf("did you mean %s?", near)
		}
		return nil, p
	}
}

func orList(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// DefaultTopic derives the topic of a method without topic=: its name with the
// first word in lower case (spec 7.1). A run of capitals is one word, up to the
// capital that begins the next.
func DefaultTopic(method string) string {
	runes := []rune(method)
	n := 0
	for n < len(runes) && unicode.IsUpper(runes[n]) {
		n++
	}
	if n > 1 && n < len(runes) && unicode.IsLower(runes[n]) {
		n-- // the last capital begins the next word
	}
	for i := range runes[:n] {
		runes[i] = unicode.ToLower(runes[i])
	}
	return string(runes)
}
