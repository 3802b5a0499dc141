package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/poll"
	"github.com/leasehold/leasehold/internal/task"
)

// The points of Settle at which it can be made to fail. Up to beforeCommit all of a call is undone; at committed only
// its reply is lost.
const (
	failBegun     = "settle: begun"
	failArchived  = "settle: copied to the archive"
	failDeleted   = "settle: deleted from the hot table"
	failCommit    = "settle: before the commit"
	failCommitted = "settle: after the commit"
)

// Failpoints names the points at which Options.Fail is called, in their order.
func Failpoints() []string {
	return []string{failBegun, failArchived, failDeleted, failCommit, failCommitted}
}

// Failpoints names the points at which Options.Fail is called, in their order.
func (*Store) Failpoints() []string { return Failpoints() }

// kept are the columns that a finished row takes along as they are.
const kept = `id, type, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
	created_at, session, claim, policy, claimed_at, deadline, checkpoint, progress, message, cancel_asked,
	cancel_by, batch_id, rollback_payload, cause, round`

// What a rollback results in stands in the history only: the row keeps the result of its run, for the rollback to read.

// held is the condition that the row is still that of the hold being settled.
const held = "id = ?1 AND fence = ?2 AND session = ?3 AND " + running

// archiveQuery: where ?15 is true the history will have no row of the attempt, so the archived row has to say exactly what
// it resulted in, and no result that an earlier, released attempt left.
const archiveQuery = `
	INSERT INTO task_archive (` + kept + `,
		state, fence, attempt, deferrals, ever_started, outcome, error, result, output, started_at, finished_at, lease_until)
	SELECT ` + kept + `, ?4, fence + 1, ?5, ?6, ?7, ?8, ?9, iif(?15, ?10, ifnull(iif(state = 'running', ?10, NULL), result)), ?11, ?12, ?13,
		iif(?14, lease_until, NULL)
	FROM task WHERE ` + held

// cause is why a row is undone from now on, or still is: ?14 is the verdict that ended its forward life.
const cause = `CASE WHEN ?4 <> 'rollback_pending' THEN NULL WHEN state <> 'running' THEN cause
			WHEN cancel_asked IS NOT NULL THEN 'cancelled' ELSE ?14 END`

// releaseQuery: run_at stays where ?11 is NULL; where ?12 is true something may be at work until the lease's end: it is
// no earlier than that, and the row goes on telling that end. A row that was asked to stop is released only where ?13 is
// true: whoever decided knew it, or the row is to be rolled back.
const releaseQuery = `
	UPDATE task SET state = ?4, fence = fence + 1, attempt = ?5, deferrals = ?6, ever_started = ?7,
		outcome = ifnull(?8, outcome), error = iif(?8 IS NULL, error, ?9),
		result = ifnull(iif(state = 'running', ?10, NULL), result), cause = ` + cause + `,
		run_at = CASE WHEN ?11 IS NULL THEN run_at WHEN ?12 THEN max(?11, ifnull(lease_until, ?11)) ELSE ?11 END,
		claim = NULL, claimed_at = NULL, lease_until = iif(?12, lease_until, NULL), detached = NULL, ping_due = NULL,
		cancel_asked = NULL, cancel_by = NULL
	WHERE ` + held + ` AND (cancel_asked IS NULL OR ?13)`

// missedQuery tells of a settlement that was not applied whether it repeats one that was, and whether the row is still
// held.
const missedQuery = `
	SELECT EXISTS (SELECT 1 FROM task_archive WHERE id = ?1 AND fence = ?2 + 1 AND session = ?3)
		OR EXISTS (SELECT 1 FROM task WHERE id = ?1 AND fence = ?2 + 1 AND session = ?3 AND NOT ` + running + `)
		OR EXISTS (SELECT 1 FROM attempt WHERE task_id = ?1 AND fence = ?2 AND session = ?3),
		EXISTS (SELECT 1 FROM task WHERE ` + held + `)`

const historyQuery = `
	INSERT INTO attempt (task_id, fence, ran_fence, session, phase, attempt, outcome, error, output, result, state,
		started_at, ended_at)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// Settle applies the ends of holds, all in one transaction. It never answers Busy: nobody can lock a row of this store.
func (s *Store) Settle(ctx context.Context, session task.Session, rows []poll.Settlement) ([]lease.Answer, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	var answers []lease.Answer
	err := s.change(ctx, "settle tasks", func(t *tx) (err error) {
		answers, err = t.settle(session, rows, s.fail)
		return err
	})
	if err != nil {
		return nil, err
	}
	return answers, nil
}

// change is update with the points at which a change can be made to fail.
func (s *Store) change(ctx context.Context, op string, fn func(*tx) error) error {
	err := s.update(ctx, op, func(t *tx) error {
		if err := s.fail(failBegun); err != nil {
			return err
		}
		if err := fn(t); err != nil {
			return err
		}
		return s.fail(failCommit)
	})
	if err != nil {
		return err
	}
	return s.explain(op, s.fail(failCommitted))
}

// settle applies the ends of holds; fail is called at the points between.
func (t *tx) settle(session task.Session, rows []poll.Settlement, fail func(string) error) ([]lease.Answer, error) {
	b := &settling{tx: t, at: stamp(t.now), session: session, answers: make([]lease.Answer, len(rows)), archived: map[task.ID]task.Fence{}}
	for i := range rows {
		if err := b.settle(i, &rows[i]); err != nil {
			return nil, fmt.Errorf("task %d: %w", rows[i].ID, err)
		}
	}
	if err := fail(failArchived); err != nil {
		return nil, err
	}
	if err := b.finish(); err != nil {
		return nil, err
	}
	return b.answers, fail(failDeleted)
}

// settling is one call of Settle.
type settling struct {
	*tx
	at       string // now, as the file has it
	session  task.Session
	answers  []lease.Answer
	archived map[task.ID]task.Fence // copied to the archive, still in the hot table, and the fence that was settled
	applied  []*poll.Settlement     // in their order
	due      bool                   // a row was released that is due at once
}

func (b *settling) settle(i int, e *poll.Settlement) error {
	if fence, twice := b.archived[e.ID]; twice {
		if fence == e.Fence {
			b.answers[i] = lease.Ended
		}
		return nil
	}
	apply := b.release
	if e.Next.State.Finished() {
		apply = b.archive
	} else if !e.Next.State.Waiting() {
		return fmt.Errorf("cannot become %q: a settled task waits or is finished", e.Next.State)
	}
	if err := b.note(e); err != nil {
		return err
	}
	n, err := apply(e)
	if err != nil {
		return err
	}
	if n == 1 {
		b.w.settledOne(e.ID)
		b.answers[i] = lease.Applied
		b.applied = append(b.applied, e)
		return b.remember(e)
	}
	var ended, ours bool
	err = b.row([]any{&ended, &ours}, missedQuery, int64(e.ID), int64(e.Fence), int64(b.session))
	switch {
	case ours: // nothing but a cancellation keeps a row that is held from being settled
		b.answers[i] = lease.Unaware
	case ended:
		b.answers[i] = lease.Ended
	}
	return err
}

// common are the values that both ways of settling write: parameters 1 to 10. Parameter 8 is NULL where outcome and
// error stay.
func (b *settling) common(e *poll.Settlement) []any {
	verdict, why, keep := e.Tells()
	var outcome any
	if !keep {
		outcome = string(verdict)
	}
	return append(make([]any, 0, 15),
		int64(e.ID), int64(e.Fence), int64(b.session), string(e.Next.State), int64(e.Next.Attempt), int64(e.Next.Deferrals),
		e.Next.EverStarted, outcome, null(why), jsonText(e.Outcome.Result))
}

// archive copies a finished row; finish deletes all of them at once.
func (b *settling) archive(e *poll.Settlement) (int64, error) {
	n, err := b.exec(archiveQuery, append(b.common(e), null(e.Outcome.Output), b.started(e.Started), b.at, e.Next.AfterLease,
		!e.Silent && !e.InHistory())...)
	if n == 1 {
		b.archived[e.ID] = e.Fence
	}
	return n, err
}

// release lets a row wait again. One that was claimed and never tried keeps its place in the order.
func (b *settling) release(e *poll.Settlement) (int64, error) {
	var runAt any
	if !e.Silent || e.Next.Delay > 0 {
		runAt = stamp(b.now.Add(e.Next.Delay))
	}
	if e.Next.Delay <= 0 && !e.Next.AfterLease {
		b.due = true
	}
	return b.exec(releaseQuery, append(b.common(e), runAt, e.Next.AfterLease, aware(e), string(ended(e.Outcome.Verdict)))...)
}

// ended is the verdict that ends the forward life of a task. One that gives the attempt back does only where the task's
// deadline has passed.
func ended(v task.Verdict) task.Verdict {
	if v.GivesBack() {
		return task.Failed
	}
	return v
}

// aware reports whether what was decided stands although a cancellation was asked for.
func aware(e *poll.Settlement) bool {
	return e.CancelKnown || e.Next.State.Finished() || e.Next.State.Phase() == task.Rollback
}

// note writes what no renewal has brought, before the row is settled.
func (b *settling) note(e *poll.Settlement) error {
	n := &e.Notes
	if n.Empty() {
		return nil
	}
	_, err := b.exec(noteQuery, int64(e.ID), int64(e.Fence), int64(b.session), jsonText(n.Progress), null(n.Message),
		jsonText(n.Checkpoint), aware(e))
	return err
}

// remember writes the history.
func (b *settling) remember(e *poll.Settlement) error {
	if !e.InHistory() {
		return nil
	}
	o := &e.Outcome
	_, err := b.exec(historyQuery, int64(e.ID), int64(e.Fence), int64(e.RanFence), int64(b.session), string(e.Phase),
		int64(e.Attempt), string(o.Verdict), null(o.Error), null(o.Output), jsonText(o.Result), string(e.Next.State),
		b.started(e.Started), b.at)
	return err
}

// finish ends the call: what is in the archive leaves the hot table, and idle agents learn of what is due.
func (b *settling) finish() error {
	if err := b.tally(); err != nil {
		return err
	}
	if len(b.archived) > 0 {
		ids := make([]task.ID, 0, len(b.archived))
		for id := range b.archived {
			ids = append(ids, id)
		}
		list, err := json.Marshal(ids)
		if err != nil {
			return fmt.Errorf("encode task ids: %w", err)
		}
		n, err := b.exec(deleteQuery, string(list))
		if err != nil {
			return err
		}
		if n != int64(len(ids)) {
			return fmt.Errorf("%d tasks were copied to the archive and %d left the hot table", len(ids), n)
		}
	}
	if b.due {
		return b.run("UPDATE sign SET n = n + 1")
	}
	return nil
}

const deleteQuery = "DELETE FROM task WHERE id IN (SELECT value FROM json_each(?))"

// started is when something that began so long ago did; NULL where it never did.
func (b *settling) started(ago time.Duration) any {
	if ago < 0 {
		return nil
	}
	return stamp(b.now.Add(-ago))
}

func jsonText(j json.RawMessage) any {
	if j == nil {
		return nil
	}
	return string(j)
}
