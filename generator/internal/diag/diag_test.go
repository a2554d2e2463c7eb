package diag_test

import (
	"go/token"
	"path/filepath"
	"testing"

	"github.com/matryer/is"

	"github.com/orionjs/orion-go/generator/internal/diag"
)

func TestList_7_4_SortsAndDropsRepetitions(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var l diag.List
	dir := t.TempDir()
	at := func(file string, line, column int) token.Position {
		return token.Position{Filename: filepath.Join(dir, file), Line: line, Column: column}
	}
	l.Add(at("b.go", 1, 1), "third", "")
	l.Add(at("a.go", 10, 1), "second", "do this")
	l.Add(at("a.go", 9, 2), "see "+filepath.Join(dir, "c.go")+":1", "")
	l.Add(at("a.go", 10, 1), "second", "do this")
	l.Add(token.Position{}, "nowhere", "")
	is.Equal(l.Len(), 4)
	var got []string
	for _, d := range l.Sorted(dir) {
		got = append(got, d.String())
	}
	is.Equal(got, []string{"nowhere", "a.go:9:2: see c.go:1", "a.go:10:1: second (do this)", "b.go:1:1: third"})
}
