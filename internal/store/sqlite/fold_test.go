package sqlite

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/batch"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest"
)

// The batches that a fold looks at are exactly those for which it has something to do, except that no task comes too late for an
// operation here.
func TestFoldsLookAtWhatTheyConclude(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	cases := storetest.FoldCases()
	tx, err := h.app.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback() }() // where a statement was refused
	want, acts := map[string]store.SummedBatch{}, map[store.FoldAct]bool{}
	for i := range cases {
		b := &cases[i]
		var id int64
		require.NoError(t, tx.QueryRowContext(t.Context(), `INSERT INTO batch (name, on_failure, requested, sealed, ended_at, total,
				rolling_back, succeeded, failed, cancelled, rolled_back, rollback_failed, failures, failures_seen)
			VALUES (?, ?, nullif(?, ''), ?, iif(?, '2026-11-20T08:00:00.000Z', NULL), ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
			b.Name, string(b.OnFailure), b.Requested, b.Sealed, b.Ended, b.Total, b.RollingBack, b.Succeeded, b.Failed, b.Cancelled,
			b.RolledBack, b.RollbackFailed, b.Failures, b.FailuresSeen).Scan(&id))
		_, err := tx.ExecContext(t.Context(), `
			INSERT INTO operation (verb, batch_id, task_id)
			SELECT 'cancel', ?1, NULL WHERE ?2 UNION ALL SELECT 'rollback', ?1, 1 WHERE ?3`, id, b.Operation, b.TaskOperation)
		require.NoError(t, err)
		act := batch.Conclude(b)
		if acts[act] = true; act == store.FoldFollow || act == store.FoldEnd {
			want[b.Name] = *b
		}
	}
	require.NoError(t, tx.Commit())
	got, err := h.SumBatches(t.Context(), len(cases)+1)
	require.NoError(t, err)
	found := map[string]store.SummedBatch{}
	for _, b := range got {
		b.ID = 0
		found[b.Name] = b
	}
	require.Equal(t, want, found)
	require.Len(t, acts, 4, "each act comes up")
}

func (h *harness) applies(t *testing.T, list []store.Conclusion, want ...task.BatchID) {
	t.Helper()
	applied, err := h.ApplyFold(t.Context(), list)
	require.NoError(t, err)
	require.Equal(t, want, applied)
}

// Between the two calls of a fold other agents fold, and applications insert.
func TestAFoldEndsOnlyWhatItHasSeen(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	require.NoError(t, h.exec(t, `INSERT INTO batch (finish_type, total, succeeded) VALUES ('finish', 2, 2)`))
	first := storetest.Concluded(t, h, store.FoldEnd)
	require.Equal(t, first, storetest.Concluded(t, h, store.FoldEnd), "where the agent has died, another sees the same")
	require.NoError(t, h.exec(t, `UPDATE batch SET total = 3`))
	h.applies(t, first)
	require.NoError(t, h.exec(t, `UPDATE batch SET succeeded = 3`))
	h.applies(t, first)
	last := storetest.Concluded(t, h, store.FoldEnd)
	require.NoError(t, h.exec(t, `INSERT INTO operation (verb, batch_id, task_id) VALUES ('rollback', 1, 1)`))
	h.applies(t, last)
	require.NoError(t, h.exec(t, `UPDATE operation SET ended_at = requested_at`))
	h.applies(t, last, 1)
	h.applies(t, last)
	require.Equal(t, 1, h.count(t, `SELECT count(*) FROM task WHERE type = 'finish'`))
}

// A failure is followed however much is counted meanwhile, once in a round.
func TestAFoldFollowsAFailureOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	require.NoError(t, h.exec(t, `INSERT INTO batch (on_failure, total, failed, failures) VALUES ('rollback', 5, 1, 1)`))
	first := storetest.Concluded(t, h, store.FoldFollow)
	require.NoError(t, h.exec(t, `UPDATE batch SET succeeded = 1`))
	second := storetest.Concluded(t, h, store.FoldFollow)
	h.applies(t, first, 1)
	h.applies(t, second)
	require.Equal(t, 1, h.count(t, `SELECT count(*) FROM audit`))
	require.NoError(t, h.exec(t, `UPDATE batch SET requested = NULL, round = 1`))
	h.applies(t, first)
	require.Equal(t, 1, h.count(t, `SELECT count(*) FROM operation`))
}

// A batch whose finish task is refused keeps no other from its end.
func TestAFoldThatIsRefusedHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	require.NoError(t, h.exec(t, `CREATE TRIGGER refuses BEFORE INSERT ON task WHEN NEW.type = 'bad'
		BEGIN SELECT RAISE(ABORT, 'bad'); END`))
	require.NoError(t, h.exec(t, `INSERT INTO batch (finish_type) VALUES ('good'), ('bad'), ('good')`))
	for _, ends := range []int{2, 0} {
		f, err := h.Fold(t.Context(), 10)
		require.ErrorContains(t, err, "batch 2: ")
		require.Equal(t, ends, f.Ended)
		require.Equal(t, 2, h.count(t, `SELECT count(*) FROM task WHERE type = 'good'`))
	}
	require.NoError(t, h.exec(t, `DROP TRIGGER refuses`))
	f, err := h.Fold(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 1, f.Ended)
}

// Batches that cannot be ended, more than a fold takes, keep no other from its end for ever.
func TestManyRefusedFoldsHoldUpNoOther(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	require.NoError(t, h.exec(t, `CREATE TRIGGER refuses BEFORE INSERT ON task WHEN NEW.type = 'bad'
		BEGIN SELECT RAISE(ABORT, 'bad'); END`))
	require.NoError(t, h.exec(t, `INSERT INTO batch (finish_type) VALUES ('bad'), ('bad'), ('good')`))
	require.Eventually(t, func() bool {
		f, _ := h.Fold(t.Context(), 1)
		return f.Ended == 1
	}, 20*time.Second, time.Millisecond)
}
