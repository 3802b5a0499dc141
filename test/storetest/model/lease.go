package model

import (
	"context"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Join opens a session.
func (s *Store) Join(ctx context.Context, a store.Agent) (task.Session, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	s.lastSession++
	s.see(s.lastSession, a, now)
	s.declareLimits(s.lastSession, a.Limits, now, 0)
	s.declareSequences(s.lastSession, a.Sequences, now)
	return s.lastSession, nil
}

// see writes a session's row, anew if need be, and its policies.
func (s *Store) see(session task.Session, a store.Agent, now time.Time) {
	s.noteRedactions(session, a)
	row := s.agents[session]
	if row == nil {
		row = &Agent{StartedAt: now}
		s.agents[session] = row
	}
	row.Name, row.Types, row.Workers = a.Name, a.Types, a.Workers
	row.Region, row.Version, row.Config, row.Redact = a.Region, a.Version, a.Config, a.Redact
	row.SeenAt, row.PresentUntil = now, now.Add(a.Presence)
	for hash, p := range a.Policies {
		if _, there := s.policies[hash]; !there {
			s.policies[hash] = p
		}
	}
}

// Present is a session's heartbeat. It moves no lease.
func (s *Store) Present(ctx context.Context, p store.Heartbeat) (store.HeartbeatReply, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return store.HeartbeatReply{}, err
	}
	defer s.mu.Unlock()
	anew := s.agents[p.Session] == nil
	s.see(p.Session, p.Agent, now)
	row := s.agents[p.Session]
	if row.Running, row.Done, row.Minute, row.Draining = p.Running, p.Done, p.Minute, p.Draining; anew {
		row.Order = p.Order
	}
	s.agents[p.Session].CalmAt = time.Time{}
	if p.Sees().Vouches(now, p.Agent.Presence) {
		s.agents[p.Session].CalmAt = now
	}
	s.declareLimits(p.Session, p.Agent.Limits, now, p.Sees().CalmAt(now))
	s.declareSequences(p.Session, p.Agent.Sequences, now)
	reply := store.HeartbeatReply{Now: now, Order: row.Order, OrderedBy: row.OrderedBy}
	for _, r := range s.rows(func(r *Row) bool { return r.State.Running() && r.Session == p.Session }) {
		h := store.Held{ID: r.ID, Fence: r.Fence, Claim: r.Claim, Detached: r.Detached, Left: r.LeaseEnd.Sub(now)}
		if r.cancelRequested() {
			h.CancelRequested, h.CancelReason = true, r.CancelRequestedBy
		}
		if !r.PingDue.IsZero() {
			h.Pinged, h.PingDue, h.Marks = true, r.PingDue.Sub(now), r.Marks
		}
		reply.Held = append(reply.Held, h)
	}
	return reply, nil
}

// Cancels lists what a session holds that is to stop: what is marked, and what belongs to a batch that starts nothing.
func (s *Store) Cancels(ctx context.Context, session task.Session) (list []store.Cancel, err error) {
	if _, err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	for _, r := range s.rows(func(r *Row) bool { return r.State == task.StateRunning && r.Session == session }) {
		b := s.batches[r.Batch]
		if c := (store.Cancel{ID: r.ID, Fence: r.Fence, Claim: r.Claim}); r.cancelRequested() {
			c.Requested, c.Reason = true, r.CancelRequestedBy
			list = append(list, c)
		} else if b != nil && b.Stopping {
			list = append(list, c)
		}
	}
	return list, nil
}

// Holders returns what a session sees of the sessions that hold rows.
func (s *Store) Holders(ctx context.Context, session task.Session) (store.Holders, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return store.Holders{}, err
	}
	defer s.mu.Unlock()
	var holders store.Holders
	seen := map[task.Session]bool{session: true}
	for _, r := range s.rows(func(r *Row) bool { return r.State.Running() }) {
		holders.Expired = holders.Expired || !now.Before(r.LeaseEnd) || !r.Detached && !s.present(r.Session, now)
		if !seen[r.Session] && s.stays(r.Session) {
			seen[r.Session] = true
			holders.Others = append(holders.Others, store.Sighting{
				Session: r.Session, SeenAt: s.agents[r.Session].SeenAt, Presence: s.lasts(r.Session),
			})
		}
	}
	return holders, nil
}

// stays reports whether a session has not left, expired or not.
func (s *Store) stays(session task.Session) bool {
	a := s.agents[session]
	return a != nil && a.PresentUntil.After(a.SeenAt)
}

// doubtful reports whether a session may be alive although it has expired: the one that sweeps has not seen it silent.
func (s *Store) doubtful(session task.Session, v store.View) bool {
	return s.stays(session) && !slices.ContainsFunc(v.Silent, func(o store.Sighting) bool {
		return o.Session == session && o.SeenAt.Equal(s.agents[session].SeenAt)
	})
}

// Leave ends a session's presence.
func (s *Store) Leave(ctx context.Context, session task.Session) error {
	now, err := s.begin(ctx)
	if err != nil {
		return err
	}
	defer s.mu.Unlock()
	if a := s.agents[session]; a != nil {
		a.PresentUntil, a.SeenAt, a.Idle = now, now, false
	}
	return nil
}

// Renew moves the ends of leases, and writes what goes with that.
func (s *Store) Renew(ctx context.Context, session task.Session, rows []store.Renewal) ([]store.Answer, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	answers := make([]store.Answer, len(rows))
	for i, w := range rows {
		r := s.live[w.ID]
		if !r.holds(session, w.Fence) {
			answers[i] = store.Lost
			continue
		}
		least, most := w.Bounds()
		if from := now.Add(least); r.LeaseEnd.Before(from) {
			r.LeaseEnd = from
		}
		if to := now.Add(most); r.LeaseEnd.After(to) {
			r.LeaseEnd = to
		}
		r.Detached = r.Detached || w.Detach
		r.note(w.Report)
		if w.Marks != nil {
			m := task.MarksOf(r.Marks, r.Fence)
			m.Merge(*w.Marks)
			r.Marks = m.JSON()
		}
		answers[i] = store.Applied
	}
	return answers, nil
}

// Sweep claims dead rows for reaping. The reaper's own lease on them lasts reapFor. A session that is absent itself
// reaps nothing, nor does one that believes that it is another time.
func (s *Store) Sweep(
	ctx context.Context, session task.Session, limit int, reapFor time.Duration, view func() store.View,
) ([]store.Reaped, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	v := view()
	if !s.present(session, now) || now.Sub(v.Now).Abs() > store.JumpTolerance {
		return nil, nil
	}
	dead := s.rows(func(r *Row) bool {
		alive := now.Before(r.LeaseEnd) && (r.Detached || s.present(r.Session, now) || s.doubtful(r.Session, v))
		return r.State.Running() && !alive && s.kept[r.ID] == 0 && (r.Session == session || s.lasts(r.Session) <= v.Calm)
	})
	var out []store.Reaped
	for _, r := range dead[:min(limit, len(dead))] {
		out = append(out, s.reapRow(r, session, reapFor, now))
	}
	return out, nil
}

// nameOf returns the name of a session's agent; "": it is not known.
func (s *Store) nameOf(session task.Session) string {
	if a := s.agents[session]; a != nil {
		return a.Name
	}
	return ""
}

// lasts returns the presence of the session, or 0 if it has left or its row was removed.
func (s *Store) lasts(session task.Session) time.Duration {
	a := s.agents[session]
	if a == nil {
		return 0
	}
	return a.PresentUntil.Sub(a.SeenAt)
}

// reapRow makes the row the session's for reaping.
func (s *Store) reapRow(r *Row, session task.Session, reapFor time.Duration, now time.Time) store.Reaped {
	if r.Claim != 0 {
		r.Ran = r.Session // else another has reaped it, and died
	}
	reaped := store.Reaped{
		RanFence: r.Fence, RanSession: r.Ran, RanAgent: s.nameOf(r.Ran),
		Present: s.present(r.Session, now), Detached: r.Detached, Left: r.Deadline.Sub(now),
	}
	r.Fence++
	r.Session, r.Claim = session, 0
	r.LeaseEnd = now.Add(reapFor)
	r.Detached, r.PingDue = false, time.Time{}
	reaped.Task = r.task()
	reaped.Payload, reaped.Result, reaped.Labels, reaped.Checkpoint, reaped.RollbackPayload = nil, nil, nil, nil, nil
	reaped.CancelRequested = r.cancelRequested()
	return reaped
}

// Policies reads stored policies.
func (s *Store) Policies(ctx context.Context, hashes []task.PolicyHash) (map[task.PolicyHash]task.Policy, error) {
	if _, err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	out := map[task.PolicyHash]task.Policy{}
	for _, h := range hashes {
		if p, there := s.policies[h]; there {
			out[h] = p.Policy
		}
	}
	return out, nil
}

// Idle sets whether a session wants notifications of inserts.
func (s *Store) Idle(ctx context.Context, session task.Session, idle bool) error {
	if _, err := s.begin(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if a := s.agents[session]; a != nil {
		a.Idle = idle
	}
	return nil
}

// Listen calls wake at its start, for what came before, and after every insert and every request to cancel a running task,
// until ctx ends.
func (s *Store) Listen(ctx context.Context, wake func(store.News)) error {
	s.mu.Lock()
	s.listeners[&wake] = struct{}{}
	s.mu.Unlock()
	wake(store.Due | store.CancelNews)
	<-ctx.Done()
	s.mu.Lock()
	delete(s.listeners, &wake)
	s.mu.Unlock()
	return nil
}

// Idles reports whether a session wants notifications of inserts.
func (s *Store) Idles(session task.Session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.agents[session]
	return a != nil && a.Idle
}

// VouchedAt is when the session last vouched for the clock; zero: not with its last heartbeat.
func (s *Store) VouchedAt(session task.Session) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.agents[session].CalmAt
}

// PresentUntil is when the presence of a session runs out.
func (s *Store) PresentUntil(session task.Session) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.agents[session].PresentUntil
}
