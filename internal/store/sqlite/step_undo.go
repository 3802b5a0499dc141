package sqlite

import (
	"database/sql"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// undoLooksAt is how many finished rows of a batch one step looks at, at the most, to find some that can be undone.
const (
	undoLooksAt = 20_000
	undoWindow  = 500
)

// finishedQuery reads the finished rows of a batch, newest started first, and which of them can be undone. Those that
// never started come last.
const finishedQuery = `
	SELECT id, ifnull(started_at, ''), state IN ('succeeded', 'failed', 'cancelled') AND ever_started AND ` + undoable + `
	FROM task_archive AS tasks INDEXED BY task_archive_started
	WHERE batch_id = ?1 AND ifnull(started_at, '') <= ?2 AND (ifnull(started_at, '') < ?2 OR id > ?3)
	ORDER BY ifnull(started_at, '') DESC, id LIMIT ?4`

// undo has the finished rows of a batch undone, newest started first.
func (s *stepping) undo() (over bool, err error) {
	if s.since == "" {
		s.since, s.moved = stamp(s.now), true
		err := s.row([]any{&s.goal}, "SELECT succeeded + failed + cancelled FROM batch WHERE id = ?", int64(s.batch))
		if err != nil {
			return false, err
		}
	}
	since, err := parseTime(s.since)
	if err != nil {
		return false, err
	}
	for looked := 0; s.left > 0 && looked < undoLooksAt; looked += undoWindow {
		rows, more, err := s.undoable(since)
		if err != nil {
			return false, err
		}
		s.taken += int64(len(rows))
		if err := s.bringBack("rollback", rows); err != nil || !more {
			return true, err
		}
	}
	return false, nil
}

// undoable reads on, at most a window's worth, and gives the rows that can be undone, no more than may be. more: there
// are rows that it has not looked at.
func (s *stepping) undoable(since time.Time) (rows []comeback, more bool, err error) {
	n := 0
	err = s.query(func(r *sql.Rows) error {
		var id task.ID
		var started string
		var can bool
		if err := r.Scan(&id, &started, &can); err != nil {
			return err
		}
		more = more || n == undoWindow || can && len(rows) == s.left
		if more {
			return nil
		}
		if can {
			rows = append(rows, comeback{id, stamp(s.due(since, len(rows)))})
		}
		n++
		s.atID, s.atStarted, s.moved = id, started, true
		return nil
	}, finishedQuery, int64(s.batch), s.atStarted, int64(s.atID), undoWindow+1)
	return rows, more, err
}

// due is when the rollback of the nth row of this step is due: all of them within the second before the operation came to
// them, so that what started last is claimed first.
func (s *stepping) due(since time.Time, nth int) time.Time {
	return since.Add(-time.Second).Add(min(time.Duration(s.taken+int64(nth))*time.Second/time.Duration(max(s.goal, 1)), 999*time.Millisecond))
}
