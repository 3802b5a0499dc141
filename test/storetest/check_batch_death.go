package storetest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func batchDeathChecks() []Check {
	return []Check{
		{"killed between the last settlement and the finish row", killedBeforeEnd},
		{"killed in a rollback", killedRollingBack},
		{"killed in a step", killedStepping},
		{"retry of a row whose retention is nearly over", retryNearlyExpired},
		{"retry of a row that is being removed", retryGoing},
		{"retry of a batch whose rows are being removed", retryBatchGoing},
		{"rollback of a batch half of which is being removed", rollbackGoing},
	}
}

func killedBeforeEnd(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	n := 0
	for _, settling := range r.Failpoints() {
		for _, folding := range r.h.BatchFailpoints() {
			id, _ := r.batchOf(2, store.BatchRequest{FinishType: "finish"})
			n++
			dies := r.twin()
			rows := dies.claim(wantOf(kind, task.Run, 2))
			dies.settled(finish(rows[0]))
			dies.crashing(settling, func() error {
				_, err := dies.Settle(r.ctx, dies.session, []store.Settlement{finish(rows[1])})
				return err
			})
			dies.crashing(folding, func() error { _, err := dies.h.Fold(r.ctx, 10); return err })
			require.NoError(t, dies.Leave(r.ctx, dies.session))
			for _, s := range r.sweep(10) { // where it died before it had settled
				end := ended(s.Task, task.Lost, task.StateFailed)
				end.RanFence = s.RanFence
				r.settled(end)
			}
			r.fold()
			require.True(t, r.look(id).State.Ended(), "%s, %s", settling, folding)
			require.Len(t, r.finished("finish"), n, "%s, %s", settling, folding)
		}
	}
}

func killedRollingBack(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, all := r.batch(store.BatchRequest{FinishType: "finish"}, store.EnqueueRequest{Type: kind, RollbackPayload: raw(`{"was":"az1"}`)})
	row := r.claimOne(kind, task.Run)
	done := finish(row)
	done.Outcome.Result = raw(`{"moved":3}`)
	r.settled(done)
	r.fold()
	r.wants("rollback", id, "rolling_back")
	r.over()
	fence := row.Fence
	var late []store.Settlement
	var dead []*opsRig
	for attempt := 1; attempt <= 3; attempt++ {
		dies := r.twin()
		back := dies.claimOne(kind, task.Rollback)
		require.Equal(t, attempt, back.Attempt)
		require.Greater(t, back.Fence, fence)
		fence = back.Fence
		require.Equal(t, task.Succeeded, back.Cause)
		sameOr(t, raw(`{"moved":3}`), back.Result, "the run's result")
		sameOr(t, raw(`{"was":"az1"}`), back.RollbackPayload, "rollback payload")
		late, dead = append(late, ended(back, task.Succeeded, task.StateRolledBack)), append(dead, dies)
		r.Advance(t, later) // its agent says nothing more
		r.present()
		reaped := r.sweep(10)
		require.Len(t, reaped, 1)
		require.Equal(t, task.StateRollbackRunning, reaped[0].State)
		end := ended(reaped[0].Task, task.Lost, task.StateRollbackPending)
		end.RanFence = reaped[0].RanFence
		end.Next.Attempt = attempt
		r.settled(end)
		r.inState(id, store.BatchRollingBack)
	}
	back := r.claimOne(kind, task.Rollback)
	require.Equal(t, 4, back.Attempt)
	for i, o := range dead {
		got, err := o.Settle(r.ctx, o.session, late[i:i+1])
		require.NoError(t, err)
		require.Equal(t, same(store.Lost, 1), got, "who died comes too late")
	}
	r.settled(ended(back, task.Succeeded, task.StateRolledBack))
	r.over()
	r.in(task.StateRolledBack, all...)
	r.inState(id, store.BatchRolledBack)
	require.Len(t, r.get(all[0]).History, 5)
	require.Len(t, r.finished("finish"), 2, "one for each round")
}

func killedStepping(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	notified := 0
	for _, point := range r.h.BatchFailpoints() {
		id, all := r.batchOf(6, store.BatchRequest{FinishType: "finish"})
		rows := r.claim(wantOf(kind, task.Run, 4))
		r.settled(finish(rows[0]), finish(rows[1]), ended(rows[2], task.Failed, task.StateFailed), finish(rows[3]))
		crashes := func() {
			t.Helper()
			for range 12 {
				r.crashing(point, func() error { _, err := r.h.Step(r.ctx, 2); return err })
				r.step(1)
				r.reckoned(r.look(id))
			}
		}
		r.crashing(point, func() error { _, err := r.h.RollbackBatch(r.ctx, id, "alice", false); return err })
		r.wants("rollback", id, "rolling_back")
		crashes()
		r.in(task.StateRollbackPending, all[:4]...)
		r.in(task.StateCancelled, all[4:]...)
		for i, row := range all[:4] {
			require.Equal(t, rows[i].Fence+2, r.get(row).Fence, point)
			require.Len(t, r.get(row).History, 1, point)
		}
		r.rollBackAll()
		r.over()
		r.inState(id, store.BatchRolledBack)
		r.crashing(point, func() error { _, err := r.h.RetryBatch(r.ctx, id, "alice"); return err })
		r.wants("retry", id, "retrying")
		crashes()
		r.in(task.StatePending, all[2])
		require.Equal(t, 1, r.get(all[2]).Round)
		r.runAll(task.StateSucceeded)
		r.over()
		require.Equal(t, 1, r.look(id).Round, point)
		notified += 2
		require.Len(t, r.finished("finish"), notified, point)
	}
}

func retryNearlyExpired(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id := r.rowIn(store.EnqueueRequest{Type: kind}, task.StateFailed, true)
	of, all := r.batchOf(1, store.BatchRequest{})
	r.runAll(task.StateFailed)
	r.fold()
	r.Advance(t, 7*day-time.Hour)
	r.present()
	r.maintain(7 * day)
	r.did(became(task.StatePending), r.h.Retry, id, "alice")
	r.did(became(task.StatePending), r.h.Retry, all[0], "alice")
	r.Advance(t, 3*day)
	r.present()
	r.maintain(7 * day)
	for _, row := range []task.ID{id, all[0]} {
		got := r.get(row)
		require.Equal(t, task.StatePending, got.State)
		require.Len(t, got.History, 1, "all that there is of it stays")
	}
	require.Len(t, r.runAll(task.StateFailed), 2)
	r.fold()
	r.Advance(t, 6*day)
	r.maintain(7 * day)
	require.Len(t, r.get(id).History, 2, "and what came since")
	require.Equal(t, 1, r.inState(of, store.BatchFailed).Round)
	r.Advance(t, 3*day)
	r.maintain(7 * day)
	r.gone(id)
	r.gone(all[0])
}

func retryGoing(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	agents := []*opsRig{r, r.twin(), r.twin()}
	var all []task.ID
	for range 9 {
		all = append(all, r.rowIn(store.EnqueueRequest{Type: kind}, task.StateFailed, true))
	}
	r.Advance(t, 10*day)
	r.present()
	retried := make([]error, len(all))
	together(agents, func(ctx context.Context, o *opsRig) (err error) {
		if o == agents[2] {
			for range 3 {
				if _, err := o.Maintain(ctx, 7*day); err != nil {
					return err
				}
			}
			return nil
		}
		for i, id := range all {
			if (i%2 == 0) != (o == agents[0]) {
				continue
			}
			_, retried[i] = o.h.Retry(ctx, id, "alice")
			if retried[i] != nil && !errors.Is(retried[i], store.ErrNoTask) && !errors.As(retried[i], new(*store.RefusedError)) {
				return retried[i]
			}
		}
		return nil
	})
	r.maintain(7 * day)
	for i, id := range all {
		if retried[i] != nil {
			r.gone(id)
			continue
		}
		got := r.get(id)
		require.Equal(t, task.StatePending, got.State)
		require.Len(t, got.History, 1)
		require.Len(t, r.list(store.TaskFilter{Type: kind, Before: id + 1, Limit: 1}), 1)
	}
}

// removed has one agent do something while another removes what is past its retention.
func (r *opsRig) removed(o *opsRig, do func(ctx context.Context) error) (err error) {
	r.t.Helper()
	together([]*opsRig{r, o}, func(ctx context.Context, a *opsRig) error {
		if a == r {
			err = do(ctx)
			return nil
		}
		for range 3 {
			if _, err := a.Maintain(ctx, 7*day); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

func retryBatchGoing(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	o := r.twin()
	for range 4 {
		id, all := r.batchOf(4, store.BatchRequest{})
		r.runAll(task.StateFailed)
		r.fold()
		r.Advance(t, 10*day)
		r.present()
		var answer string
		err := r.removed(o, func(ctx context.Context) (err error) {
			answer, err = r.h.RetryBatch(ctx, id, "alice")
			return err
		})
		r.maintain(7 * day)
		if errors.Is(err, store.ErrNoBatch) {
			for _, row := range all {
				r.gone(row)
			}
			continue
		}
		require.NoError(t, err)
		if answer == string(store.BatchFailed) {
			continue // they had gone, and there was nothing left to retry
		}
		require.Equal(t, store.BatchRetrying, answer)
		n := r.steps()
		require.Len(t, r.runAll(task.StateSucceeded), n)
		r.over()
		got := r.look(id)
		require.True(t, got.State.Ended())
		require.EqualValues(t, n, got.Succeeded)
		require.EqualValues(t, 4, got.Total)
	}
}

func rollbackGoing(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	o := r.twin()
	for range 4 {
		id, all := r.batchOf(4, store.BatchRequest{})
		for _, row := range r.claim(wantOf(kind, task.Run, 2)) {
			r.settled(finish(row))
		}
		r.Advance(t, 5*day)
		r.present()
		for _, row := range r.claim(wantOf(kind, task.Run, 2)) {
			r.settled(finish(row))
		}
		r.fold()
		r.Advance(t, 4*day)
		r.present()
		err := r.removed(o, func(ctx context.Context) error {
			_, err := r.h.RollbackBatch(ctx, id, "alice", false)
			return err
		})
		if err != nil {
			if strings.Contains(err.Error(), "being removed") { // they are marked, and still there
				refusal(t, "Go", err, "some of the 4 tasks", "past their retention", "force")
			} else {
				refusal(t, "Go", err, "2 of the 4 tasks", "past their retention", "force")
			}
			require.Equal(t, store.BatchSucceeded, r.look(id).State, "nothing has changed")
			r.in(task.StateSucceeded, all[2:]...)
			continue
		}
		r.maintain(7 * day)
		require.Equal(t, 4, r.steps(), "it was not refused, so all of it is there")
		r.rollBackAll()
		r.over()
		r.in(task.StateRolledBack, all...)
		r.inState(id, store.BatchRolledBack)
	}
}
