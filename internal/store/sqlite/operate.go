package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// Operators change single tasks by the functions that applications use. What is here makes better messages: a function cannot
// name other tasks and batches.

// Cancel cancels a task.
func (s *Store) Cancel(ctx context.Context, id task.ID, by string) (store.Became, error) {
	return s.operate(ctx, operator{"cancel", s.sql.Cancel, s.sql.CancelAnswer, func(*tx, *standing) error { return nil }}, id, by)
}

// Retry revives a finished task.
func (s *Store) Retry(ctx context.Context, id task.ID, by string) (store.Became, error) {
	return s.RetryWith(ctx, id, nil, by)
}

// RetryWith is Retry with another payload.
func (s *Store) RetryWith(ctx context.Context, id task.ID, payload json.RawMessage, by string) (store.Became, error) {
	if err := store.CheckPayload(payload); err != nil {
		return "", err
	}
	refuse := func(t *tx, at *standing) error {
		if payload != nil {
			if err := t.refusePayload(at); err != nil {
				return err
			}
		}
		return t.refuseRetry(at)
	}
	o := operator{"retry", s.sql.Retry, s.sql.RetryAnswer, refuse}
	return s.operate(ctx, o, id, by, arg("payload", null(string(payload))))
}

// Rollback rolls a task back; a running one is asked to stop first, and Step rolls it back then.
func (s *Store) Rollback(ctx context.Context, id task.ID, by string) (store.Became, error) {
	return s.operate(ctx, operator{"rollback", s.sql.Rollback, s.sql.RollbackAnswer, (*tx).refuseRollback}, id, by)
}

// operator is a change of one task.
type operator struct {
	verb         string
	change, read *sqltext.Query             // the function, and what became of its call
	refuse       func(*tx, *standing) error // returns why it must not be done
}

// standing is what decides whether something may be done to a task.
type standing struct {
	id          task.ID
	state       task.State
	typ, key    string
	batch       task.BatchID
	everStarted bool
	awaited     bool // it is to be rolled back once it has ended
	canRollBack bool
}

func (s *Store) operate(ctx context.Context, o operator, id task.ID, by string, more ...sqltext.Arg) (became store.Became, err error) {
	err = s.change(ctx, o.verb+" task", func(t *tx) error {
		at := standing{id: id}
		err := t.row([]any{&at.state, &at.typ, &at.key, &at.batch, &at.everStarted, &at.awaited, &at.canRollBack},
			t.sql.Standing, arg("id", int64(id)))
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("%d: %w", id, store.ErrNoTask)
		}
		if err != nil {
			return err
		}
		if err := o.refuse(t, &at); err != nil {
			return err
		}
		if _, err := t.exec(o.change, append(slices.Clip(more), arg("id", int64(id)), arg("by", null(by)))...); err != nil {
			return orRefused(err)
		}
		return t.row([]any{&became}, o.read, arg("id", int64(id)))
	})
	if err != nil {
		return "", err
	}
	return became, nil
}

// refusal returns the error of a request that is refused.
func refusal(format string, args ...any) error {
	return &store.RefusedError{Text: fmt.Sprintf(format, args...)}
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

// refusePayload refuses another payload for a task that does not get it.
func (t *tx) refusePayload(at *standing) error {
	switch at.state {
	case task.StateFailed, task.StateCancelled, task.StateRolledBack:
	default:
		return refusal("only a task that failed, was cancelled or was rolled back can be retried with another payload: this one is %s", at.state)
	}
	var chunk bool
	if err := t.row([]any{&chunk}, t.sql.IsChunk, arg("id", int64(at.id))); err != nil {
		return err
	}
	if chunk {
		return refusal("task %d is a chunk, and its payload is its range: retry it without another payload", at.id)
	}
	return nil
}

func (t *tx) refuseRollback(at *standing) error {
	switch at.state {
	case task.StateRollbackPending, task.StateRollbackRunning, task.StateRolledBack:
		return nil // there is nothing to do
	}
	if !at.canRollBack {
		return refusal("the type %q has no rollback", at.typ)
	}
	if at.state.Live() || !at.everStarted {
		return nil
	}
	return t.refuseKey(at)
}

// refuseKey refuses to revive a task whose key a live task has by now.
func (t *tx) refuseKey(at *standing) error {
	if at.key == "" {
		return nil
	}
	var live task.ID
	err := t.row([]any{&live}, t.sql.LiveWithKey, arg("type", at.typ), arg("key", at.key))
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return refusal("task %d is live with the key %q: wait for it or cancel it", live, at.key)
}

// request returns what was requested of a batch that has not ended: cancel, rollback or "".
func (t *tx) request(id task.BatchID) (request string, err error) {
	err = t.row([]any{&request}, t.sql.BatchRequest, arg("id", int64(id)))
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return request, err
}
