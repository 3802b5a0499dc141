package storetest

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
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
func (r *opsRig) batch(b store.BatchRequest, rows ...store.EnqueueRequest) (id task.BatchID, ids []task.ID) {
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
func (r *opsRig) batchOf(n int, b store.BatchRequest) (task.BatchID, []task.ID) {
	r.t.Helper()
	return r.batch(b, slices.Repeat([]store.EnqueueRequest{{Type: kind}}, n)...)
}

// add inserts a row into a batch that is there, in a transaction of its own.
func (r *opsRig) add(id task.BatchID, q store.EnqueueRequest) error {
	r.t.Helper()
	q.Batch = id
	return r.inOne(func(p Producer) error {
		_, err := p.Insert(r.ctx, q)
		return err
	})
}

// look reads a batch.
func (r *opsRig) look(id task.BatchID) *store.BatchInfo {
	r.t.Helper()
	i, err := r.h.GetBatch(r.ctx, id)
	require.NoError(r.t, err)
	require.Equal(r.t, id, i.ID)
	return i
}

// inState asserts where a batch stands, and that its counters are those of its rows, of which none has gone.
func (r *opsRig) inState(id task.BatchID, want store.BatchState) *store.BatchInfo {
	r.t.Helper()
	i := r.look(id)
	require.Equal(r.t, want, i.State)
	require.Equal(r.t, want.Ended(), i.EndedAt != nil)
	r.reckoned(i)
	return i
}

// reckoned asserts that the counters of a batch are those of its rows.
func (r *opsRig) reckoned(i *store.BatchInfo) {
	r.t.Helper()
	in := map[task.State]int64{}
	rows, err := r.List(r.ctx, store.TaskFilter{Batch: i.ID, Limit: 1000})
	require.NoError(r.t, err)
	for _, row := range rows {
		in[row.State]++
	}
	type counters struct{ total, live, waiting, running, rollingBack, succeeded, failed, cancelled, rolledBack, rollbackFailed int64 }
	want := counters{
		total: int64(len(rows)), waiting: in[task.StatePending] + in[task.StateRetryPending], running: in[task.StateRunning],
		rollingBack: in[task.StateRollbackPending] + in[task.StateRollbackRunning],
		succeeded:   in[task.StateSucceeded], failed: in[task.StateFailed], cancelled: in[task.StateCancelled],
		rolledBack: in[task.StateRolledBack], rollbackFailed: in[task.StateRollbackFailed],
	}
	want.live = want.waiting + want.running + want.rollingBack
	require.Equal(r.t, want, counters{
		i.Total, i.Live, i.Waiting, i.Running, i.RollingBack, i.Succeeded, i.Failed, i.Cancelled, i.RolledBack, i.RollbackFailed,
	}, "the counters of batch %d", i.ID)
	if want.total == 0 {
		require.Nil(r.t, i.Progress)
		return
	}
	require.NotNil(r.t, i.Progress)
	require.InDelta(r.t, float64(want.total-want.live)/float64(want.total), *i.Progress, 0.001)
}

// fold folds as often as there may be something to do, and adds up what that did.
func (r *opsRig) fold() store.Folded {
	r.t.Helper()
	var all store.Folded
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
	for range 1000 {
		s, f := r.step(3), r.fold()
		if s.Rows == 0 && !s.Ended && f.Ended == 0 && f.Acted == 0 {
			return
		}
	}
	require.Fail(r.t, "it never ends")
}

// finished lists the rows of a type, oldest first: of a batch's finish_type.
func (r *opsRig) finished(typ string) []store.TaskInfo {
	r.t.Helper()
	rows, err := r.List(r.ctx, store.TaskFilter{Type: typ})
	require.NoError(r.t, err)
	slices.Reverse(rows)
	return rows
}

// runAll claims what is due of kind, and ends each row in its state of states; the last state serves all further rows.
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
func rowsThen(err error, rows ...store.EnqueueRequest) iter.Seq2[store.EnqueueRequest, error] {
	return func(yield func(store.EnqueueRequest, error) bool) {
		for _, q := range rows {
			if !yield(q, nil) {
				return
			}
		}
		if err != nil {
			yield(store.EnqueueRequest{}, err)
		}
	}
}

// bulk is what an operator wants of a batch.
type bulk func(ctx context.Context, id task.BatchID, by string) (string, error)

// bulks are the ways to say what one wants of a batch.
func (r *opsRig) bulks(verb string) map[string]bulk {
	switch verb {
	case "cancel":
		return map[string]bulk{"Go": r.h.CancelBatch, "SQL": r.sql.CancelBatch}
	case "retry":
		return map[string]bulk{"Go": r.h.RetryBatch, "SQL": r.sql.RetryBatch}
	}
	unforced := func(do func(context.Context, task.BatchID, string, bool) (string, error)) bulk {
		return func(ctx context.Context, id task.BatchID, by string) (string, error) { return do(ctx, id, by, false) }
	}
	return map[string]bulk{"Go": unforced(r.h.RollbackBatch), "SQL": unforced(r.sql.RollbackBatch)}
}

// wants says by Go what one wants of a batch, and asserts the answer.
func (r *opsRig) wants(verb string, id task.BatchID, answer string) {
	r.t.Helper()
	r.gets(r.bulks(verb)["Go"], id, "alice", answer)
}

// gets asserts what a request met.
func (r *opsRig) gets(do bulk, id task.BatchID, by, answer string) {
	r.t.Helper()
	got, err := do(r.ctx, id, by)
	require.NoError(r.t, err)
	require.Equal(r.t, answer, got)
}

// still asserts that f changes nothing of a batch, and leaves no note.
func (r *opsRig) still(id task.BatchID, f func()) {
	r.t.Helper()
	r.audited(func() {
		before, rows := r.look(id), r.rows(id)
		f()
		require.Equal(r.t, before, r.look(id))
		require.Equal(r.t, rows, r.rows(id))
	})
}

// rows lists the rows of a batch, by id.
func (r *opsRig) rows(id task.BatchID) []store.TaskInfo {
	r.t.Helper()
	list, err := r.List(r.ctx, store.TaskFilter{Batch: id, Limit: 1000})
	require.NoError(r.t, err)
	slices.Reverse(list)
	return list
}

// in asserts in which states rows are.
func (r *opsRig) in(want task.State, rows ...task.ID) {
	r.t.Helper()
	for _, id := range rows {
		require.Equal(r.t, want, r.state(id), "row %d", id)
	}
}
