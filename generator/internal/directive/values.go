package directive

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/orionjs/orion-go/internal/spelling"
)

func topicValue(s string) (any, *problem) {
	switch r, invisible := hiddenRune(s); {
	case !utf8.ValidString(s):
		return nil, &problem{"topic is not valid UTF-8", "use text"}
	case invisible:
		return nil, &problem{fmt.Sprintf("topic %q contains the invisible character %U", s, r), "remove it, or write a plain blank if it separates settings"}
	case strings.TrimSpace(s) != s || strings.ContainsFunc(s, unicode.IsControl):
		return nil, &problem{fmt.Sprintf("topic %q begins or ends with a blank, or contains control characters", s), "use a name like order.created"}
	}
	return s, nil
}

// hiddenRune returns a character that looks like a blank or like nothing, as
// those do that come along with text copied from a web page.
func hiddenRune(s string) (rune, bool) {
	for _, r := range s {
		if r != ' ' && unicode.In(r, unicode.Zs, unicode.Zl, unicode.Zp, unicode.Cf) {
			return r, true
		}
	}
	return 0, false
}

func boolean(s string) (any, *problem) {
	switch s {
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	return nil, &problem{fmt.Sprintf("want true or false, got %q", s), didYouMean(s, "true", "false")}
}

// otherWords are words for values that others use.
var otherWords = map[string]string{
	"yes": "true", "y": "true", "on": "true", "1": "true", "t": "true",
	"no": "false", "n": "false", "off": "false", "0": "false", "f": "false",
	"first": "earliest", "beginning": "earliest", "begin": "earliest", "start": "earliest", "oldest": "earliest",
	"last": "latest", "end": "latest", "now": "latest", "new": "latest", "newest": "latest", "none": "latest",
	"mongo": "pulse", "mongodb": "pulse", "all": "both",
	"pulse,kafka": "both", "kafka,pulse": "both", "pulse+kafka": "both", "kafka+pulse": "both",
	"ignore": "skip", "drop": "skip", "error": "fail",
}

// didYouMean is the fix that names the value which was probably meant, or none.
func didYouMean(s string, values ...string) string {
	meant := otherWords[strings.ToLower(s)]
	if !slices.Contains(values, meant) {
		near, ok := spelling.Nearest(s, values)
		if !ok {
			return ""
		}
		meant = near
	}
	return fmt.Sprintf("did you mean %s?", meant)
}

// maxInt is the largest number that the stored settings hold.
const maxInt = math.MaxInt32

func integer(least int) func(string) (any, *problem) {
	return func(s string) (any, *problem) {
		n, err := strconv.Atoi(s)
		switch {
		case err != nil && isNumber(s):
			return nil, &problem{fmt.Sprintf("want an integer from %d to %d, got %s", least, maxInt, s), digits(s)}
		case err != nil:
			return nil, &problem{fmt.Sprintf("want an integer, got %q", s), digits(s)}
		case n < least:
			return nil, &problem{fmt.Sprintf("want at least %d, got %d", least, n), ""}
		case n > maxInt:
			return nil, &problem{fmt.Sprintf("want at most %d, got %d", maxInt, n), ""}
		}
		return n, nil
	}
}

// digits is the fix for a number that is written as in Go, with separators or as
// a word.
func digits(s string) string {
	switch strings.ToLower(s) {
	case "unlimited", "infinite", "infinity", "inf", "forever", "max":
		return fmt.Sprintf("nothing is unlimited: the largest number is %d", maxInt)
	}
	plain := strings.NewReplacer(",", "", "'", "").Replace(s)
	if n, err := strconv.ParseInt(plain, 0, 32); err == nil && n >= 0 && fmt.Sprint(n) != s {
		return fmt.Sprintf("write %d", n)
	}
	if f, err := strconv.ParseFloat(plain, 64); err == nil && f == math.Trunc(f) && f >= 0 && f <= maxInt {
		return fmt.Sprintf("write %d", int(f))
	}
	return ""
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
	p := &problem{fmt.Sprintf("want 1 or 2, got %q", s), ""}
	if v := strings.TrimPrefix(strings.ToLower(s), "v"); v == "1" || v == "2" {
		p.fix = "write executionVersion=" + v
	}
	return nil, p
}

func multiplier(s string) (any, *problem) {
	f, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil:
		return nil, &problem{fmt.Sprintf("want a number, got %q", s), numberFix(s, "1.5")}
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
		return nil, &problem{fmt.Sprintf("want a duration, got %q", s), durationFix(s)}
	case d < 0:
		return nil, &problem{fmt.Sprintf("want a duration that is not negative, got %s", s), ""}
	case d%time.Millisecond != 0:
		return nil, &problem{fmt.Sprintf("%s is stored in whole milliseconds", s), fmt.Sprintf("write %s", max(d.Round(time.Millisecond), time.Millisecond))}
	}
	return d, nil
}

// isDuration tells whether the key's value is a duration.
func isDuration(key Key) bool {
	return key == RetryDelay || key == MaxRetryDelay || key == HandlerTimeout
}

// positiveDuration is a duration of a limit, which nothing could keep if it were zero.
func positiveDuration(s string) (any, *problem) {
	v, p := duration(s)
	if p == nil && v == time.Duration(0) {
		return nil, &problem{fmt.Sprintf("want at least 1ms, got %s", s), "without the setting there is no limit"}
	}
	return v, p
}

// fraction is a number from 0 to 1.
func fraction(s string) (any, *problem) {
	plain, percent := strings.CutSuffix(s, "%")
	f, err := strconv.ParseFloat(plain, 64)
	switch {
	case err != nil:
		return nil, &problem{fmt.Sprintf("want a number from 0 to 1, got %q", s), numberFix(s, "0.2")}
	case percent || f > 1 && f <= 100:
		return nil, &problem{fmt.Sprintf("want a number from 0 to 1, got %s", s), fmt.Sprintf("write %v for %v %%", f/100, f)}
	case !(f >= 0 && f <= 1):
		return nil, &problem{fmt.Sprintf("want a number from 0 to 1, got %s", s), "0 is no jitter, 1 any pause up to the full one"}
	}
	return f, nil
}

// rate matches a number of calls with the time that they are for.
var rate = regexp.MustCompile(`^([0-9.]+)/(s|sec|second|m|min|minute|h|hour)$`)

// perSecond is a number of calls in a second, which may be less than one.
func perSecond(s string) (any, *problem) {
	f, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil:
		fix := numberFix(s, "10")
		if m := rate.FindStringSubmatch(s); m != nil {
			if n, err := strconv.ParseFloat(m[1], 64); err == nil {
				fix = fmt.Sprintf("it counts the calls in a second: write %.3g", n/map[byte]float64{'s': 1, 'm': 60, 'h': 3600}[m[2][0]])
			}
		}
		return nil, &problem{fmt.Sprintf("want a number, got %q", s), fix}
	case math.IsNaN(f) || math.IsInf(f, 0) || f <= 0:
		return nil, &problem{fmt.Sprintf("want a finite number above 0, got %s", s), "it counts the calls in a second, without the setting there is no limit"}
	}
	return f, nil
}

// numberFix says how a number is written.
func numberFix(s, like string) string {
	if comma := strings.Replace(s, ",", ".", 1); isNumber(comma) {
		return "write " + comma
	}
	return "write it like " + like
}

// longUnit matches a number with a unit that Go's durations do not have.
var longUnit = regexp.MustCompile(`(?i)^([0-9]+)(milliseconds?|millis|msecs?|seconds?|secs?|minutes?|mins?|hours?|hrs?|days?|d|weeks?|w|ms|s|m|h)$`)

// durationFix says how a duration is written that has another form.
func durationFix(s string) string {
	m := longUnit.FindStringSubmatch(s)
	if m == nil {
		return "write it like 500ms, 5s or 1m30s"
	}
	switch unit := strings.ToLower(m[2]); {
	case unit[0] == 'd' || unit[0] == 'w':
		hours, err := strconv.Atoi(m[1])
		if err != nil || hours > 1000 {
			return "the largest unit is the hour: a day is 24h"
		}
		hours *= map[byte]int{'d': 24, 'w': 7 * 24}[unit[0]]
		return fmt.Sprintf("the largest unit is the hour: write %dh", hours)
	case strings.HasPrefix(unit, "mil") || strings.HasPrefix(unit, "ms"):
		return fmt.Sprintf("write %sms", m[1])
	default:
		return fmt.Sprintf("write %s%c", m[1], unit[0])
	}
}

func oneOf(values ...string) func(string) (any, *problem) {
	return func(s string) (any, *problem) {
		for _, v := range values {
			if s == v {
				return v, nil
			}
		}
		return nil, &problem{fmt.Sprintf("want %s, got %q", orList(values), s), didYouMean(s, values...)}
	}
}

// deliveryValue is oneOf, with an answer for those who look for the third kind.
func deliveryValue(s string) (any, *problem) {
	v, p := oneOf("at-least-once", "at-most-once")(s)
	if p != nil && strings.Contains(strings.ToLower(s), "exactly") {
		p.fix = "no transport delivers exactly once: use at-least-once, and make the listener idempotent by the event's ID"
	}
	return v, p
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
