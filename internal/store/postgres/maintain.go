package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store/sqltext"
)

// agentsKept is how long the row of a session that is not seen any more stays.
const agentsKept = 7 * 24 * time.Hour

// forgetStep is how many rows of one kind a statement removes, or how many archived tasks lose their history.
const forgetStep = 5000

// forgetSteps bounds the statements of one call that each remove so many rows.
const forgetSteps = 200

// dayTable is a table of the archive's.
type dayTable struct {
	name              string
	day               time.Time
	attached, pending bool
	rows              float32 // the planner's estimate; < 0: not known
	owned             bool    // by the agent's role
}

// of fills the table's name into a statement.
func (t dayTable) of(q *sqltext.Query) *sqltext.Query {
	return q.Map(strings.NewReplacer("{table}", quoteIdentifier(t.name)).Replace)
}

// Maintain makes partitions ahead and removes the days that are wholly older than retention, but never yesterday's or
// today's; then what ended as long ago and has no row of theirs left. Where several agents do it at once, one removes days; the
// others leave it to that one.
func (s *Store) Maintain(ctx context.Context, retention time.Duration) (removed int64, err error) {
	var old []dayTable
	err = s.do(ctx, "maintain", func(ctx context.Context, conn *pgx.Conn) error {
		if err := s.makePartitions(ctx, conn); err != nil {
			return err
		}
		if err := exec(ctx, conn, s.sql.ForgetAgents, arg("age", agentsKept.Microseconds())); err != nil {
			return err
		}
		if err := exec(ctx, conn, s.sql.ForgetBuckets); err != nil {
			return err
		}
		old, err = s.oldDays(ctx, conn, retention)
		return err
	})
	if err != nil {
		return 0, err
	}
	if len(old) > 0 {
		err = s.do(ctx, "note failed chunks", func(ctx context.Context, conn *pgx.Conn) error { return exec(ctx, conn, s.sql.NoteFailedChunks) })
		if err == nil {
			removed, err = s.removeDays(ctx, retention)
		}
	}
	err = errors.Join(err, s.forgetActivity(ctx))
	for _, q := range []*sqltext.Query{s.sql.ForgetBatches, s.sql.ForgetLeases, s.sql.ForgetChunks, s.sql.ForgetBulks} {
		err = errors.Join(err, s.purge(ctx, "forget what ended", q, arg("age", retention.Microseconds())))
	}
	return removed, err
}

// purge has a statement remove as many rows as forgetStep, again and again until it finds less, forgetSteps times at most.
func (s *Store) purge(ctx context.Context, what string, q *sqltext.Query, args ...sqltext.Arg) error {
	args = append(args, arg("limit", forgetStep))
	for range forgetSteps {
		var n int64
		err := s.do(ctx, what, func(ctx context.Context, conn *pgx.Conn) error {
			tag, err := conn.Exec(ctx, q.Text, q.Args(args...)...)
			n = tag.RowsAffected()
			return err
		})
		if err != nil {
			return err
		}
		if n < forgetStep {
			break
		}
	}
	return nil
}

// removeDays removes old days, unless another agent does so just now.
func (s *Store) removeDays(ctx context.Context, retention time.Duration) (removed int64, err error) {
	err = s.alone(ctx, func(ctx context.Context) error {
		var old []dayTable // another may have removed some, before this one was alone
		err := s.do(ctx, "look for old days", func(ctx context.Context, conn *pgx.Conn) error {
			old, err = s.oldDays(ctx, conn, retention)
			return err
		})
		if err != nil {
			return err
		}
		var problems []error
		for _, t := range old {
			n, err := s.retire(ctx, t)
			removed += n
			if err != nil {
				problems = append(problems, fmt.Errorf("%s: %w", t.name, err))
			}
		}
		return errors.Join(problems...)
	})
	if err != nil {
		err = fmt.Errorf("remove old tasks: %w", err)
	}
	return removed, err
}

// alone runs f unless another agent does so just now: two that detach at once run into a deadlock. The lock belongs to
// a transaction, on a connection of its own, since DETACH … CONCURRENTLY cannot run in one. That transaction holds
// nothing else, and no snapshot.
func (s *Store) alone(ctx context.Context, f func(context.Context) error) error {
	ctx, cancel := outlast(ctx, maintainTimeout)
	defer cancel()
	conn, err := s.connect.single(ctx)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = conn.Close(closing) // it is closed in any case
	}()
	another := false
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		limit := fmt.Sprintf("SET LOCAL idle_in_transaction_session_timeout = '%ds'", int(maintainTimeout.Seconds()))
		if _, err := tx.Exec(ctx, limit); err != nil {
			return err
		}
		// This takes neither a snapshot, for which FINALIZE would wait, nor a transaction id, for which vacuum would.
		err := exec(ctx, tx, s.sql.LockRemoval)
		if code(err) == codeNoLock {
			another = true
			return err
		}
		if err != nil {
			return err
		}
		return f(ctx)
	})
	if another {
		return nil
	}
	return err
}

func (s *Store) oldDays(ctx context.Context, conn *pgx.Conn, retention time.Duration) ([]dayTable, error) {
	var old []dayTable
	var t dayTable
	var now time.Time
	err := forEach(ctx, conn, []any{&t.name, &t.attached, &t.pending, &t.rows, &t.owned, &now}, func() (err error) {
		t.day, err = time.Parse("task_archive_20060102", t.name)
		if err != nil {
			return nil //nolint:nilerr // eight digits that are no day are not ours
		}
		ends := t.day.AddDate(0, 0, 1)
		today := now.UTC().Truncate(24 * time.Hour)
		if !ends.After(now.Add(-retention)) && ends.Before(today) {
			old = append(old, t)
		}
		return nil
	}, s.sql.DayTables, arg("schema", string(s.schema)))
	return old, err
}

// retire takes a day out of the archive, with the history of its tasks; where a batch or waiting rows need it, only the tasks
// that neither does. Each step is a call of its own.
func (s *Store) retire(ctx context.Context, t dayTable) (removed int64, err error) {
	change := func(what string, owned, asOwner *sqltext.Query) error {
		return s.do(ctx, what, func(ctx context.Context, conn *pgx.Conn) error {
			if t.owned {
				return exec(ctx, conn, t.of(owned))
			}
			return exec(ctx, conn, asOwner, arg("day", t.day))
		})
	}
	if t.attached && !t.pending {
		named, err := s.namedRows(ctx, t)
		if err != nil {
			return 0, err
		}
		if len(named) > 0 {
			return s.expireRows(ctx, t, named)
		}
		if free, err := s.expireBatches(ctx, t); err != nil {
			return 0, err
		} else if !free {
			return s.expireRows(ctx, t, nil)
		}
	}
	if removed, err = s.rowsOf(ctx, t); err != nil {
		return 0, err
	}
	switch {
	case t.pending:
		err = change("finish detaching", s.sql.Finalize, s.sql.DetachAsOwner)
	case t.attached:
		err = change("detach", s.sql.Detach, s.sql.DetachAsOwner)
	}
	if err != nil {
		return 0, err
	}
	if err := s.forget(ctx, t); err != nil {
		return 0, err
	}
	if err := change("drop", s.sql.Drop, s.sql.DropAsOwner); err != nil {
		return 0, err
	}
	return removed, nil
}

// rowsOf is how many tasks a day holds, exact where nothing is known of it yet.
func (s *Store) rowsOf(ctx context.Context, t dayTable) (n int64, err error) {
	if t.rows >= 0 {
		return int64(t.rows), nil
	}
	err = s.do(ctx, "count", func(ctx context.Context, conn *pgx.Conn) error {
		return queryRow(ctx, conn, t.of(s.sql.CountDay)).Scan(&n)
	})
	return n, err
}

// forget removes the history of a day's tasks, step by step along their ids.
func (s *Store) forget(ctx context.Context, t dayTable) error {
	q := t.of(s.sql.ForgetHistory)
	last := new(int64)
	for last != nil {
		err := s.do(ctx, "forget attempts", func(ctx context.Context, conn *pgx.Conn) error {
			return queryRow(ctx, conn, q, arg("after", *last), arg("limit", forgetStep)).Scan(&last)
		})
		if err != nil {
			return err
		}
	}
	return nil
}
