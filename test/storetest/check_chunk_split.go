package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func chunkSplitChecks() []Check {
	return []Check{
		{"two halves take the place of a chunk", splitHalves},
		{"halves are split again", splitAgain},
		{"a split is settled once", splitOnce},
		{"a crash splits once or not at all", splitCrash},
		{"only a chunk is split", splitOthers},
		{"a batch that stops gets no halves", splitStopped},
		{"a cancellation is seen before a split", splitCancelled},
		{"an operator's open transaction holds up no settlement", splitLocked},
		{"a step that did not see the split does not apply", splitStale},
		{"halves are obstacles in the place of the chunk", splitObstacles},
		{"halves of a chunk that was revived", splitRevived},
		{"halves inherit what was started", splitInherits},
		{"what was split stays so", splitStays},
		{"how often a chunk was stuck", splitStuck},
	}
}

// stuck is the settlement of a chunk that is split at a key.
func stuck(row task.Task, at int) store.Settlement {
	e := finish(row)
	e.Next.State, e.Next.Reason, e.Next.AfterLease = task.StateSplit, "split in two: too slow", true
	e.Outcome = task.Outcome{Verdict: task.TimedOut, Error: "too slow", Split: &task.Split{At: string(*chunkKey(at)), Rows: [2]int{4, 6}}}
	return e
}

// splits plans a pass of one chunk up to 100, splits it at 50 while its lease lasts, and returns it and its halves.
func (r *rig) splits(plan string) (old task.Task, halves []task.ID) {
	r.t.Helper()
	r.pass(plan, 100)
	rows := r.claim(want(kind, 1))
	require.Len(r.t, rows, 1)
	r.settled(stuck(rows[0], 50))
	return rows[0], r.halvesOf(rows[0].ID)
}

// info reads a batch.
func (r *rig) info(id task.BatchID) *store.BatchInfo {
	r.t.Helper()
	i, err := r.GetBatch(r.ctx, id)
	require.NoError(r.t, err)
	return i
}

// halvesOf reads what a task was split into.
func (r *rig) halvesOf(id task.ID) []task.ID {
	r.t.Helper()
	got := r.get(id)
	require.Equal(r.t, task.StateSplit, got.State)
	var low, high task.ID
	_, err := fmt.Sscanf(strings.ReplaceAll(string(got.Result), " ", ""), `{"split_into":[%d,%d]}`, &low, &high)
	require.NoError(r.t, err, string(got.Result))
	return []task.ID{low, high}
}

func splitHalves(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.plan("p")
	chunks := r.pass("p", 100)
	batch := r.get(chunks[0]).Batch
	row := r.claim(want(kind, 1))[0]
	lease := r.get(row.ID).LeaseEnd
	r.settled(stuck(row, 50))

	old, before := r.get(row.ID), r.info(batch)
	require.Equal(t, task.StateSplit, old.State)
	require.Equal(t, task.TimedOut, old.Outcome)
	require.Contains(t, old.Error, "split in two")
	require.NotNil(t, old.FinishedAt)
	require.EqualValues(t, 2, before.Total, "two came, and one went")
	require.EqualValues(t, 2, before.Live)
	require.True(t, before.Sealed)
	require.Equal(t, store.BatchRunning, before.State)
	halves := r.halvesOf(row.ID)
	payload := `{"chunks": "p", "pass": 1, "table": "event", "key": "id", "after": %s, "through": "%d", "rows": %d}`
	for i, want := range []string{fmt.Sprintf(payload, "null", 50, 4), fmt.Sprintf(payload, `"50"`, 100, 6)} {
		half := r.get(halves[i])
		require.JSONEq(t, want, string(half.Payload))
		require.Equal(t, task.StatePending, half.State)
		require.Equal(t, kind, half.Type)
		require.Equal(t, batch, half.Batch)
		require.Equal(t, old.CreatedBy, half.CreatedBy)
		require.True(t, half.EverStarted)
		require.Zero(t, half.Attempt)
		require.Equal(t, old.Deadline, half.Deadline)
		near(t, *lease, half.RunAt)
	}
	if s, ok := h.(spanned); ok {
		span, err := s.BatchSpan(r.ctx, batch)
		require.NoError(t, err)
		require.Equal(t, store.Span{First: row.ID, Last: halves[1]}, span)
	}
	require.Empty(t, r.claim(want(kind, 2)), "the attempt may be at work until its lease ends")
	require.Equal(t, 2, r.lookPlan("p").Live)
	h.Advance(t, lease.Sub(r.now())+time.Second)
	o := r.other("later")
	for _, half := range o.claim(want(kind, 2)) {
		o.settled(finish(half))
	}
	end := r.info(batch)
	require.EqualValues(t, 2, end.Succeeded)
	require.Zero(t, end.Live)
	require.Zero(t, end.Failures)
}

func splitAgain(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.plan("p")
	old, halves := r.splits("p")
	h.Advance(t, time.Hour)
	o := r.other("later")
	rows := o.claim(want(kind, 2))
	require.ElementsMatch(t, halves, ids(rows))
	for _, row := range rows {
		at := 25
		if row.ID == halves[1] {
			at = 75
		}
		o.settled(stuck(row, at))
	}
	require.EqualValues(t, 4, r.info(r.get(old.ID).Batch).Total)
	o.begins("p")
	list, _ := o.obstaclesOf("p", 10)
	var ends []string
	for i, x := range list {
		if i > 0 {
			require.Equal(t, list[i-1].Range.Through, x.Range.After, "without a gap, in their order")
		}
		ends = append(ends, string(*x.Range.Through))
	}
	require.Equal(t, []string{"25", "50", "75", "100"}, ends)
	require.Nil(t, list[0].Range.After)
}

func splitOnce(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.plan("p")
	r.pass("p", 100)
	row := r.claim(want(kind, 1))[0]
	require.Equal(t, []store.Answer{store.Applied, store.Ended}, r.settle(stuck(row, 50), stuck(row, 60)))
	require.Equal(t, []store.Answer{store.Ended}, r.settle(stuck(row, 50)))
	require.Equal(t, []store.Answer{store.Ended}, r.settle(retry(row, 0)))
	require.Len(t, r.rows(), 3)
	thief := r.other("thief")
	require.Equal(t, []store.Answer{store.Lost}, thief.settle(stuck(row, 50)))
	require.Len(t, r.rows(), 3)
}

func splitCrash(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.plan("p")
	hits := 0
	for i, point := range r.Failpoints() {
		r.pass("p", 100)
		o := r.other(fmt.Sprint("crashes", i))
		row := o.claim(want(kind, 1))[0]
		n := len(r.rows())
		hit := o.crash(point)
		_, err := o.Settle(o.ctx, o.session, []store.Settlement{stuck(row, 50)})
		o.Fail(nil)
		if hit() {
			hits++
			require.Error(t, err, point)
		}
		got := o.settle(stuck(row, 50))
		require.Contains(t, []store.Answer{store.Applied, store.Ended}, got[0], point)
		require.Len(t, r.rows(), n+2, point)
		for range r.halvesOf(row.ID) {
			h.Advance(t, time.Minute)
		}
		h.Advance(t, time.Hour)
		last := r.other(fmt.Sprint("last", i))
		for _, half := range last.claim(want(kind, 9)) {
			last.settled(finish(half))
		}
	}
	require.GreaterOrEqual(t, hits, 2)
}

func splitOthers(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.plan("p")
	row := r.held()
	require.Equal(t, []store.Answer{store.CannotSplit}, r.settle(stuck(row, 50)))
	require.Equal(t, task.StateRunning, r.state(row.ID))
	require.Len(t, r.rows(), 1)
	_, err := r.ChunkTask(r.ctx, row.ID)
	require.ErrorIs(t, err, store.ErrNoChunk)
	r.settled(finish(row))
	r.pass("p", 100)
	chunk := r.claim(want(kind, 1))[0]
	blind := stuck(chunk, 50)
	blind.Outcome.Split = nil
	require.Equal(t, []store.Answer{store.CannotSplit}, r.settle(blind), "where?")
	r.settled(retry(chunk, 0))
}

func splitStopped(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.plan("p")
	chunks := r.pass("p", 100)
	row := r.claim(want(kind, 1))[0]
	_, err := r.CancelBatch(r.ctx, r.get(chunks[0]).Batch, "alice")
	require.NoError(t, err)
	_, err = r.ChunkTask(r.ctx, row.ID)
	require.ErrorIs(t, err, store.ErrNoChunk, "it is not worth looking for its middle")
	require.Equal(t, []store.Answer{store.CannotSplit}, r.settle(stuck(row, 50)))
	require.Len(t, r.rows(), 1)
	r.settled(retry(row, 0))
}

func splitCancelled(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.plan("p")
	r.pass("p", 100)
	row := r.claim(want(kind, 1))[0]
	_, err := r.Cancel(r.ctx, row.ID, "alice")
	require.NoError(t, err)
	require.Equal(t, []store.Answer{store.CancelPending}, r.settle(stuck(row, 50)))
	require.Len(t, r.rows(), 1)
}

// splitLocked: a settlement does not wait for an operator's open transaction.
func splitLocked(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.plan("p")
	r.pass("p", 100)
	row := r.claim(want(kind, 1))[0]
	if release := h.LockChunkPlan(t, "p"); release != nil {
		began := time.Now()
		require.Equal(t, []store.Answer{store.Busy}, r.settle(stuck(row, 50)))
		require.Less(t, time.Since(began), 5*time.Second)
		require.Equal(t, task.StateRunning, r.state(row.ID))
		release()
	}
	r.settled(stuck(row, 50))
	r.halvesOf(row.ID)
}

func splitStale(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.plan("p")
	r.pass("p", 100)
	row := r.claim(want(kind, 1))[0]
	r.begins("p")
	look := r.lookPlan("p")
	s := chunkStep(look)
	s.Items = []store.ChunkItem{{Kind: store.ChunkSkip, Range: look.Obstacles[0].Range, Rows: 10, Obstacle: &look.Obstacles[0]}}
	s.After.Cursor = look.Obstacles[0].Range.Through
	r.settled(stuck(row, 50))
	applied, err := r.ApplyChunks(r.ctx, s)
	require.NoError(t, err)
	require.False(t, applied)
	list, _ := r.obstaclesOf("p", 10)
	require.Len(t, list, 2, "the next look sees the halves")
}

func splitObstacles(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.plan("p")
	r.pass("p", 10, 100, 200)
	rows := r.claim(want(kind, 3))
	for _, row := range rows {
		if strings.Contains(string(row.Payload), `"100"`) && strings.Contains(string(row.Payload), `"10"`) {
			r.settled(stuck(row, 50))
		}
	}
	r.begins("p")
	list, _ := r.obstaclesOf("p", 10)
	var ends []string
	for _, o := range list {
		require.Equal(t, store.ChunkLive, o.State)
		ends = append(ends, string(*o.Range.Through))
	}
	require.Equal(t, []string{"10", "50", "100", "200"}, ends)
}

func splitRevived(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	r.plan("p")
	tasks := r.pass("p", 100)
	r.rig.ends(1, task.StateFailed)
	r.begins("p") // which notes it
	_, err := r.Retry(r.ctx, tasks[0], "alice")
	require.NoError(t, err)
	r.settled(stuck(r.claimSome(kind), 50))
	require.Equal(t, 2, r.lookPlan("p").Live)
	list, _ := r.obstaclesOf("p", 10)
	require.Len(t, list, 2)
	h.Advance(t, time.Hour)
	o := r.other("later")
	for _, half := range o.claim(want(kind, 2)) {
		o.settled(finish(half))
	}
	o.planStep("p", func(*store.ChunkStep) {})
	look := o.lookPlan("p")
	require.Zero(t, look.Live)
	require.Empty(t, look.Obstacles)
	require.EqualValues(t, 10, look.Rows, "of both halves")
}

func splitInherits(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	r.plan("p")
	r.pass("p", 100)
	row := r.claimSome(kind)
	r.settled(stuck(row, 50))
	halves := r.halvesOf(row.ID)
	require.Equal(t, became(task.StateRollbackPending), r.cancel(halves[0], ""), "something of it may have been done")
	got := r.get(halves[0])
	require.False(t, got.RunAt.Before(r.get(halves[1]).RunAt), "and may be at work still")
}

func splitStays(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	r.plan("p")
	r.pass("p", 100)
	row := r.claimSome(kind)
	r.settled(stuck(row, 50))
	batch := r.get(row.ID).Batch
	for way, do := range map[string]operation{
		"cancel": r.h.Cancel, "cancel by SQL": r.sql.Cancel, "retry": r.h.Retry, "retry by SQL": r.sql.Retry,
		"rollback": r.h.Rollback, "rollback by SQL": r.sql.Rollback,
	} {
		got, err := do(r.ctx, row.ID, "alice")
		require.NoError(t, err, way)
		require.Equal(t, became(task.StateSplit), got, way)
	}
	_, err := r.RollbackBatch(r.ctx, batch, "alice", false)
	require.NoError(t, err)
	h.Advance(t, time.Hour)
	for range 9 {
		r.steps()
		r.rollBackAll()
	}
	require.Equal(t, task.StateSplit, r.state(row.ID))
	for _, half := range r.halvesOf(row.ID) {
		require.Equal(t, task.StateRolledBack, r.state(half))
	}
}

func splitStuck(t testing.TB, h Harness) {
	r := newRig(t, h)
	r.plan("p")
	tasks := r.pass("p", 100)
	look := func() *store.ChunkTask {
		t.Helper()
		c, err := r.ChunkTask(r.ctx, tasks[0])
		require.NoError(t, err)
		return c
	}
	require.Equal(t, &store.ChunkTask{
		Plan: "p", Table: "event", Key: "id", Range: store.ChunkRange{Through: chunkKey(100)}, Rows: 10,
	}, look())
	for i, v := range []task.Verdict{task.TimedOut, task.Failed, task.Stalled, task.Lost} {
		e := retry(r.claim(want(kind, 1))[0], 0)
		e.Outcome.Verdict = v
		r.settled(e)
		require.Equal(t, []int{1, 1, 2, 2}[i], look().Stuck)
	}
	r.settled(finish(r.claim(want(kind, 1))[0]))
	_, err := r.ChunkTask(r.ctx, tasks[0])
	require.ErrorIs(t, err, store.ErrNoChunk)
}
