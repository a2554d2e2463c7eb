package pulse

import (
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/matryer/is"
)

// configurationRow is a row of the table of pulse.Config in docs/configuration.md: field, default, range.
var configurationRow = regexp.MustCompile("(?m)^\\| `(\\w+)` \\| ([^|]+) \\|([^|]*)\\|")

// TestConfig_2_3_IsAsDocumented: the table names every field, its default is what the code fills in, and its least value
// is the least that the code accepts.
func TestConfig_2_3_IsAsDocumented(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	text, err := os.ReadFile("../docs/configuration.md")
	is.NoErr(err)
	_, section, found := strings.Cut(string(text), "## pulse.Config\n")
	is.True(found)
	section, _, _ = strings.Cut(section, "\n## ")
	valid := Config{ConsumerGroup: "g", Database: "d"}
	filled, problems := valid.withDefaults()
	is.Equal(len(problems), 0)
	rows := configurationRow.FindAllStringSubmatch(section, -1)
	fields := reflect.TypeFor[Config]()
	is.Equal(len(rows), fields.NumField())
	for i, row := range rows {
		name, byDefault, limits := row[1], strings.TrimSpace(row[2]), row[3]
		is.Equal(name, fields.Field(i).Name) // the fields in their order
		value := reflect.ValueOf(filled).Field(i)
		least, most, limited := rangeOf(t, strings.TrimSpace(limits))
		switch value.Interface().(type) {
		case time.Duration:
			is.Equal(durationOf(t, byDefault), time.Duration(value.Int()))
		case int:
			is.Equal(byDefault, strconv.FormatInt(value.Int(), 10))
		case string:
			if name == "CollectionPrefix" {
				is.Equal(byDefault, "`"+value.String()+"`")
			}
			continue
		case bool:
			is.Equal(byDefault, strconv.FormatBool(value.Bool()))
			continue
		default:
			continue
		}
		is.True(limited) // a number has bounds
		set := func(v int64) error {
			c := valid
			reflect.ValueOf(&c).Elem().Field(i).SetInt(v)
			return c.Validate("")
		}
		is.NoErr(set(least))
		if less := least - 1; less != 0 { // 0 is the default
			is.True(set(less) != nil)
		}
		is.NoErr(set(most))
		is.True(set(most+1) != nil)
		is.True(set(-2) != nil)
		is.Equal(set(int64(NoTTL)) == nil, strings.Contains(limits, "`NoTTL`"))
	}
}

// rangeOf reads "10 ms to 24 h; hours" or "1 to 10,000".
func rangeOf(t *testing.T, limits string) (least, most int64, limited bool) {
	t.Helper()
	limits, _, _ = strings.Cut(limits, ";")
	limits, _, _ = strings.Cut(limits, ", `")
	from, to, found := strings.Cut(limits, " to ")
	if !found {
		return 0, 0, false
	}
	read := func(text string) int64 {
		if n, err := strconv.ParseInt(strings.ReplaceAll(text, ",", ""), 10, 64); err == nil {
			return n
		}
		return int64(durationOf(t, text))
	}
	return read(from), read(to), true
}

// durationOf reads "3 s" and "7 days".
func durationOf(t *testing.T, text string) time.Duration {
	t.Helper()
	number, unit, _ := strings.Cut(text, " ")
	n, err := strconv.Atoi(number)
	if err != nil {
		t.Fatalf("no duration: %q", text)
	}
	units := map[string]time.Duration{"ms": time.Millisecond, "s": time.Second, "h": time.Hour, "days": 24 * time.Hour, "years": 8766 * time.Hour}
	if units[unit] == 0 {
		t.Fatalf("no duration: %q", text)
	}
	return time.Duration(n) * units[unit]
}
