package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The timer fires at the nearest of the times, once, and can then be armed again.
func TestDueTimer_3_4_FiresAtTheNearestTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		d := newDueTimer()
		begun := time.Now()
		fires := func(after time.Duration) {
			t.Helper()
			<-d.fired
			is.Equal(time.Since(begun), after)
			begun = time.Now()
		}
		d.at(time.Hour)
		d.at(time.Minute)
		d.at(2 * time.Hour)
		fires(time.Minute)
		d.at(time.Second) // the later ones are found by the look that it causes
		d.at(time.Second)
		fires(time.Second)
		d.at(-time.Hour) // overdue
		fires(0)
		d.at(time.Minute)
		d.stop()
		time.Sleep(time.Hour)
		is.Equal(len(d.fired), 0)
	})
}
