package model

import (
	"bytes"
	"context"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Secret is the store's own key.
func (s *Store) Secret(ctx context.Context) ([]byte, error) {
	return bytes.Repeat([]byte("model"), 8), ctx.Err()
}

// TakePings takes in pings that come by another way than the session that holds the row.
func (s *Store) TakePings(ctx context.Context, rows []store.RemotePing) ([]store.PingReply, error) {
	return s.takePings(ctx, rows, false)
}

// takePings is TakePings; numbersOnly: no text and no checkpoint advances.
func (s *Store) takePings(ctx context.Context, rows []store.RemotePing, numbersOnly bool) ([]store.PingReply, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	replies := make([]store.PingReply, len(rows))
	for i, p := range rows {
		if r := s.live[p.ID]; r.attempted(p.Fence) && now.Before(r.LeaseEnd) {
			replies[i] = s.takePing(r, p.Ping, numbersOnly, now)
		}
	}
	return replies, nil
}

// attempted reports whether an attempt that was given the fence holds the row. One that is being reaped does not.
func (r *Row) attempted(fence task.Fence) bool {
	return r != nil && r.State.Running() && r.Fence == fence && r.Claim > 0
}

// cancelRequested reports whether the attempt is to stop because its cancellation was requested. A rollback never is.
func (r *Row) cancelRequested() bool {
	return r.State == task.StateRunning && !r.CancelRequested.IsZero()
}

// note writes what a task has said over what it said before.
func (r *Row) note(n store.Report) {
	if n.Progress != nil {
		r.Progress = n.Progress
	}
	if n.Message != "" {
		r.Message = n.Message
	}
	if n.Checkpoint != nil {
		r.Checkpoint = n.Checkpoint
	}
}

func (s *Store) takePing(r *Row, p store.Ping, numbersOnly bool, now time.Time) store.PingReply {
	terms, known := s.terms(r)
	reply := store.PingReply{Answer: store.Applied, Counted: !terms.RequireProgress || r.advance(p, numbersOnly)}
	end := r.LeaseEnd
	if known {
		end = r.ClaimedAt.Add(task.StartWait + terms.check + terms.Timeout)
	}
	if !r.Deadline.IsZero() && r.State == task.StateRunning && r.Deadline.Before(end) {
		end = r.Deadline
	}
	reply.Remaining = max(end.Sub(now), 0)
	if reply.Counted && terms.Heartbeat > 0 {
		// A longer window may be asked for, never a shorter one.
		r.PingDue = now.Add(max(terms.Heartbeat, min(p.NextWithin, terms.MaxHeartbeat)))
		if r.PingDue.After(end) {
			r.PingDue = end
		}
		if until := r.PingDue.Add(terms.Stop); until.After(r.LeaseEnd) {
			r.LeaseEnd = until
		}
	}
	r.note(store.Report{Progress: p.Progress, Message: p.Message, Checkpoint: p.Checkpoint})
	switch {
	case r.cancelRequested():
		reply.Cancel, reply.Reason = true, "a cancellation was asked for"
		if r.CancelRequestedBy != "" {
			reply.Reason += " by " + r.CancelRequestedBy
		}
	case !reply.Counted:
		reply.Reason = "progress did not change"
	}
	return reply
}

// terms are those of a row's policy for its phase.
type terms struct {
	task.RollbackPolicy
	check time.Duration
}

func (s *Store) terms(r *Row) (t terms, known bool) {
	stored, known := s.policies[r.Policy]
	p := stored.Policy
	if r.State.Phase() == task.Rollback && p.Rollback != nil {
		return terms{RollbackPolicy: *p.Rollback}, known
	}
	t.Timeout, t.Heartbeat, t.MaxHeartbeat, t.RequireProgress = p.Timeout, p.Heartbeat, p.MaxHeartbeat, p.RequireProgress
	t.Stop = p.Stop
	if r.State.Phase() == task.Run {
		t.check = p.Check
	}
	return t, known
}

// advance reports whether a ping goes beyond what the attempt has reported.
func (r *Row) advance(p store.Ping, numbersOnly bool) bool {
	m := task.MarksOf(r.Marks, r.Fence)
	if numbersOnly {
		p.Checkpoint = nil
		if len(p.Progress) > 0 && p.Progress[0] == '"' {
			p.Progress = nil
		}
	}
	if !m.Advance(p.Progress, p.Checkpoint) {
		return false
	}
	r.Marks = m.JSON()
	return true
}
