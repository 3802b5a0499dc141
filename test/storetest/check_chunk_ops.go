package storetest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// What operators do with plans of chunks.

func chunkOpsChecks() []Check {
	return []Check{
		{"plans are listed by name", plansListed},
		{"passes are listed, the newest first", passesListed},
		{"a pass says how far it is", passesPaced},
		{"the state of a plan", plansState},
		{"paused and resumed", plansPaused},
		{"a stopped pass goes on in another batch", plansGoOn},
		{"what is held is counted", plansHeld},
		{"there is no such plan", plansUnknown},
		{"a change and a crash", plansCrash},
	}
}

// planOf returns one plan as operators see it.
func (r *rig) planOf(name string) store.ChunkPlanInfo {
	r.t.Helper()
	list, err := r.ListChunks(r.ctx, store.ChunkPlanFilter{Name: name})
	require.NoError(r.t, err)
	require.Len(r.t, list, 1)
	require.Equal(r.t, name, list[0].Name)
	return list[0]
}

func (r *rig) passesOf(name string) []store.ChunkPassInfo {
	r.t.Helper()
	list, err := r.ListPasses(r.ctx, store.ChunkPassFilter{Plan: name, Limit: 10})
	require.NoError(r.t, err)
	return list
}

func plansListed(t testing.TB, h Harness) {
	r := newRig(t, h)
	for _, name := range []string{"b", "d", "a", "c"} {
		r.plan(name)
	}
	for want, f := range map[string]store.ChunkPlanFilter{
		"abcd": {}, "ab": {Limit: 2}, "bc": {From: "b", Limit: 2}, "cd": {From: "bb"}, "c": {Name: "c"}, "": {Name: "bb"}, "d": {Name: "d", Limit: 7},
	} {
		list, err := r.ListChunks(r.ctx, f)
		require.NoError(t, err)
		var got strings.Builder
		for _, p := range list {
			got.WriteString(p.Name)
		}
		require.Equal(t, want, got.String(), "%+v", f)
	}
	got := r.planOf("a")
	near(t, r.now(), got.CreatedAt)
	got.CreatedAt = time.Time{}
	require.JSONEq(t, `{}`, string(got.Source))
	got.Source = nil
	require.Equal(t, store.ChunkPlanInfo{
		Name: "a", State: got.State, Task: kind, Table: "event", Key: "id", Ahead: 64, Follow: time.Minute, Size: 10,
	}, got)
}

func passesListed(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.plan("p")
	require.Empty(t, r.passesOf("p"))
	r.pass("p", 10, 20)
	r.ends(2, task.StateFailed)
	require.EqualValues(t, 10, r.planOf("p").Done, "before a step has noted it")
	r.begins("p")
	require.EqualValues(t, 10, r.planOf("p").Done)
	list := r.passesOf("p")
	require.Len(t, list, 2)
	require.Equal(t, 2, list[0].Pass)
	require.Zero(t, list[0].Batch)
	require.Zero(t, list[0].SealedAt)
	first := list[1]
	near(t, r.now(), first.BeganAt)
	near(t, r.now(), first.SealedAt)
	require.NotZero(t, first.Batch)
	first.BeganAt, first.SealedAt, first.Batch = time.Time{}, time.Time{}, 0
	require.Equal(t, store.ChunkPassInfo{
		Pass: 1, Whole: true, Through: chunkKey(20), Ranges: 2, Chunks: 2, Rows: 20, State: first.State, Total: 2, Succeeded: 1, Failed: 1,
	}, first)
	require.Equal(t, 2, r.planOf("p").Pass)
	for below, want := range map[int]int{3: 2, 2: 1, 1: 0} {
		list, err := r.ListPasses(r.ctx, store.ChunkPassFilter{Plan: "p", Below: below, Limit: 1})
		require.NoError(t, err)
		if want == 0 {
			require.Empty(t, list)
			continue
		}
		require.Len(t, list, 1)
		require.Equal(t, want, list[0].Pass)
	}
}

func passesPaced(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	r.plan("p")
	r.planStep("p", func(s *store.ChunkStep) {
		s.After.Pass++
		s.After.Planning, s.After.Full, s.First, s.Last = true, true, chunkKey(7), chunkKey(77)
	})
	r.planStep("p", func(s *store.ChunkStep) {
		cuts(s, 30)
		s.After.Sizes = []int{10, 20}
	})
	require.Equal(t, []int{10, 20}, r.lookPlan("p").Plan.Sizes)
	require.Zero(t, r.passesOf("p")[0].EndedAt)
	r.planStep("p", seals)
	require.Nil(t, r.lookPlan("p").Plan.Sizes)
	r.settled(finish(r.claim(wantOf(kind, task.Run, 1))[0]))
	require.Equal(t, 1, r.fold().Ended)
	p := r.passesOf("p")[0]
	near(t, r.now(), p.EndedAt)
	require.Equal(t, []int{10, 20}, p.Sizes)
	require.Equal(t, []*store.ChunkKey{chunkKey(7), chunkKey(77)}, []*store.ChunkKey{p.First, p.Last})
}

func plansState(t testing.TB, h Harness) {
	r := newRig(t, h)
	is := func(want store.ChunkPlanState) {
		t.Helper()
		require.Equal(t, want, r.planOf("p").State)
	}
	d := store.ChunkDeclaration{Spec: store.ChunkSpec{
		Name: "p", Task: kind, Table: "event", Key: "id", Size: store.ChunkSize{Start: 10}, Ahead: 64, Follow: time.Minute,
	}}
	did, err := r.DeclareChunks(r.ctx, r.session, []store.ChunkDeclaration{d})
	require.NoError(t, err)
	require.Equal(t, []string{"p"}, did.InForce)
	is(store.ChunksFollowing)
	r.begins("p")
	is(store.ChunksPlanning)
	s := r.planStep("p", func(s *store.ChunkStep) { cuts(s, 10) })
	require.EqualValues(t, 1, r.planOf("p").Live)
	_, err = r.CancelBatch(r.ctx, s.Batch, "alice")
	require.NoError(t, err)
	is(store.ChunksStopped)
	_, err = r.PauseChunks(r.ctx, "p", "alice")
	require.NoError(t, err)
	is(store.ChunksPaused)
	_, err = r.ResumeChunks(r.ctx, "p", "alice")
	require.NoError(t, err)
	is(store.ChunksPlanning)
	r.planStep("p", seals)
	is(store.ChunksFollowing)
	r.planStep("p", func(s *store.ChunkStep) {
		s.After.Pass++
		s.After.Planning, s.After.From, s.After.Cursor = true, chunkKey(10), chunkKey(10)
	})
	r.planStep("p", func(s *store.ChunkStep) {
		seals(s)
		s.After.Over = true
	})
	is(store.ChunksOver)
	_, err = r.DeclareChunks(r.ctx, r.session, nil)
	require.NoError(t, err)
	is(store.ChunksOver)
	r.plan("q")
	require.Equal(t, store.ChunksParked, r.planOf("q").State)
}

func plansPaused(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	r.plan("p")
	r.begins("p")
	before := chunkStep(r.lookPlan("p"))
	cuts(before, 10)
	changes := func(do func() (bool, error), want bool, rows ...Audited) {
		t.Helper()
		r.audited(func() {
			changed, err := do()
			require.NoError(t, err)
			require.Equal(t, want, changed)
		}, rows...)
	}
	pause := func() (bool, error) { return r.PauseChunks(r.ctx, "p", "alice") }
	resume := func() (bool, error) { return r.ResumeChunks(r.ctx, "p", "bob") }
	changes(resume, false)
	changes(pause, true, Audited{Who: "alice", Verb: "pause", Chunks: "p", Answer: "paused"})
	changes(pause, false)
	got := r.planOf("p")
	require.Equal(t, "alice", got.PausedBy)
	near(t, r.now(), got.PausedAt)
	applied, err := r.ApplyChunks(r.ctx, before)
	require.NoError(t, err)
	require.False(t, applied)
	changes(resume, true, Audited{Who: "bob", Verb: "resume", Chunks: "p", Answer: "resumed"})
	changes(resume, false)
	require.Zero(t, r.planOf("p").PausedAt)
	applied, err = r.ApplyChunks(r.ctx, before)
	require.NoError(t, err)
	require.False(t, applied, "it was planned before the pause")
	r.planStep("p", func(s *store.ChunkStep) { cuts(s, 10) })
}

func plansGoOn(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.plan("p")
	r.begins("p")
	first := r.planStep("p", func(s *store.ChunkStep) { cuts(s, 10) })
	_, err := r.CancelBatch(r.ctx, first.Batch, "alice")
	require.NoError(t, err)
	changed, err := r.ResumeChunks(r.ctx, "p", "alice")
	require.NoError(t, err)
	require.True(t, changed)
	second := r.planStep("p", func(s *store.ChunkStep) { cuts(s, 20) })
	require.NotEqual(t, first.Batch, second.Batch)
	r.planStep("p", seals)
	require.True(t, r.info(second.Batch).Sealed)
	pass := r.passesOf("p")[0]
	require.Equal(t, second.Batch, pass.Batch)
	require.Equal(t, 2, pass.Chunks)
	require.Equal(t, chunkKey(20), pass.Through)
	changed, err = r.ResumeChunks(r.ctx, "p", "alice")
	require.NoError(t, err)
	require.False(t, changed, "a pass that is planned to its end has a sealed batch")
	require.Equal(t, second.Batch, r.passesOf("p")[0].Batch)
}

func plansHeld(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.plan("p")
	r.pass("p", 10)
	for n := range 3 {
		require.Zero(t, r.planOf("p").Held, n)
		r.ends(1, task.StateFailed)
		r.begins("p")
		again := r.lookPlan("p").Obstacles
		require.Len(t, again, 1)
		r.planStep("p", func(s *store.ChunkStep) {
			i := store.ChunkItem{Kind: store.ChunkInsert, Range: again[0].Range, Rows: 10, Obstacle: &again[0]}
			if n == 2 {
				i.Kind = store.ChunkSkip
			}
			s.Items, s.After.Cursor = []store.ChunkItem{i}, i.Range.Through
			seals(s)
		})
	}
	require.EqualValues(t, 1, r.planOf("p").Held)
}

func plansUnknown(t testing.TB, h Harness) {
	r := newRig(t, h)
	_, err := r.PauseChunks(r.ctx, "p", "alice")
	require.ErrorIs(t, err, store.ErrNoChunkPlan)
	_, err = r.ResumeChunks(r.ctx, "p", "alice")
	require.ErrorIs(t, err, store.ErrNoChunkPlan)
	require.Empty(t, r.passesOf("p"))
}

func plansCrash(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	r.plan("p")
	hits := 0
	for _, point := range r.Failpoints() {
		hit := r.crash(point)
		_, err := r.PauseChunks(r.ctx, "p", "alice")
		r.Fail(nil)
		if !hit() {
			require.NoError(t, err)
		} else {
			require.Error(t, err)
			hits++
		}
		_, err = r.PauseChunks(r.ctx, "p", "alice")
		require.NoError(t, err)
		require.Equal(t, store.ChunksPaused, r.planOf("p").State)
		_, err = r.ResumeChunks(r.ctx, "p", "alice")
		require.NoError(t, err)
		require.Zero(t, r.planOf("p").PausedAt)
	}
	require.GreaterOrEqual(t, hits, 2)
}
