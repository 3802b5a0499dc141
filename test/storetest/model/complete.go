package model

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Complete ends a task well, in whichever session it runs.
func (s *Store) Complete(
	ctx context.Context, id task.ID, f task.Fence, result json.RawMessage,
) (store.Answer, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return store.Lost, err
	}
	defer s.mu.Unlock()
	if err := s.fail(beforeSettle); err != nil {
		return store.Lost, err
	}
	return s.complete(id, f, result, now), s.fail(afterSettle)
}

func (s *Store) complete(id task.ID, f task.Fence, result json.RawMessage, now time.Time) store.Answer {
	r := s.live[id]
	switch {
	case s.completed(id, f):
		return store.Ended
	case !r.attempted(f):
		return store.Lost
	case s.kept[id] > 0:
		return store.Busy
	}
	next := task.Transition{State: task.StateSucceeded, Attempt: r.Attempt, EverStarted: true}
	if r.State.Phase() == task.Rollback {
		next.State = task.StateRolledBack
		if task.FailedForGood(next.State, r.Cause) {
			next.OnFailed = s.policies[r.Policy].Policy.OnFailed
		}
	}
	// It is the settlement that the holder would have sent. When the attempt itself began is not known here.
	return s.settle(r.Session, store.Settlement{
		ID: id, Fence: f, RanFence: f, Phase: r.State.Phase(), Attempt: r.Attempt, Next: next,
		Outcome: task.Outcome{Verdict: task.Succeeded, Result: result}, Started: now.Sub(r.ClaimedAt),
	}, now)
}

// completed reports whether the attempt with that fence has ended well. If it was rolled back since, its history has that.
func (s *Store) completed(id task.ID, f task.Fence) bool {
	if r := s.archive[id]; r != nil && r.Fence == f+1 && r.Outcome == task.Succeeded {
		return true
	}
	return slices.ContainsFunc(s.attempts[id], func(a Attempt) bool { return a.Settled == f && a.Outcome == task.Succeeded })
}

// Completed returns which rows have been completed.
func (s *Store) Completed(ctx context.Context, rows []store.Held) ([]bool, error) {
	if _, err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	out := make([]bool, len(rows))
	for i, h := range rows {
		out[i] = s.completed(h.ID, h.Fence)
	}
	return out, nil
}

// Adopt claims the row of one attempt for reaping, of another session's only where it is detached. A
// session that reaps it already gets it again.
func (s *Store) Adopt(
	ctx context.Context, session task.Session, id task.ID, f task.Fence, reapFor time.Duration,
) (*store.Reaped, store.Answer, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return nil, store.Lost, err
	}
	defer s.mu.Unlock()
	r := s.live[id]
	switch beingReaped := r != nil && r.State.Running() && r.Claim == 0 && r.Fence == f+1; {
	case r.attempted(f) && (s.kept[id] > 0 || r.Session != session && !r.Detached):
		return nil, store.Busy, nil
	case r.attempted(f):
		reaped := s.reapRow(r, session, reapFor, now)
		return &reaped, store.Applied, nil
	case beingReaped && r.Session == session && s.kept[id] == 0:
		r.Fence-- // which the reaping raises again
		reaped := s.reapRow(r, session, reapFor, now)
		return &reaped, store.Applied, nil
	case beingReaped:
		return nil, store.Busy, nil
	case s.condemned(id, f):
		return nil, store.Ended, nil
	}
	return nil, store.Lost, nil
}

// condemned reports whether the attempt with that fence has ended as failed or rejected.
func (s *Store) condemned(id task.ID, f task.Fence) bool {
	return slices.ContainsFunc(s.attempts[id], func(a Attempt) bool {
		return a.Fence == f && (a.Outcome == task.Failed || a.Outcome == task.Rejected)
	})
}
