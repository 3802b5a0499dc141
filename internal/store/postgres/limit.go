package postgres

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// limits are the row types that had a limit at the last heartbeat. They only decide which statement claims a type: the one for
// types without a limit takes nothing of a type that has one by now, and the other takes no less of a type that has none.
type limits struct {
	types atomic.Pointer[map[string]bool]
}

// has reports whether a row type had a limit.
func (l *limits) has(typ string) bool {
	known := l.types.Load()
	return known != nil && (*known)[typ]
}

func (l *limits) set(types map[string]bool) { l.types.Store(&types) }

// part parts the wants of a claim: those of types without a limit, and those of types with one.
func (l *limits) part(c store.Claim) (free, limited store.Claim) {
	known := l.types.Load()
	if known == nil || len(*known) == 0 {
		return c, store.Claim{}
	}
	free, limited = c, c
	free.Wants, limited.Wants = nil, nil
	for _, w := range c.Wants {
		if (*known)[w.Type] {
			limited.Wants = append(limited.Wants, w)
		} else {
			free.Wants = append(free.Wants, w)
		}
	}
	return free, limited
}

// declareLimits notes what limits a session declares, puts in force what is to be by all that sessions declare, and learns which types
// have one.
func (s *Store) declareLimits(ctx context.Context, on querier, session task.Session, a store.Agent, view store.View) error {
	n := len(a.Limits)
	names, hashes, specs := make([]string, n), make([]string, n), make([]string, n)
	for i := range a.Limits {
		names[i] = a.Limits[i].Name
		specs[i], hashes[i] = a.Limits[i].Text()
	}
	var now *time.Time // NULL: the session cannot tell
	if !view.Now.IsZero() {
		now = &view.Now
	}
	types := map[string]bool{}
	var name string
	err := forEach(ctx, on, []any{&name}, func() error {
		types[name] = true
		return nil
	}, s.sql.DeclareLimits, arg("session", int64(session)), arg("names", names), arg("hashes", hashes), arg("specs", specs),
		arg("now", now), arg("calm", view.Calm.Microseconds()), arg("tolerance", store.JumpTolerance.Microseconds()))
	if err == nil {
		s.limits.set(types)
	}
	return err
}

// claimLimited claims rows of types with a limit, as claimBeside claims others.
func (s *Store) claimLimited(ctx context.Context, conn *pgx.Conn, c store.Claim) (all claimed, err error) {
	if c.Limited == nil {
		c.Limited = map[string]store.Room{}
	}
	look := s.lowWater.look(c)
	some, rooms, _, err := s.claimRooms(ctx, conn, s.sql.ClaimLimited, c, look)
	if err != nil {
		return all, err
	}
	maps.Copy(c.Limited, rooms)
	if err := s.wantPlaces(ctx, conn, c.Session, c.Wants, rooms); err != nil {
		return all, err
	}
	again := c
	again.Wants = s.lowWater.note(look.within(rooms, some.tasks), some.tasks, some.cut)
	if len(again.Wants) == 0 {
		return some, nil
	}
	look = s.lowWater.look(again)
	more, rooms, _, err := s.claimRooms(ctx, conn, s.sql.ClaimLimited, again, look)
	if err != nil {
		return all, err
	}
	for typ, room := range rooms { // the room before the first of the two claims
		room.Rows += sharing(rooms, room.Limit, some.tasks)
		c.Limited[typ] = room
	}
	s.lowWater.note(look.within(rooms, more.tasks), more.tasks, more.cut)
	return some.with(more), nil
}

// wantPlaces notes which limits had no room for a session that runs nothing of their types. It follows a claim that got nothing of these.
func (s *Store) wantPlaces(ctx context.Context, conn *pgx.Conn, session task.Session, wants []store.Want, rooms map[string]store.Room) error {
	var names []string
	for _, w := range wants {
		if room, has := rooms[w.Type]; has && w.Starved && !room.Busy && room.Rows == 0 && !room.Rated {
			names = append(names, room.Limit)
		}
	}
	if len(names) == 0 {
		return nil
	}
	s.wanting.Store(int64(session))
	return exec(ctx, conn, s.sql.WantPlaces, arg("names", names), arg("session", session))
}

// claimRooms locks the limits and claims, two statements in one round trip and one transaction, to its end, commit included. In a claim of
// tenants a third one finds the room of each of these: each, one for each want; nil: tenants have no bounds.
func (s *Store) claimRooms(
	ctx context.Context, conn *pgx.Conn, q *sqltext.Query, c store.Claim, l *look,
) (got claimed, rooms map[string]store.Room, each []tenantRoom, err error) {
	types := make([]string, len(c.Wants))
	for i, w := range c.Wants {
		types[i] = w.Type
	}
	forgetLocks(conn)
	var both pgx.Batch
	both.Queue(s.sql.LockLimits.Text, s.sql.LockLimits.Args(arg("types", types))...)
	if l.tenants != nil {
		both.Queue(s.sql.LockTenants.Text, s.sql.LockTenants.Args(arg("type", types[0]), arg("tenants", l.tenants))...)
	}
	both.Queue(q.Text, s.sql.claimArgs(q, c, l)...)
	replies := conn.SendBatch(ctx, &both)
	defer func() { err = cmp.Or(err, replies.Close()) }()
	if rooms, err = scanRooms(replies.Query()); err != nil {
		return claimed{}, nil, nil, err
	}
	if l.tenants != nil {
		if each, err = scanTenantRooms(replies.Query()); err != nil {
			return claimed{}, nil, nil, err
		}
	}
	rows, err := replies.Query()
	if err != nil {
		return claimed{}, nil, nil, err
	}
	got.tasks, err = scanClaimed(rows, 0, flagsOf(&got, l))
	got.held, got.left = sawLocks(conn)
	got.cut = got.cut || got.held
	return got, rooms, each, err
}

// scanRooms reads what lock_limits returns, of types that have a limit.
func scanRooms(rows pgx.Rows, err error) (map[string]store.Room, error) {
	if err != nil {
		return nil, err
	}
	rooms := map[string]store.Room{}
	var kind string
	var limit *string
	var left, wait *int64
	_, err = pgx.ForEachRow(rows, []any{&kind, &limit, &left, &wait}, func() error {
		if limit != nil {
			rooms[kind] = store.Room{Limit: *limit, Busy: left == nil, Rows: int(or(left)), Rated: wait != nil, Next: microseconds(or(wait))}
		}
		return nil
	})
	return rooms, err
}

// sharing returns how many of the rows are of types that have the limit.
func sharing(rooms map[string]store.Room, limit string, rows []task.Task) (n int) {
	for i := range rows {
		if rooms[rows[i].Type].Limit == limit {
			n++
		}
	}
	return n
}

// within returns the look for what the limits left room for. A want of a limit whose room was taken asked for as much as it got.
func (l *look) within(rooms map[string]store.Room, rows []task.Task) *look {
	bounded := *l
	bounded.claim.Wants = slices.Clone(l.claim.Wants)
	for i := range bounded.claim.Wants {
		w := &bounded.claim.Wants[i]
		room, has := rooms[w.Type]
		if !has || !room.Busy && sharing(rooms, room.Limit, rows) < room.Rows {
			continue
		}
		of := lane{typ: w.Type, phase: w.Phase, region: l.claim.Region}
		w.N = 0
		for j := range rows {
			if of.has(&rows[j]) {
				w.N++
			}
		}
	}
	return &bounded
}

// giveTokens gives back the tokens of rows that are about to be settled and never started. It may be repeated, and what is not settled then
// loses nothing by it.
func (s *Store) giveTokens(ctx context.Context, conn *pgx.Conn, session task.Session, rows []store.Settlement) error {
	if known := s.limits.types.Load(); known == nil || len(*known) == 0 {
		return nil
	}
	var ids, fences []int64
	for i := range rows {
		if rows[i].NeverStarted() {
			ids, fences = append(ids, int64(rows[i].ID)), append(fences, int64(rows[i].Fence))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return exec(ctx, conn, s.sql.GiveTokens, arg("ids", ids), arg("fences", fences), arg("session", int64(session)))
}
