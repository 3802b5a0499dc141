package postgres

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leasehold/leasehold/internal/fault"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// settleSome sends one settlement, of rows sorted by id and no id twice, and returns those that were applied. A value that the
// server refuses would keep the whole batch from ever being settled: it is found by halving the batch, and kept in
// another form.
func (s *Store) settleSome(
	ctx context.Context, conn *pgx.Conn, session task.Session, rows []*store.Settlement,
) (applied []int64, err error) {
	applied, err = s.settleOnce(ctx, conn, session, rows)
	switch {
	case noPartition(err):
		if err := s.failAt(failPartition); err != nil {
			return nil, err
		}
		if err := s.makePartitions(ctx, conn); err != nil {
			return nil, err
		}
		if err := s.failAt(failRepeat); err != nil {
			return nil, err
		}
		return s.settleOnce(ctx, conn, session, rows)
	case !badValue(err):
		return applied, err
	case len(rows) == 1 && (rows[0].Outcome.Result != nil || hasJSON(&rows[0].Report)):
		s.log.Warn("the store refuses what a task said as JSON: it is kept as strings", "task", int64(rows[0].ID), "err", err)
		quoted := *rows[0]
		if quoted.Outcome.Result != nil {
			quoted.Outcome.Result = asString(quoted.Outcome.Result)
		}
		quoted.Report = asStrings(quoted.Report)
		return s.settleOnce(ctx, conn, session, []*store.Settlement{&quoted})
	case len(rows) == 1:
		return nil, err
	}
	half := len(rows) / 2
	applied, err = s.settleSome(ctx, conn, session, rows[:half])
	if err != nil {
		return nil, err
	}
	rest, err := s.settleSome(ctx, conn, session, rows[half:])
	return append(applied, rest...), err
}

// noPartition reports whether the archive has no partition for the row's day: its check_violation names no constraint.
func noPartition(err error) bool {
	var e *pgconn.PgError
	return errors.As(err, &e) && e.Code == codeCheck && e.ConstraintName == ""
}

// badValue reports whether the server refused a value: class 22 is data exceptions (as a NUL in JSON, or a number out of
// range), class 54 limits (as JSON nested too deeply).
func badValue(err error) bool {
	c := code(err)
	return strings.HasPrefix(c, "22") || strings.HasPrefix(c, "54")
}

// settleOnce runs the statement to its end, commit included.
func (s *Store) settleOnce(
	ctx context.Context, conn *pgx.Conn, session task.Session, rows []*store.Settlement,
) (applied []int64, err error) {
	var c settleColumns
	for i, row := range rows {
		c.add(row)
		c.reports.set(i, len(rows), &row.Report)
		c.onFailed = sparse(c.onFailed, i, len(rows), row.Next.OnFailed)
	}
	if fault.Off(fault.Fence) {
		if err := s.takeAnyFence(ctx, conn, c.id, c.fence); err != nil {
			return nil, err
		}
	}
	return s.collectSettled(ctx, conn, s.sql.Settle, c.args(session)...)
}

// collectSettled runs a statement that settles to its end, commit included, and collects the ids that it gives.
func (s *Store) collectSettled(
	ctx context.Context, conn *pgx.Conn, settle *sqltext.Query, args ...sqltext.Arg,
) (applied []int64, err error) {
	err = s.committed(ctx, conn, func(on querier) error {
		applied, err = collectIDs(query(ctx, on, settle, args...))
		return err
	})
	return applied, err
}

// committed runs f, one statement, to its end, commit included.
func (s *Store) committed(ctx context.Context, conn *pgx.Conn, f func(querier) error) error {
	if s.fail == nil {
		return f(conn)
	}
	// With failpoints the commit is a step of its own.
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if err := f(tx); err != nil {
			return err
		}
		return s.failAt(failCommit)
	})
}

// change is committed with the points around it at which the store can crash.
func (s *Store) change(ctx context.Context, conn *pgx.Conn, f func(querier) error) error {
	if err := s.failAt(failBefore); err != nil {
		return err
	}
	if err := s.committed(ctx, conn, f); err != nil {
		return err
	}
	return s.failAt(failAfter)
}

func collectIDs(rows pgx.Rows, err error) (ids []int64, _ error) {
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var row cells
	for rows.Next() && row.err == nil {
		row.at(rows)
		ids = append(ids, row.int(0))
	}
	rows.Close()
	return ids, cmp.Or(rows.Err(), row.err)
}

// idSet is collectIDs for those who look up more than they go through.
func idSet(rows pgx.Rows, err error) (map[task.ID]bool, error) {
	ids, err := collectIDs(rows, err)
	if err != nil {
		return nil, err
	}
	set := make(map[task.ID]bool, len(ids))
	for _, id := range ids {
		set[task.ID(id)] = true
	}
	return set, nil
}

// settleColumns are the arguments of settle.sql, but the session.
type settleColumns struct {
	id, fence           []int64
	state               []string
	delay               []int64 // microseconds
	afterLease, dueAnew []bool
	keepDue             []bool
	attempt, deferrals  []int32
	everStarted         []bool
	outcome             []*string // nil: outcome and error stay
	err                 []string
	result, output      []string
	started             []int64 // microseconds; < 0: never
	keep                []bool  // in the history
	phase               []string
	ranAttempt          []int32
	ranFence            []int64
	ranError            []string
	cancelUnseen        []bool
	silent              []bool
	cause               []string // why the row is rolled back from now on; "": it is not, or was before
	finished            []bool
	newResult           []bool
	onFailed            []string // the type of a row to insert; "": none. nil where no row has one: it is not sent
	reports             reportColumns
}

func (c *settleColumns) args(session task.Session) []sqltext.Arg {
	return []sqltext.Arg{
		arg("ids", c.id), arg("fences", c.fence), arg("states", c.state), arg("attempts", c.attempt),
		arg("deferrals", c.deferrals), arg("ever_started", c.everStarted), arg("outcomes", c.outcome),
		arg("errors", c.err), arg("results", c.result), arg("outputs", c.output), arg("started", c.started),
		arg("keep", c.keep), arg("phases", c.phase), arg("ran_attempts", c.ranAttempt), arg("ran_fences", c.ranFence),
		arg("ran_errors", c.ranError), arg("cancel_unseen", c.cancelUnseen), arg("progress", c.reports.progress),
		arg("messages", c.reports.message), arg("checkpoints", c.reports.checkpoint), arg("silent", c.silent),
		arg("finished", c.finished), arg("new_result", c.newResult), arg("causes", c.cause), arg("session", int64(session)),
		arg("after_lease", c.afterLease), arg("keep_due", c.keepDue), arg("due_anew", c.dueAnew), arg("delays", c.delay), arg("on_failed", c.onFailed),
	}
}

func (c *settleColumns) add(r *store.Settlement) {
	next, o := r.Next, r.Outcome
	c.id, c.fence = append(c.id, int64(r.ID)), append(c.fence, int64(r.Fence))
	c.state = append(c.state, string(next.State))
	c.delay = append(c.delay, next.Delay.Microseconds())
	c.afterLease = append(c.afterLease, next.AfterLease)
	c.keepDue = append(c.keepDue, r.KeepsDue())
	c.dueAnew = append(c.dueAnew, r.DueAnew())
	c.finished = append(c.finished, next.State.Finished())
	c.attempt = append(c.attempt, int32(next.Attempt))
	c.deferrals = append(c.deferrals, int32(next.Deferrals))
	c.everStarted = append(c.everStarted, next.EverStarted)
	verdict, reason, keep := r.RowOutcome()
	outcome := (*string)(&verdict)
	if keep {
		outcome = nil
	}
	c.outcome, c.err = append(c.outcome, outcome), append(c.err, storable(reason))
	c.result = append(c.result, storableResult(o.Result))
	c.output = append(c.output, storable(o.Output))
	if r.Started < 0 {
		c.started = append(c.started, -1)
	} else {
		c.started = append(c.started, r.Started.Microseconds())
	}
	c.keep = append(c.keep, r.InHistory())
	c.phase = append(c.phase, string(r.Phase))
	c.ranAttempt = append(c.ranAttempt, int32(r.Attempt))
	c.ranFence = append(c.ranFence, int64(r.RanFence))
	c.ranError = append(c.ranError, storable(o.Error))
	c.cancelUnseen = append(c.cancelUnseen, r.CancelUnseen())
	c.silent = append(c.silent, r.Silent)
	c.cause = append(c.cause, string(r.Cause()))
	c.newResult = append(c.newResult, r.NewResult())
}

// storable is text as Postgres can keep it: UTF-8 without NUL.
func storable(text string) string { return task.Text(text, math.MaxInt) }

// storableResult is a result as text that Postgres can keep.
func storableResult(raw json.RawMessage) string {
	result := string(raw)
	if storable(result) != result {
		result = string(asString(raw))
	}
	return result
}

// asString is what JSON that Postgres refuses is kept as: its text, in a JSON string that it takes.
func asString(raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(storable(string(raw))); err != nil {
		return json.RawMessage(`"(not kept)"`)
	}
	return bytes.TrimSpace(b.Bytes())
}
