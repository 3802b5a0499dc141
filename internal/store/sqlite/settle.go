package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// The points of Settle at which Options.Fail is called, in their order. Up to beforeCommit all of a call is rolled back; at committed only
// its reply is lost.
const (
	failBegun     = "settle: begun"
	failArchived  = "settle: copied to the archive"
	failDeleted   = "settle: deleted from the hot table"
	failCommit    = "settle: before the commit"
	failCommitted = "settle: after the commit"
)

// Settle applies the ends of holds, all in one transaction. It never answers Busy: rows of this store cannot be locked.
func (s *Store) Settle(ctx context.Context, session task.Session, rows []store.Settlement) ([]store.Answer, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	var answers []store.Answer
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
func (t *tx) settle(session task.Session, rows []store.Settlement, fail func(string) error) ([]store.Answer, error) {
	b := &settling{
		tx: t, at: stamp(t.now), session: session, answers: make([]store.Answer, len(rows)),
		ends: make(map[task.ID]task.Fence, len(rows)),
	}
	for i := range rows {
		if err := b.settle(i, &rows[i]); err != nil {
			return nil, fmt.Errorf("task %d: %w", rows[i].ID, err)
		}
	}
	if err := b.archive(); err != nil {
		return nil, err
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
	answers  []store.Answer
	list     []finished             // rows that archive is to copy
	ends     map[task.ID]task.Fence // those rows, and of the ones that it has copied the fence that was settled; 0: none yet
	archived []task.ID              // copied to the archive, still in the hot table
	applied  []*store.Settlement    // in their order
	due      bool                   // a row was released that is due at once
	values   []any                  // that copyToArchive works with
}

// finished is a settlement that ends its task.
type finished struct {
	i       int               // its place in the call
	e, told *store.Settlement // with what the store has added to it, and as it was told
	ran     ran
}

// ran is what the history says of where an attempt ran, and since when.
type ran struct {
	session any // NULL: in the session that settles it
	began   any // NULL: it never started
}

func (b *settling) settle(i int, e *store.Settlement) error {
	if _, twice := b.ends[e.ID]; twice {
		if err := b.archive(); err != nil {
			return err
		}
		if fence := b.ends[e.ID]; fence != 0 {
			if fence == e.Fence {
				b.answers[i] = store.Ended
			}
			return nil
		}
	}
	ends := e.Next.State.Finished()
	if !ends && !e.Next.State.Waiting() {
		return fmt.Errorf("cannot become %q: a settled task waits or is finished", e.Next.State)
	}
	told := e
	if e.NeverStarted() {
		for _, q := range []*sqltext.Query{b.sql.GiveToken, b.sql.GiveTenantToken} {
			_, err := b.exec(q, arg("id", int64(e.ID)), arg("fence", int64(e.Fence)), arg("session", int64(b.session)))
			if err != nil {
				return err
			}
		}
	}
	if e.Next.AfterLease {
		_, err := b.exec(b.sql.KeepPlace, arg("now", b.at), arg("id", int64(e.ID)), arg("fence", int64(e.Fence)),
			arg("session", int64(b.session)))
		if err != nil {
			return err
		}
	}
	if e.Next.State == task.StateSplit {
		split, err := b.split(e)
		if errors.Is(err, store.ErrNoChunk) {
			return b.unapplied(i, e)
		}
		if err != nil {
			return err
		}
		e = split
	}
	if err := b.note(e); err != nil {
		return err
	}
	at, err := b.ran(e)
	if err != nil {
		return err
	}
	if ends {
		b.ends[e.ID], b.list = 0, append(b.list, finished{i, e, told, at})
		return nil
	}
	n, err := b.release(e)
	if err != nil {
		return err
	}
	return b.answer(finished{i, e, told, at}, n == 1)
}

// answer notes whether a settlement was applied.
func (b *settling) answer(f finished, applied bool) error {
	if !applied {
		return b.unapplied(f.i, f.e)
	}
	b.w.settledOne(f.e.ID)
	b.answers[f.i] = store.Applied
	b.applied = append(b.applied, f.e)
	return b.remember(f.told, f.ran)
}

// unapplied answers for a settlement that changed nothing.
func (b *settling) unapplied(i int, e *store.Settlement) error {
	var ended, ours, asked bool
	err := b.row([]any{&ended, &ours, &asked}, b.sql.Unapplied, arg("id", int64(e.ID)), arg("fence", int64(e.Fence)), arg("session", int64(b.session)))
	switch {
	case ours && e.Next.State == task.StateSplit && !(asked && e.CancelUnseen()):
		b.answers[i] = store.CannotSplit
	case ours: // nothing but a cancellation keeps other rows that are held from being settled
		b.answers[i] = store.CancelPending
	case ended:
		b.answers[i] = store.Ended
	}
	return err
}

// kept returns the outcome and the error that the row keeps of an attempt. The outcome is NULL where the row keeps what it has.
func kept(e *store.Settlement) (outcome, reason any) {
	verdict, text, keep := e.RowOutcome()
	if !keep {
		outcome = string(verdict)
	}
	return outcome, null(text)
}

// release lets a row wait again.
func (b *settling) release(e *store.Settlement) (int64, error) {
	var runAt any
	if !e.KeepsDue() {
		runAt = stamp(b.now.Add(e.Next.Delay))
	}
	if e.Next.Delay <= 0 && !e.Next.AfterLease {
		b.due = true
	}
	outcome, reason := kept(e)
	return b.exec(b.sql.Release,
		arg("state", string(e.Next.State)), arg("attempt", int64(e.Next.Attempt)), arg("deferrals", int64(e.Next.Deferrals)),
		arg("ever_started", e.Next.EverStarted), arg("outcome", outcome), arg("error", reason),
		arg("new_result", e.NewResult()), arg("result", jsonText(e.Outcome.Result)), arg("cause", null(string(e.Cause()))),
		arg("run_at", runAt),
		arg("after_lease", e.Next.AfterLease), arg("due_anew", e.DueAnew()), arg("id", int64(e.ID)), arg("fence", int64(e.Fence)),
		arg("session", int64(b.session)), arg("cancel_seen", !e.CancelUnseen()))
}

// note writes what no renewal has brought, before the row is settled.
func (b *settling) note(e *store.Settlement) error {
	n := &e.Report
	if n.Empty() {
		return nil
	}
	_, err := b.exec(b.sql.NoteProgress, arg("progress", jsonText(n.Progress)), arg("message", null(n.Message)),
		arg("checkpoint", jsonText(n.Checkpoint)), arg("id", int64(e.ID)), arg("fence", int64(e.Fence)),
		arg("session", int64(b.session)), arg("cancel_seen", !e.CancelUnseen()))
	return err
}

// ran returns where an attempt ran, and since when. Of one that was reaped the row says it, and nothing is read for any other.
func (b *settling) ran(e *store.Settlement) (r ran, err error) {
	if e.Reaped() {
		err = b.row([]any{&r.session, &r.began}, b.sql.Ran, arg("id", int64(e.ID)), arg("fence", int64(e.Fence)), arg("session", int64(b.session)))
		if errors.Is(err, sql.ErrNoRows) {
			err = nil // another has the row: it is not settled
		}
	}
	if e.Started >= 0 {
		r.began = stamp(b.now.Add(-e.Started))
	}
	return r, err
}

// remember writes the history.
func (b *settling) remember(e *store.Settlement, at ran) error {
	if !e.InHistory() {
		return nil
	}
	o := &e.Outcome
	_, err := b.exec(b.sql.AddAttempt, arg("id", int64(e.ID)), arg("fence", int64(e.Fence)), arg("ran_fence", int64(e.RanFence)),
		arg("session", int64(b.session)), arg("phase", string(e.Phase)), arg("attempt", int64(e.Attempt)),
		arg("outcome", string(o.Verdict)), arg("error", null(o.Error)), arg("output", null(o.Output)),
		arg("result", jsonText(o.Result)), arg("state", string(e.Next.State)), arg("started_at", at.began),
		arg("ran_session", at.session), arg("now", b.at))
	return err
}

// finish ends the call: what is in the archive leaves the hot table, and idle agents learn of what is due.
func (b *settling) finish() error {
	if err := b.tally(b.applied); err != nil {
		return err
	}
	if err := b.noteLocks(b.applied); err != nil {
		return err
	}
	if len(b.archived) > 0 {
		if err := errors.Join(b.noteEnds(b.archived), b.noteTurns(b.archived)); err != nil {
			return err
		}
		n, err := b.exec(b.sql.DeleteArchived, arg("ids", jsonList(b.archived)))
		if err != nil {
			return err
		}
		if n != int64(len(b.archived)) {
			return fmt.Errorf("%d tasks were copied to the archive and %d left the hot table", len(b.archived), n)
		}
		if err := b.insertFollowers(); err != nil {
			return err
		}
	}
	if b.due {
		_, err := b.exec(b.sql.WakeForDue)
		return err
	}
	return nil
}

// insertFollowers makes tasks of the followers of the rows that have left the hot table.
func (b *settling) insertFollowers() error {
	some := false
	if err := b.row([]any{&some}, b.sql.AnyFollower); err != nil || !some {
		return err
	}
	_, err := b.exec(b.sql.InsertFollowers, arg("ids", jsonList(b.archived)))
	return err
}

func jsonText(j json.RawMessage) any {
	if j == nil {
		return nil
	}
	return string(j)
}
