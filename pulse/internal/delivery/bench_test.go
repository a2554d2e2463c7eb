package delivery

import (
	"testing"
	"time"
)

// BenchmarkDecide is what the state machine costs a failed attempt.
func BenchmarkDecide(b *testing.B) {
	policy := Policy{MaxRetries: 5, RetryDelay: time.Second, Multiplier: 2}
	failed := Outcome{Failure: &Failure{Code: CodeHandlerError}}
	b.ReportAllocs()
	for b.Loop() {
		Decide(3, failed, policy)
	}
}
