package ops

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
)

// unreachable is a store that takes its time to fail.
type unreachable struct {
	Diagnoser
	after time.Duration
	asked int
}

func (u *unreachable) Diagnose(ctx context.Context) (*store.Diagnosis, error) {
	u.asked++
	select {
	case <-time.After(u.after):
		return nil, fmt.Errorf("no route to host (%d)", u.asked)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// TestCheckupsAreShared examines the store once for all who ask, also if the first of them goes away.
func TestCheckupsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := &unreachable{after: 3 * time.Second}
		c := NewCheckups(u)
		leaves, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var all sync.WaitGroup
		look := func(ctx context.Context, times int) {
			found, err := c.Look(ctx)
			require.NoError(t, err)
			require.False(t, found.Healthy)
			require.Contains(t, found.Findings[0].What, fmt.Sprintf("no route to host (%d)", times))
		}
		all.Go(func() { look(leaves, 1) })
		synctest.Wait()
		for range 100 {
			all.Go(func() { look(t.Context(), 1) })
		}
		hurry, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		_, err := c.Look(hurry)
		require.ErrorIs(t, err, context.DeadlineExceeded, "no longer than they want to wait")
		all.Wait()
		time.Sleep(checkupEvery - time.Millisecond)
		look(t.Context(), 1)
		time.Sleep(time.Millisecond)
		look(t.Context(), 2)
		require.Equal(t, 2, u.asked)

		time.Sleep(checkupEvery)
		u.after = time.Hour
		began := time.Now()
		found, err := c.Look(t.Context())
		require.NoError(t, err)
		require.Contains(t, found.Findings[0].What, "deadline exceeded", "that it does not answer is a finding")
		require.Equal(t, checkupWithin, time.Since(began))
	})
}
