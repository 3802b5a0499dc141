package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

const (
	// removeStep is how many finished tasks one transaction removes: few enough that no other call waits long for it.
	removeStep = 500
	// removeSteps bounds the steps of one call.
	removeSteps = 200
	// agentsKept is how long the row of a session stays after it was last seen.
	agentsKept = 7 * 24 * time.Hour
)

// Maintain removes what finished more than retention ago with its history, oldest first, at most 100,000 tasks a call,
// batches and operations that ended as long ago, named leases that expired as long ago, and sessions that have not been
// seen for a week and hold nothing. Tasks of a batch that has not ended stay, and so does a batch of which a task is left.
func (s *Store) Maintain(ctx context.Context, retention time.Duration) (removed int64, err error) {
	err = s.update(ctx, "remove old sessions", func(t *tx) error {
		if _, err := t.exec(t.sql.DeleteFullBuckets, arg("now", stamp(t.now))); err != nil {
			return err
		}
		_, err := t.exec(t.sql.DeleteSessions, arg("before", stamp(t.now.Add(-agentsKept))))
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
	if err := s.forgetActivity(ctx); err != nil {
		return removed, err
	}
	return removed, s.update(ctx, "remove old batches and leases", func(t *tx) error {
		before := stamp(t.now.Add(-retention))
		if err := t.removeBatches(before); err != nil {
			return err
		}
		if _, err := t.exec(t.sql.DeleteLeases, arg("before", before), arg("limit", removeStep)); err != nil {
			return err
		}
		if _, err := t.exec(t.sql.DeleteBulks, arg("before", before)); err != nil {
			return err
		}
		_, err := t.exec(t.sql.DeleteChunks, arg("before", before), arg("limit", removeStep))
		return err
	})
}

// removeFinished removes one step's worth of tasks that finished before then, and not before from, which it moves on.
func (t *tx) removeFinished(before string, from *string) (int64, error) {
	var ids []task.ID
	err := t.query(func(r *sql.Rows) error {
		var id task.ID
		err := r.Scan(&id, from)
		ids = append(ids, id)
		return err
	}, t.sql.ExpiredTasks, arg("before", before), arg("from", *from), arg("limit", removeStep))
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	list := arg("ids", jsonList(ids))
	if _, err := t.exec(t.sql.CountRemoved, list); err != nil {
		return 0, err
	}
	if _, err := t.exec(t.sql.DeleteAttempts, list); err != nil {
		return 0, err
	}
	return t.exec(t.sql.DeleteTasks, list)
}

// removeBatches removes one step's worth of batches that ended before then and of which nothing is left, with their
// operations, and operations on single tasks.
func (t *tx) removeBatches(before string) error {
	var ids []int64
	err := t.query(scanIDs(&ids), t.sql.ExpiredBatches, arg("before", before), arg("limit", removeStep))
	if err != nil {
		return err
	}
	if _, err := t.exec(t.sql.DeleteTaskOperations, arg("before", before)); err != nil || len(ids) == 0 {
		return err
	}
	list := arg("ids", jsonList(ids))
	if _, err := t.exec(t.sql.DeleteBatchOperations, list); err != nil {
		return err
	}
	_, err = t.exec(t.sql.DeleteBatches, list)
	return err
}
