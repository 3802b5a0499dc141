package exec

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
)

// away has a breaker open for so long, and then a trial reach the target.
func away(b *Breakers, d time.Duration) {
	b.Done("a", task.Run, 1, undelivered)
	time.Sleep(d)
	b.Begin("a", task.Run, 2)
	b.Done("a", task.Run, 2, succeeded)
}

func TestATargetThatIsBackGetsAGrowingShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := steady()
		away(b, 10*time.Second)
		var bounds []int
		next := task.ID(10)
		for range 11 {
			bounds = append(bounds, room(b))
			if n := room(b); n > 0 && n < 10 { // as many as may start do, and last
				for range n {
					require.True(t, b.Begin("a", task.Run, next))
					next++
				}
				n, wait := b.Room("a", task.Run)
				require.Zero(t, n)
				require.Equal(t, time.Second, wait)
			}
			time.Sleep(time.Second)
		}
		require.Equal(t, []int{2, 2, 4, 8, 16, 48, 112, 240, 496, 1008, -1}, bounds, "2, 4, 8, … less those that run")
	})
}

func TestTheShareGrowsAsLongAsTheTargetWasAway(t *testing.T) {
	for _, c := range []struct{ away, grows time.Duration }{{time.Second, time.Second}, {time.Hour, 20 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			b := steady()
			away(b, c.away)
			time.Sleep(c.grows - time.Nanosecond)
			require.Equal(t, rampFirst<<(rampSteps-1), room(b))
			time.Sleep(time.Nanosecond)
			require.Equal(t, noBound, room(b))
		})
	}
}

func TestTheShareShrinksWhereItIsTooMuch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := steady()
		away(b, 10*time.Second)
		time.Sleep(5 * time.Second)
		require.Equal(t, 64, room(b))
		b.Done("a", task.Run, 3, unavailable)
		require.Equal(t, 16, room(b))
		for id := range task.ID(3) {
			b.Done("a", task.Run, 4+id, unavailable)
		}
		require.Equal(t, rampFirst, room(b))
		time.Sleep(2 * time.Second)
		require.Equal(t, 8, room(b))
		b.Done("a", task.Run, 8, unavailable)
		require.Zero(t, room(b), "the fifth: it is away again")
		time.Sleep(time.Second)
		require.Equal(t, oneTrial, room(b))
		b.Begin("a", task.Run, 9)
		b.Done("a", task.Run, 9, succeeded)
		require.Equal(t, rampFirst, room(b), "anew")
	})
}

func TestAnAttemptThatNeverStartedTakesNoShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := steady()
		away(b, 10*time.Second)
		for id := range task.ID(2) {
			require.True(t, b.Begin("a", task.Run, 10+id))
		}
		require.Zero(t, room(b))
		b.Release("a", task.Run, 10)
		require.Equal(t, 1, room(b))
		b.Done("a", task.Run, 11, task.Outcome{Verdict: task.Lost})
		require.Equal(t, 2, room(b))
	})
}
