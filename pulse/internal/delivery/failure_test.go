package delivery

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/matryer/is"
	"pgregory.net/rapid"
)

// anyText draws text that a database, or a person, would rather not see: long, and of any bytes.
func anyText() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		unit := rapid.OneOf(
			rapid.String(),
			rapid.Map(rapid.SliceOfN(rapid.Byte(), 1, 8), func(b []byte) string { return string(b) }),
			rapid.SampledFrom([]string{"x", "ü", "€", "𝄞", "\xf0\x9d", "\xff", "\x00"}),
		).Draw(t, "unit")
		return unit + strings.Repeat(unit, rapid.IntRange(0, 5000).Draw(t, "times"))
	})
}

func TestNewFailure_4_2_IsBoundedValidText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		message, stack := anyText().Draw(t, "message"), anyText().Draw(t, "stack")
		f := NewFailure(CodeHandlerError, errors.New(message), stack)
		for _, field := range []struct {
			text, whole string
			most        int
		}{{f.Message, message, 2048}, {f.Stack, stack, 4096}, {f.Name, "*errors.errorString", 256}} {
			whole := strings.ToValidUTF8(field.whole, "\uFFFD")
			n := utf8.RuneCountInString(field.text)
			switch {
			case !utf8.ValidString(field.text):
				t.Fatalf("%q is not valid UTF-8", field.text)
			case n > field.most:
				t.Fatalf("%d characters, at most %d", n, field.most)
			case !strings.HasPrefix(whole, field.text):
				t.Fatalf("%q does not begin %q", field.text, whole)
			case n < field.most && field.text != whole && utf8.ValidString(field.whole):
				t.Fatalf("only %d characters are left of %d", n, utf8.RuneCountInString(whole))
			}
		}
	})
}

func TestNewFailure_4_2_CutsAtCharacters(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	exact := strings.Repeat("𝄞", 2048)
	is.Equal(NewFailure("", errors.New(exact), "").Message, exact)
	is.Equal(NewFailure("", errors.New(exact+"𝄞"), "").Message, exact)
	is.Equal(NewFailure("", errors.New("a"+exact), "").Message, "a"+exact[:4*2047])
	is.Equal(utf8.RuneCountInString(NewFailure("", errors.New("x"), strings.Repeat("y", 1<<20)).Stack), 4096)
}

// named has a type name longer than what is stored of it.
type named[T any] struct{}

func (named[T]) Error() string { return "of a long name" }

func TestNewFailure_4_2_CutsTheName(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	err := named[struct {
		First, Second, Third, Fourth, Fifth, Sixth, Seventh, Eighth, Ninth, Tenth, Eleventh, Twelfth, Thirteenth, Fourteenth, Fifteenth,
		Sixteenth, Seventeenth, Eighteenth, Nineteenth, Twentieth, TwentyFirst, TwentySecond, TwentyThird, TwentyFourth, TwentyFifth time.Duration
	}]{}
	is.Equal(len(NewFailure("", err, "").Name), 256)
}

// The hostile errors have methods that panic.
type (
	panicsInError  struct{}
	panicsInAs     struct{}
	panicsInUnwrap struct{}
	panicsInIs     struct{}
	neverEnds      struct{} // unwraps to itself
)

func (panicsInError) Error() string  { panic("Error") }
func (panicsInAs) Error() string     { return "as" }
func (panicsInAs) As(any) bool       { panic("As") }
func (panicsInUnwrap) Error() string { return "unwrap" }
func (panicsInUnwrap) Unwrap() error { panic("Unwrap") }
func (neverEnds) Error() string      { return "never ends" }
func (e neverEnds) Unwrap() error    { return e }
func (panicsInIs) Error() string     { return "is" }
func (panicsInIs) Is(error) bool     { panic("Is") }

func TestFromHandler_4_2_HostileErrors(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	itself := []any{nil}
	itself[0] = itself
	for _, err := range []error{
		panicsInError{},
		panicsInAs{},
		panicsInUnwrap{},
		panicsInIs{},
		neverEnds{},
		fmt.Errorf("wrapped: %w", neverEnds{}), &PermanentError{Err: neverEnds{}}, &TimeoutError{Err: neverEnds{}}, errors.Join(neverEnds{}, neverEnds{}),
		(*fs.PathError)(nil), errors.Join(panicsInError{}, panicsInUnwrap{}),
		&PermanentError{Err: panicsInError{}}, &DecodeError{Err: panicsInUnwrap{}}, &PanicError{Value: panicsInError{}}, &PanicError{Value: make(chan int)}, &PanicError{Value: itself},
		&RetryAfterError{Err: panicsInAs{}}, fmt.Errorf("wrapped: %w", panicsInUnwrap{}),
	} {
		o := FromHandler(err)
		is.True(o.Failure != nil)
		is.True(o.Failure.Code == CodeHandlerError || o.Failure.Code == CodeDecodeError || o.Failure.Code == CodeHandlerTimeout)
		is.True(o.Failure.Message != "")
		is.True(o.Failure.Name != "")
	}
	// What lies before the hostile part is still found.
	is.True(FromHandler(&PermanentError{Err: panicsInError{}}).Permanent)
	is.Equal(FromHandler(panicsInError{}).Failure.Message, "(the error's own Error method panicked: string)")
}

func TestFromHandler_4_2_CodesAndNames(t *testing.T) {
	t.Parallel()
	cause := &fs.PathError{Op: "open", Path: "x", Err: fs.ErrNotExist}
	second := time.Second
	for name, test := range map[string]struct {
		err        error
		code, typ  string
		permanent  bool
		retryAfter *time.Duration
	}{
		"plain":                {cause, CodeHandlerError, "*fs.PathError", false, nil},
		"wrapped":              {fmt.Errorf("a: %w", fmt.Errorf("b: %w", cause)), CodeHandlerError, "*fs.PathError", false, nil},
		"permanent":            {&PermanentError{cause}, CodeHandlerError, "*fs.PathError", true, nil},
		"permanent, wrapped":   {fmt.Errorf("a: %w", &PermanentError{cause}), CodeHandlerError, "*fs.PathError", true, nil},
		"permanent in a join":  {errors.Join(cause, &PermanentError{cause}), CodeHandlerError, "*errors.joinError", true, nil},
		"retry after":          {fmt.Errorf("a: %w", &RetryAfterError{cause, time.Second}), CodeHandlerError, "*fs.PathError", false, &second},
		"both":                 {&RetryAfterError{&PermanentError{cause}, time.Second}, CodeHandlerError, "*fs.PathError", true, &second},
		"decode":               {&DecodeError{"t", "e", cause}, CodeDecodeError, "DecodeError", false, nil},
		"decode, wrapped":      {fmt.Errorf("a: %w", &PermanentError{&DecodeError{"t", "e", cause}}), CodeDecodeError, "DecodeError", true, nil},
		"panic":                {&PanicError{Value: 1, Stack: "stack"}, CodeHandlerError, "panic", false, nil},
		"context":              {context.Canceled, CodeHandlerError, "*errors.errorString", false, nil},
		"a lost lease":         {ErrLockLost, CodeHandlerError, "*errors.errorString", false, nil},
		"text of two wrappers": {fmt.Errorf("%w and %w", cause, cause), CodeHandlerError, "*fmt.wrapErrors", false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			is := is.New(t)
			o := FromHandler(test.err)
			is.Equal(o.Failure.Code, test.code)
			is.Equal(o.Failure.Name, test.typ)
			is.Equal(o.Permanent, test.permanent)
			is.Equal(o.RetryAfter == nil, test.retryAfter == nil)
			if o.RetryAfter != nil {
				is.Equal(*o.RetryAfter, *test.retryAfter)
			}
			is.Equal(o.Failure.Message, test.err.Error())
		})
	}
	is := is.New(t)
	is.Equal(FromHandler(nil), Outcome{})
	is.Equal(FromHandler(&PanicError{Value: 1, Stack: "stack"}).Failure.Stack, "stack")
	is.Equal(EventExpired(1).Message, "the event was no longer stored when the handler was to run: keep the event retention longer than the longest outage or retry window")
	is.Equal(EventExpired(3).Message, "all 3 events were no longer stored when the handler was to run: keep the event retention longer than the longest outage or retry window")
	is.Equal(WorkerLost().Code, CodeWorkerLost)
}
