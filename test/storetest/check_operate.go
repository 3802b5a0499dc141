package storetest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Operators at once, agents that die, and who is woken.

func retryRace(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	agents := []*opsRig{r, r.twin(), r.twin(), r.twin()}
	for range 5 {
		id := r.rowIn(store.EnqueueRequest{Type: kind}, task.StateFailed, true)
		before := r.get(id)
		r.audited(func() {
			together(agents, func(ctx context.Context, o *opsRig) error {
				got, err := o.h.Retry(ctx, id, "alice")
				if err == nil && got != became(task.StatePending) {
					t.Errorf("the answer was %q", got)
				}
				return err
			})
		}, Audited{Who: "alice", Verb: "retry", Task: id, Answer: "pending"})
		got := r.get(id)
		require.Equal(t, before.Fence+1, got.Fence)
		require.Equal(t, 1, got.Round)
		require.Len(t, got.History, 1)
		r.settled(finish(r.claimOne(kind, task.Run)))
	}
}

func retryWakes(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	o := r.twin()
	require.NoError(t, r.Idle(r.ctx, r.session, true))
	news, stop := r.listen()
	defer stop()
	r.await(news, store.Due)
	for _, again := range o.retries() {
		id := r.rowIn(store.EnqueueRequest{Type: kind}, task.StateFailed, true)
		drain(news)
		r.did(became(task.StatePending), again, id, "alice")
		r.await(news, store.Due)
		r.settled(finish(r.claimOne(kind, task.Run)))
	}
}

func retryCrash(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for _, point := range r.h.BatchFailpoints() {
		id := r.rowIn(store.EnqueueRequest{Type: kind}, task.StateFailed, true)
		fence := r.get(id).Fence
		hit := r.crash(point)
		_, err := r.h.Retry(r.ctx, id, "alice")
		r.Fail(nil)
		if hit() {
			require.ErrorIs(t, err, errCrash, point)
		} else {
			require.NoError(t, err, point)
		}
		require.Contains(t, []task.State{task.StateFailed, task.StatePending}, r.state(id), point)
		r.did(became(task.StatePending), r.h.Retry, id, "alice")
		got := r.get(id)
		require.Equal(t, fence+1, got.Fence, point)
		require.Len(t, got.History, 1, point)
		require.Len(t, r.list(store.TaskFilter{Type: kind, States: []task.State{task.StatePending, task.StateFailed}}), 1, point)
		r.settled(finish(r.claimOne(kind, task.Run)))
	}
}

func rollbackRace(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	agents := []*opsRig{r, r.twin(), r.twin(), r.twin()}
	for _, s := range []task.State{task.StateSucceeded, task.StateRetryPending, task.StateRunning} {
		id := r.rowIn(store.EnqueueRequest{Type: kind}, s, true)
		before := r.get(id)
		answer := became(task.StateRollbackPending)
		if s == task.StateRunning {
			answer = store.Cancelling
		}
		r.audited(func() {
			together(agents, func(ctx context.Context, o *opsRig) error {
				got, err := o.h.Rollback(ctx, id, "alice")
				if err == nil && got != answer {
					t.Errorf("the answer was %q", got)
				}
				return err
			})
		}, Audited{Who: "alice", Verb: "rollback", Task: id, Answer: string(answer)})
		if s == task.StateRunning {
			r.letGo(id)
			stepped := 0
			for range 6 {
				stepped += r.step(10).Rows
			}
			require.Equal(t, 1, stepped, "the request is one")
			before.Fence++
		}
		require.Equal(t, before.Fence+1, r.get(id).Fence)
		r.rollBackAll()
	}
}

func rollbackStepRace(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	agents := []*opsRig{r, r.twin(), r.twin(), r.twin()}
	r.insert(20)
	rows := r.claim(under(beating(), 20))
	for _, row := range rows {
		r.did(store.Cancelling, r.h.Rollback, row.ID, "alice")
		r.settled(finish(row))
	}
	together(agents, func(ctx context.Context, o *opsRig) error {
		for range 10 {
			if _, err := o.h.Step(ctx, 2); err != nil {
				return err
			}
		}
		return nil
	})
	r.steps()
	for _, row := range rows {
		got := r.get(row.ID)
		require.Equal(t, task.StateRollbackPending, got.State)
		require.Equal(t, row.Fence+2, got.Fence, "settled and revived, once")
		require.Len(t, got.History, 1)
	}
}

func rollbackAgainstRetry(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	agents := []*opsRig{r, r.twin(), r.twin(), r.twin()}
	for range 8 {
		id := r.rowIn(store.EnqueueRequest{Type: kind}, task.StateFailed, true)
		before := r.get(id)
		together(agents, func(ctx context.Context, o *opsRig) error {
			do, answers := operation(o.h.Retry), []store.Became{"pending", "rollback_pending"}
			if o == agents[0] || o == agents[2] {
				do, answers = o.h.Rollback, answers[1:]
			}
			got, err := do(ctx, id, "alice")
			if err == nil && got != answers[0] && got != answers[len(answers)-1] {
				t.Errorf("the answer was %q", got)
			}
			return err
		})
		got := r.get(id)
		require.Equal(t, task.StateRollbackPending, got.State, "it is rolled back in either order")
		require.Equal(t, before.Fence+1+task.Fence(got.Round), got.Fence)
		require.Len(t, got.History, 1)
		require.Equal(t, map[int]task.Verdict{0: task.Failed, 1: task.Cancelled}[got.Round], got.Cause)
		r.rollBackAll()
	}
}

func rollbackWakes(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	o := r.twin()
	require.NoError(t, r.Idle(r.ctx, r.session, true))
	news, stop := r.listen()
	defer stop()
	r.await(news, store.Due)
	for _, rollBack := range o.rollbacks() {
		for _, s := range []task.State{task.StateSucceeded, task.StateRetryPending} {
			id := r.rowIn(store.EnqueueRequest{Type: kind}, s, true)
			drain(news)
			r.did(became(task.StateRollbackPending), rollBack, id, "alice")
			r.await(news, store.Due)
			r.rollBackAll()
		}
		row := r.heldUnder(beating())
		drain(news)
		r.did(store.Cancelling, rollBack, row.ID, "alice")
		r.await(news, store.CancelNews)
		r.settled(finish(row))
		drain(news)
		require.Equal(t, 1, o.steps())
		r.await(news, store.Due)
		r.rollBackAll()
	}
}

func rollbackCrash(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for _, point := range r.h.BatchFailpoints() {
		for _, s := range []task.State{task.StateSucceeded, task.StateRunning} {
			id := r.rowIn(store.EnqueueRequest{Type: kind}, s, true)
			n := len(r.get(id).History) + 1
			r.crashing(point, func() error { _, err := r.h.Rollback(r.ctx, id, "alice"); return err })
			if s == task.StateRunning {
				r.did(store.Cancelling, r.h.Rollback, id, "alice")
				r.letGo(id)
				n = len(r.get(id).History)
				r.crashing(point, func() error { _, err := r.h.Step(r.ctx, 10); return err })
				r.steps()
			} else {
				r.did(became(task.StateRollbackPending), r.h.Rollback, id, "alice")
			}
			got := r.get(id)
			require.Equal(t, task.StateRollbackPending, got.State, point)
			require.Len(t, got.History, n, point)
			require.Len(t, r.list(store.TaskFilter{Type: kind, States: []task.State{task.StateRollbackPending, s}}), 1, point)
			r.rollBackAll()
		}
	}
}
