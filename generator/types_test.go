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

// TestGenerate_7_2_AStaleStructSaysWhatToDo: the compiler's message for a struct
// that changed names the remedy, also when the field is unexported or the first
// one, and a run mends it, also where the struct can no longer be written out.
func TestGenerate_7_2_AStaleStructSaysWhatToDo(t *testing.T) {
	t.Parallel()
	source := func(own, foreign string) map[string]string {
		return map[string]string{
			"shop/shop.go": `package shop

import (
	"context"

	"example.com/shop/dep"
)

type Order struct {` + own + `}

type Empty struct{}

type Payload struct {
	Order   Order
	Empty   Empty
	Foreign dep.Foreign
}

type Service struct{}

//echoes:event
func (Service) Created(ctx context.Context, p Payload) error { return nil }
`,
			"dep/dep.go": "package dep\n\ntype Foreign struct {" + foreign + "}\n",
		}
	}
	for name, changed := range map[string]map[string]string{
		"unexported":            source("ID string; cache []string", "ID string"),
		"unexported in another": source("ID string", "ID string; cache []string"),
		"first":                 source("ID string", "ID string"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			m := newModule(t)
			for file, content := range source("ID string", "ID string") {
				m.write(file, content)
			}
			_, err := m.generate()
			is.NoErr(err)
			_, err = m.run("build", "./...")
			is.NoErr(err)
			if name == "first" {
				changed["shop/shop.go"] = strings.Replace(changed["shop/shop.go"], "Empty struct{}", "Empty struct{ ID string }", 1)
			}
			for file, content := range changed {
				m.write(file, content)
			}
			out, err := m.run("build", "./...")
			if err == nil || !strings.Contains(out, "changedSoRunEchoesgenAgain") {
				t.Errorf("the stale code compiles, or the message does not say what to do: %s", out)
			}
			_, err = m.generate()
			is.NoErr(err)
			out, err = m.run("build", "./...")
			if err != nil {
				t.Errorf("generating again does not mend it: %s", out)
			}
		})
	}
}
