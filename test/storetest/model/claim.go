package model

import (
	"context"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Claim takes due rows for a session.
func (s *Store) Claim(ctx context.Context, c store.Claim) ([]task.Task, error) {
	now, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var out []task.Task
	cut, bytes := false, map[task.Phase]int64{}
	rooms, taken := s.rooms(now, c.Wants), map[string]int{}
	for _, w := range c.Wants {
		room, limited := rooms[w.Type]
		if limited {
			w.N = min(w.N, room.Rows-taken[room.Limit])
		}
		if limited && c.Limited != nil {
			c.Limited[w.Type] = room
		}
		rows := s.rows(func(r *Row) bool {
			return s.wanted(w, r, c.Region) && !r.RunAt.After(now) && s.kept[r.ID] == 0
		})
		inOrder(rows)
		for _, r := range rows[:min(w.N, len(rows))] {
			if c.Bytes > 0 && bytes[w.Phase] >= c.Bytes {
				cut = true
				break
			}
			bytes[w.Phase] += int64(len(r.Payload) + len(r.RollbackPayload) + len(r.Result) + len(r.Checkpoint))
			r.take(c, w, now)
			taken[room.Limit]++
			if b, has := s.buckets[room.Limit]; has {
				b.Tokens--
				s.buckets[room.Limit] = b
			}
			out = append(out, r.task())
		}
	}
	if c.Cut != nil {
		*c.Cut = cut
	}
	return out, nil
}

// wanted reports whether a row waits for an agent of that region that wants w. Nothing of a batch that is being stopped
// starts; to be rolled back is another matter.
func (s *Store) wanted(w store.Want, r *Row, region string) bool {
	if b := s.batches[r.Batch]; b != nil && b.Stopping && w.Phase == task.Run {
		return false
	}
	return r.State.Waiting() && r.Type == w.Type && r.State.Phase() == w.Phase &&
		(r.Region == "" || r.Region == region)
}

// take makes the row the claim's.
func (r *Row) take(c store.Claim, w store.Want, now time.Time) {
	r.State = r.State.Claimed()
	r.Session = c.Session
	r.Claim = c.Number
	r.Fence++
	r.Attempt++
	r.Policy = w.Policy
	r.ClaimedAt = now
	r.LeaseEnd = now.Add(w.Window)
	if r.Deadline.IsZero() && w.Deadline > 0 {
		r.Deadline = r.RunAt.Add(w.Deadline)
	}
}

// Claimed reads back what a claim took and the session still holds.
func (s *Store) Claimed(ctx context.Context, session task.Session, number int64) ([]task.Task, error) {
	if _, err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var out []task.Task
	for _, r := range s.rows(func(r *Row) bool {
		return r.State.Running() && r.Session == session && r.Claim == number
	}) {
		out = append(out, r.task())
	}
	return out, nil
}

// NextDue returns how long it is until a row is due that one of the wants could claim.
func (s *Store) NextDue(ctx context.Context, c store.Claim) (in time.Duration, ok bool, err error) {
	now, err := s.begin(ctx)
	if err != nil {
		return 0, false, err
	}
	defer s.mu.Unlock()
	for _, w := range c.Wants {
		for _, r := range s.rows(func(r *Row) bool { return s.wanted(w, r, c.Region) }) {
			left := max(r.RunAt.Sub(now), 0)
			if !ok || left < in {
				in, ok = left, true
			}
		}
	}
	return in, ok, nil
}
