package model

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Claim takes due rows for a session.
func (s *Store) Claim(ctx context.Context, c store.Claim) ([]task.Task, error) {
	if over, err := s.passOn(ctx, c.Pass); over || err != nil {
		return nil, err
	}
	now, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	cut, bytes := false, map[task.Phase]int64{}
	lookedOf := map[tenantOf]int{}
	rooms, found, looked := s.rooms(now, c.Wants), make([][]*Row, len(c.Wants)), map[string]int{}
	for i, w := range c.Wants { // first come, first served with the room of a limit
		room, limited := rooms[w.Type]
		if limited {
			w.N = min(w.N, room.Rows-looked[room.Limit])
		}
		if limited && c.Limited != nil {
			was := c.Limited[w.Type]
			c.Limited[w.Type] = room
			if was.Tenants {
				c.Limited[w.Type] = was
			}
		}
		rows := s.rows(func(r *Row) bool {
			return s.wanted(w, r, c.Region) && !r.RunAt.After(now) && s.kept[r.ID] == 0
		})
		inOrder(rows)
		rows, waits, next := s.withinTenants(rows, room.Limit, lookedOf, now)
		rows = s.byTurns(rows, lane{w.Type, w.Phase, c.Region}, w, w.N)
		for _, r := range rows[:min(w.N, len(rows))] {
			if c.Bytes > 0 && bytes[w.Phase] >= c.Bytes {
				cut = true
				break
			}
			bytes[w.Phase] += int64(len(r.Payload) + len(r.RollbackPayload) + len(r.Result) + len(r.Checkpoint))
			found[i] = append(found[i], r)
			looked[room.Limit]++
			lookedOf[tenantOf{room.Limit, r.Tenant}]++
		}
		if waits && len(found[i]) < w.N && c.Limited != nil {
			room = c.Limited[w.Type]
			room.Tenants, room.TenantNext = true, next
			c.Limited[w.Type] = room
		}
	}
	given, got := map[string]bool{}, make([][]task.Task, len(c.Wants))
	for _, i := range runsFirst(c.Wants) {
		for _, r := range found[i] {
			if !s.takeTurn(r, now) || !s.takeLock(r, given, now) { // it takes no place and no token
				cut = true
				continue
			}
			r.take(c, c.Wants[i], now)
			s.spendTenant(r)
			limit := rooms[r.Type].Limit
			if b, has := s.buckets[limit]; has && s.limits[limit].Rate > 0 {
				b.Tokens--
				s.buckets[limit] = b
			}
			got[i] = append(got[i], r.task())
		}
	}
	for i := range got {
		slices.SortFunc(got[i], func(a, b task.Task) int {
			return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.RunAt.Compare(b.RunAt), cmp.Compare(a.ID, b.ID))
		})
	}
	if c.Cut != nil {
		*c.Cut = cut
	}
	return slices.Concat(got...), nil
}

// passOn passes on locks and turns for a claim. over: it is to do nothing else.
func (s *Store) passOn(ctx context.Context, p *store.Pass) (over bool, err error) {
	if p == nil {
		return false, nil
	}
	p.Promoted, err = s.Promote(ctx, p.Most)
	return p.Only && p.Promoted.Rows == 0, err
}

// runsFirst returns the places of wants, those of runs before those of rollbacks: in this order rows get locks.
func runsFirst(wants []store.Want) []int {
	var runs, rollbacks []int
	for i, w := range wants {
		if w.Phase == task.Rollback {
			rollbacks = append(rollbacks, i)
		} else {
			runs = append(runs, i)
		}
	}
	return append(runs, rollbacks...)
}

// wanted reports whether a row waits for an agent of that region that wants w. Nothing of a batch that is being stopped
// starts; to be rolled back is another matter.
func (s *Store) wanted(w store.Want, r *Row, region string) bool {
	if b := s.batches[r.Batch]; b != nil && b.Stopping && w.Phase == task.Run {
		return false
	}
	return r.State.Waiting() && r.Held == "" && r.Type == w.Type && r.State.Phase() == w.Phase &&
		(r.claimRegion() == "" || r.claimRegion() == region)
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
