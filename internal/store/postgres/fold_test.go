package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/batch"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest"
)

// A batch is marked exactly while a fold has something to do, whatever the mark was.
func TestFoldsMarkWhatTheyConclude(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	cases := storetest.FoldCases()
	insert := &pgx.Batch{}
	for i := range cases {
		b := &cases[i]
		insert.Queue(h.q(`WITH b AS (
				INSERT INTO SCHEMA.batch (name, on_failure, requested, sealed, ended_at, total, rolling_back, succeeded, failures, failures_seen,
					needs_fold)
				VALUES ($1, $2, nullif($3, ''), $4, CASE WHEN $5 THEN now() END, $6, $7, $8, $9, $10, $11) RETURNING id
			), d AS (
				INSERT INTO SCHEMA.batch_delta (batch_id, failed, cancelled, rolled_back, rollback_failed)
				SELECT b.id, $12, $13, $14, $15 FROM b
			), o AS (
				INSERT INTO SCHEMA.operation (verb, batch_id, requested_at) SELECT 'cancel', b.id, now() FROM b WHERE $16
			)
			INSERT INTO SCHEMA.operation (verb, batch_id, task_id, requested_at) SELECT 'rollback', b.id, 1, now() FROM b WHERE $17`),
			b.Name, string(b.OnFailure), b.Requested, b.Sealed, b.Ended, b.Total, b.RollingBack, b.Succeeded, b.Failures, b.FailuresSeen,
			i%2 == 0, b.Failed, b.Cancelled, b.RolledBack, b.RollbackFailed, b.Operation, b.TaskOperation)
	}
	conn := pgtest.Connect(t)
	require.NoError(t, conn.SendBatch(t.Context(), insert).Close())
	got, err := h.SumBatches(t.Context(), len(cases)+1)
	require.NoError(t, err)
	byName := map[string]store.SummedBatch{}
	for _, b := range got {
		require.NotEmpty(t, b.Version)
		b.ID, b.Version = 0, ""
		byName[b.Name] = b
	}
	marked := map[string]bool{}
	rows, err := conn.Query(t.Context(), h.q(`SELECT name, needs_fold FROM SCHEMA.batch`))
	require.NoError(t, err)
	var name string
	var needs bool
	_, err = pgx.ForEachRow(rows, []any{&name, &needs}, func() error {
		marked[name] = needs
		return nil
	})
	require.NoError(t, err)
	acts := map[store.FoldAct]bool{}
	for i := range cases {
		b := &cases[i]
		act := batch.Conclude(b)
		acts[act] = true
		require.Equal(t, act != store.FoldNothing, marked[b.Name], "%+v", b)
		if !b.Ended {
			require.Equal(t, *b, byName[b.Name])
			delete(byName, b.Name)
		}
	}
	require.Empty(t, byName, "those that have ended are not returned")
	require.Len(t, acts, 4, "each act comes up")
}

func (h *harness) applies(t *testing.T, list []store.Conclusion, want ...task.BatchID) {
	t.Helper()
	applied, err := h.ApplyFold(t.Context(), list)
	require.NoError(t, err)
	require.ElementsMatch(t, want, applied)
}

// Between the two calls of a fold other agents sum, and applications insert.
func TestAFoldEndsOnlyWhatItHasSeen(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.exec(t, `INSERT INTO SCHEMA.batch (finish_type) VALUES ('finish');
		INSERT INTO SCHEMA.batch_delta (batch_id, total, succeeded) VALUES (1, 2, 2)`)
	first := storetest.Concluded(t, h, store.FoldEnd)
	require.Equal(t, first, storetest.Concluded(t, h, store.FoldEnd), "where the agent has died, another sees the same")
	h.exec(t, `INSERT INTO SCHEMA.batch_delta (batch_id, total) VALUES (1, 1)`)
	h.applies(t, first)
	storetest.Concluded(t, h, store.FoldNothing)
	h.applies(t, first)
	h.exec(t, `INSERT INTO SCHEMA.batch_delta (batch_id, succeeded) VALUES (1, 1)`)
	last := storetest.Concluded(t, h, store.FoldEnd)
	h.exec(t, `INSERT INTO SCHEMA.operation (verb, batch_id, task_id, requested_at) VALUES ('rollback', 1, 1, now())`)
	h.applies(t, last)
	h.exec(t, `UPDATE SCHEMA.operation SET ended_at = now()`)
	h.applies(t, first)
	h.applies(t, last, 1)
	h.applies(t, last)
	require.EqualValues(t, 1, h.number(t, `SELECT count(*) FROM SCHEMA.task WHERE type = 'finish'`))
	require.Zero(t, h.number(t, `SELECT count(*) FROM SCHEMA.batch WHERE needs_fold`))
}

// A failure is followed however much is counted meanwhile, once in a round.
func TestAFoldFollowsAFailureOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.exec(t, `INSERT INTO SCHEMA.batch (on_failure) VALUES ('rollback');
		INSERT INTO SCHEMA.batch_delta (batch_id, total, failed, failures) VALUES (1, 5, 1, 1)`)
	first := storetest.Concluded(t, h, store.FoldFollow)
	h.exec(t, `INSERT INTO SCHEMA.batch_delta (batch_id, succeeded) VALUES (1, 1)`)
	second := storetest.Concluded(t, h, store.FoldFollow)
	require.NotEqual(t, first[0].Batch.Version, second[0].Batch.Version)
	h.applies(t, first, 1)
	h.applies(t, second)
	require.EqualValues(t, 1, h.number(t, `SELECT count(*) FROM SCHEMA.audit`))
	h.exec(t, `UPDATE SCHEMA.operation SET ended_at = now()`)
	resumed := storetest.Concluded(t, h, store.FoldResume)
	h.applies(t, resumed, 1)
	h.applies(t, resumed)
	h.exec(t, `UPDATE SCHEMA.batch SET requested = NULL, round = 1`)
	h.applies(t, first)
	require.EqualValues(t, 2, h.number(t, `SELECT count(*) FROM SCHEMA.operation`))
}

// A batch whose finish task is refused keeps no other from its end.
func TestAFoldThatIsRefusedHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.exec(t, `ALTER TABLE SCHEMA.task ADD CONSTRAINT refuses CHECK (type <> 'bad');
		INSERT INTO SCHEMA.batch (finish_type) VALUES ('good'), ('bad'), ('good')`)
	for _, ends := range []int{2, 0} {
		f, err := h.Fold(t.Context(), 10)
		require.ErrorContains(t, err, "batch 2: ")
		require.Equal(t, ends, f.Ended)
		require.EqualValues(t, 2, h.number(t, `SELECT count(*) FROM SCHEMA.task WHERE type = 'good'`))
	}
	h.exec(t, `ALTER TABLE SCHEMA.task DROP CONSTRAINT refuses`)
	f, err := h.Fold(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 1, f.Ended)
}

// As many deltas as a fold takes of one batch, and no more: the batch is done, and nothing would make a fold look again.
func TestAFoldSeesThatTheDeltasAreAll(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.exec(t, `INSERT INTO SCHEMA.batch (name) VALUES ('');
		INSERT INTO SCHEMA.batch_delta (batch_id, total, succeeded) SELECT 1, 1, 1 FROM generate_series(1, 20001)`)
	storetest.Concluded(t, h, store.FoldNothing)
	require.EqualValues(t, 1, h.number(t, `SELECT count(*) FROM SCHEMA.batch_delta`))
	h.exec(t, `INSERT INTO SCHEMA.batch_delta (batch_id, total, succeeded) SELECT 1, 1, 1 FROM generate_series(1, 19999)`)
	storetest.Concluded(t, h, store.FoldEnd)
}
