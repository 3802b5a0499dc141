package sqlite

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// An operation on one task of a batch names both, and is not one of the batch: that can be sealed, cancelled and ended
// meanwhile.
func TestAnOperationOnATaskOfABatch(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	p := beating(nil)
	s := h.session(t, p)
	id := h.batchOf(t, 2)
	w := store.Claim{Session: s, Number: 1, Wants: []store.Want{{Type: "x", Phase: task.Run, N: 2, Window: time.Hour, Policy: p.Hash("a")}}}
	rows, err := h.Claim(t.Context(), w)
	require.NoError(t, err)
	require.Len(t, rows, 2)
	became, err := h.Rollback(t.Context(), rows[0].ID, "ops")
	require.NoError(t, err)
	require.Equal(t, store.Became("cancelling"), became)
	require.Equal(t, 1, h.count(t, "SELECT count(*) FROM operation WHERE batch_id = ? AND task_id = ? AND requested_by = 'ops'",
		int64(id), int64(rows[0].ID)))
	info, err := h.GetBatch(t.Context(), id)
	require.NoError(t, err)
	require.Empty(t, info.Operation)
	require.Zero(t, info.Refused)
	did, err := h.Step(t.Context(), 10)
	require.NoError(t, err)
	require.Zero(t, did.Rows, "it waits for the attempt to end")

	_, err = h.Settle(t.Context(), s, []store.Settlement{succeeded(rows[0]), succeeded(rows[1])})
	require.NoError(t, err)
	folded, err := h.Fold(t.Context(), 10)
	require.NoError(t, err)
	require.Zero(t, folded.Ended, "the rollback of one of its tasks is pending")
	answer, err := h.RetryBatch(t.Context(), id, "ops")
	require.NoError(t, err)
	require.Equal(t, "running", answer, "there is nothing to retry, and it has not ended")
	did, err = h.Step(t.Context(), 10)
	require.NoError(t, err)
	require.True(t, did.Ended)
	require.Equal(t, rows[0].ID, did.Task)
	require.Zero(t, did.Batch)
	info, err = h.GetBatch(t.Context(), id)
	require.NoError(t, err)
	require.Zero(t, info.Round, "it has not ended since")
	counted(t, h)
	w.Number, w.Wants[0].Phase = 2, task.Rollback
	rows, err = h.Claim(t.Context(), w)
	require.NoError(t, err)
	require.NoError(t, h.exec(t, "INSERT INTO complete (id, fence) VALUES (?, ?)", int64(rows[0].ID), int64(rows[0].Fence)))
	_, err = h.Fold(t.Context(), 10)
	require.NoError(t, err)
	h.Advance(t, 2*time.Hour)
	removed, err := h.Maintain(t.Context(), time.Hour)
	require.NoError(t, err)
	require.EqualValues(t, 2, removed)
	require.Zero(t, h.count(t, "SELECT (SELECT count(*) FROM batch) + (SELECT count(*) FROM operation)"))
}

// A task that was retried between the look and the step is neither changed by the step nor refused.
func TestAStepCountsWhatItRevives(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	id := h.batchOf(t, 2)
	require.NoError(t, h.exec(t, `
INSERT INTO archive (id, state, attempt, deferrals, ever_started, outcome, error, finished_at, after_lease)
SELECT id, 'failed', 1, 0, 1, 'rejected', 'x', '2026-11-20T00:00:00.000Z', 1 FROM task;
UPDATE batch SET failed = 2;
INSERT INTO retry_batch (id) SELECT id FROM batch;`))
	list, _, err := h.Operations(t.Context(), 0, 10)
	require.NoError(t, err)
	failed, err := h.Failed(t.Context(), id, 0, 100)
	require.NoError(t, err)
	require.Len(t, failed, 2)
	require.NoError(t, h.exec(t, `INSERT INTO retry (id) SELECT min(id) FROM task_archive`))
	step := store.Step{Operation: &list[0], Progress: list[0].Progress, Ends: true}
	for _, f := range failed {
		step.Revive = append(step.Revive, store.Revival{BatchTask: f})
	}
	r, err := h.ApplyStep(t.Context(), &step)
	require.NoError(t, err)
	require.Equal(t, store.StepResult{Applied: true, Rows: 1, Missed: true}, r)
}
