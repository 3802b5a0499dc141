package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func chunkPaused(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.plan("p")
	r.begins("p")
	before := chunkStep(r.lookPlan("p"))
	cuts(before, 10)
	r.PauseChunkPlan(t, "p")
	look := r.lookPlan("p")
	require.True(t, look.Plan.Paused)
	after := chunkStep(look)
	cuts(after, 10)
	for _, s := range []*store.ChunkStep{before, after} {
		applied, err := r.ApplyChunks(r.ctx, s)
		require.NoError(t, err)
		require.False(t, applied)
	}
	require.Equal(t, look.Plan, r.lookPlan("p").Plan)
	require.Empty(t, r.rows())
}

func chunkStopped(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.plan("p")
	r.begins("p")
	s := r.planStep("p", func(s *store.ChunkStep) { cuts(s, 10) })
	stale := chunkStep(r.lookPlan("p"))
	cuts(stale, 20)
	_, err := r.CancelBatch(r.ctx, s.Batch, "alice")
	require.NoError(t, err)
	require.True(t, r.lookPlan("p").Plan.Paused)
	applied, err := r.ApplyChunks(r.ctx, stale)
	require.NoError(t, err)
	require.False(t, applied)
	require.Len(t, r.rows(), 1)
}

// obstaclesOf lists the obstacles of a plan as texts.
func (r *rig) obstaclesOf(name string, limit int) (list []store.ChunkObstacle, more bool) {
	r.t.Helper()
	look, err := r.LookPlan(r.ctx, name, limit)
	require.NoError(r.t, err)
	return look.Obstacles, look.More
}

func chunkObstacles(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.plan("p")
	r.plan("other")
	r.pass("other", 15)
	r.ends(1)
	tasks := r.pass("p", 10, 20, 30, 40)
	running := r.claim(want(kind, 4))
	require.Len(t, running, 4)
	bad := finish(running[1])
	bad.Next.State, bad.Outcome = task.StateFailed, task.Outcome{Verdict: task.Rejected, Error: "never"}
	r.settled(finish(running[0]), bad, retry(running[3], time.Hour))
	between := func(i, after, through int, s store.ChunkState, failures int) store.ChunkObstacle {
		return store.ChunkObstacle{
			ID: int64(tasks[i]), Pass: 1, Range: store.ChunkRange{After: chunkKey(after), Through: chunkKey(through)}, Rows: 10, State: s, Failures: failures,
		}
	}
	all := []store.ChunkObstacle{between(1, 10, 20, store.ChunkFailed, 1), between(2, 20, 30, store.ChunkLive, 0), between(3, 30, 40, store.ChunkLive, 0)}
	look := r.lookPlan("p")
	require.Equal(t, all, look.Obstacles)
	require.False(t, look.More)
	require.Equal(t, 2, look.Live)
	list, more := r.obstaclesOf("p", 2)
	require.Equal(t, all[:2], list)
	require.True(t, more)
	r.begins("p")
	require.Equal(t, all, r.lookPlan("p").Obstacles, "now that they are noted, too")
}

func chunkSkipped(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.plan("p")
	tasks := r.pass("p", 10, 20, 30)
	r.begins("p")
	before := r.lookPlan("p").Obstacles
	require.Len(t, before, 3)
	r.planStep("p", func(s *store.ChunkStep) {
		for i := range 2 {
			o := before[i]
			s.Items = append(s.Items, store.ChunkItem{Kind: store.ChunkSkip, Range: o.Range, Rows: o.Rows, Obstacle: &o})
			s.After.Cursor = o.Range.Through
		}
	})
	left := r.lookPlan("p").Obstacles
	require.Len(t, left, 1)
	require.Equal(t, int64(tasks[2]), left[0].ID)
	r.planStep("p", func(s *store.ChunkStep) {
		o := left[0]
		s.Items = append(s.Items, store.ChunkItem{Kind: store.ChunkSkip, Range: o.Range, Rows: o.Rows, Obstacle: &o})
		s.After.Cursor = o.Range.Through
		seals(s)
	})
	for i := range before {
		before[i].Pass = 2
	}
	require.Equal(t, before, r.lookPlan("p").Obstacles, "in the same order")
	require.Len(t, r.ChunkPasses(t, "p"), 1)
	require.Len(t, r.rows(), 3)
}

// failedRange plans a range that fails in its first pass, begins the next, and returns a step that plans it again.
func (r *rig) failedRange(name string) (old task.ID, again *store.ChunkStep) {
	r.t.Helper()
	tasks := r.pass(name, 10)
	r.ends(1, task.StateFailed)
	r.begins(name)
	look := r.lookPlan(name)
	require.Len(r.t, look.Obstacles, 1)
	s := chunkStep(look)
	s.Items = []store.ChunkItem{{Kind: store.ChunkInsert, Range: look.Obstacles[0].Range, Rows: 10, Obstacle: &look.Obstacles[0]}}
	s.After.Cursor = look.Obstacles[0].Range.Through
	return tasks[0], s
}

func chunkAgain(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.plan("p")
	_, s := r.failedRange("p")
	applied, err := r.ApplyChunks(r.ctx, s)
	require.NoError(t, err)
	require.True(t, applied)
	require.Empty(t, r.lookPlan("p").Obstacles)
	require.Equal(t, 1, r.lookPlan("p").Live)
	r.planStep("p", seals)
	r.ends(1, task.StateFailed)
	list, _ := r.obstaclesOf("p", 10)
	require.Len(t, list, 1)
	require.Equal(t, 2, list[0].Failures, "in a row")
	require.Equal(t, store.ChunkFailed, list[0].State)
}

func chunkRetried(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.plan("p")
	old, s := r.failedRange("p")
	_, err := r.Retry(r.ctx, old, "alice")
	require.NoError(t, err)
	applied, err := r.ApplyChunks(r.ctx, s)
	require.NoError(t, err)
	require.False(t, applied)
	list, _ := r.obstaclesOf("p", 10)
	require.Len(t, list, 1)
	require.Equal(t, store.ChunkLive, list[0].State)
	r.ends(1)
	r.planStep("p", seals)
	require.Empty(t, r.lookPlan("p").Obstacles, "what it became is known")
	require.Len(t, r.rows(), 1)
}

func chunkBroughtBack(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.plan("p")
	old, s := r.failedRange("p")
	require.Equal(t, 1, r.lookPlan("p").Whole)
	applied, err := r.ApplyChunks(r.ctx, s)
	require.NoError(t, err)
	require.True(t, applied)
	r.planStep("p", seals)
	require.Zero(t, r.lookPlan("p").Whole, "no pass is being planned")
	r.planStep("p", func(s *store.ChunkStep) { // behind what the one before has planned
		s.After.Pass++
		s.After.Planning, s.After.From, s.After.Cursor = true, chunkKey(10), chunkKey(10)
		cuts(s, 20)
	})
	require.Zero(t, r.lookPlan("p").Whole, "none is over the whole table")
	r.planStep("p", seals)
	_, err = r.Retry(r.ctx, old, "alice")
	require.NoError(t, err)
	r.begins("p")
	look := r.lookPlan("p")
	require.Equal(t, 2, look.Whole)
	var passes []int
	for _, o := range look.Obstacles {
		require.Equal(t, store.ChunkLive, o.State)
		passes = append(passes, o.Pass)
	}
	require.Equal(t, []int{1, 2, 3}, passes)
	require.Equal(t, int64(old), look.Obstacles[0].ID)
	require.Equal(t, look.Obstacles[0].Range, look.Obstacles[1].Range)
}

func chunkRolledBack(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	r.plan("p")
	tasks := r.pass("p", 10, 20)
	for range tasks {
		r.settled(ended(r.claimSome(kind), task.Succeeded, task.StateSucceeded))
	}
	r.begins("p") // which notes them
	require.Empty(t, r.lookPlan("p").Obstacles)
	_, err := r.Rollback(r.ctx, tasks[1], "alice")
	require.NoError(t, err)
	list, _ := r.obstaclesOf("p", 10)
	require.Len(t, list, 1)
	require.Equal(t, int64(tasks[1]), list[0].ID)
	require.Equal(t, store.ChunkLive, list[0].State)
	r.settled(ended(r.claimOne(kind, task.Rollback), task.Succeeded, task.StateRolledBack))
	require.Empty(t, r.lookPlan("p").Obstacles, "it did not fail")
}

// chunkLate: a chunk counts, however many later ones have ended, and counts again each time that it was revived.
func chunkLate(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	r.plan("p")
	r.begins("p")
	for _, k := range []int{10, 20, 30} {
		r.planStep("p", func(s *store.ChunkStep) { cuts(s, k) })
	}
	first := r.claimSome(kind)
	r.rig.ends(2)
	noted := func(rows, live int) {
		t.Helper()
		for range 3 {
			r.planStep("p", func(*store.ChunkStep) {})
		}
		look := r.lookPlan("p")
		require.EqualValues(t, rows, look.Rows)
		require.Equal(t, live, look.Live)
		plans, err := r.ListChunks(r.ctx, store.ChunkPlanFilter{Limit: 10})
		require.NoError(t, err)
		require.Len(t, plans, 1)
		require.EqualValues(t, live, plans[0].Live)
		require.EqualValues(t, rows, plans[0].Done)
	}
	noted(20, 1)
	r.settled(ended(first, task.Rejected, task.StateFailed))
	noted(20, 0)
	_, err := r.Retry(r.ctx, first.ID, "alice")
	require.NoError(t, err)
	noted(20, 1)
	r.rig.ends(1)
	plans, err := r.ListChunks(r.ctx, store.ChunkPlanFilter{Limit: 10})
	require.NoError(t, err)
	require.EqualValues(t, 30, plans[0].Done, "before it is noted, too")
	noted(30, 0)
}

// claimSome claims one row of a type.
func (r *opsRig) claimSome(typ string) task.Task {
	r.t.Helper()
	got := r.claim(wantOf(typ, task.Run, 1))
	require.Len(r.t, got, 1)
	return got[0]
}

func chunkForgotten(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.plan("p")
	tasks := r.pass("p", 10, 20)
	r.ends(2, task.StateFailed)
	_, err := r.Fold(r.ctx, 100)
	require.NoError(t, err)
	r.begins("p")
	look := r.lookPlan("p")
	require.Len(t, look.Obstacles, 1)
	for _, id := range tasks {
		_, err = h.RetryWith(r.ctx, id, raw(`{"from": 1}`), "alice")
		require.ErrorAs(t, err, new(*store.RefusedError), "a chunk's payload is its range")
	}
	r.Advance(t, 8*day)
	r.maintain(7 * day)
	for _, id := range tasks {
		r.gone(id)
	}
	list, _ := r.obstaclesOf("p", 10)
	require.Equal(t, look.Obstacles, list)
	require.Len(t, r.ChunkPasses(t, "p"), 2, "the ledger stays")
	s := chunkStep(r.lookPlan("p"))
	s.Items = []store.ChunkItem{{Kind: store.ChunkInsert, Range: list[0].Range, Rows: 10, Obstacle: &list[0]}}
	s.After.Cursor = list[0].Range.Through
	applied, err := r.ApplyChunks(r.ctx, s)
	require.NoError(t, err)
	require.True(t, applied)
	require.Empty(t, r.lookPlan("p").Obstacles)
}

func chunkForgottenAtTheEnd(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.plan("p")
	tasks := r.pass("p", 10, 20, 30)
	r.ends(3, "", task.StateFailed)
	_, err := r.Fold(r.ctx, 100)
	require.NoError(t, err)
	before := r.lookPlan("p").Obstacles
	require.Len(t, before, 1)
	require.Equal(t, store.ChunkFailed, before[0].State)
	r.Advance(t, 8*day)
	r.maintain(7 * day)
	for _, id := range tasks {
		r.gone(id)
	}
	require.Equal(t, before, r.lookPlan("p").Obstacles)
	r.maintain(7 * day)
	require.Equal(t, before, r.lookPlan("p").Obstacles)
}

func chunkMeasured(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.plan("p")
	r.pass("p", 10, 20, 30)
	r.ends(3, "", task.StateFailed)
	require.Zero(t, r.lookPlan("p").Rows, "not noted yet")
	r.begins("p")
	look := r.lookPlan("p")
	require.EqualValues(t, 20, look.Rows)
	require.InDelta(t, (2 * time.Minute).Seconds(), look.Took.Seconds(), 5)
	require.NotEmpty(t, look.Sampled)
	r.planStep("p", func(s *store.ChunkStep) { s.After.Sampled = look.Sampled })
	look = r.lookPlan("p")
	require.Zero(t, look.Rows)
	require.Zero(t, look.Took)
	require.Empty(t, look.Sampled)
}

func chunkKept(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.plan("p")
	at := r.now().UTC().Truncate(time.Millisecond)
	s := r.planStep("p", func(s *store.ChunkStep) {
		s.After.Pass, s.After.Planning, s.After.Full, s.After.Cost = 1, true, true, 1234*time.Microsecond
		s.After.Size, s.After.PerRow, s.After.Holder, s.After.HeldUntil = 77, 0.125, "a", at.Add(time.Minute)
	})
	require.Equal(t, s.After, r.lookPlan("p").Plan)
	s = r.planStep("p", func(s *store.ChunkStep) {
		cuts(s, 10)
		seals(s)
		s.After.High, s.After.GrowAt, s.After.RepeatAt = chunkKey(10), at.Add(time.Second), at.Add(time.Hour)
		s.After.Rest = 39 * time.Microsecond
		s.After.Holder, s.After.HeldUntil, s.After.Cost = "", time.Time{}, 2*time.Millisecond
	})
	want := s.After
	want.Full, want.Cursor, want.Cost = false, nil, 0
	require.Equal(t, want, r.lookPlan("p").Plan)
	s = r.planStep("p", func(s *store.ChunkStep) {
		s.After.Pass, s.After.Planning, s.After.From, s.After.Cursor = 2, true, chunkKey(10), chunkKey(10)
	})
	require.Equal(t, s.After, r.lookPlan("p").Plan)
	s = r.planStep("p", func(s *store.ChunkStep) {
		seals(s)
		s.After.Over = true
	})
	want = s.After
	want.From, want.Cursor = nil, nil
	require.Equal(t, want, r.lookPlan("p").Plan)
	require.Len(t, r.ChunkPasses(t, "p"), 1)
}
