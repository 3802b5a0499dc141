package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// What internal/batch decides steps on. None of these calls waits for writers.

// Operations returns operations that have not ended, oldest first, without those about a task that still runs.
func (s *Store) Operations(ctx context.Context, after int64, limit int) (list []store.Operation, open bool, err error) {
	err = s.view(ctx, "look for operations", func(t *snapshot) error {
		if err := t.row([]any{&open}, s.sql.AnyOperation); err != nil || !open {
			return err
		}
		return t.query(func(r *sql.Rows) error {
			var o store.Operation
			err := r.Scan(&o.ID, &o.Version, &o.Verb, &o.Batch, &o.Task, timeOf{&o.RequestedAt}, &o.RequestedBy, &o.Done, &o.Stopped,
				&o.Missed, timeOf{&o.After.At}, &o.After.ID, &o.Goal, &o.Taken, &o.Refused)
			list = append(list, o)
			return err
		}, s.sql.Operations, arg("after", after), arg("limit", limit))
	})
	return list, open, err
}

// BatchTask returns what the decisions about a task follow from; nil where there is none.
func (s *Store) BatchTask(ctx context.Context, id task.ID) (found *store.BatchTask, err error) {
	err = s.view(ctx, "look at a task", func(t *snapshot) error {
		list, err := t.lookAtTasks(s.sql.TaskToRollBack, arg("id", int64(id)))
		if len(list) > 0 {
			found = &list[0]
		}
		return err
	})
	return found, err
}

// Unstopped returns what runs or waits to run of a batch.
func (s *Store) Unstopped(ctx context.Context, id task.BatchID, after task.ID, limit int) (*store.Unstopped, error) {
	u, batch, most := &store.Unstopped{}, arg("batch", int64(id)), arg("limit", limit)
	err := s.view(ctx, "look at a batch", func(t *snapshot) (err error) {
		if u.Running, err = t.lookAtTasks(s.sql.RunningOfBatch, batch, most); err != nil {
			return err
		}
		if u.Waiting, err = t.lookAtTasks(s.sql.WaitingOfBatch, batch, arg("after", int64(after)), most); err != nil {
			return err
		}
		return t.row([]any{&u.Left, &u.Total}, s.sql.LeftOfBatch, batch)
	})
	return u, err
}

// Failed returns tasks of a batch that failed or were rolled back, by id.
func (s *Store) Failed(ctx context.Context, id task.BatchID, after task.ID, limit int) (list []store.BatchTask, err error) {
	err = s.view(ctx, "look at a batch", func(t *snapshot) error {
		list, err = t.lookAtTasks(s.sql.FailedOfBatch, arg("batch", int64(id)), arg("after_id", int64(after)), arg("limit", limit))
		return err
	})
	return list, err
}

// Finished returns finished tasks of a batch, newest started first. Those that never started come last.
func (s *Store) Finished(ctx context.Context, id task.BatchID, after store.Cursor, limit int) (list []store.BatchTask, err error) {
	at := "~" // after any time
	if after != (store.Cursor{}) {
		at = startedAt(after.At)
	}
	err = s.view(ctx, "look at a batch", func(t *snapshot) error {
		list, err = t.lookAtTasks(s.sql.FinishedOfBatch,
			arg("batch", int64(id)), arg("after_at", at), arg("after_id", int64(after.ID)), arg("limit", limit))
		return err
	})
	return list, err
}

// startedAt returns a time as the order of finished tasks has it: "" where the task never started.
func startedAt(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return stamp(t)
}

// lookAtTasks reads the rows of a statement that has the columns of a store.BatchTask.
func (t *snapshot) lookAtTasks(q *sqltext.Query, args ...sqltext.Arg) (list []store.BatchTask, err error) {
	err = t.query(func(r *sql.Rows) error {
		var b store.BatchTask
		err := r.Scan(&b.ID, &b.Fence, &b.State, &b.Cause, &b.EverStarted, timeOf{&b.Started}, timeOf{&b.Finished}, &b.OwnRollback,
			&b.TypeRollback)
		list = append(list, b)
		return err
	}, q, args...)
	return list, err
}

// ApplyStep applies a step of an operation.
func (s *Store) ApplyStep(ctx context.Context, step *store.Step) (r store.StepResult, err error) {
	err = s.change(ctx, "carry on an operation", func(t *tx) error {
		r = store.StepResult{}
		o := step.Operation
		err := t.row([]any{&r.Stopped}, t.sql.OperationSeen, arg("id", o.ID), arg("version", o.Version))
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err == nil {
			r.Applied = true
			err = (&stepping{t, step, &r}).apply()
		}
		if err != nil {
			return fmt.Errorf("%s of batch %d, task %d: %w", o.Verb, o.Batch, o.Task, err)
		}
		return nil
	})
	if err != nil {
		return store.StepResult{}, err
	}
	return r, nil
}

// stepping is a step that is being applied.
type stepping struct {
	*tx
	step *store.Step
	r    *store.StepResult
}

func (s *stepping) apply() error {
	for _, part := range []func() error{s.ask, s.cancel, s.revive} {
		if err := part(); err != nil {
			return err
		}
	}
	o, p, r := s.step.Operation, &s.step.Progress, s.r
	if s.step.Stops && !r.Stopped {
		unstopped := false
		if err := s.row([]any{&unstopped}, s.sql.AnyUnstopped, arg("batch", int64(o.Batch))); err != nil {
			return err
		}
		r.Stopped = !unstopped
	}
	all := len(s.step.Ask) + len(s.step.Cancel) + len(s.step.Revive)
	r.Ended = s.step.Ends && (r.Stopped || !s.step.Stops) && int64(r.Rows)+r.Refused == int64(all)
	var ended, at any
	if r.Ended {
		ended = stamp(s.now)
	}
	if p.After != (store.Cursor{}) {
		at = startedAt(p.After.At)
	}
	_, err := s.exec(s.sql.KeepOperation, arg("id", o.ID), arg("stopped", r.Stopped), arg("missed", p.Missed || r.Missed),
		arg("after_at", at), arg("after_id", null(int64(p.After.ID))), arg("goal", p.Goal), arg("taken", p.Taken), arg("rows", r.Rows),
		arg("refused", p.Refused+r.Refused), arg("ended_at", ended))
	return err
}

// list encodes rows for a statement: each is a list of values, the first of them the id.
func list[T any](of []T, row func(*T) []any) string {
	rows := make([][]any, len(of))
	for i := range of {
		rows[i] = row(&of[i])
	}
	text, _ := json.Marshal(rows) // numbers, truth values and texts always are JSON
	return string(text)
}

// ask asks running tasks to stop.
func (s *stepping) ask() error {
	if len(s.step.Ask) == 0 {
		return nil
	}
	rows := list(s.step.Ask, func(t *store.BatchTask) []any { return []any{t.ID, t.Fence} })
	n, err := s.exec(s.sql.RequestCancels, arg("now", stamp(s.now)), arg("by", null(s.step.By)), arg("rows", rows))
	if err != nil || n == 0 {
		return err
	}
	s.r.Rows += int(n)
	_, err = s.exec(s.sql.WakeForCancel)
	return err
}

// cancel cancels waiting tasks.
func (s *stepping) cancel() error {
	if len(s.step.Cancel) == 0 {
		return nil
	}
	rows := list(s.step.Cancel, func(t *store.Cancellation) []any { return []any{t.ID, t.Fence, t.RollBack} })
	n := 0
	if err := s.row([]any{&n}, s.sql.CountWaiting, arg("rows", rows)); err != nil {
		return err
	}
	s.r.Rows += n
	_, err := s.exec(s.sql.CancelWaiting, arg("by", null(s.step.By)), arg("rows", rows))
	return err
}

// revive takes tasks out of the archive. Those whose key a live task has by now stay there, and are counted as refused.
func (s *stepping) revive() error {
	if len(s.step.Revive) == 0 {
		return nil
	}
	rows := list(s.step.Revive, func(t *store.Revival) []any {
		due := t.Due
		if due.IsZero() {
			due = s.now
		}
		return []any{t.ID, t.Fence, stamp(due)}
	})
	there, left := 0, 0
	if err := s.row([]any{&there}, s.sql.CountFinished, arg("rows", rows)); err != nil {
		return err
	}
	if _, err := s.exec(s.sql.Revive, arg("verb", s.step.Operation.Verb), arg("rows", rows)); err != nil {
		return err
	}
	if err := s.row([]any{&left}, s.sql.CountFinished, arg("rows", rows)); err != nil {
		return err
	}
	revived := there - left
	s.r.Rows += revived
	s.r.Refused = int64(left)
	s.r.Missed = there < len(s.step.Revive)
	if !s.step.Reopens || revived == 0 {
		return nil
	}
	_, err := s.exec(s.sql.ReopenBatchOf, arg("id", int64(s.step.Operation.Task)))
	return err
}
