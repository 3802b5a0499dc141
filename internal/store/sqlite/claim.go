package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/poll"
	"github.com/leasehold/leasehold/internal/task"
)

// The conditions and indexes of the rows that wait for a phase. The conditions must stand like this for SQLite to use
// the indexes; naming the index turns a bad plan into an error.
const (
	due  = "task INDEXED BY task_due WHERE state IN ('pending', 'retry_pending')"
	undo = "task INDEXED BY task_undo WHERE state = 'rollback_pending'"
)

func waiting(p task.Phase) string {
	if p == task.Rollback {
		return undo
	}
	return due
}

// headQuery reads the first row of the highest priority below a bound: one step in the index, so a million rows that
// are due next year cost as little as one.
func headQuery(p task.Phase) string {
	return "SELECT priority, run_at FROM " + waiting(p) +
		" AND type = ? AND ifnull(region, '') = ? AND priority < ? ORDER BY priority DESC, run_at, id LIMIT 1"
}

// level are the waiting rows of one type and priority: those of no region and, where regions is 2, those of one.
func level(p task.Phase, regions int, what, condition string) string {
	branch := func(region string) string {
		return "SELECT " + what + " FROM " + waiting(p) +
			" AND type = ?1 AND ifnull(region, '') = " + region + " AND priority = ?3" + condition
	}
	if regions == 2 {
		return branch("''") + " UNION ALL " + branch("?2")
	}
	return branch("''")
}

// The lengths of a row's documents, in bytes: octet_length reads them from the row's header. What an UPDATE changes of a row
// it reads and writes whole, so one that no agent takes must not be claimed.
const (
	rowBytes = `octet_length(payload) + ifnull(octet_length(rollback_payload), 0) + ifnull(octet_length(result), 0)
		+ ifnull(octet_length(checkpoint), 0)`
	largest = `max(octet_length(payload), ifnull(octet_length(rollback_payload), 0), ifnull(octet_length(result), 0),
		ifnull(octet_length(checkpoint), 0))`
	tooLarge = largest + " > 67108864" // store.MaxMaxPayload
)

// takeQuery claims due rows of one type and priority. The rows are chosen before the first of them changes, and never
// more than the limit, nor any once those before come to so many bytes (?11). skip: those of batches that are being stopped
// are passed over.
func takeQuery(p task.Phase, regions int, skip bool) string {
	const fit = " AND run_at <= ?4 AND NOT (" + tooLarge + ")"
	chosen := level(p, regions, "id, run_at, "+rowBytes+" AS bytes", fit)
	if skip {
		chosen = startable(level(p, regions, "id, run_at, batch_id, "+rowBytes+" AS bytes", fit), "id, run_at, bytes")
	}
	return `UPDATE task SET state = '` + string(claimedState(p)) + `', session = ?6, claim = ?7,
		fence = ` + nextFence + `, attempt = max(min(attempt, 1000000), 0) + 1, policy = ?8, claimed_at = ?4, lease_until = ?9,
		deadline = CASE WHEN deadline IS NULL AND ?10 <> '' THEN strftime('%Y-%m-%dT%H:%M:%fZ', run_at, ?10) ELSE deadline END
	WHERE id IN (SELECT id FROM (
		SELECT id, sum(bytes) OVER (ROWS UNBOUNDED PRECEDING) - bytes AS before FROM (` + chosen + ` ORDER BY 2, 1 LIMIT ?5)
	) WHERE before < ?11)
	RETURNING ` + strings.Replace(unclaimed, " payload,", " iif(octet_length(payload) <= 1048576, payload, NULL),", 1)
}

// A large payload is read after the claim: RETURNING would keep it three times over until the statement ends.
const payloadQuery = "SELECT payload FROM task WHERE id = ?"

// nextFence is the fence of a hold that begins. It rises, and no row that an application has made up keeps others from being
// claimed: the number is store.MaxFence.
const nextFence = "max(min(fence, 4611686018426339328), 0) + 1"

func claimedState(p task.Phase) task.State {
	if p == task.Rollback {
		return task.StateRollbackRunning
	}
	return task.StateRunning
}

// lookPast is how many rows of batches that are being stopped a claim looks past. Whatever stands behind more of them
// waits until they are marked, as it would have waited for them to run.
const lookPast = 10_000

// startable picks of waiting rows those that may start: nothing of a batch that is being stopped does, though it may not
// be marked yet.
func startable(rows, what string) string {
	return "SELECT " + what + " FROM (" + rows + " ORDER BY 2, 1 LIMIT " + strconv.Itoa(lookPast) + `)
		WHERE batch_id IS NULL OR batch_id NOT IN (
			SELECT id FROM batch INDEXED BY batch_stopping WHERE stopping = 1 AND ended_at IS NULL)`
}

// soonestQuery tells when the first row is due, of those of one type and priority that may start.
func soonestQuery(regions int) string {
	return startable(level(task.Run, regions, "id, run_at, batch_id", ""), "run_at") + " ORDER BY run_at LIMIT 1"
}

// stoppingQuery reports whether rows wait that belong to batches that are being stopped. Mostly none do, and then claims
// need not look for them.
const stoppingQuery = `
	SELECT EXISTS (SELECT 1 FROM batch INDEXED BY batch_stopping WHERE stopping = 1 AND ended_at IS NULL AND EXISTS (
		SELECT 1 FROM task INDEXED BY task_batch WHERE batch_id = batch.id AND state IN ('pending', 'retry_pending')))`

// heads walks the priorities of a want from the highest down, in all regions at once.
type heads struct {
	query   string
	want    poll.Want
	regions []string
	below   int
}

// rowFunc runs a query for one row, in whichever transaction there is.
type rowFunc func(dest []any, text string, args ...any) error

func newHeads(w poll.Want, region string) *heads {
	h := &heads{query: headQuery(w.Phase), want: w, regions: []string{""}, below: 11}
	if region != "" {
		h.regions = append(h.regions, region)
	}
	return h
}

// next gives the next priority and when its first row is due; ok is false after the last one.
func (h *heads) next(row rowFunc) (priority int, runAt string, ok bool, err error) {
	for _, region := range h.regions {
		var p int
		var at string
		err := row([]any{&p, &at}, h.query, h.want.Type, region, h.below)
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
func (s *Store) Claim(ctx context.Context, c poll.Claim) (tasks []task.Task, err error) {
	err = s.update(ctx, "claim tasks", func(t *tx) error {
		stopping := false
		if err := t.row([]any{&stopping}, stoppingQuery); err != nil {
			return err
		}
		room := map[task.Phase]int64{task.Run: cmp.Or(c.Bytes, math.MaxInt64), task.Rollback: cmp.Or(c.Bytes, math.MaxInt64)}
		for _, w := range c.Wants {
			before := len(tasks)
			if tasks, err = t.claimWant(tasks, c, w, room[w.Phase], stopping && w.Phase == task.Run); err != nil {
				return fmt.Errorf("of type %s: %w", w.Type, err)
			}
			for i := range tasks[before:] {
				room[w.Phase] -= bytesOf(&tasks[before+i])
			}
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

// bytesOf is rowBytes of a row that was read.
func bytesOf(t *task.Task) int64 {
	return int64(len(t.Payload) + len(t.RollbackPayload) + len(t.Result) + len(t.Checkpoint))
}

// claimWant appends the rows of one want, priority by priority, until they come to room bytes. skip: rows of batches that
// are being stopped wait.
func (t *tx) claimWant(tasks []task.Task, c poll.Claim, w poll.Want, room int64, skip bool) ([]task.Task, error) {
	h := newHeads(w, c.Region)
	now, left := stamp(t.now), w.N
	for left > 0 && room > 0 {
		priority, runAt, ok, err := h.next(t.row)
		if err != nil || !ok {
			return tasks, err
		}
		if runAt > now {
			continue
		}
		var level []task.Task
		known := task.Task{
			Type: w.Type, State: claimedState(w.Phase), Priority: priority, Policy: w.Policy,
			ClaimedAt: t.now, LeaseEnd: t.now.Add(w.Window).Truncate(time.Millisecond),
		}
		err = t.query(scanClaimed(&level, known), takeQuery(w.Phase, len(h.regions), skip),
			w.Type, c.Region, priority, now, left, int64(c.Session), c.Number, int64(w.Policy),
			stamp(known.LeaseEnd), modifier(w.Deadline), room)
		if err != nil {
			return tasks, err
		}
		for i := range level {
			if l := &level[i]; l.Payload == nil {
				t.w.noteLarge(l.ID)
				if err := t.row([]any{jsonOf{&l.Payload}}, payloadQuery, int64(l.ID)); err != nil {
					return tasks, err
				}
			}
			room -= bytesOf(&level[i])
		}
		if len(level) < left && room > 0 {
			if err := t.rejectTooLarge(w.Phase, len(h.regions), w.Type, c.Region, priority, now); err != nil {
				return tasks, err
			}
		}
		slices.SortFunc(level, func(a, b task.Task) int { // RETURNING promises no order
			return cmp.Or(a.RunAt.Compare(b.RunAt), cmp.Compare(a.ID, b.ID))
		})
		tasks, left = append(tasks, level...), left-len(level)
	}
	return tasks, nil
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
	err = s.view(ctx, "read back a claim", func(t *sql.Tx) error {
		rows, err := t.QueryContext(ctx, claimedQuery, int64(session), number)
		if err != nil {
			return err
		}
		return eachRow(rows, scanTasks(&tasks))
	})
	return tasks, err
}

const claimedQuery = "SELECT " + columns + " FROM task INDEXED BY task_running WHERE session = ? AND claim = ? AND " +
	running + " ORDER BY priority DESC, run_at, id"

// NextDue tells when the next row is due that one of the wants could claim.
func (s *Store) NextDue(ctx context.Context, c poll.Claim) (in time.Duration, ok bool, err error) {
	err = s.view(ctx, "look for the next due task", func(t *sql.Tx) error {
		row := func(dest []any, text string, args ...any) error {
			return t.QueryRowContext(ctx, text, args...).Scan(dest...)
		}
		stopping := false
		if err := row([]any{&stopping}, stoppingQuery); err != nil {
			return err
		}
		first := ""
		for _, w := range c.Wants {
			at, err := soonest(row, newHeads(w, c.Region), stopping && w.Phase == task.Run)
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

// soonest is when the first row of a want is due, as the file has it; "" where none waits. skip: rows of batches that are
// being stopped do not count.
func soonest(row rowFunc, h *heads, skip bool) (first string, err error) {
	for {
		priority, at, more, err := h.next(row)
		if err != nil || !more {
			return first, err
		}
		if skip {
			region := h.regions[len(h.regions)-1]
			err := row([]any{&at}, soonestQuery(len(h.regions)), h.want.Type, region, priority)
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
