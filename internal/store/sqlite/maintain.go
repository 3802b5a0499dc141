package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

const (
	// removeStep is how many finished tasks one transaction removes: few enough that nobody waits for it.
	removeStep = 500
	// removeSteps is how many such steps one call takes at the most.
	removeSteps = 200
	// agentsKept is how long the row of a session stays that nobody has seen since.
	agentsKept = 7 * 24 * time.Hour
)

// Maintain removes what finished more than retention ago with its history, oldest first, at most 100,000 tasks a call,
// batches and operations that ended as long ago, and sessions that have not been seen for a week and hold nothing. Tasks
// of a batch that has not ended stay, and so does a batch of which a task is left.
func (s *Store) Maintain(ctx context.Context, retention time.Duration) (removed int64, err error) {
	err = s.update(ctx, "remove old sessions", func(t *tx) error {
		// One that holds something may be alive, whatever the clock says: a sweep has to know its presence.
		_, err := t.exec("DELETE FROM agent WHERE seen_at < ? AND session NOT IN (SELECT session FROM task WHERE "+running+")",
			stamp(t.now.Add(-agentsKept)))
		return err
	})
	from := "" // what finished earlier is gone, or has to stay
	for step := 0; err == nil && step < removeSteps; step++ {
		var n int64
		err = s.update(ctx, "remove old tasks", func(t *tx) error {
			n, err = t.removeFinished(stamp(t.now.Add(-retention)), &from)
			return err
		})
		if err == nil {
			removed += n
		}
		if n < removeStep {
			break
		}
	}
	if err != nil {
		return removed, err
	}
	return removed, s.update(ctx, "remove old batches", func(t *tx) error { return t.removeBatches(stamp(t.now.Add(-retention))) })
}

// removeFinished removes one step's worth of tasks that finished before then, and not before from, which it moves on.
func (t *tx) removeFinished(before string, from *string) (int64, error) {
	var ids []task.ID
	err := t.query(func(r *sql.Rows) error {
		var id task.ID
		err := r.Scan(&id, from)
		ids = append(ids, id)
		return err
	}, oldQuery, before, *from, removeStep)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	list, err := json.Marshal(ids)
	if err != nil {
		return 0, fmt.Errorf("encode task ids: %w", err)
	}
	if _, err := t.exec(oldOfBatches, string(list)); err != nil {
		return 0, err
	}
	if _, err := t.exec(oldAttempts, string(list)); err != nil {
		return 0, err
	}
	return t.exec(oldTasks, string(list))
}

// removeBatches removes one step's worth of batches that ended before then and of which nothing is left, with their
// operations, and operations on single tasks.
func (t *tx) removeBatches(before string) error {
	var ids []int64
	err := t.query(func(r *sql.Rows) error {
		var id int64
		err := r.Scan(&id)
		ids = append(ids, id)
		return err
	}, oldBatches, before, removeStep)
	if err != nil {
		return err
	}
	if _, err := t.exec("DELETE FROM operation WHERE batch_id IS NULL AND ended_at < ?", before); err != nil || len(ids) == 0 {
		return err
	}
	list, err := json.Marshal(ids)
	if err != nil {
		return fmt.Errorf("encode batch ids: %w", err)
	}
	if _, err := t.exec("DELETE FROM operation WHERE batch_id IN (SELECT value FROM json_each(?))", string(list)); err != nil {
		return err
	}
	_, err = t.exec("DELETE FROM batch WHERE id IN (SELECT value FROM json_each(?))", string(list))
	return err
}

const (
	oldQuery = "SELECT id, finished_at FROM task_archive INDEXED BY task_archive_finished WHERE finished_at < ? AND finished_at >= ?" +
		" AND (batch_id IS NULL OR NOT EXISTS (SELECT 1 FROM batch WHERE id = batch_id AND ended_at IS NULL))" +
		" ORDER BY finished_at LIMIT ?"
	oldOfBatches = "UPDATE batch SET removed = removed + gone.n FROM (SELECT batch_id, count(*) AS n FROM task_archive" +
		" WHERE id IN (SELECT value FROM json_each(?)) AND batch_id IS NOT NULL GROUP BY batch_id) AS gone WHERE gone.batch_id = batch.id"
	oldAttempts = "DELETE FROM attempt WHERE task_id IN (SELECT value FROM json_each(?))"
	oldTasks    = "DELETE FROM task_archive WHERE id IN (SELECT value FROM json_each(?))"
	oldBatches  = "SELECT id FROM batch INDEXED BY batch_ended WHERE ended_at < ?" +
		" AND NOT EXISTS (SELECT 1 FROM task_archive WHERE batch_id = batch.id)" +
		" AND NOT EXISTS (SELECT 1 FROM task WHERE batch_id = batch.id) ORDER BY ended_at LIMIT ?"
)
