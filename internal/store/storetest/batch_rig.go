package storetest

import (
	"errors"
	"iter"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/batch"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/task"
)

// inOne has f insert in one transaction of an application's, which is committed where f succeeds.
func (r *opsRig) inOne(f func(p Producer) error) error {
	r.t.Helper()
	p := r.h.Produce(r.t)
	if err := f(p); err != nil {
		require.NoError(r.t, p.Rollback(r.ctx))
		return err
	}
	return p.Commit(r.ctx)
}

// batch creates a batch by plain SQL with rows in it, all in one transaction.
func (r *opsRig) batch(b ops.BatchRequest, rows ...ops.Request) (id task.BatchID, ids []task.ID) {
	r.t.Helper()
	require.NoError(r.t, r.inOne(func(p Producer) (err error) {
		if id, err = p.CreateBatch(r.ctx, b); err != nil {
			return err
		}
		for _, q := range rows {
			q.Batch = id
			got, err := p.Insert(r.ctx, q)
			if err != nil {
				return err
			}
			ids = append(ids, got...)
		}
		return nil
	}))
	require.Positive(r.t, id)
	return id, ids
}

// batchOf creates a batch of n rows of kind that are due.
func (r *opsRig) batchOf(n int, b ops.BatchRequest) (task.BatchID, []task.ID) {
	r.t.Helper()
	return r.batch(b, slices.Repeat([]ops.Request{{Type: kind}}, n)...)
}

// add inserts a row into a batch that is there, in a transaction of its own.
func (r *opsRig) add(id task.BatchID, q ops.Request) error {
	r.t.Helper()
	q.Batch = id
	return r.inOne(func(p Producer) error {
		_, err := p.Insert(r.ctx, q)
		return err
	})
}

// look reads a batch.
func (r *opsRig) look(id task.BatchID) *ops.BatchInfo {
	r.t.Helper()
	i, err := r.h.GetBatch(r.ctx, id)
	require.NoError(r.t, err)
	require.Equal(r.t, id, i.ID)
	return i
}

// stands asserts where a batch stands, and that its counters are those of its rows, of which none has gone.
func (r *opsRig) stands(id task.BatchID, want ops.BatchState) *ops.BatchInfo {
	r.t.Helper()
	i := r.look(id)
	require.Equal(r.t, want, i.State)
	require.Equal(r.t, want.Ended(), i.EndedAt != nil)
	r.reckoned(i)
	return i
}

// reckoned asserts that the counters of a batch are those of its rows.
func (r *opsRig) reckoned(i *ops.BatchInfo) {
	r.t.Helper()
	in := map[task.State]int64{}
	rows, err := r.List(r.ctx, ops.Filter{Batch: i.ID, Limit: 1000})
	require.NoError(r.t, err)
	for _, row := range rows {
		in[row.State]++
	}
	type counters struct{ total, live, waiting, running, undoing, succeeded, failed, cancelled, rolledBack, rollbackFailed int64 }
	want := counters{
		total: int64(len(rows)), waiting: in[task.StatePending] + in[task.StateRetryPending], running: in[task.StateRunning],
		undoing:   in[task.StateRollbackPending] + in[task.StateRollbackRunning],
		succeeded: in[task.StateSucceeded], failed: in[task.StateFailed], cancelled: in[task.StateCancelled],
		rolledBack: in[task.StateRolledBack], rollbackFailed: in[task.StateRollbackFailed],
	}
	want.live = want.waiting + want.running + want.undoing
	require.Equal(r.t, want, counters{
		i.Total, i.Live, i.Waiting, i.Running, i.Undoing, i.Succeeded, i.Failed, i.Cancelled, i.RolledBack, i.RollbackFailed,
	}, "the counters of batch %d", i.ID)
	if want.total == 0 {
		require.Nil(r.t, i.Progress)
		return
	}
	require.NotNil(r.t, i.Progress)
	require.InDelta(r.t, float64(want.total-want.live)/float64(want.total), *i.Progress, 0.001)
}

// fold folds as often as there may be something to do, and adds up what that did.
func (r *opsRig) fold() batch.Folded {
	r.t.Helper()
	var all batch.Folded
	for range 5 {
		got, err := r.h.Fold(r.ctx, 100)
		require.NoError(r.t, err)
		require.LessOrEqual(r.t, got.Batches, 100)
		require.Len(r.t, got.Ends, got.Ended)
		require.Len(r.t, got.Acts, got.Acted)
		all.Ended, all.Acted = all.Ended+got.Ended, all.Acted+got.Acted
		all.Ends, all.Acts = append(all.Ends, got.Ends...), append(all.Acts, got.Acts...)
	}
	return all
}

// over folds and steps until nothing moves any more.
func (r *opsRig) over() {
	r.t.Helper()
	for range 100 {
		f, n := r.fold(), r.steps()
		if f.Ended == 0 && f.Acted == 0 && n == 0 {
			return
		}
	}
	require.Fail(r.t, "it never ends")
}

// finished lists the rows of a type, oldest first: of a batch's finish_type.
func (r *opsRig) finished(typ string) []ops.Info {
	r.t.Helper()
	rows, err := r.List(r.ctx, ops.Filter{Type: typ})
	require.NoError(r.t, err)
	slices.Reverse(rows)
	return rows
}

// runAll claims what is due of kind, and ends each as told; the last of them ends the others.
func (r *opsRig) runAll(states ...task.State) []task.Task {
	r.t.Helper()
	rows := r.claim(wantOf(kind, task.Run, 1000))
	for i, row := range rows {
		s := states[min(i, len(states)-1)]
		r.settled(ended(row, verdictFor(s), s))
	}
	return rows
}

var errNoMore = errors.New("there are no more rows")

// rowsThen gives rows, and then an error if there is one.
func rowsThen(err error, rows ...ops.Request) iter.Seq2[ops.Request, error] {
	return func(yield func(ops.Request, error) bool) {
		for _, q := range rows {
			if !yield(q, nil) {
				return
			}
		}
		if err != nil {
			yield(ops.Request{}, err)
		}
	}
}
