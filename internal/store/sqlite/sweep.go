package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/poll"
	"github.com/leasehold/leasehold/internal/task"
)

// deadQuery finds rows whose lease has ended or whose session is not present, and tells which it was. A session (?3)
// that is not present itself finds none: it may be the clock that has moved, and then everybody looks dead. One that was
// seen in the future (after ?4) was seen before the clock was set back: it is present once it has been seen again. Rows of
// another session whose presence is longer than ?5 seconds are spared: it may be the clock that has moved. A detached row
// depends on its lease alone. It reads every row that runs, and there are no more of these than agents have
// workers, and detached tasks.
const deadQuery = `
	SELECT t.id, a.session IS NOT NULL AS present, t.detached IS NOT NULL AS detached
	FROM task AS t INDEXED BY task_running
		LEFT JOIN agent AS a ON a.session = t.session AND a.present_until > ?1 AND a.seen_at <= ?4
	WHERE t.state IN ('running', 'rollback_running')
		AND EXISTS (SELECT 1 FROM agent WHERE session = ?3 AND present_until > ?1 AND seen_at <= ?4)
		AND (ifnull(t.lease_until <= ?1, 1) OR a.session IS NULL AND t.detached IS NULL)
		AND NOT EXISTS (SELECT 1 FROM agent AS l WHERE l.session = t.session AND l.session <> ?3
			AND (julianday(l.present_until) - julianday(l.seen_at)) * 86400 > ?5 + 0.001)
	ORDER BY t.id LIMIT ?2`

const judgeQuery = `
	UPDATE task SET fence = ` + nextFence + `, session = ?1, claim = 0, lease_until = ?2, detached = NULL, ping_due = NULL
	WHERE id IN (SELECT value FROM json_each(?3)) RETURNING ` + judged

// judged are the columns of scanJudged. A judge needs no documents.
const judged = withoutDocuments + ", cancel_asked IS NOT NULL AND state = 'running'"

// Sweep claims dead rows for judgement.
func (s *Store) Sweep(
	ctx context.Context, session task.Session, limit int, judge time.Duration, view func() lease.View,
) ([]poll.Swept, error) {
	if found, err := s.anyDead(ctx, session); err != nil || !found {
		return nil, err // mostly: nobody has died, and nobody need wait for the lock to know it
	}
	var swept []poll.Swept
	err := s.update(ctx, "sweep tasks", func(t *tx) error {
		v := view()
		if t.now.Sub(v.Now).Abs() > lease.JumpTolerance {
			return nil
		}
		found := map[task.ID]poll.Swept{}
		ids := []task.ID{}
		err := t.query(func(r *sql.Rows) error {
			var d poll.Swept
			err := r.Scan(&d.ID, &d.Present, &d.Detached)
			ids, found[d.ID] = append(ids, d.ID), d
			return err
		}, deadQuery, stamp(t.now), limit, int64(session), stamp(t.now.Add(time.Second)), v.Calm.Seconds())
		if err != nil || len(ids) == 0 {
			return err
		}
		list, err := json.Marshal(ids)
		if err != nil {
			return fmt.Errorf("encode task ids: %w", err)
		}
		return t.query(func(r *sql.Rows) error {
			row, err := t.scanJudged(r)
			row.Present, row.Detached = found[row.ID].Present, found[row.ID].Detached
			swept = append(swept, row)
			return err
		}, judgeQuery, int64(session), stamp(t.now.Add(judge)), string(list))
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(swept, func(a, b poll.Swept) int { return cmp.Compare(a.ID, b.ID) })
	return swept, nil
}

// scanJudged reads the columns judged.
func (t *tx) scanJudged(rows *sql.Rows) (poll.Swept, error) {
	var r record
	asked := false
	if err := rows.Scan(append(r.fields(), &asked)...); err != nil {
		return poll.Swept{}, err
	}
	row := r.complete()
	row.CancelAsked = asked
	return poll.Swept{Task: row, RanFence: row.Fence - 1, Left: row.Deadline.Sub(t.now)}, nil
}

// anyDead looks for dead rows without the lock.
func (s *Store) anyDead(ctx context.Context, session task.Session) (found bool, err error) {
	now := s.now()
	err = s.view(ctx, "look for dead tasks", func(t *sql.Tx) error {
		return t.QueryRowContext(ctx, "SELECT EXISTS ("+deadQuery+")",
			stamp(now), 1, int64(session), stamp(now.Add(time.Second)), math.MaxInt32).Scan(&found)
	})
	return found, err
}
