package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// What internal/batch decides steps on, and how they are applied. Looks lock nothing.

// Operations returns operations that have not ended, oldest first, without those about a task that still runs.
func (s *Store) Operations(ctx context.Context, after int64, limit int) (list []store.Operation, open bool, err error) {
	err = s.do(ctx, "look for operations", func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := query(ctx, conn, s.sql.Operations, arg("after", after), arg("limit", limit))
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (o store.Operation, err error) {
			var at *time.Time
			err = row.Scan(&o.ID, &o.Version, &o.Verb, (*int64)(&o.Batch), (*int64)(&o.Task), &o.RequestedAt, &o.RequestedBy, &o.Done,
				&o.Stopped, &o.Missed, &at, (*int64)(&o.After.ID), &o.Goal, &o.Taken, &o.Refused)
			if at != nil {
				o.After.At = *at
			}
			return o, err
		})
		if open = len(list) > 0; err != nil || open {
			return err
		}
		return queryRow(ctx, conn, s.sql.AnyOperation).Scan(&open)
	})
	return list, open, err
}

// BatchTask returns what the decisions about a task follow from; nil where there is none.
func (s *Store) BatchTask(ctx context.Context, id task.ID) (*store.BatchTask, error) {
	list, err := s.lookAtTasks(ctx, s.sql.BatchTask, func(t *store.BatchTask) []any {
		return []any{&t.EverStarted, &t.OwnRollback, &t.TypeRollback}
	}, arg("id", int64(id)))
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

// Unstopped returns what runs or waits to run of a batch.
func (s *Store) Unstopped(ctx context.Context, id task.BatchID, after task.ID, limit int) (u *store.Unstopped, err error) {
	u = &store.Unstopped{}
	batch, most := arg("batch", int64(id)), arg("limit", limit)
	flags := func(t *store.BatchTask) []any { return []any{&t.EverStarted, &t.OwnRollback, &t.TypeRollback} }
	none := func(*store.BatchTask) []any { return nil }
	err = s.do(ctx, "look at a batch", func(ctx context.Context, conn *pgx.Conn) (err error) {
		var all pgx.Batch // one round trip
		for _, q := range []*sqltext.Query{s.sql.BatchRunning, s.sql.BatchWaiting, s.sql.BatchLeft} {
			args := []sqltext.Arg{batch}
			if q != s.sql.BatchLeft {
				args = append(args, most)
			}
			if q == s.sql.BatchWaiting {
				args = append(args, arg("after", int64(after)))
			}
			all.Queue(q.Text, q.Args(args...)...)
		}
		answers := conn.SendBatch(ctx, &all)
		defer func() { err = errors.Join(err, answers.Close()) }()
		if u.Running, err = scanBatchTasks(none)(answers.Query()); err != nil {
			return err
		}
		if u.Waiting, err = scanBatchTasks(flags)(answers.Query()); err != nil {
			return err
		}
		return answers.QueryRow().Scan(&u.Left, &u.Total)
	})
	return u, err
}

// Failed returns tasks of a batch that did not succeed, by id.
func (s *Store) Failed(ctx context.Context, id task.BatchID, after task.ID, limit int) ([]store.BatchTask, error) {
	return s.lookAtTasks(ctx, s.sql.BatchFailed, func(t *store.BatchTask) []any {
		return []any{(*string)(&t.Cause), &t.Finished}
	}, arg("batch", int64(id)), arg("after", int64(after)), arg("limit", limit))
}

// Finished returns finished tasks of a batch that were ever started, and not rolled back, started newest first.
func (s *Store) Finished(ctx context.Context, id task.BatchID, after store.Cursor, limit int) ([]store.BatchTask, error) {
	const beyond = 1<<63 - 1 // any id
	at, last := &after.At, int64(after.ID)
	if after == (store.Cursor{}) {
		at, last = nil, beyond
	}
	return s.lookAtTasks(ctx, s.sql.BatchFinished, func(t *store.BatchTask) []any {
		return []any{&t.EverStarted, &t.OwnRollback, &t.TypeRollback, &t.Started}
	}, arg("batch", int64(id)), arg("after_at", at), arg("after", last), arg("limit", limit))
}

// lookAtTasks runs a query that returns tasks: id, fence and state, and the columns that more scans into.
func (s *Store) lookAtTasks(
	ctx context.Context, q *sqltext.Query, more func(*store.BatchTask) []any, args ...sqltext.Arg,
) (list []store.BatchTask, err error) {
	err = s.do(ctx, "look at a batch", func(ctx context.Context, conn *pgx.Conn) error {
		list, err = scanBatchTasks(more)(query(ctx, conn, q, args...))
		return err
	})
	return list, err
}

func scanBatchTasks(more func(*store.BatchTask) []any) func(pgx.Rows, error) ([]store.BatchTask, error) {
	return func(rows pgx.Rows, err error) (list []store.BatchTask, _ error) {
		if err != nil {
			return nil, err
		}
		var t store.BatchTask
		into := append([]any{(*int64)(&t.ID), (*int64)(&t.Fence), (*string)(&t.State)}, more(&t)...)
		_, err = pgx.ForEachRow(rows, into, func() error {
			list = append(list, t)
			return nil
		})
		return list, err
	}
}

// ApplyStep applies a step of an operation.
func (s *Store) ApplyStep(ctx context.Context, step *store.Step) (r store.StepResult, err error) {
	err = s.do(ctx, "carry on an operation", func(ctx context.Context, conn *pgx.Conn) error {
		return s.change(ctx, conn, func(on querier) error {
			return scanOne(ctx, on, []any{&r.Applied, &r.Rows, &r.Refused, &r.Missed, &r.Stopped, &r.Ended}, s.sql.ApplyStep,
				stepArgs(step)...)
		})
	})
	return r, err
}

func stepArgs(step *store.Step) []sqltext.Arg {
	o, p := step.Operation, &step.Progress
	var at *time.Time
	if !p.After.At.IsZero() {
		at = &p.After.At
	}
	var id *int64
	if p.After.ID != 0 {
		id = (*int64)(&p.After.ID)
	}
	var c stepColumns
	c.add(step)
	return []sqltext.Arg{
		arg("operation", o.ID), arg("version", o.Version), arg("missed", p.Missed), arg("after_at", at), arg("after_id", id),
		arg("goal", p.Goal), arg("taken", p.Taken), arg("refused", p.Refused), arg("who", step.By),
		arg("ask", c.ask), arg("ask_fences", c.askFences), arg("cancels", c.cancels), arg("cancel_fences", c.cancelFences),
		arg("cancel_rolls_back", c.rollBack), arg("revives", c.revives), arg("revive_fences", c.reviveFences),
		arg("revive_dues", c.dues), arg("reopens", step.Reopens), arg("stops", step.Stops), arg("ends", step.Ends),
	}
}

// stepColumns are the lists of a step.
type stepColumns struct {
	ask, askFences, cancels, cancelFences, revives, reviveFences []int64
	rollBack                                                     []bool
	dues                                                         []*time.Time
}

func (c *stepColumns) add(step *store.Step) {
	c.ask, c.askFences = make([]int64, len(step.Ask)), make([]int64, len(step.Ask))
	for i, t := range step.Ask {
		c.ask[i], c.askFences[i] = int64(t.ID), int64(t.Fence)
	}
	n := len(step.Cancel)
	c.cancels, c.cancelFences, c.rollBack = make([]int64, n), make([]int64, n), make([]bool, n)
	for i, t := range step.Cancel {
		c.cancels[i], c.cancelFences[i], c.rollBack[i] = int64(t.ID), int64(t.Fence), t.RollBack
	}
	n = len(step.Revive)
	c.revives, c.reviveFences, c.dues = make([]int64, n), make([]int64, n), make([]*time.Time, n)
	for i := range step.Revive {
		t := &step.Revive[i]
		c.revives[i], c.reviveFences[i] = int64(t.ID), int64(t.Fence)
		if !t.Due.IsZero() {
			c.dues[i] = &t.Due
		}
	}
}
