package generator_test

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// newBig is a module of many packages, whose generated files are there.
func newBig(b *testing.B, pkgs, methods int) *module {
	b.Helper()
	m := newModule(b)
	for i := range pkgs {
		var s strings.Builder
		name := fmt.Sprintf("p%d", i)
		fmt.Fprintf(&s, "package %s\n\nimport (\n\t\"context\"\n\t\"time\"\n\n\t\"github.com/orionjs/orion-go/echoes\"\n\t\"go.mongodb.org/mongo-driver/v2/bson\"\n)\n\ntype Service struct{}\n", name)
		for j := range methods {
			fmt.Fprintf(&s, `
type Order%[1]d struct {
	ID      bson.ObjectID `+"`bson:\"_id\" echoes:\"required\"`"+`
	Name    string
	Count   int
	Total   float64
	At      *time.Time
	Tags    []string
	Lines   []Line%[1]d
	Parent  *Order%[1]d
	Address struct{ Street, City string }
}

type Line%[1]d struct {
	Price int64 `+"`bson:\"price\"`"+`
	Text  string
}

//echoes:event topic=%[2]s.order%[1]d ordered=false executionVersion=2
func (s *Service) Order%[1]d(ctx context.Context, item echoes.Item[Order%[1]d]) error {
	for range item.Params.Lines {
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}
`, j, name)
		}
		m.write(name+"/"+name+".go", s.String())
	}
	if _, err := m.generate(); err != nil {
		b.Fatal(err)
	}
	// The go command compiles what was generated once, for whoever loads next.
	if _, err := m.check(); err != nil {
		b.Fatal(err)
	}
	return m
}

// BenchmarkGenerate compares a run with the load that any generator needs.
func BenchmarkGenerate(b *testing.B) {
	for _, size := range []struct{ packages, methods int }{{50, 20}, {200, 5}} {
		m := newBig(b, size.packages, size.methods)
		name := fmt.Sprintf("packages=%d/methods=%d/", size.packages, size.packages*size.methods)
		b.Run(name+"load", func(b *testing.B) {
			for b.Loop() {
				pkgs, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax | packages.NeedModule, Dir: m.dir, Env: m.env()}, "./...")
				if err != nil || len(pkgs) != size.packages {
					b.Fatal(len(pkgs), err)
				}
			}
		})
		b.Run(name+"check", func(b *testing.B) {
			for b.Loop() {
				result, err := m.check()
				if err != nil || result.Listeners != size.packages*size.methods || len(result.Stale()) > 0 {
					b.Fatal(result.Listeners, err)
				}
			}
		})
	}
}
