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
	below   int
}

// rowFunc runs a query for one row: row of a tx or of a snapshot.
type rowFunc func(dest []any, q *sqltext.Query, args ...sqltext.Arg) error

func newHeads(q *statements, w store.Want, region string) *heads {
	h := &heads{query: q.HeadDue, want: w, regions: []string{""}, below: 11}
	if w.Phase == task.Rollback {
		h.query = q.HeadRollback
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
		err := row([]any{&p, &at}, h.query, arg("type", h.want.Type), arg("region", region), arg("below", h.below))
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
	err = s.update(ctx, "claim tasks", func(t *tx) error {
		stopping := false
		if err := t.row([]any{&stopping}, t.sql.Stopping); err != nil {
			return err
		}
		room := map[task.Phase]int64{task.Run: cmp.Or(c.Bytes, math.MaxInt64), task.Rollback: cmp.Or(c.Bytes, math.MaxInt64)}
		rooms := newRooms()
		for _, w := range c.Wants {
			limit, most, err := rooms.of(t, w.Type)
			if err != nil {
				return fmt.Errorf("limit of type %s: %w", w.Type, err)
			}
			if limit != "" {
				w.N = min(w.N, most)
			}
			before := len(tasks)
			if tasks, err = t.claimWant(tasks, c, w, limit, room[w.Phase], stopping && w.Phase == task.Run); err != nil {
				return fmt.Errorf("of type %s: %w", w.Type, err)
			}
			rooms.left[limit] -= len(tasks) - before
			for i := range tasks[before:] {
				room[w.Phase] -= bytesOf(&tasks[before+i])
			}
		}
		rooms.tell(c.Limited)
		if err := rooms.spend(t); err != nil {
			return err
		}
		if c.Cut != nil {
			*c.Cut = room[task.Run] <= 0 || room[task.Rollback] <= 0
		}
		return nil
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

// claimWant appends the rows of one want, priority by priority, until they come to room bytes. limit is the name of the limit that they
// count for. skip: rows of batches that are being stopped wait.
func (t *tx) claimWant(tasks []task.Task, c store.Claim, w store.Want, limit string, room int64, skip bool) ([]task.Task, error) {
	h := newHeads(t.sql, w, c.Region)
	now, left := stamp(t.now), w.N
	for left > 0 && room > 0 {
		priority, runAt, ok, err := h.next(t.row)
		if err != nil || !ok {
			return tasks, err
		}
		if runAt > now {
			continue
		}
		before := len(tasks)
		known := task.Task{
			Type: w.Type, State: claimedState(w.Phase), Priority: priority, Policy: w.Policy,
			ClaimedAt: t.now, LeaseEnd: t.now.Add(w.Window).Truncate(time.Millisecond),
		}
		if tasks, room, err = t.claimLevel(tasks, c, w, &known, limit, left, room, skip); err != nil {
			return tasks, err
		}
		if left -= len(tasks) - before; left > 0 && room > 0 {
			rejected, err := t.rejectTooLarge(w.Phase, w.Type, c.Region, priority, now)
			if err != nil {
				return tasks, err
			}
			if rejected > 0 {
				h.below = priority + 1 // there may be others behind them
			}
		}
	}
	return tasks, nil
}

// errEnough ends the reading of rows.
var errEnough = errors.New("enough rows")

// claimLevel appends due rows of one want and priority, up to most of them, and returns how much of room they leave. known has the values
// that all of them share. Nothing can change a row between that it is read and claimed: the transaction has the lock.
func (t *tx) claimLevel(
	tasks []task.Task, c store.Claim, w store.Want, known *task.Task, limit string, most int, room int64, skip bool,
) ([]task.Task, int64, error) {
	now, deadline := stamp(t.now), modifier(w.Deadline)
	args := append(make([]sqltext.Arg, 0, 7), arg("deadline", deadline), arg("type", w.Type), arg("priority", known.Priority),
		arg("now", now), arg("region", c.Region), arg("limit", most))
	due := t.sql.ClaimDue
	switch {
	case w.Phase == task.Rollback:
		due = t.sql.ClaimRollback
	case skip:
		due, args = t.sql.ClaimStartable, append(args, arg("look_past", lookPast))
	}
	before := len(tasks)
	tasks = slices.Grow(tasks, min(most, rowsExpected))
	scan := scanClaimed(&tasks, *known)
	err := t.query(func(r *sql.Rows) error {
		if room <= 0 {
			return errEnough
		}
		err := scan(r)
		if err == nil {
			row := &tasks[len(tasks)-1]
			room -= bytesOf(row)
			if len(row.Payload) > largePayload {
				t.w.noteLarge(row.ID)
			}
		}
		return err
	}, due, args...)
	level := tasks[before:]
	if err != nil && !errors.Is(err, errEnough) || len(level) == 0 {
		return tasks[:before], room, err
	}
	ids := make([]task.ID, len(level))
	for i := range level {
		ids[i] = level[i].ID
	}
	n, err := t.exec(t.sql.ClaimRows, arg("state", string(known.State)), arg("session", int64(c.Session)), arg("claim", c.Number),
		arg("policy", int64(w.Policy)), arg("now", now), arg("lease_until", stamp(known.LeaseEnd)), arg("deadline", deadline),
		arg("limited", null(limit)), arg("ids", jsonList(ids)))
	if err == nil && n != int64(len(level)) {
		err = fmt.Errorf("%d tasks were due and %d were claimed", len(level), n)
	}
	slices.SortFunc(level, func(a, b task.Task) int { // a join promises no order
		return cmp.Or(a.RunAt.Compare(b.RunAt), cmp.Compare(a.ID, b.ID))
	})
	return tasks, room, err
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
		stopping := false
		if err := t.row([]any{&stopping}, t.sql.Stopping); err != nil {
			return err
		}
		first := ""
		for _, w := range c.Wants {
			at, err := t.soonest(newHeads(t.sql, w, c.Region), stopping && w.Phase == task.Run)
			if err != nil {
				return err
			}
			if at != "" && (first == "" || at < first) {
				first = at
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
			err := t.row([]any{&at}, t.sql.Soonest, arg("type", h.want.Type), arg("priority", priority), arg("region", region), arg("look_past", lookPast))
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
