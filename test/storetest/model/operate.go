package model

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// What operators want: verbs of operations and of the audit.
const (
	verbCancel   = "cancel"
	verbRetry    = "retry"
	verbRollback = "rollback"
)

// Audit is one request that changed something.
type Audit struct {
	Who, Verb string
	Task      task.ID
	Batch     task.BatchID
	Schedule  string
	Chunks    string
	Type      string
	Reason    string
	Answer    string
}

// refused is the answer to a request that must not be.
func refused(format string, a ...any) error {
	return &store.RefusedError{Text: fmt.Sprintf(format, a...)}
}

// operate does to one task what an operator wants, and notes it if that changed anything.
func (s *Store) operate(
	ctx context.Context, verb string, id task.ID, by string,
	do func(r *Row, now time.Time) (became store.Became, changed bool, err error),
) (store.Became, error) {
	return s.operateFor(ctx, verb, id, by, "", do)
}

// operateFor is operate with a reason for the audit.
func (s *Store) operateFor(
	ctx context.Context, verb string, id task.ID, by, reason string,
	do func(r *Row, now time.Time) (became store.Became, changed bool, err error),
) (store.Became, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return "", err
	}
	defer s.mu.Unlock()
	if err := s.fail(beforeSettle); err != nil {
		return "", err
	}
	r := s.find(id)
	if r == nil {
		return "", fmt.Errorf("%s task %d: %w", verb, id, store.ErrNoTask)
	}
	became, changed, err := do(r, now)
	if err != nil {
		return "", err
	}
	if changed {
		s.audit = append(s.audit, Audit{Who: by, Verb: verb, Task: id, Reason: reason, Answer: string(became)})
	}
	return became, s.fail(afterSettle)
}

// Retry revives a task.
func (s *Store) Retry(ctx context.Context, id task.ID, by string) (store.Became, error) {
	return s.RetryWith(ctx, id, nil, by)
}

// RetryWith is Retry with another payload; nil: its own.
func (s *Store) RetryWith(ctx context.Context, id task.ID, payload json.RawMessage, by string) (store.Became, error) {
	if err := store.CheckPayload(payload); err != nil {
		return "", err
	}
	if len(payload) > store.DefaultMaxPayload {
		return "", &store.InputError{Text: "a payload is larger than " + store.Size(store.DefaultMaxPayload)}
	}
	reason := ""
	if payload != nil {
		reason = "with another payload"
	}
	return s.operateFor(ctx, verbRetry, id, by, reason, func(r *Row, now time.Time) (store.Became, bool, error) {
		switch {
		case !retryable(r) && payload != nil:
			return "", false, refused(
				"only a task that failed, was cancelled or was rolled back can be retried with another payload: this one is %s", r.State)
		case !retryable(r):
			return store.Became(r.State), false, nil
		case payload != nil && s.chunks[id] != nil:
			return "", false, refused("task %d is a chunk, and its payload is its range: retry it without another payload", id)
		}
		b := s.batches[r.Batch]
		if o := s.unfinished(func(o *Operation) bool { return o.Task == id }); o != nil {
			return "", false, refused("task %d is to be rolled back: wait for that", id)
		}
		if b != nil && !b.ended() && b.Requested != "" {
			return "", false, refused("task %d belongs to batch %d, of which a %s is under way: wait until the batch has ended", id, b.ID, b.Requested)
		}
		if err := s.keyTaken(r); err != nil {
			return "", false, err
		}
		s.reopen(b)
		s.revive(r, now)
		if payload != nil {
			r.Payload = payload
		}
		return store.Became(r.State), true, nil
	})
}

// retryable reports whether a task can be revived.
func retryable(r *Row) bool {
	return r.State == task.StateFailed || r.State == task.StateCancelled || r.State == task.StateRolledBack
}

// keyTaken refuses to bring a task back whose key is another's by now.
func (s *Store) keyTaken(r *Row) error {
	if there := s.keyed(r); there != nil {
		return refused("task %d is live with the key %q: wait for it or cancel it", there.ID, r.Key)
	}
	return nil
}

// revive lets a finished task run again, with a fresh budget. What it knows of how far it was it keeps.
func (s *Store) revive(r *Row, now time.Time) {
	s.bringBack(r)
	s.noteRevival(r)
	r.CancelledFor = 0
	if r.FailedTask == r.ID {
		r.FailedTask = 0
	}
	if len(r.After) > 0 && !r.EverStarted {
		r.Held = task.HoldAfter
	}
	r.EverStarted = r.EverStarted && r.State != task.StateRolledBack
	r.State, r.RunAt, r.Deadline = task.StatePending, r.over(now), time.Time{}
	r.Round++
	r.Cause, r.Result, r.Progress, r.Message = "", nil, nil, ""
	s.notify(store.Due)
}

// bringBack takes a finished task out of the archive. A success at its first try enters the history.
func (s *Store) bringBack(r *Row) {
	if r.first != nil {
		s.attempts[r.ID] = append(s.attempts[r.ID], *r.first)
		r.first = nil
	}
	delete(s.archive, r.ID)
	delete(s.turns.failed, r.ID)
	s.live[r.ID] = r
	if c := s.chunks[r.ID]; c != nil {
		c.State = openChunk
	}
	r.Fence++
	r.Attempt, r.Deferrals = 0, 0
	r.ClaimedAt, r.StartedAt, r.FinishedAt = time.Time{}, time.Time{}, time.Time{}
	r.CancelRequested, r.CancelRequestedBy, r.Output, r.Claim = time.Time{}, "", "", 0
}

// over is the first moment from due on at which nothing of the task is at work any more.
func (r *Row) over(due time.Time) time.Time {
	if r.LeaseEnd.After(due) {
		return r.LeaseEnd
	}
	return due
}

// CanRollBack reports whether a task of a type can be rolled back.
func (s *Store) CanRollBack(ctx context.Context, typ string, id task.ID) (bool, error) {
	if _, err := s.begin(ctx); err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	row := &Row{Type: typ}
	for _, table := range []map[task.ID]*Row{s.live, s.archive} {
		if r := table[id]; r != nil {
			row.Policy = r.Policy
		}
	}
	return s.canBeRolledBack(row), nil
}

// BatchCanRollBack reports whether a task of a batch can be rolled back.
func (s *Store) BatchCanRollBack(ctx context.Context, id task.BatchID) (bool, error) {
	if _, err := s.begin(ctx); err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.of(id), s.canBeRolledBack), nil
}

// Rollback has a task rolled back.
func (s *Store) Rollback(ctx context.Context, id task.ID, by string) (store.Became, error) {
	return s.operate(ctx, verbRollback, id, by, func(r *Row, now time.Time) (store.Became, bool, error) {
		switch {
		case r.State.Phase() == task.Rollback || r.State == task.StateRolledBack || r.State == task.StateSplit:
			return store.Became(r.State), false, nil
		case !s.canBeRolledBack(r):
			return "", false, refused("the type %q has no rollback", r.Type)
		case r.State == task.StateRunning:
			return store.Cancelling, s.rollBackOnce(r, by, now), nil
		case r.State.Waiting():
			s.callOff(r, by, now, true)
			return store.Became(r.State), true, nil
		case !r.EverStarted:
			return store.Became(r.State), false, nil
		}
		if err := s.keyTaken(r); err != nil {
			return "", false, err
		}
		s.reopen(s.batches[r.Batch])
		s.rollBack(r, now)
		return store.Became(r.State), true, nil
	})
}

// rollBackOnce has a task that runs stopped, and rolled back once it has ended.
func (s *Store) rollBackOnce(r *Row, by string, now time.Time) (changed bool) {
	s.requestCancel(r, by, now)
	if s.unfinished(func(o *Operation) bool { return o.Task == r.ID }) != nil {
		return false
	}
	s.operations = append(s.operations, &Operation{Verb: verbRollback, Task: r.ID, BatchOfTask: r.Batch, Who: by, RequestedAt: now})
	return true
}

// rollBack has a finished task rolled back, from due on.
func (s *Store) rollBack(r *Row, due time.Time) {
	if r.State != task.StateRollbackFailed {
		r.Cause = r.cause(r.Outcome)
	}
	s.bringBack(r)
	r.State, r.RunAt = task.StateRollbackPending, r.over(due)
	s.notify(store.Due)
}

// Noted is the audit, oldest first.
func (s *Store) Noted() []Audit {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.audit)
}
