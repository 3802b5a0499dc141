package sqlite

import (
	"database/sql"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// A step of a rollback looks at so many finished tasks of the batch, to find some that can be rolled back, and reads so many of
// them at once.
const (
	rollbackLooksAt = 20_000
	rollbackWindow  = 500
)

// rollBack revives the finished tasks of a batch for their rollback, newest started first.
func (s *stepping) rollBack() (over bool, err error) {
	if !s.stopped {
		s.stopped, s.since, s.moved = true, stamp(s.now), true
		if err := s.row([]any{&s.goal}, s.sql.CountFinished, arg("batch", int64(s.batch))); err != nil {
			return false, err
		}
	}
	since, err := parseTime(s.since)
	if err != nil {
		return false, err
	}
	for looked := 0; s.left > 0 && looked < rollbackLooksAt; looked += rollbackWindow {
		rows, more, err := s.rollbackable(since)
		if err != nil {
			return false, err
		}
		s.taken += int64(len(rows))
		if err := s.revive("rollback", rows); err != nil || !more {
			return true, err
		}
	}
	return false, nil
}

// rollbackable reads on, at most a window, and returns the tasks that can be rolled back, at most s.left. more: there are tasks
// that it has not looked at.
func (s *stepping) rollbackable(since time.Time) (rows []revival, more bool, err error) {
	n := 0
	err = s.query(func(r *sql.Rows) error {
		var id task.ID
		var started string
		var can bool
		if err := r.Scan(&id, &started, &can); err != nil {
			return err
		}
		more = more || n == rollbackWindow || can && len(rows) == s.left
		if more {
			return nil
		}
		if can {
			rows = append(rows, revival{id, stamp(s.due(since, len(rows)))})
		}
		n++
		s.afterID, s.afterAt, s.moved = id, started, true
		return nil
	}, s.sql.FinishedOfBatch, arg("batch", int64(s.batch)), arg("after_at", s.afterAt), arg("after_id", int64(s.afterID)),
		arg("limit", rollbackWindow+1))
	return rows, more, err
}

// due returns when the rollback of the nth task of this step is due: all of them within the second before the operation came to
// them, so that what started last is claimed first.
func (s *stepping) due(since time.Time, nth int) time.Time {
	return since.Add(-time.Second).Add(min(time.Duration(s.taken+int64(nth))*time.Second/time.Duration(max(s.goal, 1)), 999*time.Millisecond))
}
