// Package hostile deals with what users' code hands over: errors whose methods panic or whose chains never end, values
// that cannot be printed, callbacks that do not return. None of it may stop who meets it.
package hostile

import (
	"fmt"
	"reflect"
	"strings"
)

// maxChain is how many errors of a chain or tree are looked at: far more than anybody wraps, and few enough for one
// that unwraps to itself.
const maxChain = 10_000

// As returns the first error of type T in the chain of err, in the order of errors.As and with its As methods. It looks
// at the first 10,000 errors of a chain and no further. A method that panics ends the search.
func As[T error](err error) (found T, ok bool) {
	defer func() {
		if recover() != nil {
			found, ok = *new(T), false
		}
	}()
	left := maxChain
	ok = as(err, &found, &left)
	return found, ok
}

func as[T error](err error, found *T, left *int) bool {
	for err != nil && *left > 0 {
		*left--
		if e, ok := err.(T); ok {
			*found = e
			return true
		}
		if e, ok := err.(interface{ As(target any) bool }); ok && e.As(found) {
			return true
		}
		switch e := err.(type) {
		case interface{ Unwrap() error }:
			err = e.Unwrap()
		case interface{ Unwrap() []error }:
			for _, one := range e.Unwrap() {
				if as(one, found, left) {
					return true
				}
			}
			return false
		default:
			return false
		}
	}
	return false
}

// Text returns the text of an error, or says that its Error method has panicked.
func Text(err error) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text = fmt.Sprintf("(the error's own Error method panicked: %T)", r)
		}
	}()
	return err.Error()
}

// maxValues is how many values within a value are printed.
const maxValues = 1000

// Print returns the text of a value that somebody's code has panicked with, or only its type when it cannot be
// printed: package fmt overflows the stack, which ends the process, on a slice or map that contains itself.
func Print(value any) (text string) {
	defer func() {
		if recover() != nil {
			text = fmt.Sprintf("value of type %T", value)
		}
	}()
	left := maxValues
	switch value.(type) {
	case error, fmt.Stringer:
	default:
		if !printable(reflect.ValueOf(value), &left, true) {
			return fmt.Sprintf("value of type %T", value)
		}
	}
	return strings.ToValidUTF8(fmt.Sprint(value), "\ufffd")
}

// printable tells whether what fmt goes through has an end.
func printable(v reflect.Value, left *int, outermost bool) bool {
	if *left--; *left < 0 {
		return false
	}
	switch v.Kind() {
	case reflect.Interface:
		return printable(v.Elem(), left, false)
	case reflect.Pointer: // an inner one is printed as its address
		return !outermost || printable(v.Elem(), left, false)
	case reflect.Struct:
		for i := range v.NumField() {
			if !printable(v.Field(i), left, false) {
				return false
			}
		}
	case reflect.Array, reflect.Slice:
		if k := v.Type().Elem().Kind(); k <= reflect.Complex128 || k == reflect.String {
			return true // of any length: nothing lies within
		}
		for i := range v.Len() {
			if !printable(v.Index(i), left, false) {
				return false
			}
		}
	case reflect.Map:
		for entries := v.MapRange(); entries.Next(); {
			if !printable(entries.Key(), left, false) || !printable(entries.Value(), left, false) {
				return false
			}
		}
	}
	return true
}
