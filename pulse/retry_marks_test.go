package pulse_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/matryer/is"

	"github.com/orionjs/orion-go/pulse"
)

func TestErrors_4_6_MarksCanBeAskedFor(t *testing.T) {
	t.Parallel()
	is := is.New(t)
	cause := errors.New("cause")
	is.True(pulse.IsPermanent(fmt.Errorf("a: %w", pulse.Permanent(cause))))
	is.True(!pulse.IsPermanent(cause) && !pulse.IsPermanent(nil))
	d, ok := pulse.RetryAfterOf(fmt.Errorf("a: %w", pulse.RetryAfter(cause, time.Second)))
	is.True(ok)
	is.Equal(d, time.Second)
	d, ok = pulse.RetryAfterOf(pulse.RetryAfter(cause, -time.Second))
	is.True(ok)
	is.Equal(d, time.Duration(0)) // a negative one is none
	_, ok = pulse.RetryAfterOf(cause)
	is.True(!ok)
}
