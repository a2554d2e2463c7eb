package generator_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/matryer/is"
)

// TestGenerate_7_3_EveryRefusalOfTheTable: each message in docs/types.md for what
// is refused is one that a scenario expects.
func TestGenerate_7_3_EveryRefusalOfTheTable(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	paths, err := filepath.Glob(filepath.Join("testdata", "bad", "*.txtar"))
	is.NoErr(err)
	var expected strings.Builder
	for _, path := range paths {
		content, err := os.ReadFile(path)
		is.NoErr(err)
		_, want, _ := strings.Cut(string(content), "-- want --")
		expected.WriteString(want)
	}
	doc, err := os.ReadFile(filepath.Join("..", "docs", "types.md"))
	is.NoErr(err)
	_, table, found := strings.Cut(string(doc), "| Refused | Message, for example | Way out |")
	is.True(found)
	rows := 0
	for line := range strings.Lines(table) {
		columns := strings.Split(line, " | ")
		if len(columns) != 3 {
			continue
		}
		rows++
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(columns[1], -1) {
			if !strings.Contains(expected.String(), m[1]) {
				t.Errorf("no scenario expects %q, as the table says: %s", m[1], line)
			}
		}
	}
	is.True(rows > 10)
}
