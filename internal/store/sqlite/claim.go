package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

func claimedState(p task.Phase) task.State {
	if p == task.Rollback {
		return task.StateRollbackRunning
	}
	return task.StateRunning
}

// lookPast bounds how many waiting rows of one type and priority a claim looks at while batches are being stopped.
const lookPast = 10_000

// largePayload is how many bytes make SQLite keep much memory for a row.
const largePayload = 1 << 20

// rowsExpected bounds how many rows a claim makes room for before it has read them.
const rowsExpected = 200

// heads walks the priorities of a want from the highest down, in all regions at once.
type heads struct {
	query   *sqltext.Query
	want    store.Want
	regions []string
	tenant  string // "": rows of none
	below   int
}

// rowFunc runs a query for one row: row of a tx or of a snapshot.
type rowFunc func(dest []any, q *sqltext.Query, args ...sqltext.Arg) error

func newHeads(q *statements, w store.Want, region, tenant string) *heads {
	h := &heads{query: q.HeadDue, want: w, regions: []string{""}, tenant: tenant, below: 11}
	switch {
	case w.Phase == task.Rollback && tenant != "":
		h.query = q.HeadTenantRollback
	case w.Phase == task.Rollback:
		h.query = q.HeadRollback
	case tenant != "":
		h.query = q.HeadTenantDue
	}
	if region != "" {
		h.regions = append(h.regions, region)
	}
	return h
}

// next returns the next priority and when its first row is due; ok is false after the last one.
func (h *heads) next(row rowFunc) (priority int, runAt string, ok bool, err error) {
	for _, region := range h.regions {
		var p int
		var at string
		args := []sqltext.Arg{arg("type", h.want.Type), arg("region", region), arg("below", h.below)}
		if h.tenant != "" {
			args = append(args, arg("tenant", h.tenant))
		}
		err := row([]any{&p, &at}, h.query, args...)
		if errors.Is(err, sql.ErrNoRows) {
			continue
		}
		if err != nil {
			return 0, "", false, err
		}
		if !ok || p > priority || p == priority && at < runAt {
			priority, runAt, ok = p, at, true
		}
	}
	h.below = priority
	return priority, runAt, ok, nil
}

// Claim takes due rows.
func (s *Store) Claim(ctx context.Context, c store.Claim) (tasks []task.Task, err error) {
	err = s.update(ctx, "claim tasks", func(t *tx) (err error) {
		if c.Pass != nil {
			if c.Pass.Promoted, err = t.passOn(c.Pass.Most); err != nil || c.Pass.Only && c.Pass.Promoted.Rows == 0 {
				return err
			}
		}
		var stopping bool
		tenants := map[task.Phase]*bool{task.Run: new(bool), task.Rollback: new(bool)}
		if err := t.row([]any{&stopping, tenants[task.Run], tenants[task.Rollback]}, t.sql.Stopping); err != nil {
			return err
		}
		room := map[task.Phase]int64{task.Run: cmp.Or(c.Bytes, math.MaxInt64), task.Rollback: cmp.Or(c.Bytes, math.MaxInt64)}
		rooms, wants := newRooms(), make([]wanting, len(c.Wants))
		for i, w := range c.Wants {
			limit, most, err := rooms.of(t, w.Type)
			if err != nil {
				return fmt.Errorf("limit of type %s: %w", w.Type, err)
			}
			if limit != "" {
				w.N = min(w.N, most)
			}
			wants[i] = wanting{tx: t, rooms: rooms, claim: c, want: w, limit: limit, left: w.N, room: room[w.Phase], skip: stopping && w.Phase == task.Run}
			if err := wants[i].findTurns(s.turns, *tenants[w.Phase]); err != nil {
				return fmt.Errorf("of type %s: %w", w.Type, err)
			}
			room[w.Phase] = wants[i].room
			rooms.found(&wants[i])
		}
		held, more := 0, false
		for _, i := range runsFirst(c.Wants) {
			if err := wants[i].take(); err != nil {
				return fmt.Errorf("of type %s: %w", c.Wants[i].Type, err)
			}
			rooms.took(&wants[i])
			held += wants[i].held
			more = more || wants[i].more
		}
		for i := range wants {
			tasks = append(tasks, wants[i].rows...)
		}
		rooms.tell(c.Limited)
		if c.Cut != nil {
			*c.Cut = held > 0 || more || room[task.Run] <= 0 || room[task.Rollback] <= 0
		}
		return rooms.spend(t)
	})
	if err != nil {
		return nil, err
	}
	return tasks, nil
}

// bytesOf returns how many bytes the documents of a row have, as the claim counts them.
func bytesOf(t *task.Task) int64 {
	return int64(len(t.Payload) + len(t.RollbackPayload) + len(t.Result) + len(t.Checkpoint))
}

// runsFirst returns the places of wants, those of runs before those of rollbacks: in this order rows get locks.
func runsFirst(wants []store.Want) []int {
	places := make([]int, 0, len(wants))
	for _, phase := range []task.Phase{task.Run, task.Rollback} {
		for i := range wants {
			if (wants[i].Phase == task.Rollback) == (phase == task.Rollback) {
				places = append(places, i)
			}
		}
	}
	return places
}

// wanting is the claim of one want: first its rows are found, and once those of all wants are, it takes them.
type wanting struct {
	*tx
	rooms  *rooms
	claim  store.Claim
	want   store.Want
	limit  string        // the name of the limit that the rows count for; "": none
	tenant string        // whose rows are found; "": rows of none
	more   bool          // tenants may have more rows, although fewer than are wanted were found
	skip   bool          // rows of batches that are being stopped wait
	left   int           // how many more rows may be found
	room   int64         // how many bytes their documents may have
	rows   []task.Task   // what was found, and then what was claimed
	waits  bool          // rows are due of tenants that have no room
	soon   time.Duration // until a rate lets one of these start; 0: not known
	held   int           // rows that wait for their turns or locks
}

// find finds rows priority by priority, until there are enough of them.
func (c *wanting) find() error {
	h := newHeads(c.sql, c.want, c.claim.Region, c.tenant)
	now := stamp(c.now)
	for c.left > 0 && c.room > 0 {
		priority, runAt, ok, err := h.next(c.row)
		if err != nil || !ok {
			return err
		}
		if runAt > now {
			continue
		}
		before, room := len(c.rows), c.room
		if err := c.findLevel(priority); err != nil {
			return err
		}
		if c.left > 0 && c.room > 0 {
			rejected, err := c.rejectTooLarge(&c.want, c.claim.Region, c.tenant, priority, now)
			if err != nil {
				return err
			}
			if rejected > 0 { // there may be others behind them
				h.below = priority + 1
				c.left, c.rows, c.room = c.left+len(c.rows)-before, c.rows[:before], room
			}
		}
	}
	return nil
}

// errEnough ends the reading of rows.
var errEnough = errors.New("enough rows")

// findLevel reads due rows of one priority, as they are once they are claimed, and takes their bytes from the room.
func (c *wanting) findLevel(priority int) error {
	known := task.Task{ // what all of them share
		Type: c.want.Type, State: claimedState(c.want.Phase), Priority: priority, Policy: c.want.Policy,
		ClaimedAt: c.now, LeaseEnd: c.now.Add(c.want.Window).Truncate(time.Millisecond),
	}
	args := append(make([]sqltext.Arg, 0, 7), arg("deadline", modifier(c.want.Deadline)), arg("type", c.want.Type),
		arg("priority", priority), arg("now", stamp(c.now)), arg("region", c.claim.Region), arg("limit", c.left))
	due := c.sql.ClaimDue
	switch {
	case c.tenant != "" && c.want.Phase == task.Rollback:
		due, args = c.sql.ClaimTenantRollback, append(args, arg("tenant", c.tenant))
	case c.tenant != "":
		due, args = c.sql.ClaimTenantDue, append(args, arg("tenant", c.tenant), arg("look_past", lookPast))
	case c.want.Phase == task.Rollback:
		due = c.sql.ClaimRollback
	case c.skip:
		due, args = c.sql.ClaimStartable, append(args, arg("look_past", lookPast))
	}
	before := len(c.rows)
	c.rows = slices.Grow(c.rows, min(c.left, rowsExpected))
	scan := scanClaimed(&c.rows, known)
	err := c.query(func(r *sql.Rows) error {
		if c.room <= 0 {
			return errEnough
		}
		err := scan(r)
		if err == nil {
			row := &c.rows[len(c.rows)-1]
			c.room -= bytesOf(row)
			if len(row.Payload) > largePayload {
				c.w.noteLarge(row.ID)
			}
		}
		return err
	}, due, args...)
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	slices.SortFunc(c.rows[before:], inOrder) // a join promises no order
	c.left -= len(c.rows) - before
	return nil
}

// inOrder compares rows of one priority as they are claimed.
func inOrder(a, b task.Task) int { return cmp.Or(a.RunAt.Compare(b.RunAt), cmp.Compare(a.ID, b.ID)) }

// take claims what was found, but the rows whose turn it is not, or whose locks others have. Nothing can change a row between that it
// is read and claimed: the transaction has the lock.
func (c *wanting) take() (err error) {
	var waiting int
	if c.rows, waiting, err = c.takeTurns(c.rows); err != nil {
		return err
	}
	c.rows, c.held, err = c.takeLocks(c.rows)
	c.held += waiting
	if err != nil || len(c.rows) == 0 {
		return err
	}
	ids := make([]task.ID, len(c.rows))
	for i := range c.rows {
		ids[i] = c.rows[i].ID
	}
	n, err := c.exec(c.sql.ClaimRows, arg("state", string(claimedState(c.want.Phase))), arg("session", int64(c.claim.Session)),
		arg("claim", c.claim.Number), arg("policy", int64(c.want.Policy)), arg("now", stamp(c.now)),
		arg("lease_until", stamp(c.rows[0].LeaseEnd)), arg("deadline", modifier(c.want.Deadline)), arg("limited", null(c.limit)),
		arg("ids", jsonList(ids)))
	if err == nil && n != int64(len(c.rows)) {
		err = fmt.Errorf("%d tasks were due and %d were claimed", len(c.rows), n)
	}
	return err
}

// modifier writes a duration for SQLite's date functions (https://sqlite.org/lang_datefunc.html); "" for none.
func modifier(d time.Duration) string {
	if d <= 0 {
		return ""
	}
	return fmt.Sprintf("+%d.%03d seconds", d/time.Second, d%time.Second/time.Millisecond)
}

// Claimed reads back what a claim took and the session still holds.
func (s *Store) Claimed(ctx context.Context, session task.Session, number int64) (tasks []task.Task, err error) {
	err = s.view(ctx, "read back a claim", func(t *snapshot) error {
		return t.query(scanTasks(&tasks), t.sql.Claimed, arg("session", int64(session)), arg("claim", number))
	})
	return tasks, err
}

// NextDue returns when the next row is due that one of the wants could claim; ok is false where none waits.
func (s *Store) NextDue(ctx context.Context, c store.Claim) (in time.Duration, ok bool, err error) {
	err = s.view(ctx, "look for the next due task", func(t *snapshot) error {
		var stopping, runs, rollbacks bool
		if err := t.row([]any{&stopping, &runs, &rollbacks}, t.sql.Stopping); err != nil {
			return err
		}
		first := ""
		sooner := func(at string) {
			if at != "" && (first == "" || at < first) {
				first = at
			}
		}
		for _, w := range c.Wants {
			skip := stopping && w.Phase == task.Run
			at, err := t.soonest(newHeads(t.sql, w, c.Region, ""), skip)
			if err != nil {
				return err
			}
			sooner(at)
			if runs && w.Phase == task.Run || rollbacks && w.Phase == task.Rollback {
				now := stamp(s.now())
				err := t.soonestOfTenants(w, c.Region, skip, func(at string) {
					if sooner(at); at != "" && at <= now {
						s.turns.wake(lane{w.Type, w.Phase, c.Region})
					}
				})
				if err != nil {
					return err
				}
			}
		}
		if first == "" {
			return nil
		}
		at, err := parseTime(first)
		if err != nil { // as an application may write it: who polls finds what is due behind it
			return nil //nolint:nilerr // the error is of this row alone
		}
		in, ok = max(at.Sub(s.now()), 0), true
		return nil
	})
	return in, ok, err
}

// soonest returns when the first row of a want is due, as the file has it; "" where none waits. skip: rows of batches that are
// being stopped do not count.
func (t *snapshot) soonest(h *heads, skip bool) (first string, err error) {
	for {
		priority, at, more, err := h.next(t.row)
		if err != nil || !more {
			return first, err
		}
		if skip {
			region := h.regions[len(h.regions)-1]
			soonest, args := t.sql.Soonest, []sqltext.Arg{
				arg("type", h.want.Type), arg("priority", priority), arg("region", region), arg("look_past", lookPast),
			}
			if h.tenant != "" {
				soonest, args = t.sql.SoonestTenant, append(args, arg("tenant", h.tenant))
			}
			err := t.row([]any{&at}, soonest, args...)
			if errors.Is(err, sql.ErrNoRows) {
				continue
			}
			if err != nil {
				return "", err
			}
		}
		if first == "" || at < first {
			first = at
		}
	}
}
