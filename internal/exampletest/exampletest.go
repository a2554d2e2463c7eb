// Package exampletest gives Example functions the testing.TB that the code they show takes from its test.
package exampletest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
)

// Run runs f with a test of its own. What the test reports is printed, so that it differs from the output that the
// example promises.
func Run(f func(t testing.TB)) {
	ctx, cancel := context.WithCancel(context.Background())
	t := &example{ctx: ctx}
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(t)
	}()
	<-done
	cancel() // as a test's context, before its clean-ups
	for _, cleanup := range slices.Backward(t.cleanups) {
		cleanup()
	}
}

// example is a test that prints its failures. Methods that it lacks are those of a nil TB.
type example struct {
	testing.TB
	ctx      context.Context
	cleanups []func()
	failed   bool
}

func (e *example) Helper()                         {}
func (e *example) Name() string                    { return "Example" }
func (e *example) Context() context.Context        { return e.ctx }
func (e *example) Cleanup(f func())                { e.cleanups = append(e.cleanups, f) }
func (e *example) Failed() bool                    { return e.failed }
func (e *example) Log(args ...any)                 { fmt.Println(args...) }
func (e *example) Logf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func (e *example) Fail()                           { e.failed = true; fmt.Println("failed") }
func (e *example) FailNow()                        { e.Fail(); runtime.Goexit() }
func (e *example) Error(args ...any)               { e.Log(args...); e.Fail() }
func (e *example) Errorf(format string, a ...any)  { e.Logf(format, a...); e.Fail() }
func (e *example) Fatal(args ...any)               { e.Log(args...); e.FailNow() }
func (e *example) Fatalf(format string, a ...any)  { e.Logf(format, a...); e.FailNow() }
func (e *example) Skip(args ...any)                { e.Log(args...); runtime.Goexit() }
