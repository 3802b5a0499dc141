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
	stored, known := s.policies[r.Policy]
	policy, phase := &stored.Policy, r.State.Phase()
	_, strict, _ := policy.Liveness(phase)
	reply := store.PingReply{Answer: store.Applied, Counted: !strict || r.advance(p, numbersOnly)}
	end := r.LeaseEnd
	if known {
		end = r.ClaimedAt.Add(policy.AttemptLength(phase))
	}
	if !r.Deadline.IsZero() && r.State == task.StateRunning && r.Deadline.Before(end) {
		end = r.Deadline
	}
	reply.Remaining = max(end.Sub(now), 0)
	if window := policy.PingWindow(phase, p.NextWithin); reply.Counted && window > 0 {
		r.PingDue = now.Add(window)
		if r.PingDue.After(end) {
			r.PingDue = end
		}
		_, _, stop := policy.Lengths(phase)
		if until := r.PingDue.Add(stop); until.After(r.LeaseEnd) {
			r.LeaseEnd = until
		}
	}
	r.note(store.Report{Progress: p.Progress, Message: p.Message, Checkpoint: p.Checkpoint})
	switch {
	case r.cancelRequested():
		reply.Cancel, reply.Reason = true, "cancellation requested"
		if r.CancelRequestedBy != "" {
			reply.Reason += " by " + r.CancelRequestedBy
		}
	case !reply.Counted:
		reply.Reason = "progress did not change"
	}
	return reply
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
