package console

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/matryer/is"
)

// A minute of any number of viewers costs twelve looks, an hour of none costs nothing.
func TestCache_CostsTheSameForAllViewersAndNothingForNone(t *testing.T) {
	t.Parallel()
	for _, viewers := range []int{1, 50} {
		t.Run(fmt.Sprint(viewers), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var reads atomic.Int64
				c := newCache(func(context.Context, struct{}) (int64, error) {
					time.Sleep(100 * time.Millisecond) // a database
					return reads.Add(1), nil
				})
				var all sync.WaitGroup
				for viewer := range viewers {
					all.Go(func() {
						time.Sleep(time.Duration(viewer) * 97 * time.Millisecond)
						for range 12 {
							if _, err := c.get(t.Context(), struct{}{}); err != nil {
								t.Error(err)
							}
							time.Sleep(interval)
						}
					})
				}
				all.Wait()
				// The last viewer came up to five seconds after the first.
				if n := reads.Load(); n < 12 || n > 13 {
					t.Errorf("%d looks in a minute", n)
				}
				before := reads.Load()
				time.Sleep(time.Hour)
				if reads.Load() != before {
					t.Error("it looked while nobody did")
				}
			})
		})
	}
}

// Who came first may leave: the others get their answer. An error is an answer too, until the interval has passed.
func TestCache_SharesAnswersAndErrors(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		var reads atomic.Int64
		down := errors.New("down")
		c := newCache(func(ctx context.Context, key string) (string, error) {
			reads.Add(1)
			time.Sleep(time.Second)
			if key == "bad" {
				return "", down
			}
			return key, ctx.Err()
		})
		hasty, leave := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer leave()
		var both sync.WaitGroup
		both.Go(func() {
			_, err := c.get(hasty, "a")
			is.True(errors.Is(err, context.DeadlineExceeded))
		})
		both.Go(func() {
			answer, err := c.get(t.Context(), "a")
			is.NoErr(err)
			is.Equal(answer, "a")
		})
		both.Wait()
		is.Equal(reads.Load(), int64(1))
		for range 3 {
			_, err := c.get(t.Context(), "bad")
			is.True(errors.Is(err, down))
		}
		is.Equal(reads.Load(), int64(2))
		time.Sleep(interval)
		_, err := c.get(t.Context(), "bad")
		is.True(errors.Is(err, down))
		is.Equal(reads.Load(), int64(3))
	})
}

// What was being read while something changed answers nobody who asks after the change.
func TestCache_AChangeIsSeenAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		is := is.New(t)
		var state atomic.Int64
		c := newCache(func(context.Context, struct{}) (int64, error) {
			value := state.Load()
			time.Sleep(time.Second)
			return value, nil
		})
		var early sync.WaitGroup
		early.Go(func() {
			value, err := c.get(t.Context(), struct{}{})
			is.NoErr(err)
			is.Equal(value, int64(0))
		})
		time.Sleep(100 * time.Millisecond)
		state.Store(1)
		c.changed()
		value, err := c.get(t.Context(), struct{}{})
		is.NoErr(err)
		is.Equal(value, int64(1))
		early.Wait()
		value, err = c.get(t.Context(), struct{}{})
		is.NoErr(err)
		is.Equal(value, int64(1))
	})
}

// A cache holds a bounded number of answers, whatever is asked.
func TestCache_IsBounded(t *testing.T) {
	t.Parallel()
	c := newCache(func(_ context.Context, key int) (int, error) { return key, nil })
	for key := range 10 * maxCached {
		value, err := c.get(t.Context(), key)
		is.New(t).NoErr(err)
		is.New(t).Equal(value, key)
		if len(c.answers) > maxCached {
			t.Fatalf("%d answers", len(c.answers))
		}
	}
}
