package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
	"github.com/leasehold/leasehold/internal/task"
)

// rollbackable has the type of the tests' rows be one that can be rolled back.
func (h *harness) rollbackable(t *testing.T) {
	t.Helper()
	h.exec(t, `INSERT INTO SCHEMA.policy (hash, type, body) VALUES (4711, 'a', '{"rollback": {"timeout": 1000000000}}')`)
}

// oldBatch ends a batch of two tasks, of which the first ended so long before the second, and that so long ago.
func (a *agentOn) oldBatch(t *testing.T, between, ago time.Duration) (id task.BatchID, ids []task.ID) {
	t.Helper()
	a.rollbackable(t)
	id, ids = a.batchOf(t, 2, store.BatchRequest{})
	rows := a.claim(t, 2)
	require.Equal(t, all(1, store.Applied), a.settle(t, done(rows[0])))
	a.Advance(t, between)
	require.Equal(t, all(1, store.Applied), a.settle(t, done(rows[1])))
	f, err := a.Fold(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 1, f.Ended)
	a.Advance(t, ago)
	return id, ids
}

// maintain removes what is older than a week.
func (a *agentOn) maintain(t *testing.T) (removed int64) {
	t.Helper()
	removed, err := a.Maintain(t.Context(), week)
	require.NoError(t, err)
	return removed
}

// TestARollbackOfHalfABatch: it is refused, with both numbers and the remedy, and changes nothing.
func TestARollbackOfHalfABatch(t *testing.T) {
	t.Parallel()
	a := joined(t, newHarness(t))
	id, ids := a.oldBatch(t, 5*day, 6*day)
	require.EqualValues(t, 1, a.maintain(t))
	_, err := a.RollbackBatch(t.Context(), id, "alice", false)
	var refused *store.RefusedError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, "1 of the 2 tasks of batch 1 are past their retention and cannot be rolled back: use force to roll back "+
		"the 1 that are left", refused.Text)
	a.inState(t, id, store.BatchSucceeded)
	_, err = a.Rollback(t.Context(), ids[0], "alice")
	require.ErrorIs(t, err, store.ErrNoTask)
	said, err := a.RollbackBatch(t.Context(), id, "alice", true)
	require.NoError(t, err)
	require.Equal(t, "rolling_back", said)
	a.carryOut(t)
	require.EqualValues(t, 1, a.inState(t, id, store.BatchRollingBack).RollingBack)
	require.EqualValues(t, 1, a.number(t, `SELECT count(*) FROM SCHEMA.audit`), "a refusal is not noted")
}

// TestARollbackMeetsARemoval: a rollback that opens a batch again before the removal looks at its rows keeps them. One that
// comes later is refused, even while the rows are still there.
func TestARollbackMeetsARemoval(t *testing.T) {
	t.Parallel()
	t.Run("first", func(t *testing.T) {
		t.Parallel()
		a := joined(t, newHarness(t))
		id, _ := a.oldBatch(t, 0, 10*day)
		tx, err := pgtest.ConnectTo(t, a.asOperator).Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), a.q(`SELECT SCHEMA.rollback_batch($1)`), int64(id))
		require.NoError(t, err)
		require.Zero(t, a.maintain(t), "the rollback has the batch locked")
		require.NoError(t, tx.Commit(t.Context()))
		require.Zero(t, a.maintain(t), "it has not ended")
		a.carryOut(t)
		require.EqualValues(t, 2, a.inState(t, id, store.BatchRollingBack).RollingBack)
	})
	t.Run("later", func(t *testing.T) {
		t.Parallel()
		a := joined(t, newHarness(t))
		id, ids := a.oldBatch(t, 0, 10*day)
		// A transaction reads the archive, and the removal waits for it.
		reader, err := pgtest.Connect(t).Begin(t.Context())
		require.NoError(t, err)
		_, err = reader.Exec(t.Context(), a.q(`SELECT count(*) FROM SCHEMA.task_archive`))
		require.NoError(t, err)
		require.NoError(t, waits(t, a.harness, func() {
			_, err := a.RollbackBatch(t.Context(), id, "alice", false)
			var refused *store.RefusedError
			require.ErrorAs(t, err, &refused)
			require.Contains(t, refused.Text, "past their retention")
			_, err = a.Rollback(t.Context(), ids[0], "alice")
			require.ErrorIs(t, err, store.ErrNoTask)
			require.NoError(t, reader.Rollback(t.Context()))
		}, func() error {
			_, err := a.Maintain(t.Context(), week)
			return err
		}))
		require.Zero(t, a.number(t, `SELECT count(*) FROM SCHEMA.tasks`))
		a.maintain(t)
		_, err = a.GetBatch(t.Context(), id)
		require.ErrorIs(t, err, store.ErrNoBatch, "nothing of it is left")
		require.Zero(t, a.number(t, `SELECT count(*) FROM SCHEMA.batch_delta`))
	})
}

// TestARetryMeetsARemoval: a row that is being revived is waited for, and keeps its history.
func TestARetryMeetsARemoval(t *testing.T) {
	t.Parallel()
	a := joined(t, newHarness(t))
	rows := a.take(t, 2)
	for _, row := range rows {
		end := done(row)
		end.Next.State, end.Outcome = task.StateFailed, task.Outcome{Verdict: task.Failed, Error: "it broke"}
		require.Equal(t, all(1, store.Applied), a.settle(t, end))
	}
	a.Advance(t, 10*day)
	tx, err := pgtest.ConnectTo(t, a.asOperator).Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), a.q(`SELECT SCHEMA.retry($1)`), int64(rows[0].ID))
	require.NoError(t, err)
	require.NoError(t, waits(t, a.harness, func() {
		_, err := a.Retry(t.Context(), rows[1].ID, "alice")
		require.ErrorIs(t, err, store.ErrNoTask, "the removal came first")
		require.NoError(t, tx.Commit(t.Context()))
	}, func() error {
		_, err := a.Maintain(t.Context(), week)
		return err
	}))
	info, err := a.Get(t.Context(), rows[0].ID)
	require.NoError(t, err)
	require.Equal(t, task.StatePending, info.State)
	require.Len(t, info.History, 1)
	require.EqualValues(t, 1, a.number(t, `SELECT count(*) FROM SCHEMA.attempt`))
	require.EqualValues(t, 1, a.number(t, `SELECT count(*) FROM SCHEMA.audit`))
}
