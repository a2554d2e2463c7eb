package console

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/orionjs/orion-go/internal/visible"
)

// missing stands where there is no value.
const missing = "–"

// number writes a whole number with thin spaces between thousands: 12 480.
func number(n int) string {
	digits := strconv.Itoa(n)
	sign := ""
	if n < 0 {
		sign, digits = "−", digits[1:]
	}
	var b strings.Builder
	b.WriteString(sign)
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteRune('\u202f') // narrow, does not break
		}
		b.WriteRune(d)
	}
	return b.String()
}

// perSecond writes a rate with as many digits as tell something.
func perSecond(rate float64) string {
	switch {
	case rate == 0:
		return "0/s"
	case rate < 0.095:
		return strconv.FormatFloat(math.Ceil(rate*600)/10, 'f', -1, 64) + "/min"
	case rate < 9.95:
		return strconv.FormatFloat(rate, 'f', 1, 64) + "/s"
	default:
		return number(int(math.Round(rate))) + "/s"
	}
}

// percent writes a share. What is more than nothing is not written as nothing, and less than all not as all.
func percent(share float64) string {
	switch {
	case share <= 0:
		return "0 %"
	case share < 0.001:
		return "< 0.1 %"
	case share < 0.0995:
		return strconv.FormatFloat(share*100, 'f', 1, 64) + " %"
	case share < 1:
		return strconv.Itoa(min(99, int(math.Round(share*100)))) + " %"
	default:
		return "100 %"
	}
}

// duration writes a length of time in its two largest units: 3 min 20 s.
func duration(d time.Duration) string {
	if d < 0 {
		return "−" + duration(-d)
	}
	split := func(large, small time.Duration, largeName, smallName string) string {
		rest := d % large / small
		if rest == 0 {
			return fmt.Sprintf("%d %s", d/large, largeName)
		}
		return fmt.Sprintf("%d %s %d %s", d/large, largeName, rest, smallName)
	}
	const day = 24 * time.Hour
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return strconv.FormatFloat(float64(d.Milliseconds()/100)/10, 'f', -1, 64) + " s"
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return split(time.Minute, time.Second, "min", "s")
	case d < day:
		return split(time.Hour, time.Minute, "h", "min")
	default:
		return split(day, time.Hour, "d", "h")
	}
}

// instant writes a time for people, in UTC. Seconds are enough where no two attempts are compared.
func instant(t time.Time) string {
	if t.IsZero() {
		return missing
	}
	return t.UTC().Format("2 Jan 2006, 15:04:05")
}

// precise is instant with milliseconds.
func precise(t time.Time) string {
	if t.IsZero() {
		return missing
	}
	return t.UTC().Format("2 Jan 2006, 15:04:05.000")
}

// machine writes a time for the datetime attribute.
func machine(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// short leaves out the middle of an ID: those of Pulse begin with the time and end with what is random.
func short(id string) string {
	runes := []rune(id)
	if len(runes) <= 17 {
		return visible.Name(id)
	}
	return visible.Name(string(runes[:8])) + "…" + visible.Name(string(runes[len(runes)-6:]))
}

// plural writes a number with a noun: 1 delivery, 2 deliveries.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + many
}
