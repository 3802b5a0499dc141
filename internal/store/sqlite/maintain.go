package sqlite

import (
	"context"
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
// and sessions that have not been seen for a week and hold nothing.
func (s *Store) Maintain(ctx context.Context, retention time.Duration) (removed int64, err error) {
	err = s.update(ctx, "remove old sessions", func(t *tx) error {
		// One that holds something may be alive, whatever the clock says: a sweep has to know its presence.
		_, err := t.exec("DELETE FROM agent WHERE seen_at < ? AND session NOT IN (SELECT session FROM task WHERE "+running+")",
			stamp(t.now.Add(-agentsKept)))
		return err
	})
	for step := 0; err == nil && step < removeSteps; step++ {
		var n int64
		err = s.update(ctx, "remove old tasks", func(t *tx) error {
			n, err = t.removeFinished(stamp(t.now.Add(-retention)))
			return err
		})
		if err == nil {
			removed += n
		}
		if n < removeStep {
			break
		}
	}
	return removed, err
}

// removeFinished removes one step's worth of tasks that finished before then.
func (t *tx) removeFinished(before string) (int64, error) {
	var ids []task.ID
	err := t.query(scanIDs(&ids), oldQuery, before, removeStep)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	list, err := json.Marshal(ids)
	if err != nil {
		return 0, fmt.Errorf("encode task ids: %w", err)
	}
	if _, err := t.exec(oldAttempts, string(list)); err != nil {
		return 0, err
	}
	return t.exec(oldTasks, string(list))
}

const (
	oldQuery = "SELECT id FROM task_archive INDEXED BY task_archive_finished WHERE finished_at < ?" +
		" ORDER BY finished_at LIMIT ?"
	oldAttempts = "DELETE FROM attempt WHERE task_id IN (SELECT value FROM json_each(?))"
	oldTasks    = "DELETE FROM task_archive WHERE id IN (SELECT value FROM json_each(?))"
)
