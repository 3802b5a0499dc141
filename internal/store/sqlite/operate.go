package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/task"
)

// What operators do to one task is done by the views that do it for applications; here it is only said better why
// something must not be: a view cannot name other tasks and batches.

// Cancel calls a task off.
func (s *Store) Cancel(ctx context.Context, id task.ID, by string) (ops.Cancelled, error) {
	return s.operate(ctx, "cancel", id, by, func(*tx, *standing) error { return nil })
}

// Retry revives a finished task.
func (s *Store) Retry(ctx context.Context, id task.ID, by string) (ops.Became, error) {
	return s.operate(ctx, "retry", id, by, (*tx).refuseRetry)
}

// Rollback undoes what a task has done; one that runs is told to stop first, and undone by Step.
func (s *Store) Rollback(ctx context.Context, id task.ID, by string) (ops.Became, error) {
	return s.operate(ctx, "rollback", id, by, (*tx).refuseRollback)
}

// answerQuery reads what the view of a verb tells of a task.
func answerQuery(verb string) string { return "SELECT answer FROM " + verb + " WHERE id = ?" }

// standing is what decides whether something may be done to a task.
type standing struct {
	id          task.ID
	state       task.State
	typ, key    string
	batch       task.BatchID
	everStarted bool
	awaited     bool // it is to be rolled back once it has ended
	undoable    bool
}

const standingQuery = `
	SELECT state, type, ifnull(key, ''), ifnull(batch_id, 0), ever_started,
		EXISTS (SELECT 1 FROM operation WHERE task_id = tasks.id AND ended_at IS NULL), ` + undoable + `
	FROM tasks WHERE id = ?`

// undoable is the condition that a task's type has a rollback: when its last attempt began, or now.
const undoable = `(EXISTS (SELECT 1 FROM policy WHERE hash = tasks.policy AND json_type(body, '$.rollback') = 'object')
		OR EXISTS (SELECT 1 FROM policy WHERE type = tasks.type AND json_type(body, '$.rollback') = 'object'))`

// operate does to one task what an operator wants, unless refuse has something against it.
func (s *Store) operate(
	ctx context.Context, verb string, id task.ID, by string, refuse func(*tx, *standing) error,
) (became ops.Became, err error) {
	err = s.change(ctx, verb+" task", func(t *tx) error {
		at := standing{id: id}
		err := t.row([]any{&at.state, &at.typ, &at.key, &at.batch, &at.everStarted, &at.awaited, &at.undoable}, standingQuery, int64(id))
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("%d: %w", id, ops.ErrNoTask)
		}
		if err != nil {
			return err
		}
		if err := refuse(t, &at); err != nil {
			return err
		}
		if _, err := t.exec("INSERT INTO "+verb+" (id, by) VALUES (?, ?)", int64(id), null(by)); err != nil {
			if input := refused(err); input != nil {
				return input
			}
			return err
		}
		return t.row([]any{&became}, answerQuery(verb), int64(id))
	})
	if err != nil {
		return "", err
	}
	return became, nil
}

// refusal is why a request must not be.
func refusal(format string, args ...any) error {
	return &ops.RefusedError{Text: fmt.Sprintf(format, args...)}
}

func (t *tx) refuseRetry(at *standing) error {
	switch at.state {
	case task.StateFailed, task.StateCancelled, task.StateRolledBack:
	default:
		return nil // there is nothing to do
	}
	if at.awaited {
		return refusal("task %d is to be rolled back: wait for that", at.id)
	}
	request, err := t.request(at.batch)
	if err != nil {
		return err
	}
	if request != "" {
		return refusal("task %d belongs to batch %d, of which a %s is under way: wait until the batch has ended", at.id, at.batch, request)
	}
	return t.refuseKey(at)
}

func (t *tx) refuseRollback(at *standing) error {
	switch at.state {
	case task.StateRollbackPending, task.StateRollbackRunning, task.StateRolledBack:
		return nil // there is nothing to do
	}
	if !at.undoable {
		return refusal("the type %q has no rollback", at.typ)
	}
	if at.state.Live() || !at.everStarted {
		return nil
	}
	return t.refuseKey(at)
}

// refuseKey refuses to bring a task back whose key is another's by now.
func (t *tx) refuseKey(at *standing) error {
	if at.key == "" {
		return nil
	}
	var live task.ID
	err := t.row([]any{&live}, keyedQuery, at.typ, at.key)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return refusal("task %d is live with the key %q: wait for it or cancel it", live, at.key)
}

// request is what is wanted of a batch that has not ended: cancel, rollback or "".
func (t *tx) request(id task.BatchID) (request string, err error) {
	err = t.row([]any{&request}, "SELECT ifnull(requested, '') FROM batch WHERE id = ? AND ended_at IS NULL", int64(id))
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return request, err
}
