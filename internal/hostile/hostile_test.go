package hostile

import (
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"strings"
	"testing"

	"github.com/matryer/is"
	"pgregory.net/rapid"
)

type (
	ring  struct{ next error }
	tree  struct{ of []error }
	found struct{ n int }
	asks  struct{}
)

func (*ring) Error() string     { return "ring" }
func (r *ring) Unwrap() error   { return r.next }
func (*tree) Error() string     { return "tree" }
func (t *tree) Unwrap() []error { return t.of }
func (found) Error() string     { return "found" }
func (asks) Error() string      { return "asks" }
func (asks) As(target any) bool {
	f, ok := target.(*found)
	if ok {
		f.n = 7
	}
	return ok
}

func TestAs_4_2_ChainsWithoutEnd(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	self := &ring{}
	self.next = self
	two := &ring{}
	two.next = &ring{two}
	wide := &tree{}
	wide.of = []error{wide, wide}
	var deep error = errors.New("cause")
	for range 100 { // 2^100 paths
		deep = &tree{[]error{deep, deep}}
	}
	for _, err := range []error{self, two, wide, deep, fmt.Errorf("a: %w", self)} {
		_, ok := As[found](err)
		is.True(!ok)
	}
	wide.of = []error{self, found{1}} // what lies behind one without an end is out of sight
	_, ok := As[found](wide)
	is.True(!ok)
	wide.of = []error{found{1}, self}
	f, ok := As[found](wide)
	is.True(ok)
	is.Equal(f.n, 1)
}

func TestAs_4_2_IsErrorsAs(t *testing.T) {
	t.Parallel()
	var any func(depth int) *rapid.Generator[error]
	any = func(depth int) *rapid.Generator[error] {
		leaf := rapid.Custom(func(t *rapid.T) error {
			return rapid.SampledFrom([]error{nil, fs.ErrNotExist, found{rapid.Int().Draw(t, "n")}, asks{}, &fs.PathError{Err: fs.ErrExist}}).Draw(t, "leaf")
		})
		if depth == 0 {
			return leaf
		}
		return rapid.Custom(func(t *rapid.T) error {
			one := func(name string) error { return any(depth-1).Draw(t, name) }
			switch rapid.IntRange(0, 3).Draw(t, "kind") {
			case 0:
				return &ring{one("next")}
			case 1:
				return &tree{[]error{one("first"), one("second")}}
			case 2:
				return fmt.Errorf("a: %w", one("wrapped"))
			default:
				return leaf.Draw(t, "leaf")
			}
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		err := any(4).Draw(t, "err")
		var want found
		wanted := errors.As(err, &want)
		got, ok := As[found](err)
		if ok != wanted || got != want {
			t.Fatalf("got %v %v, want %v %v", got, ok, want, wanted)
		}
	})
}

func TestPrint_4_2_ValuesThatContainThemselves(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	slice := []any{nil}
	slice[0] = slice
	within := map[string]any{}
	within["self"] = within
	type list struct {
		next *list
		of   []any
	}
	linked := &list{}
	linked.next = linked
	is.True(strings.HasPrefix(Print(linked), "&{0x"))
	for _, endless := range []any{slice, within, &list{of: slice}, [1]any{within}, fmt.Sprint} {
		is.True(Print(endless) != "")
	}
	is.Equal(Print(slice), "value of type []interface {}")
	is.Equal(Print(struct{ Code int }{7}), "{7}")
	is.Equal(Print([]int{1, 2}), "[1 2]")
	is.Equal(Print(make([]byte, 2000))[:4], "[0 0")
	is.Equal(Print("text"), "text")
	is.Equal(Print(nil), "<nil>")
	is.Equal(Print(fs.ErrExist), "file already exists")
	is.Equal(Print((*fs.PathError)(nil)), "<nil>")
}

func TestCallback_OutlivesWhatIsCalled(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	var c Callback
	is.NoErr(c.Call(func() {}))
	is.Equal(c.Call(func() { panic("boom") }).Error(), "it panicked: boom")
	is.Equal(c.Call(runtime.Goexit).Error(), "it called runtime.Goexit")
	release := make(chan struct{})
	defer close(release)
	hang := make(chan error, maxHanging)
	for range maxHanging {
		go func() { hang <- c.Call(func() { <-release }) }()
	}
	for range maxHanging {
		is.Equal((<-hang).Error(), "it has not returned after 1s, and is not waited for")
	}
	is.Equal(c.Call(func() {}).Error(), "it was not called: 10 earlier calls have not returned")
}
