package model

import (
	"context"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// onFailure is who wants what follows a failure.
const onFailure = "on_failure"

// Operation is a change that was requested of many tasks, or of one once it has ended. It is carried out in steps.
type Operation struct {
	Verb        string
	Batch       task.BatchID // 0: it is about a task
	Task        task.ID      // 0: it is about a batch
	BatchOfTask task.BatchID // of the task that it is about; 0: that belongs to none
	Who         string
	RequestedAt time.Time
	Done        int64 // tasks that it has changed
	Refused     int64 // tasks that it had to leave as they were
	Over        bool  // it is done, or another took its place

	seen map[task.ID]bool // rows that it need not look at again
}

// unfinished finds an operation that is not over; nil where there is none.
func (s *Store) unfinished(match func(*Operation) bool) *Operation {
	for _, o := range s.operations {
		if !o.Over && match(o) {
			return o
		}
	}
	return nil
}

// operateBatch carries out a request on a batch, and audits it if that changed anything.
func (s *Store) operateBatch(
	ctx context.Context, verb string, id task.BatchID, by string,
	do func(b *Batch, now time.Time) (answer string, changed bool, err error),
) (string, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return "", err
	}
	defer s.mu.Unlock()
	if err := s.fail(beforeSettle); err != nil {
		return "", err
	}
	b := s.batches[id]
	if b == nil {
		return "", fmt.Errorf("%s batch %d: %w", verb, id, store.ErrNoBatch)
	}
	answer, changed, err := do(b, now)
	if err != nil {
		return "", err
	}
	if changed {
		s.audit = append(s.audit, Audit{Who: by, Verb: verb, Batch: id, Answer: answer})
	}
	return answer, s.fail(afterSettle)
}

// SealBatch says that no more rows will come.
func (s *Store) SealBatch(ctx context.Context, id task.BatchID) (string, error) {
	return s.operateBatch(ctx, "seal", id, "", func(b *Batch, _ time.Time) (string, bool, error) {
		if b.ended() {
			return string(s.survey(b).State), false, nil
		}
		b.Sealed = true
		s.notify(store.CancelNews)
		return store.BatchSealed, false, nil
	})
}

// CancelBatch cancels what waits of a batch, and stops what runs.
func (s *Store) CancelBatch(ctx context.Context, id task.BatchID, by string) (string, error) {
	return s.operateBatch(ctx, verbCancel, id, by, func(b *Batch, now time.Time) (string, bool, error) {
		switch {
		case b.ended():
			return string(s.survey(b).State), false, nil
		case b.Requested == verbRollback:
			return string(store.BatchRollingBack), false, nil
		case b.Requested == verbCancel:
			return string(store.Cancelling), false, nil
		}
		s.stop(b, verbCancel, by, now)
		return string(store.Cancelling), true, nil
	})
}

// RollbackBatch cancels what waits of a batch, stops what runs, and rolls back what was done.
func (s *Store) RollbackBatch(ctx context.Context, id task.BatchID, by string, force bool) (string, error) {
	return s.operateBatch(ctx, verbRollback, id, by, func(b *Batch, now time.Time) (string, bool, error) {
		total, there := s.survey(b).Total, int64(len(s.of(id)))
		switch {
		case !b.ended() && b.Requested == verbRollback:
			return string(store.BatchRollingBack), false, nil
		case total > there && !force:
			return "", false, refused("%d of the %d tasks of batch %d are past their retention and cannot be rolled back: "+
				"use force to roll back the %d that are left", total-there, total, id, there)
		case b.ended() && len(s.toRollBack(b)) == 0:
			return string(s.survey(b).State), false, nil
		}
		s.reopen(b)
		s.stop(b, verbRollback, by, now)
		return string(store.BatchRollingBack), true, nil
	})
}

// stop lets nothing of a batch start any more, and has the operation begun that does the rest. It takes the place of what
// was wanted before.
func (s *Store) stop(b *Batch, verb, by string, now time.Time) {
	b.Stopping, b.Sealed = true, true
	b.Requested, b.RequestedBy, b.ByFailure = verb, by, by == onFailure
	s.supersede(b)
	s.operations = append(s.operations, &Operation{Verb: verb, Batch: b.ID, Who: by, RequestedAt: now, seen: map[task.ID]bool{}})
	s.notify(store.CancelNews)
}

func (s *Store) supersede(b *Batch) {
	for _, o := range s.operations {
		if o.Batch == b.ID {
			o.Over = true
		}
	}
}

// RetryBatch retries what failed of a batch.
func (s *Store) RetryBatch(ctx context.Context, id task.BatchID, by string) (string, error) {
	return s.operateBatch(ctx, verbRetry, id, by, func(b *Batch, now time.Time) (string, bool, error) {
		switch {
		case !b.ended() && b.Requested != "":
			return "", false, refused("a %s of batch %d is under way: wait until the batch has ended", b.Requested, id)
		case s.unfinished(func(o *Operation) bool { return o.Batch == id }) != nil:
			return store.BatchRetrying, false, nil
		case len(s.toRetry(b)) == 0:
			return string(s.survey(b).State), false, nil
		}
		s.reopen(b)
		s.operations = append(s.operations, &Operation{Verb: verbRetry, Batch: id, Who: by, RequestedAt: now, seen: map[task.ID]bool{}})
		s.notify(store.CancelNews)
		return store.BatchRetrying, true, nil
	})
}

// reopen begins a new round of a batch that has ended; nil is none.
func (s *Store) reopen(b *Batch) {
	if b == nil || !b.ended() {
		return
	}
	b.EndedAt = time.Time{}
	b.Round++
	b.Requested, b.RequestedBy, b.ByFailure, b.Stopping = "", "", false, false
	b.FailuresSeen = b.Failures
}

// toRetry lists the rows of a batch that failed, by id.
func (s *Store) toRetry(b *Batch) []*Row {
	var out []*Row
	for _, r := range s.of(b.ID) {
		rolledBack := r.State == task.StateRolledBack && r.Cause != task.Succeeded && r.Cause != task.Cancelled
		if r.State == task.StateFailed || rolledBack {
			out = append(out, r)
		}
	}
	return out
}
