package storetest

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func chunkChecks() []Check {
	return []Check{
		{"a plan as it was declared", chunkNew},
		{"no such plan", chunkNone},
		{"a step inserts its chunks", chunkInserts},
		{"a pass is a batch, sealed at its end", chunkSeals},
		{"a step continues the one before", chunkContinues},
		{"a pass without chunks leaves nothing", chunkEmpty},
		{"a version applies once", chunkOnce},
		{"many agents apply a step once", chunkRace},
		{"a crash plans once or not at all", chunkCrash},
		{"a paused plan is left alone", chunkPaused},
		{"a pass whose batch is stopped is left alone", chunkStopped},
		{"obstacles of earlier passes", chunkObstacles},
		{"a range that is skipped is one of this pass", chunkSkipped},
		{"a range that failed is planned again once", chunkAgain},
		{"a range that is retried is not planned again", chunkRetried},
		{"a range that is retried after it was planned again is told apart", chunkBroughtBack},
		{"a success that is rolled back is an obstacle", chunkRolledBack},
		{"what ends late is noted, and again when it was revived", chunkLate},
		{"what failed is known past its retention", chunkForgotten},
		{"what failed is known past its retention where no step follows", chunkForgottenAtTheEnd},
		{"what succeeded is measured", chunkMeasured},
		{"where a plan stands is kept", chunkKept},
	}
}

func chunkKey(n int) *store.ChunkKey { return new(store.ChunkKey(strconv.Itoa(n))) }

// plan declares a plan that follows its table.
func (r *rig) plan(name string) {
	r.t.Helper()
	r.AddChunkPlan(r.t, store.ChunkSpec{
		Name: name, Task: kind, Table: "event", Key: "id", Size: store.ChunkSize{Start: 10}, Ahead: 64, Follow: time.Minute,
	})
}

func (r *rig) lookPlan(name string) *store.ChunkLook {
	r.t.Helper()
	look, err := r.LookPlan(r.ctx, name, 100)
	require.NoError(r.t, err)
	return look
}

// chunkStep is a step of what was seen that changes nothing yet.
func chunkStep(look *store.ChunkLook) *store.ChunkStep {
	s := &store.ChunkStep{Name: look.Spec.Name, Before: look.Plan.Version, After: look.Plan}
	s.After.Version++
	s.After.Paused = false
	return s
}

// planStep applies a step of a plan as it is.
func (r *rig) planStep(name string, change func(*store.ChunkStep)) *store.ChunkStep {
	r.t.Helper()
	s := chunkStep(r.lookPlan(name))
	change(s)
	applied, err := r.ApplyChunks(r.ctx, s)
	require.NoError(r.t, err)
	require.True(r.t, applied)
	return s
}

// begins has a pass over the whole table begin.
func (r *rig) begins(name string) {
	r.t.Helper()
	r.planStep(name, func(s *store.ChunkStep) {
		s.After.Pass++
		s.After.Planning, s.After.Full, s.After.From, s.After.Cursor = true, true, nil, nil
	})
}

// cuts adds a chunk to a step, up to a key.
func cuts(s *store.ChunkStep, through int) {
	i := store.ChunkItem{Kind: store.ChunkInsert, Range: store.ChunkRange{After: s.After.Cursor, Through: chunkKey(through)}, Rows: 10}
	s.Items, s.After.Cursor = append(s.Items, i), i.Range.Through
}

// seals ends the pass.
func seals(s *store.ChunkStep) { s.After.Planning, s.Sealed = false, true }

// pass plans a whole pass of chunks that end with these keys, and returns their tasks.
func (r *rig) pass(name string, through ...int) []task.ID {
	r.t.Helper()
	r.begins(name)
	s := r.planStep(name, func(s *store.ChunkStep) {
		for _, k := range through {
			cuts(s, k)
		}
		seals(s)
	})
	list, err := r.List(r.ctx, store.TaskFilter{Batch: s.Batch, Limit: 1000})
	require.NoError(r.t, err)
	var all []task.ID
	for _, i := range list {
		all = append(all, i.ID)
	}
	slices.Sort(all)
	require.Len(r.t, all, len(through))
	return all
}

// ends runs all chunks that are due, and ends each as the state in its place says; "": well.
func (r *rig) ends(n int, states ...task.State) {
	r.t.Helper()
	rows := r.claim(want(kind, n))
	require.Len(r.t, rows, n)
	slices.SortFunc(rows, func(a, b task.Task) int { return int(a.ID - b.ID) })
	for i, row := range rows {
		end := finish(row)
		if i < len(states) && states[i] == task.StateFailed {
			end.Next.State, end.Outcome = task.StateFailed, task.Outcome{Verdict: task.Rejected, Error: "never"}
		}
		r.settled(end)
	}
}

func chunkNew(t testing.TB, h Harness) {
	r := newRig(t, h)
	spec := store.ChunkSpec{
		Name: "p", Task: kind, Table: "event", Key: "id", Ahead: 7, Follow: 30 * time.Second,
		Size: store.ChunkSize{Start: 1000, Min: 100, Max: 50_000, Target: 5 * time.Second},
	}
	r.AddChunkPlan(t, spec)
	look := r.lookPlan("p")
	near(t, r.now(), look.Now)
	require.Equal(t, spec, look.Spec)
	require.Positive(t, look.Plan.Version)
	require.Equal(t, store.ChunkPlan{Version: look.Plan.Version}, look.Plan)
	require.Zero(t, look.Live)
	require.Empty(t, look.Obstacles)
}

func chunkNone(t testing.TB, h Harness) {
	r := newRig(t, h)
	_, err := r.LookPlan(r.ctx, "none", 10)
	require.ErrorIs(t, err, store.ErrNoChunkPlan)
	applied, err := r.ApplyChunks(r.ctx, &store.ChunkStep{Name: "none", After: store.ChunkPlan{Version: 1, Pass: 1, Planning: true}})
	require.NoError(t, err)
	require.False(t, applied)
}

func chunkInserts(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.plan("p")
	r.begins("p")
	first := r.planStep("p", func(s *store.ChunkStep) { cuts(s, 10); cuts(s, 9007199254740993) })
	second := r.planStep("p", func(s *store.ChunkStep) { cuts(s, 9007199254740995) })
	require.Equal(t, first.Batch, second.Batch)
	rows := r.rows()
	require.Len(t, rows, 3)
	slices.Reverse(rows)
	for i, payload := range []string{
		`{"chunks":"p","pass":1,"table":"event","key":"id","after":null,"through":"10","rows":10}`,
		`{"chunks":"p","pass":1,"table":"event","key":"id","after":"10","through":"9007199254740993","rows":10}`,
		`{"chunks":"p","pass":1,"table":"event","key":"id","after":"9007199254740993","through":"9007199254740995","rows":10}`,
	} {
		sameJSON(t, payload, rows[i].Payload, "payload")
		require.Equal(t, task.StatePending, rows[i].State)
		require.Equal(t, first.Batch, rows[i].Batch)
		require.Equal(t, "chunks:p", rows[i].CreatedBy)
	}
	look := r.lookPlan("p")
	require.Equal(t, 3, look.Live)
	require.Equal(t, 3, look.Plan.Chunks)
	require.Equal(t, chunkKey(9007199254740995), look.Plan.Cursor)
	require.Empty(t, look.Obstacles, "of the pass itself none is one")
	require.Len(t, r.claim(want(kind, 10)), 3)
}

func chunkSeals(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.plan("p")
	r.pass("p", 10, 20)
	passes := r.ChunkPasses(t, "p")
	require.Len(t, passes, 1)
	near(t, r.now(), passes[0].Sealed)
	b := passes[0].Batch
	passes[0].Sealed, passes[0].Batch = time.Time{}, 0
	require.Equal(t, ChunkPass{Pass: 1, Full: true, Through: chunkKey(20), Ranges: 2, Chunks: 2, Rows: 20}, passes[0])
	r.ends(2)
	_, err := r.Fold(r.ctx, 100)
	require.NoError(t, err)
	list, err := r.ListBatches(r.ctx, store.BatchFilter{Limit: 10})
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, b, list[0].ID)
	require.Equal(t, "chunks p pass 1", list[0].Name)
	require.Equal(t, store.BatchSucceeded, list[0].State)
	r.pass("p", 30)
	require.NotEqual(t, b, r.ChunkPasses(t, "p")[1].Batch, "each pass has its own")
}

func chunkContinues(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.plan("p")
	r.begins("p")
	r.planStep("p", func(s *store.ChunkStep) { cuts(s, 10) })
	look := r.lookPlan("p")
	for name, change := range map[string]func(*store.ChunkStep){
		"a gap": func(s *store.ChunkStep) {
			s.After.Cursor = chunkKey(11)
			cuts(s, 20)
		},
		"an overlap": func(s *store.ChunkStep) {
			s.After.Cursor = chunkKey(9)
			cuts(s, 20)
		},
		"no end":         func(s *store.ChunkStep) { cuts(s, 20); s.Items[0].Range.Through = nil },
		"an empty":       func(s *store.ChunkStep) { cuts(s, 10) },
		"a pass to come": func(s *store.ChunkStep) { s.After.Pass++ },
		"a pass before":  func(s *store.ChunkStep) { s.After.Pass-- },
		"the cursor":     func(s *store.ChunkStep) { cuts(s, 20); s.After.Cursor = chunkKey(21) },
	} {
		s := chunkStep(look)
		change(s)
		applied, err := r.ApplyChunks(r.ctx, s)
		require.Error(t, err, name)
		require.False(t, applied, name)
	}
	require.Equal(t, look.Plan, r.lookPlan("p").Plan)
	require.Len(t, r.rows(), 1)
}

func chunkEmpty(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.plan("p")
	r.begins("p")
	require.Len(t, r.ChunkPasses(t, "p"), 1)
	r.planStep("p", func(s *store.ChunkStep) {
		s.Items = []store.ChunkItem{{Kind: store.ChunkGap, Range: store.ChunkRange{Through: chunkKey(5)}}}
		s.After.Cursor = chunkKey(5)
		seals(s)
	})
	require.Empty(t, r.ChunkPasses(t, "p"))
	look := r.lookPlan("p")
	require.Equal(t, 1, look.Plan.Pass)
	require.False(t, look.Plan.Planning)
	list, err := r.ListBatches(r.ctx, store.BatchFilter{Limit: 10})
	require.NoError(t, err)
	require.Empty(t, list)
}

func chunkOnce(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.plan("p")
	r.begins("p")
	s := chunkStep(r.lookPlan("p"))
	cuts(s, 10)
	for n := range 3 {
		applied, err := r.ApplyChunks(r.ctx, s)
		require.NoError(t, err)
		require.Equal(t, n == 0, applied)
	}
	require.Len(t, r.rows(), 1)
}

func chunkRace(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.plan("p")
	r.begins("p")
	look := r.lookPlan("p")
	const agents = 6
	won := make(chan bool, agents)
	for i := range agents {
		o := r.other(fmt.Sprint("agent", i))
		go func() {
			s := chunkStep(look)
			cuts(s, 10+i)
			applied, err := o.ApplyChunks(r.ctx, s)
			if err != nil {
				t.Errorf("agent %d: %v", i, err)
			}
			won <- applied
		}()
	}
	n := 0
	for range agents {
		if <-won {
			n++
		}
	}
	require.Equal(t, 1, n)
	require.Len(t, r.rows(), 1)
}

func chunkCrash(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.plan("p")
	r.begins("p")
	hits := 0
	for i, point := range r.Failpoints() {
		before := r.lookPlan("p")
		s := chunkStep(before)
		cuts(s, 10*(i+1))
		o := r.other(fmt.Sprint("crashes", i))
		hit := o.crash(point)
		_, err := o.ApplyChunks(r.ctx, s)
		o.Fail(nil)
		if !hit() {
			require.NoError(t, err)
			continue
		}
		hits++
		require.Error(t, err)
		n, after := len(r.rows()), r.lookPlan("p")
		applied, err := r.ApplyChunks(r.ctx, s)
		require.NoError(t, err)
		require.Equal(t, after.Plan.Version == before.Plan.Version, applied)
		if applied {
			n++
		}
		require.Len(t, r.rows(), n)
		require.Equal(t, n, r.lookPlan("p").Plan.Chunks)
	}
	require.GreaterOrEqual(t, hits, 2)
}
