package storetest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Orders of events that hurt.
func batchRaceChecks() []Check {
	return slices.Concat([]Check{
		{"cancel against completion", raceCancelCompletion},
		{"cancel of a batch against its last settlements", raceCancelEnd},
		{"rollback asked while a retry is claimed", raceRollbackClaim},
		{"a batch is cancelled while rows stream in", raceCancelStream},
		{"a batch is rolled back while it is claimed", raceRollbackClaims},
		{"an open transaction inserts while others settle", raceOpenInsert},
		{"an open transaction inserts while its batch is cancelled", raceOpenCancel},
		{"two operators with opposite requests", raceOpposite},
		{"two operators with opposite requests of what has ended", raceOppositeEnded},
		{"it counts what many do at once", countMany},
		{"one agent ends it", endRace},
		{"on failure, once", failureOnce},
	}, batchDeathChecks())
}

func raceCancelCompletion(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	agents := []*opsRig{r, r.twin(), r.twin()}
	id, _ := r.batchOf(24, store.BatchRequest{FinishType: "finish"})
	for i, row := range r.claim(wantOf(kind, task.Run, 24)) {
		var answer store.Became
		together(agents, func(ctx context.Context, o *opsRig) (err error) {
			switch {
			case o == agents[1]:
				answer, err = o.h.Cancel(ctx, row.ID, "alice")
			case o == agents[0] && i%2 == 0:
				_, err = o.Settle(ctx, r.session, []store.Settlement{finish(row)})
			case o == agents[0]:
				_, err = o.Complete(ctx, row.ID, row.Fence, nil)
			default:
				_, err = o.h.Fold(ctx, 10)
			}
			return err
		})
		require.Contains(t, []store.Became{store.Cancelling, "succeeded"}, answer)
		require.Equal(t, task.StateSucceeded, r.state(row.ID), "what succeeds has succeeded")
		require.Equal(t, row.Fence+1, r.get(row.ID).Fence)
	}
	r.over()
	r.inState(id, store.BatchSucceeded)
	require.Len(t, r.finished("finish"), 1)
}

func raceCancelEnd(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	agents := []*opsRig{r, r.twin(), r.twin()}
	for n := range 8 {
		id, all := r.batchOf(3, store.BatchRequest{FinishType: "finish"})
		rows := r.claim(wantOf(kind, task.Run, 2))
		var answer string
		together(agents, func(ctx context.Context, o *opsRig) (err error) {
			switch o {
			case agents[0]:
				_, err = o.Settle(ctx, r.session, []store.Settlement{finish(rows[0]), finish(rows[1])})
			case agents[1]:
				answer, err = o.h.CancelBatch(ctx, id, "alice")
			default:
				for range 3 {
					if _, err = o.h.Fold(ctx, 10); err != nil {
						return err
					}
					if _, err = o.h.Step(ctx, 1); err != nil {
						return err
					}
				}
			}
			return err
		})
		require.Equal(t, "cancelling", answer)
		r.over()
		r.in(task.StateSucceeded, all[:2]...)
		r.in(task.StateCancelled, all[2])
		r.inState(id, store.BatchCancelled)
		require.Len(t, r.finished("finish"), n+1)
	}
}

func raceRollbackClaim(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	o := r.twin()
	for range 16 {
		id := r.rowIn(store.EnqueueRequest{Type: kind}, task.StateFailed, true)
		r.did(became(task.StatePending), r.h.Retry, id, "alice")
		var answer store.Became
		var claimed []task.Task
		together([]*opsRig{r, o}, func(ctx context.Context, a *opsRig) (err error) {
			if a == r {
				answer, err = a.h.Rollback(ctx, id, "bob")
				return err
			}
			a.claims++
			claimed, err = a.Claim(ctx, store.Claim{Session: a.session, Number: a.claims, Wants: []store.Want{wantOf(kind, task.Run, 1)}})
			return err
		})
		if len(claimed) == 0 {
			require.Equal(t, became(task.StateRollbackPending), answer)
		} else {
			require.Equal(t, store.Cancelling, answer, "it was claimed before")
			require.NotNil(t, r.get(id).CancelRequested)
			o.settled(finish(claimed[0]))
			require.Equal(t, 1, r.steps())
		}
		require.Equal(t, task.StateRollbackPending, r.state(id), "either way it is rolled back")
		require.Empty(t, o.claim(wantOf(kind, task.Run, 1)))
		back := r.claimOne(kind, task.Rollback)
		require.Equal(t, 1, back.Round)
		r.settled(ended(back, task.Succeeded, task.StateRolledBack))
		require.Equal(t, task.StateRolledBack, r.state(id))
	}
}

// bars claims rows of a batch, and returns an error for rows of a claim that began after the batch had been stopped.
type bars struct {
	stopped atomic.Bool
	mu      sync.Mutex
	rows    []task.Task
}

func (b *bars) claim(ctx context.Context, o *opsRig) error {
	late := b.stopped.Load()
	o.claims++
	rows, err := o.Claim(ctx, store.Claim{Session: o.session, Number: o.claims, Wants: []store.Want{wantOf(kind, task.Run, 2)}})
	if err != nil {
		return err
	}
	if late && len(rows) > 0 {
		return errors.New("rows were started after their batch had been stopped")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rows = append(b.rows, rows...)
	return nil
}

func raceCancelStream(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, _ := r.batch(store.BatchRequest{Open: true, FinishType: "finish"})
	agents := []*opsRig{r, r.twin(), r.twin(), r.twin(), r.twin()}
	var b bars
	var streamed, refused atomic.Int64
	done := make(chan struct{})
	together(agents, func(ctx context.Context, o *opsRig) error {
		switch o {
		case agents[0]: // calls it off when some are there
			for streamed.Load() < 20 {
				if err := b.claim(ctx, o); err != nil {
					return err
				}
			}
			_, err := o.h.CancelBatch(ctx, id, "alice")
			b.stopped.Store(true)
			close(done)
			return err
		case agents[1], agents[2]: // claim
			for range 60 {
				if err := b.claim(ctx, o); err != nil {
					return err
				}
			}
			return nil
		}
		for range 1000 { // insert
			if streamed.Load() > 900 { // on a busy machine the cancellation takes long to get its turn, and lists end at 1000 rows
				select {
				case <-done:
				case <-ctx.Done():
				}
			}
			_, _, err := o.Enqueue(ctx, store.EnqueueRequest{Type: kind, Batch: id})
			if _, is := errors.AsType[*store.InputError](err); is {
				refused.Add(1)
				return nil
			}
			if err != nil {
				return err
			}
			streamed.Add(1)
		}
		return errors.New("it was never refused")
	})
	require.EqualValues(t, 2, refused.Load())
	r.over()
	require.Equal(t, streamed.Load(), r.look(id).Total)
	for _, row := range b.rows {
		require.NotNil(t, r.get(row.ID).CancelRequested)
		for _, o := range agents {
			if o.session == r.get(row.ID).Session {
				o.settled(ended(row, task.Cancelled, task.StateCancelled))
			}
		}
	}
	r.over()
	require.Equal(t, streamed.Load(), r.inState(id, store.BatchCancelled).Cancelled)
	require.Len(t, r.finished("finish"), 1)
}

func raceRollbackClaims(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, _ := r.batchOf(60, store.BatchRequest{FinishType: "finish"})
	agents := []*opsRig{r, r.twin(), r.twin(), r.twin()}
	var b bars
	together(agents, func(ctx context.Context, o *opsRig) error {
		if o == agents[0] {
			for range 2 {
				if err := b.claim(ctx, o); err != nil {
					return err
				}
			}
			_, err := o.h.RollbackBatch(ctx, id, "alice", false)
			b.stopped.Store(true)
			return err
		}
		for range 20 {
			if err := b.claim(ctx, o); err != nil {
				return err
			}
			if _, err := o.h.Step(ctx, 3); err != nil {
				return err
			}
		}
		return nil
	})
	for _, row := range b.rows {
		for _, o := range agents {
			if o.session == r.get(row.ID).Session {
				o.settled(finish(row))
			}
		}
	}
	for range 3 {
		r.over()
		r.rollBackAll()
	}
	r.over()
	got := r.inState(id, store.BatchRolledBack)
	require.EqualValues(t, len(b.rows), got.RolledBack)
	require.EqualValues(t, 60-len(b.rows), got.Cancelled)
	require.Len(t, r.finished("finish"), 1)
}

func raceOpenInsert(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, all := r.batchOf(6, store.BatchRequest{Open: true, FinishType: "finish"})
	o := r.twin()
	locks := r.keepsRows()
	p := r.h.Produce(t)
	_, err := p.Insert(r.ctx, store.EnqueueRequest{Type: kind, Batch: id})
	require.NoError(t, err)
	work := func() {
		t.Helper()
		rows := r.claim(wantOf(kind, task.Run, 4))
		require.Len(t, rows, 4)
		r.settled(finish(rows[0]), ended(rows[1], task.Failed, task.StateFailed), ended(rows[2], task.Failed, task.StateRollbackPending))
		require.Equal(t, store.Applied, r.complete(rows[3].ID, rows[3].Fence, ""))
		o.fold()
		require.Equal(t, store.Became("cancelled"), r.cancel(all[5], ""))
		r.did(became(task.StatePending), o.h.Retry, all[1], "")
		r.did(became(task.StateRollbackPending), o.h.Rollback, all[0], "")
		require.EqualValues(t, 6, r.inState(id, store.BatchRunning).Total)
		require.NoError(t, o.add(id, store.EnqueueRequest{Type: kind}))
		require.EqualValues(t, 7, r.inState(id, store.BatchRunning).Total)
	}
	if !locks { // all of them would wait for the transaction: that is what one writer at a time means
		require.NoError(t, p.Commit(r.ctx))
		_, err := r.h.SealBatch(r.ctx, id)
		require.NoError(t, err)
		require.Zero(t, r.fold().Ended)
		require.EqualValues(t, 7, r.inState(id, store.BatchPending).Total)
		return
	}
	work()
	_, err = o.h.SealBatch(r.ctx, id)
	require.NoError(t, err)
	require.NoError(t, p.Commit(r.ctx))
	require.EqualValues(t, 8, r.inState(id, store.BatchRunning).Total)
	for range 3 {
		r.runAll(task.StateSucceeded)
		r.rollBackAll()
		r.fold()
	}
	require.True(t, r.look(id).State.Ended())
	require.Len(t, r.finished("finish"), 1)
}

func raceOpenCancel(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	id, all := r.batchOf(2, store.BatchRequest{Open: true, FinishType: "finish"})
	locks := r.keepsRows()
	p := r.h.Produce(t)
	more, err := p.Insert(r.ctx, store.EnqueueRequest{Type: kind, Batch: id}, store.EnqueueRequest{Type: kind, Batch: id})
	require.NoError(t, err)
	if locks { // elsewhere the cancel waits for the transaction
		r.wants("cancel", id, "cancelling")
		require.Equal(t, 2, r.steps())
		r.in(task.StateCancelled, all...)
		require.Equal(t, "cancel", r.look(id).Operation, "what is being inserted is to be cancelled, too")
		require.Zero(t, r.fold().Ended)
		r.noRow(id, "batch "+number(id)+" was cancelled")
	}
	require.NoError(t, p.Commit(r.ctx))
	if !locks {
		r.wants("cancel", id, "cancelling")
	}
	require.Empty(t, r.claim(wantOf(kind, task.Run, 10)), "what came late does not start")
	r.over()
	r.in(task.StateCancelled, more...)
	require.EqualValues(t, 4, r.inState(id, store.BatchCancelled).Cancelled)
	require.Len(t, r.finished("finish"), 1)
}

func raceOpposite(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	agents := []*opsRig{r, r.twin(), r.twin()}
	for n := range 6 {
		id, all := r.batchOf(4, store.BatchRequest{FinishType: "finish"})
		rows := r.claim(wantOf(kind, task.Run, 3))
		r.settled(finish(rows[0]), ended(rows[1], task.Failed, task.StateFailed))
		together(agents, func(ctx context.Context, o *opsRig) (err error) {
			switch o {
			case agents[0]:
				_, err = o.h.CancelBatch(ctx, id, "alice")
			case agents[1]:
				_, err = o.h.RollbackBatch(ctx, id, "bob", false)
			default:
				_, err = o.h.RetryBatch(ctx, id, "carol")
				if errors.As(err, new(*store.RefusedError)) {
					err = nil
				}
			}
			return err
		})
		r.settled(finish(rows[2]))
		require.Equal(t, "bob", r.look(id).RequestedBy, "a rollback goes before all")
		for range 3 {
			r.over()
			r.rollBackAll()
		}
		r.over()
		r.in(task.StateRolledBack, all[0], all[1], all[2])
		r.in(task.StateCancelled, all[3])
		r.inState(id, store.BatchRolledBack)
		require.Len(t, r.finished("finish"), n+1)
	}
}

func raceOppositeEnded(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	agents := []*opsRig{r, r.twin(), r.twin(), r.twin()}
	notified := 0
	for range 6 {
		id, all := r.batchOf(2, store.BatchRequest{FinishType: "finish"})
		r.runAll(task.StateSucceeded, task.StateFailed)
		r.fold()
		together(agents, func(ctx context.Context, o *opsRig) (err error) {
			switch o {
			case agents[0]:
				_, err = o.h.RetryBatch(ctx, id, "alice")
			case agents[1]:
				_, err = o.h.RollbackBatch(ctx, id, "bob", false)
			case agents[2]:
				_, err = o.h.Retry(ctx, all[1], "carol")
			default:
				_, err = o.h.Step(ctx, 1)
			}
			if errors.As(err, new(*store.RefusedError)) {
				err = nil
			}
			return err
		})
		require.Equal(t, 1, r.look(id).Round, "one opens it again, and the others find it open")
		for range 3 {
			r.over()
			r.rollBackAll()
		}
		r.over()
		r.in(task.StateRolledBack, all...)
		r.inState(id, store.BatchRolledBack)
		notified += 2
		require.Len(t, r.finished("finish"), notified, "one for each round")
	}
}
