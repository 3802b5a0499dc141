package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

const (
	// removeStep is how many rows of one kind one transaction removes: few enough that no other call waits long for it.
	removeStep = 500
	// removeSteps bounds the steps of one call.
	removeSteps = 4000
	// agentsKept is how long the row of a session stays after it was last seen.
	agentsKept = 7 * 24 * time.Hour
)

// Maintain removes what finished more than retention ago with its history, oldest first, at most two million tasks a call,
// batches and operations that ended as long ago, named leases that expired as long ago, and sessions that have not been
// seen for a week and hold nothing. Tasks of a batch that has not ended stay, and so does a batch of which a task is left.
func (s *Store) Maintain(ctx context.Context, retention time.Duration) (removed int64, err error) {
	err = s.update(ctx, "remove old sessions and note failed chunks", func(t *tx) error {
		if _, err := t.exec(t.sql.DeleteFullBuckets, arg("now", stamp(t.now))); err != nil {
			return err
		}
		if _, err := t.exec(t.sql.DeleteSessions, arg("before", stamp(t.now.Add(-agentsKept)))); err != nil {
			return err
		}
		_, err := t.exec(t.sql.NoteFailedChunks)
		return err
	})
	if err != nil {
		return 0, err
	}
	if removed, err = s.removeTasks(ctx, retention); err != nil {
		return removed, err
	}
	if err := s.forgetActivity(ctx); err != nil {
		return removed, err
	}
	for _, step := range []func(t *tx, before sqltext.Arg) (int64, error){
		(*tx).removeBatches,
		func(t *tx, before sqltext.Arg) (int64, error) {
			return t.exec(t.sql.DeleteLeases, before, arg("limit", removeStep))
		},
		func(t *tx, before sqltext.Arg) (int64, error) {
			return t.exec(t.sql.DeleteBulks, before, arg("limit", removeStep))
		},
		func(t *tx, before sqltext.Arg) (int64, error) {
			return t.exec(t.sql.DeleteChunks, before, arg("limit", removeStep))
		},
	} {
		err := s.remove(ctx, "remove old batches and leases", func(t *tx) (int64, error) {
			return step(t, arg("before", stamp(t.now.Add(-retention))))
		})
		if err != nil {
			return removed, err
		}
	}
	return removed, nil
}

// remove makes steps that each remove as many rows as removeStep, until one finds less, removeSteps at most.
func (s *Store) remove(ctx context.Context, what string, step func(t *tx) (int64, error)) error {
	for range removeSteps {
		var n int64
		err := s.update(ctx, what, func(t *tx) (err error) {
			n, err = step(t)
			return err
		})
		if err != nil || n < removeStep {
			return err
		}
	}
	return nil
}

// removeTasks removes old tasks, as remove does. They are looked for without the writers' lock: very many may have to stay, and be passed over.
func (s *Store) removeTasks(ctx context.Context, retention time.Duration) (removed int64, err error) {
	from := "" // what finished earlier is gone, or has to stay
	for range removeSteps {
		var ids []task.ID
		err := s.view(ctx, "look for old tasks", func(t *snapshot) error {
			return t.query(func(r *sql.Rows) error {
				var id task.ID
				err := r.Scan(&id, &from)
				ids = append(ids, id)
				return err
			}, t.sql.ExpiredTasks, arg("before", stamp(s.now().Add(-retention))), arg("from", from), arg("limit", removeStep))
		})
		if err != nil || len(ids) == 0 {
			return removed, err
		}
		var n int64
		err = s.update(ctx, "remove old tasks", func(t *tx) (err error) {
			n, err = t.removeFinished(stamp(t.now.Add(-retention)), ids)
			return err
		})
		if err != nil {
			return removed, err
		}
		removed += n
		if len(ids) < removeStep || n == 0 { // none: all have been revived, or removed by another, since
			break
		}
	}
	return removed, nil
}

// removeFinished removes those of the tasks that finished before then and may go.
func (t *tx) removeFinished(before string, found []task.ID) (int64, error) {
	var ids []task.ID
	err := t.query(scanIDs(&ids), t.sql.StillExpired, arg("ids", jsonList(found)), arg("before", before))
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
	if _, err := t.exec(t.sql.DeleteTaskAudit, list); err != nil {
		return 0, err
	}
	return t.exec(t.sql.DeleteTasks, list)
}

// removeBatches removes one step's worth of batches that ended before then and of which nothing is left, with their
// operations, and operations on single tasks.
func (t *tx) removeBatches(before sqltext.Arg) (int64, error) {
	var ids []int64
	err := t.query(scanIDs(&ids), t.sql.ExpiredBatches, before, arg("limit", removeStep))
	if err != nil {
		return 0, err
	}
	if _, err := t.exec(t.sql.DeleteTaskOperations, before); err != nil || len(ids) == 0 {
		return 0, err
	}
	list := arg("ids", jsonList(ids))
	if _, err := t.exec(t.sql.DeleteBatchOperations, list); err != nil {
		return 0, err
	}
	if _, err := t.exec(t.sql.DeleteBatchAudit, list); err != nil {
		return 0, err
	}
	return t.exec(t.sql.DeleteBatches, list)
}
