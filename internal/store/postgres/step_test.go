package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
)

// A task that has changed since the look, and one whose key an open transaction inserts, keep no other of the step waiting.
func TestAStepRevivesAllButWhatHasChanged(t *testing.T) {
	h := newHarness(t)
	_, err := h.Maintain(t.Context(), week)
	require.NoError(t, err)
	h.exec(t, `
INSERT INTO SCHEMA.policy (hash, type, body) VALUES (4711, 'a', '{"rollback": {}}');
INSERT INTO SCHEMA.batch (sealed) VALUES (true);
INSERT INTO SCHEMA.task_archive (id, run_at, created_at, started_at, finished_at, fence, session, attempt, deferrals,
        priority, ever_started, state, type, payload, batch_id, policy, key)
    SELECT 1000000 + n, now(), current_timestamp, now() - n * interval '1 millisecond', now(), 2, 1, 1, 0, 0,
        true, 'failed', 'a', '{}', 1, 4711, CASE WHEN n = 5 THEN 'k' END
    FROM generate_series(1, 20) AS n;
INSERT INTO SCHEMA.batch_delta (batch_id, total, failed) VALUES (1, 20, 20);
SELECT SCHEMA.retry_batch(1);`)
	list, _, err := h.Operations(t.Context(), 0, 10)
	require.NoError(t, err)
	failed, err := h.Failed(t.Context(), 1, 0, 100)
	require.NoError(t, err)
	require.Len(t, failed, 20)
	h.exec(t, `UPDATE SCHEMA.task_archive SET fence = 5 WHERE id = 1000003`)
	step := store.Step{Operation: &list[0], Progress: list[0].Progress, Ends: true}
	for _, f := range failed {
		step.Revive = append(step.Revive, store.Revival{BatchTask: f})
	}
	app := pgtest.Connect(t)
	_, err = app.Exec(t.Context(), `BEGIN`)
	require.NoError(t, err)
	_, err = app.Exec(t.Context(), h.q(`INSERT INTO SCHEMA.task (type, key) VALUES ('a', 'k')`))
	require.NoError(t, err)
	r, err := h.ApplyStep(t.Context(), &step)
	require.NoError(t, err)
	require.Equal(t, store.StepResult{Applied: true, Rows: 18, Missed: true}, r)
}
