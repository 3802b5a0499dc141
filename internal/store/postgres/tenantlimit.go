package postgres

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// A tenant may have bounds of its own (store.TenantLimit). Its type then has a limit's row, whose lock is that of all its tenants. A tenant that
// has no room takes no turn: it leaves the ring, and walks pass it by (find_tenants). It comes back once an attempt of it that ran here has
// ended, or when its rate brings a token; and when a walk finds that it has room, since attempts may have ended elsewhere.

// tenantRoom is how many rows of a tenant a claim could take, by the tenant's bounds.
type tenantRoom struct {
	rows int
	next time.Duration // where it is the rate that lets none start: until one may; 0: not known
}

func scanTenantRooms(rows pgx.Rows, err error) ([]tenantRoom, error) {
	if err != nil {
		return nil, err
	}
	var all []tenantRoom
	var room int64
	var wait *int64
	_, err = pgx.ForEachRow(rows, []any{&room, &wait}, func() error {
		all = append(all, tenantRoom{int(room), microseconds(or(wait))})
		return nil
	})
	return all, err
}

// claimLimitedTenants claims rows of tenants of a type with a limit, as claimLimited claims others. It notes in bound the tenants that their
// bounds kept rows from.
func (s *Store) claimLimitedTenants(
	ctx context.Context, conn *pgx.Conn, c store.Claim, tenants []string, bound map[string]tenantRoom,
) (all claimed, err error) {
	for range 2 { // the second time from zero, where rows may be below a low-water mark
		look := s.lowWater.lookOf(c, tenants)
		got, rooms, each, err := s.claimRooms(ctx, conn, s.sql.ClaimLimitedTenants, c, look)
		if err != nil {
			return all, err
		}
		for typ, room := range rooms { // the room before the first of the two claims
			room.Rows += sharing(rooms, room.Limit, all.tasks)
			c.Limited[typ] = room
		}
		all = all.with(got)
		room, limited := rooms[c.Wants[0].Type]
		if !room.Busy {
			look = look.withinEach(each, bound)
		}
		none := limited && (room.Busy || len(got.tasks) >= room.Rows)
		c.Wants = s.lowWater.note(look, got.tasks, got.cut || none)
		if len(c.Wants) == 0 {
			break
		}
		left := make([]string, len(look.again))
		for i, place := range look.again {
			left[i] = tenants[place]
		}
		tenants = left
	}
	return all, nil
}

// withinEach returns the look for what the bounds of tenants left room for, and notes in bound those that they kept rows from.
func (l *look) withinEach(each []tenantRoom, bound map[string]tenantRoom) *look {
	if len(each) < len(l.claim.Wants) {
		return l
	}
	bounded := *l
	bounded.claim.Wants = slices.Clone(l.claim.Wants)
	for i := range bounded.claim.Wants {
		if w := &bounded.claim.Wants[i]; each[i].rows < w.N {
			w.N = each[i].rows
			bound[l.tenants[i]] = each[i]
		}
	}
	return &bounded
}

// held notes which of the tenants of turns have no room, and returns these.
func (t *turning) held(r *ring, plan []turn, taken map[string]int, now time.Time) map[string]bool {
	out := map[string]bool{}
	for _, p := range plan {
		room, bound := t.bound[p.tenant]
		if !bound || taken[p.tenant] == p.n {
			continue
		}
		r.hold(p.tenant, room.next, now)
		out[p.tenant] = true
		// Another claim has taken its place since the walk. Where this one has, the next walk says whether there are more rows.
		t.waits = t.waits || room.rows == 0 && t.known[p.tenant] && !t.took(p.tenant)
	}
	clear(t.bound)
	return out
}

// took reports whether the claim has taken rows of a tenant.
func (t *turning) took(tenant string) bool {
	return slices.ContainsFunc(t.all.tasks, func(row task.Task) bool { return row.Tenant == tenant })
}

// noteWaits reports to the caller that rows are due of tenants that have no room, where the claim came back short.
func (t *turning) noteWaits() {
	room, limited := t.claim.Limited[t.want.Type]
	if !limited || !t.waits || t.left == 0 || t.all.cut {
		return
	}
	room.Tenants = true
	t.turns.of(t.lane, func(r *ring, now time.Time) {
		if !r.soon.IsZero() {
			room.TenantNext = max(r.soon.Sub(now), time.Microsecond)
		}
	})
	t.claim.Limited[t.want.Type] = room
}

// hold notes that a tenant has no room, for so long at least; 0: that is not known.
func (r *ring) hold(tenant string, in time.Duration, now time.Time) {
	if r.held == nil {
		r.held = map[string]time.Time{}
	}
	var at time.Time
	if in > 0 {
		if at = now.Add(in); r.soon.IsZero() || at.Before(r.soon) {
			r.soon = at
		}
	}
	if _, known := r.held[tenant]; known || len(r.held) < ringMost {
		r.held[tenant] = at
	}
}

// holdAll notes which tenants have no room, and which have some, as a walk has found.
func (r *ring) holdAll(full map[string]time.Duration, due []string, now time.Time) {
	for name, in := range full {
		r.hold(name, in, now)
	}
	for _, name := range due {
		delete(r.held, name)
	}
}

// free has those tenants join the ring again that may have room: attempts of these have ended, or their rates have brought a token.
func (r *ring) free(ended []string, now time.Time) {
	var back []string
	for _, name := range ended {
		if _, held := r.held[name]; held { // by its rate, too: an attempt that never started has given its token back
			back = append(back, name)
			delete(r.held, name)
		}
	}
	if !r.soon.IsZero() && !now.Before(r.soon) {
		r.soon = time.Time{}
		for name, at := range r.held {
			switch {
			case at.IsZero():
			case !now.Before(at):
				back = append(back, name)
			case r.soon.IsZero() || at.Before(r.soon):
				r.soon = at
			}
		}
		maps.DeleteFunc(r.held, func(_ string, at time.Time) bool { return !at.IsZero() && !now.Before(at) })
	}
	slices.Sort(back)
	r.add(slices.Compact(back))
}
