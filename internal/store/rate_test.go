package store_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
)

// Whatever the rate, and however irregular the claims, the rate is kept over a minute, and no second has more than the burst and twice
// the rate.
func TestBucketKeepsTheRate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rate  float64
		burst int
	}{{100, 100}, {100, 1}, {7.5, 8}, {0.5, 1}, {1000, 20}} {
		random := rand.New(rand.NewPCG(1, 2))
		began := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
		b, now := store.FullBucket(c.burst, began), began
		var starts []time.Time
		for now.Sub(began) < 2*time.Minute {
			b = b.Refilled(c.rate, c.burst, 0, now)
			n, next := b.Room(c.rate, c.burst)
			require.LessOrEqual(t, n, c.burst)
			b.Tokens -= float64(n)
			for range n {
				starts = append(starts, now)
			}
			if n > 0 {
				next = time.Millisecond
			}
			require.Positive(t, next)
			now = now.Add(next + time.Duration(random.IntN(5))*time.Millisecond)
		}
		steady, most, first := 0, 0, 0
		for i, at := range starts {
			if at.Sub(began) >= time.Minute {
				steady++
			}
			for at.Sub(starts[first]) >= time.Second {
				first++
			}
			most = max(most, i-first+1)
		}
		require.LessOrEqual(t, float64(most), float64(c.burst)+2*c.rate)
		require.InEpsilon(t, c.rate*60, steady, 0.02+1/(c.rate*60), "%+v", c)
	}
}

func TestBucketOutlivesJumpsOfTheClock(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	b := store.Bucket{Tokens: 3, At: began}
	back := b.Refilled(10, 5, 0, began.Add(-time.Hour))
	require.InDelta(t, 3, back.Tokens, 1e-9, "nothing is lost")
	require.InDelta(t, 4, back.Refilled(10, 5, 0, began.Add(-time.Hour+100*time.Millisecond)).Tokens, 1e-9, "and it goes on from there")
	n, _ := b.Refilled(10, 5, 0, began.Add(time.Hour)).Room(10, 5)
	require.Equal(t, 5, n)
	n, _ = b.Refilled(10, 5, 1, began).Room(10, 5)
	require.Equal(t, 4, n, "one was returned")
	_, next := store.Bucket{Tokens: 0.25, At: began}.Room(0.5, 5)
	require.Equal(t, 1500*time.Millisecond, next)
}
