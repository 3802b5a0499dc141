package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// takeTurns returns those of the rows that a claim has found whose turn it is in their sequences, and how many it has held back.
func (t *tx) takeTurns(rows []task.Task) (start []task.Task, held int, err error) {
	var back []task.ID
	start = rows[:0]
	for i := range rows {
		r := rows[i]
		if r.Sequence != "" {
			head, _, err := t.chooseHead(r.Type, r.Sequence)
			if err != nil {
				return nil, 0, err
			}
			if head != r.ID {
				back = append(back, r.ID)
				continue
			}
		}
		start = append(start, r)
	}
	if len(back) > 0 {
		_, err = t.exec(t.sql.HoldTurns, arg("ids", jsonList(back)))
	}
	return start, len(back), err
}

// chooseHead returns the row whose turn it is in a sequence, 0 for none, and chooses it where the head has ended. freed is how many rows
// became candidates by that: 1 or 0.
func (t *tx) chooseHead(typ, name string) (head task.ID, freed int64, err error) {
	of, over := []sqltext.Arg{arg("type", typ), arg("name", name)}, false
	if err := t.row([]any{numberOf[task.ID]{&head}, &over}, t.sql.Turn, append(of, arg("now", stamp(t.now)))...); err != nil {
		return 0, 0, err
	}
	if head != 0 || !over {
		return head, 0, nil
	}
	if err := t.row([]any{numberOf[task.ID]{&head}}, t.sql.NextTurn, of...); err != nil {
		return 0, 0, err
	}
	if _, err := t.exec(t.sql.PutTurn, append(of, arg("id", null(int64(head))))...); err != nil {
		return 0, 0, err
	}
	freed, err = t.exec(t.sql.FreeTurn, arg("id", int64(head)))
	return head, freed, err
}

// promoteTurns passes on the turns of sequences whose heads have ended.
func (t *tx) promoteTurns(most int, p *store.Promoted) error {
	var notes []int64
	of := map[[2]string]bool{}
	err := t.query(func(r *sql.Rows) error {
		var id int64
		var typ, name string
		err := r.Scan(&id, &typ, &name)
		notes, of[[2]string{typ, name}] = append(notes, id), true
		return err
	}, t.sql.DueTurnNotes, arg("now", stamp(t.now)), arg("limit", most))
	if err != nil || len(notes) == 0 {
		return err
	}
	for s := range of {
		which := []sqltext.Arg{arg("type", s[0]), arg("name", s[1])}
		if _, err := t.exec(t.sql.ForgetFailures, which...); err != nil {
			return err
		}
		_, freed, err := t.chooseHead(s[0], s[1])
		if err != nil {
			return err
		}
		p.Rows += int(freed)
		if _, err := t.exec(t.sql.ForgetTurn, which...); err != nil {
			return err
		}
	}
	p.Noted = len(notes)
	if _, err := t.exec(t.sql.DeleteTurnNotes, arg("ids", jsonList(notes))); err != nil || p.Rows == 0 {
		return err
	}
	_, err = t.exec(t.sql.WakeForDue)
	return err
}

// declareSequences notes what a session declares of the sequences of types, and puts in force what follows from all declarations.
func (t *tx) declareSequences(session task.Session, declared []store.TypeSequence) error {
	if len(declared) == 0 {
		var some bool
		if err := t.row([]any{&some}, t.sql.AnySequenceRule); err != nil || !some {
			return err
		}
	}
	by, now := arg("session", int64(session)), arg("now", stamp(t.now))
	rows := arg("list", list(declared, func(q *store.TypeSequence) []any { return []any{q.Type, q.OnFailure} }))
	for _, step := range []struct {
		q    *sqltext.Query
		args []sqltext.Arg
	}{
		{t.sql.PutSequenceDeclarations, []sqltext.Arg{rows}}, {t.sql.ForgetSequenceDeclarers, []sqltext.Arg{by, rows}},
		{t.sql.PutSequenceDeclarers, []sqltext.Arg{by, rows}}, {t.sql.PutSequenceRule, []sqltext.Arg{now}},
		{t.sql.RemoveSequenceRule, []sqltext.Arg{now}}, {t.sql.NoteContinued, nil},
	} {
		if _, err := t.exec(step.q, step.args...); err != nil {
			return err
		}
	}
	return nil
}

// ListSequences returns sequences by type and name. It does not wait for writers.
func (s *Store) ListSequences(ctx context.Context, f store.SequenceFilter) (all store.SequenceList, err error) {
	err = s.view(ctx, "list sequences", func(t *snapshot) error {
		all = store.SequenceList{Now: s.now()}
		found := [][2]string{{f.Type, f.Name}}
		if f.Name == "" {
			var err error
			if found, err = t.findSequences(f); err != nil {
				return err
			}
		}
		most := store.CountedOf(len(found))
		for _, of := range found {
			if err := t.sql.showSequence(t, of[0], of[1], most, &all.List); err != nil {
				return err
			}
		}
		return nil
	})
	return all, err
}

// findSequences returns the types and names of sequences.
func (t *snapshot) findSequences(f store.SequenceFilter) (found [][2]string, err error) {
	err = t.query(func(r *sql.Rows) error {
		var of [2]string
		err := r.Scan(&of[0], &of[1])
		found = append(found, of)
		return err
	}, t.sql.FindSequences, arg("only", f.Type), arg("type", f.FromType), arg("from", f.FromName), arg("limit", store.PageSize(f.Limit)))
	return found, err
}

// reader is a transaction.
type reader interface {
	query(each func(*sql.Rows) error, q *sqltext.Query, args ...sqltext.Arg) error
}

// showSequence adds the sequence to a list, if it has rows or is blocked.
func (q *statements) showSequence(on reader, typ, name string, most int, list *[]store.SequenceInfo) error {
	return on.query(func(r *sql.Rows) error {
		var i store.SequenceInfo
		var live, failures int
		err := r.Scan(&i.Type, &i.Sequence, &i.State, &i.Task, &live, timeOf{&i.Since}, &failures)
		i.Count(live, failures, most)
		*list = append(*list, i)
		return err
	}, q.ShowSequence, arg("type", typ), arg("name", name), arg("most", most+2))
}

// SequenceRows returns the first rows of a sequence, so many at most.
func (s *Store) SequenceRows(ctx context.Context, typ, name string, most int) (rows []task.ID, err error) {
	err = s.view(ctx, "look at a sequence", func(t *snapshot) error {
		rows = nil
		return t.query(func(r *sql.Rows) error {
			var id task.ID
			err := r.Scan(&id)
			rows = append(rows, id)
			return err
		}, t.sql.SequenceRows, arg("type", typ), arg("name", name), arg("limit", most))
	})
	return rows, err
}

// SkipSequence resolves the failure that blocks a sequence, of that task if one is given.
func (s *Store) SkipSequence(ctx context.Context, typ, name string, id task.ID, by string) (task.ID, error) {
	return s.resolve(ctx, "skip", typ, name, id, func(t *tx, _ task.ID) error {
		_, err := t.exec(t.sql.SequenceSkip, arg("type", typ), arg("name", name), arg("by", null(by)))
		return err
	})
}

// RetrySequence retries the failed row that blocks a sequence, that task if one is given.
func (s *Store) RetrySequence(ctx context.Context, typ, name string, id task.ID, by string) (task.ID, error) {
	return s.resolve(ctx, "retry", typ, name, id, func(t *tx, failed task.ID) error {
		at := standing{id: failed}
		err := t.row([]any{&at.state, &at.typ, &at.key, &at.batch, &at.everStarted, &at.awaited, &at.canRollBack},
			t.sql.Standing, arg("id", int64(failed)))
		if err != nil {
			return err
		}
		if at.state == task.StateRollbackFailed {
			return refusal("the rollback of task %d has failed: roll it back again, or skip it", failed)
		}
		if err := t.refuseRetry(&at); err != nil {
			return err
		}
		_, err = t.exec(t.sql.SequenceRetry, arg("type", typ), arg("name", name), arg("by", null(by)))
		return err
	})
}

// resolve does something about the failure that blocks a sequence.
func (s *Store) resolve(
	ctx context.Context, verb, typ, name string, meant task.ID, do func(*tx, task.ID) error,
) (failed task.ID, err error) {
	err = s.change(ctx, verb+" a failure", func(t *tx) error {
		var found []store.SequenceInfo
		if err := t.sql.showSequence(t, typ, name, 1, &found); err != nil {
			return err
		}
		switch {
		case len(found) == 0:
			return fmt.Errorf("%q: %w", name, store.ErrNoSequence)
		case found[0].State != store.SequenceBlocked:
			return refusal("no failure blocks the sequence %q of type %q", name, typ)
		}
		if failed = found[0].Task; meant != 0 && meant != failed {
			return refusal("it is not task %d that blocks the sequence %q, but task %d", meant, name, failed)
		}
		return orRefused(do(t, failed))
	})
	if err != nil {
		return 0, err
	}
	return failed, nil
}

// CancelSequence cancels some of the waiting rows of a sequence and resolves its failures. 0: there were no more of them.
func (s *Store) CancelSequence(ctx context.Context, typ, name, by string) (n int, err error) {
	err = s.change(ctx, "cancel a sequence", func(t *tx) error {
		which := []sqltext.Arg{arg("type", typ), arg("name", name)}
		if err := t.row([]any{&n}, t.sql.CountSequence, which...); err != nil {
			return err
		}
		_, err := t.exec(t.sql.SequenceCancel, append(which, arg("by", null(by)))...)
		return orRefused(err)
	})
	return n, err
}

// noteTurns notes that rows with a sequence have ended. They are in both tables.
func (t *tx) noteTurns(ids []task.ID) error {
	some := false
	if err := t.row([]any{&some}, t.sql.AnySequence); err != nil || !some {
		return err
	}
	for _, q := range []*sqltext.Query{t.sql.NoteTurns, t.sql.NoteFailures} {
		if _, err := t.exec(q, arg("ids", jsonList(ids))); err != nil {
			return err
		}
	}
	return nil
}
