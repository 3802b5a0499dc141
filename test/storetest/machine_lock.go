package storetest

import (
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// promote has locks passed on.
func (m *machine) promote(*rapid.T) {
	ctx := m.begin()
	want, err := m.ideal.Promote(ctx, 1000)
	require.NoError(m.t, err)
	left, err := m.real.Left(ctx)
	require.NoError(m.t, err)
	got, err := m.real.Promote(ctx, 1000)
	require.NoError(m.t, err)
	m.samePromoted(want, got)
	if !left.Turns {
		require.Zero(m.t, got, "a promotion of which the look said that there is none")
	}
}

func (m *machine) samePromoted(want, got store.Promoted) {
	require.Equal(m.t, inHalves(want.Next), inHalves(got.Next), "when the next lock is free")
	want.Next, got.Next = 0, 0
	require.Equal(m.t, want, got, "what is promoted")
}

// passes has some claims pass on locks and turns first. They are of all rows of one type: which of several types gets a lock first, and whether
// rows with locks come before those with sequences, is up to the store.
func (m *machine) passes(t *rapid.T, c *store.Claim) {
	if len(c.Wants) == 0 || c.Wants[0].Type != c.Wants[len(c.Wants)-1].Type || !rapid.Bool().Draw(t, "passes on") {
		return
	}
	c.Pass = &store.Pass{Most: 1000, Only: rapid.Bool().Draw(t, "only")}
	for i := range c.Wants {
		c.Wants[i].N = 100
	}
}

// lockClass is what one want may claim of the rows that wait for a lock.
type lockClass struct {
	lock, typ, region string
	phase             task.Phase
}

// locksAreRight finds what must never be of the tasks of a store: two that run with the same lock; or one that waits for its lock
// while nothing runs with that, and no other can be claimed by those who could claim it, when all locks that rows have left were
// passed on.
func locksAreRight(t require.TestingT, tasks []store.TaskInfo, now time.Time, passedOn bool) {
	running, candidates := map[string]task.ID{}, map[lockClass]bool{}
	of := func(i *store.TaskInfo) lockClass { return lockClass{i.Lock, i.Type, i.Region, i.State.Phase()} }
	for i := range tasks {
		switch row := &tasks[i]; {
		case row.Lock == "":
			require.NotEqual(t, task.HoldLock, row.Held, "task %d has no lock to wait for", row.ID)
		case row.State.Running():
			require.Empty(t, row.Held, "task %d runs", row.ID)
			require.Zero(t, running[row.Lock], "task %d runs with lock %s, too", row.ID, row.Lock)
			running[row.Lock] = row.ID
		case row.State.Waiting() && row.Held == "" && !row.RunAt.After(now):
			candidates[of(row)] = true
		}
	}
	for i := range tasks {
		if row := &tasks[i]; row.Held == task.HoldLock && passedOn && running[row.Lock] == 0 {
			require.True(t, candidates[of(row)], "task %d waits for lock %s, which is free", row.ID, row.Lock)
		}
	}
}

// compareLocks promotes nothing: it looks at what runs at once, and asks the model whether anything is to be passed on.
func (m *machine) compareLocks(got []store.TaskInfo) {
	locksAreRight(m.t, got, m.real.Now(), m.ideal.LocksArePassedOn())
}
