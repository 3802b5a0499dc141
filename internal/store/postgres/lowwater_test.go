package postgres

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// TestLowWater walks one lane through its life, on a clock of its own.
func TestLowWater(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	f := newLowWater()
	f.now = func() time.Time { return now }
	claim := func(n int) store.Claim {
		return store.Claim{Region: "sg", Wants: []store.Want{
			{Type: "other", Phase: task.Run, N: 1}, {Type: "a", Phase: task.Run, N: n},
		}}
	}
	next := task.ID(0)
	rows := func(n int) (all []task.Task) {
		for range n {
			next++
			all = append(all, task.Task{
				ID: next, Type: "a", State: task.StateRunning, Region: "sg", Priority: 3, RunAt: time.Unix(int64(next), 0),
			})
		}
		return all
	}
	// The place of (want 2, region 2, priority 3) among two wants, two regions and 21 priorities from high to low.
	const place = (1*2+1)*priorities + 7
	full := func(took time.Duration, n int) *look {
		l := f.look(claim(n))
		now = now.Add(took)
		again := f.note(l, rows(n), false)
		require.NotContains(t, again, l.claim.Wants[1])
		return l
	}
	require.Empty(t, full(0, 60).at, "the first look is from zero")
	require.Empty(t, full(0, 60).at, "there are no marks for so few rows")
	l := full(0, 60)
	require.Len(t, l.at, 2*2*priorities)
	for i := range l.at {
		if i == place {
			require.Equal(t, time.Unix(120, 0), l.at[i])
			require.EqualValues(t, 120, l.id[i])
			continue
		}
		require.True(t, l.at[i].IsZero(), "place %d has no mark", i)
	}
	require.Equal(t, time.Unix(180, 0), full(0, 60).at[place], "it rises with each claim")

	now = now.Add(lowLeast)
	require.Empty(t, full(100*time.Millisecond, 60).at, "and is looked below every second")
	now = now.Add(lowShare*100*time.Millisecond - time.Millisecond - 100*time.Millisecond)
	require.NotEmpty(t, full(0, 60).at, "less often, if that was dear")
	now = now.Add(time.Millisecond)
	require.Empty(t, full(time.Minute, 60).at)
	now = now.Add(lowMost)
	require.Empty(t, full(0, 60).at, "but every five seconds at least")

	// Short above a mark: what is missing is asked for once more, from zero.
	l = f.look(claim(60))
	require.NotEmpty(t, l.at)
	again := f.note(l, rows(13), false)
	require.Equal(t, []store.Want{{Type: "a", Phase: task.Run, N: 47}}, again)
	require.Empty(t, f.look(claim(60)).at)
	// Short from zero: there is no more.
	l = f.look(claim(60))
	require.Empty(t, f.note(l, rows(13), false))
	require.Empty(t, full(0, 60).at)

	// A claim under way while another finds the lane short leaves no mark behind.
	require.Empty(t, full(0, 60).at)
	above := f.look(claim(60))
	require.NotEmpty(t, above.at)
	f.note(f.look(claim(60)), nil, false)
	f.note(above, rows(60), false)
	require.Empty(t, f.look(claim(60)).at)
}

// TestMarksOfTenants: one of many tenants has marks only while looks from zero read entries again that others have come by.
func TestMarksOfTenants(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	f := newLowWater()
	f.now = func() time.Time { return now }
	tenants := []string{"m", "n"}
	c := store.Claim{Wants: []store.Want{{Type: "a", Phase: task.Run, N: 1}, {Type: "a", Phase: task.Run, N: 1}}}
	next := task.ID(0)
	claim := func(dead int) (marks int) {
		l := f.lookOf(c, tenants)
		var rows []task.Task
		for _, name := range tenants {
			next++
			rows = append(rows, task.Task{ID: next, Type: "a", State: task.StateRunning, Tenant: name, RunAt: time.Unix(int64(next), 0)})
		}
		l.read = len(rows) + dead
		require.Empty(t, f.note(l, rows, false))
		return len(l.at)
	}
	require.Zero(t, claim(0))
	for range 20 {
		require.Zero(t, claim(2), "the index forgets what was read once")
	}
	require.Zero(t, claim(2*(lowDead+4)), "other agents may have taken as many")
	require.Zero(t, claim(2*(lowDead+4)+1))
	claim(0)
	require.Equal(t, 2, claim(0), "the entries stay: they are passed over")
	require.Equal(t, 2, claim(2*lowDead), "what is read above the marks says nothing of this")
	for range 30 {
		claim(0)
	}
	now = now.Add(lowLeast)
	require.Zero(t, claim(2*33), "each lane is looked at from zero every second")
	require.Equal(t, 2, claim(2), "which has found no more than was left in that second: the index may forget again")
	now = now.Add(lowMost)
	require.Zero(t, claim(2*5))
	require.Zero(t, claim(2), "it does: no look has read an entry again for a while")

	for range lowAfter {
		claim(2)
	}
	require.Equal(t, 2, claim(2), "after so many rows every lane has marks")
}
