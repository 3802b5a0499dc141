package storetest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func batchCountChecks() []Check {
	return []Check{
		{"it counts every settlement", countSettlements},
		{"it counts what is cancelled, retried and rolled back", countRequests},
		{"it counts what is completed and reaped", countOthers},
		{"it counts failures", countFailures},
		{"its state before it has ended", batchStates},
		{"its state when it has ended", batchEndStates},
		{"the counts of all batches", batchStats},
	}
}

func countSettlements(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for _, folds := range []bool{false, true} {
		id, _ := r.batchOf(11, store.BatchRequest{Open: true})
		look := func(want store.BatchState) {
			t.Helper()
			if folds {
				r.fold()
			}
			r.inState(id, want)
		}
		look(store.BatchPending)
		rows := r.claim(wantOf(kind, task.Run, 10))
		require.Len(t, rows, 10)
		look(store.BatchRunning)
		r.settled(release(rows[9]))
		look(store.BatchRunning)
		for i, s := range []task.State{
			task.StateRetryPending, task.StatePending, task.StateSucceeded, task.StateFailed, task.StateCancelled,
			task.StateRollbackPending,
		} {
			e := ended(rows[i], verdictFor(s), s)
			if i < 2 {
				e.Next.Delay = farOff
			}
			r.settled(e)
			look(store.BatchRunning)
		}
		back := r.claimOne(kind, task.Rollback)
		look(store.BatchRunning)
		r.settled(ended(back, task.Failed, task.StateRollbackPending))
		look(store.BatchRunning)
		back = r.claimOne(kind, task.Rollback)
		r.settled(ended(back, task.Succeeded, task.StateRolledBack))
		look(store.BatchRunning)
		// Many in one call, of every kind, and of none and of another batch beside.
		other, _ := r.batchOf(1, store.BatchRequest{Open: true})
		r.insert(1)
		more := r.claim(wantOf(kind, task.Run, 10))
		r.settled(ended(rows[6], task.Failed, task.StateRollbackPending))
		mixed := []store.Settlement{finish(rows[7]), ended(rows[8], task.Failed, task.StateFailed)}
		for _, row := range more {
			mixed = append(mixed, finish(row))
		}
		mixed = append(mixed, ended(r.claimOne(kind, task.Rollback), task.Failed, task.StateRollbackFailed))
		r.settled(mixed...)
		look(store.BatchRunning)
		r.inState(other, store.BatchRunning)
		for range 2 {
			r.settle(mixed...) // and repeats count nothing
			look(store.BatchRunning)
		}
	}
}

func countRequests(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, _ := r.batch(store.BatchRequest{Open: true})
	look := func() {
		t.Helper()
		r.reckoned(r.look(id))
	}
	for _, s := range plainStates() {
		for name, do := range map[string]operation{
			"cancel": r.h.Cancel, "cancel by SQL": r.sql.Cancel, "retry": r.h.Retry, "retry by SQL": r.sql.Retry,
			"rollback": r.h.Rollback, "rollback by SQL": r.sql.Rollback,
		} {
			row := r.rowIn(store.EnqueueRequest{Type: kind, Batch: id}, s, true)
			look()
			_, err := do(r.ctx, row, "alice")
			require.NoError(t, err, "%s of %s", name, s)
			look()
			if s.Running() {
				r.letGo(row)
			}
			r.steps()
			look()
			r.rollBackAll()
			r.runAll(task.StateSucceeded)
			look()
		}
	}
	far := r.enqueue(store.EnqueueRequest{Type: kind, In: farOff, Batch: id}, true)
	require.Equal(t, store.Became("cancelled"), r.cancel(far, ""))
	look()
}

func countOthers(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, _ := r.batchOf(4, store.BatchRequest{Open: true})
	for way, complete := range r.completions() {
		row := r.claim(wantOf(kind, task.Run, 1))[0]
		require.True(t, complete(row.ID, row.Fence, `{"ok":true}`), way)
		r.inState(id, store.BatchRunning)
	}
	row := r.claim(wantOf(kind, task.Run, 1))[0]
	r.settled(ended(row, task.Failed, task.StateRollbackPending))
	back := r.claimOne(kind, task.Rollback)
	require.True(t, r.completions()["SQL"](back.ID, back.Fence, ""))
	require.EqualValues(t, 1, r.inState(id, store.BatchRunning).RolledBack)

	row = r.claimOne(kind, task.Run)
	o := r.twin()
	require.NoError(t, r.Leave(r.ctx, r.session))
	reaped := o.sweep(10)
	require.Len(t, reaped, 1)
	require.EqualValues(t, 1, o.inState(id, store.BatchRunning).Running, "it is reaped, and runs all the same")
	end := ended(reaped[0].Task, task.Lost, task.StateFailed)
	end.RanFence = row.Fence
	o.settled(end)
	require.EqualValues(t, 1, o.inState(id, store.BatchRunning).Failed)
}

func countMany(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	const n = 200
	id, _ := r.batchOf(n, store.BatchRequest{})
	agents := []*opsRig{r, r.twin(), r.twin(), r.twin()}
	together(agents, func(ctx context.Context, o *opsRig) error {
		for i := range 200 {
			o.claims++
			rows, err := o.Claim(ctx, store.Claim{
				Session: o.session, Number: o.claims, Wants: []store.Want{wantOf(kind, task.Run, 3), wantOf(kind, task.Rollback, 2)},
			})
			if err != nil || len(rows) == 0 {
				return err
			}
			ends := make([]store.Settlement, len(rows))
			for j, row := range rows {
				ends[j] = lifeOf(row, i+j)
			}
			if _, err := o.Settle(ctx, o.session, ends); err != nil {
				return err
			}
			if i%5 == 0 {
				if _, err := o.h.Fold(ctx, 10); err != nil {
					return err
				}
			}
			got, err := o.h.GetBatch(ctx, id)
			if err != nil {
				return err
			}
			if err := adds(got, n); err != nil {
				return err
			}
		}
		return nil
	})
	for _, o := range agents {
		for _, w := range []store.Want{wantOf(kind, task.Run, n), wantOf(kind, task.Rollback, n)} {
			for _, row := range o.claim(w) {
				o.settled(lifeOf(row, 0))
			}
		}
	}
	r.rollBackAll()
	r.reckoned(r.look(id))
	r.fold()
	got := r.look(id)
	r.reckoned(got)
	require.Zero(t, got.Live)
	require.True(t, got.State.Ended())
}

func countFailures(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, _ := r.batchOf(9, store.BatchRequest{Open: true})
	rows := r.claim(wantOf(kind, task.Run, 9))
	failures := int64(0)
	counts := func(n int64) {
		t.Helper()
		failures += n
		require.Equal(t, failures, r.look(id).Failures)
		r.fold()
		require.Equal(t, failures, r.look(id).Failures)
	}
	counts(0)
	r.settled(ended(rows[0], task.Failed, task.StateFailed))
	counts(1)
	r.settled(ended(rows[1], task.Deferred, task.StateRollbackPending))
	counts(1)
	r.settled(ended(r.claimOne(kind, task.Rollback), task.Failed, task.StateRollbackFailed))
	counts(0)
	r.settled(ended(rows[2], task.Cancelled, task.StateRollbackPending), ended(rows[3], task.Cancelled, task.StateCancelled))
	counts(0)
	require.Equal(t, store.Cancelling, r.cancel(rows[4].ID, ""))
	r.settled(ended(rows[4], task.TimedOut, task.StateRollbackPending))
	counts(0)
	r.settled(finish(rows[5]), ended(rows[6], task.Failed, task.StateRetryPending))
	counts(0)
	r.did(became(task.StateRollbackPending), r.h.Rollback, rows[0].ID, "")
	r.did(became(task.StateRollbackPending), r.h.Rollback, rows[5].ID, "")
	counts(0)
	r.rollBackAll()
	r.did(became(task.StatePending), r.h.Retry, rows[0].ID, "")
	counts(0)
	r.runAll(task.StateFailed)
	counts(2)
	// A task may fail although nothing was tried: past its deadline.
	for i, next := range []task.State{task.StateFailed, task.StateRollbackPending} {
		late := release(rows[7+i])
		late.Next.State, late.Next.EverStarted = next, true
		r.settled(late)
		counts(1)
	}
}

// lifeOf ends an attempt in one of the ways that there are.
func lifeOf(row task.Task, n int) store.Settlement {
	s := []task.State{task.StateSucceeded, task.StateFailed, task.StateRetryPending, task.StateRollbackPending}[n%4]
	if row.State.Phase() == task.Rollback {
		s = []task.State{task.StateRolledBack, task.StateRollbackFailed, task.StateRollbackPending}[n%3]
	}
	return ended(row, verdictFor(s), s)
}

// adds returns what is wrong with the counters of a batch of n rows.
func adds(i *store.BatchInfo, n int64) error {
	ended := i.Succeeded + i.Failed + i.Cancelled + i.RolledBack + i.RollbackFailed
	switch {
	case i.Total != n:
		return fmt.Errorf("there are %d rows, and not %d", i.Total, n)
	case i.Live != i.Waiting+i.Running+i.RollingBack, i.Live+ended != n:
		return fmt.Errorf("the counters do not add up: %+v", *i)
	}
	for _, c := range []int64{i.Live, i.Waiting, i.Running, i.RollingBack, ended} {
		if c < 0 {
			return fmt.Errorf("a counter is negative: %+v", *i)
		}
	}
	return nil
}

func batchStates(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, _ := r.batchOf(2, store.BatchRequest{})
	r.inState(id, store.BatchPending)
	rows := r.claim(wantOf(kind, task.Run, 2))
	r.inState(id, store.BatchRunning)
	r.settled(release(rows[0]), release(rows[1]))
	r.inState(id, store.BatchPending)
	rows = r.claim(wantOf(kind, task.Run, 2))
	r.settled(retry(rows[0], time.Hour))
	r.settled(release(rows[1]))
	r.inState(id, store.BatchRunning)
	rows = r.claim(wantOf(kind, task.Run, 2))
	require.Len(t, rows, 1)
	r.settled(finish(rows[0]))
	r.inState(id, store.BatchRunning)
	r.Advance(t, 2*time.Hour)
	r.present()
	row := r.claimOne(kind, task.Run)
	r.settled(ended(row, task.Failed, task.StateRollbackPending))
	r.inState(id, store.BatchRollingBack)
	back := r.claimOne(kind, task.Rollback)
	r.inState(id, store.BatchRollingBack)
	r.settled(ended(back, task.Succeeded, task.StateRolledBack))
	r.inState(id, store.BatchRunning) // until it is folded
	r.fold()
	r.inState(id, store.BatchPartiallyFailed)
	// One of two rows is cancelled before either of them ran.
	id, ids := r.batchOf(2, store.BatchRequest{})
	require.Equal(t, store.Became("cancelled"), r.cancel(ids[0], ""))
	r.inState(id, store.BatchRunning)
}

func batchEndStates(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	const (
		ok, failed, cancelled = task.StateSucceeded, task.StateFailed, task.StateCancelled
		back, broken          = task.StateRolledBack, task.StateRollbackFailed
	)
	for _, c := range []struct {
		rows []task.State
		want store.BatchState
	}{
		{nil, store.BatchSucceeded},
		{[]task.State{ok, ok}, store.BatchSucceeded},
		{[]task.State{ok, failed}, store.BatchPartiallyFailed},
		{[]task.State{failed, failed}, store.BatchFailed},
		{[]task.State{failed, cancelled}, store.BatchFailed},
		{[]task.State{ok, cancelled}, store.BatchCancelled},
		{[]task.State{cancelled}, store.BatchCancelled},
		{[]task.State{ok, failed, cancelled}, store.BatchPartiallyFailed},
		{[]task.State{ok, back}, store.BatchPartiallyFailed},
		{[]task.State{back, back}, store.BatchRolledBack},
		{[]task.State{back, failed}, store.BatchFailed},
		{[]task.State{back, cancelled}, store.BatchFailed},
		{[]task.State{ok, broken}, store.BatchRollbackFailed},
		{[]task.State{back, broken}, store.BatchRollbackFailed},
	} {
		id, _ := r.batch(store.BatchRequest{Open: true})
		for _, s := range c.rows {
			r.rowIn(store.EnqueueRequest{Type: kind, Batch: id}, s, true)
		}
		_, err := r.h.SealBatch(r.ctx, id)
		require.NoError(t, err)
		f := r.fold()
		require.Equal(t, 1, f.Ended, "%v", c.rows)
		require.Equal(t, id, f.Ends[0].ID)
		require.Equal(t, string(c.want), f.Ends[0].State, "%v", c.rows)
		require.EqualValues(t, len(c.rows), f.Ends[0].Total)
		r.inState(id, c.want)
	}
}

func batchStats(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	done, _ := r.batchOf(2, store.BatchRequest{})
	r.runAll(task.StateSucceeded)
	r.fold()
	r.inState(done, store.BatchSucceeded)
	one, _ := r.batch(store.BatchRequest{Open: true})
	for _, s := range plainStates() {
		r.rowIn(store.EnqueueRequest{Type: kind, Batch: one}, s, true)
	}
	r.batchOf(3, store.BatchRequest{})
	stats, err := r.Stats(r.ctx)
	require.NoError(t, err)
	for name, n := range map[string]int64{
		"waiting": 5, "running": 1, "rolling_back": 2, "succeeded": 1, "failed": 1, "cancelled": 1, "rolled_back": 1,
		"rollback_failed": 1,
	} {
		require.Equal(t, n, stats.BatchTasks[name], name)
	}
}
