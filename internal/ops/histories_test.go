package ops

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestHistoriesAreShared reads each history once for all who ask, and again if who has read it failed to.
func TestHistoriesAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h Histories
		reads := 0
		read := func() (*Activity, error) {
			reads++
			time.Sleep(time.Second)
			if reads == 1 {
				return nil, errors.New("the first goes away")
			}
			return &Activity{Now: time.Now()}, nil
		}
		var all sync.WaitGroup
		all.Go(func() {
			_, err := h.Look(t.Context(), LastHour, "", read)
			require.EqualError(t, err, "the first goes away")
		})
		synctest.Wait()
		hurry, stop := context.WithTimeout(t.Context(), time.Millisecond)
		defer stop()
		_, err := h.Look(hurry, LastHour, "", read)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		for range 100 {
			all.Go(func() {
				_, err := h.Look(t.Context(), LastHour, "", read)
				require.NoError(t, err)
			})
		}
		all.Wait()
		require.Equal(t, 2, reads)
		for _, other := range []struct {
			span  ActivitySpan
			typ   string
			after time.Duration
			reads int
		}{{LastHour, "a", 0, 3}, {LastTwoDays, "", 0, 4}, {LastTwoDays, "", twoDaysEvery - time.Second, 4}, {LastHour, "", 0, 5}, {LastTwoDays, "", time.Second, 6}} {
			time.Sleep(other.after)
			_, err := h.Look(t.Context(), other.span, other.typ, read)
			require.NoError(t, err)
			require.Equal(t, other.reads, reads, other)
		}
	})
}
