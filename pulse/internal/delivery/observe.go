package delivery

import "github.com/orionjs/orion-go/pulse/observe"

// Observed is the verdict as observers are told it.
func Observed(v Verdict) observe.Outcome {
	switch v {
	case Succeeded:
		return observe.Success
	case Retried:
		return observe.Retry
	default:
		return observe.Error
	}
}
