package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// MoveOrphans gives some of the waiting rows of a type that no present agent declares another type: first those without a sequence, then whole
// sequences, as rows of two types would not wait for each other.
func (s *Store) MoveOrphans(ctx context.Context, o store.OrphanStep) (done store.OrphansStepped, err error) {
	err = s.change(ctx, "move orphans", func(t *tx) error {
		done = store.OrphansStepped{}
		if err := t.checkOrphans(o); err != nil {
			return err
		}
		if o.Into == "" || len(o.Into) > store.MaxType || o.Into == o.Type {
			return &store.InputError{Text: "the other type must have 1 to 255 bytes, and be another"}
		}
		ids, err := t.nextToMove(o, &done)
		if err != nil || len(ids) == 0 {
			return err
		}
		good, err := t.judgeOrphans(o, ids, &done)
		done.Changed = len(good)
		if err != nil || o.Preview || len(good) == 0 {
			return err
		}
		return t.moveRows(o, good)
	})
	return done, err
}

// nextToMove returns the rows that the step is about, and notes where the next one begins.
func (t *tx) nextToMove(o store.OrphanStep, done *store.OrphansStepped) (ids []task.ID, err error) {
	if o.From.Sequences {
		return t.nextSequences(o, done)
	}
	rows, next, last, err := t.findOrphans(o, func(r *orphan) bool { return !r.sequenced })
	for _, r := range rows {
		ids = append(ids, r.id)
	}
	if done.Next.ID = next; last {
		done.Next = store.OrphanCursor{Sequences: true}
	}
	return ids, err
}

// nextSequences returns all rows of the next sequences. They are OrphansChanged at most, or of one sequence that has more.
func (t *tx) nextSequences(o store.OrphanStep, done *store.OrphansStepped) (ids []task.ID, err error) {
	done.Next, done.Done = o.From, true
	var names []string
	err = t.query(func(r *sql.Rows) error {
		var name string
		var id task.ID
		err := r.Scan(&name, &id)
		names, ids = append(names, name), append(ids, id)
		return err
	}, t.sql.OrphanSequences, arg("type", o.Type), arg("after", o.From.Sequence), arg("limit", store.OrphansChanged+1))
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	if len(ids) > store.OrphansChanged {
		done.Done = false
		if names[0] != names[len(names)-1] { // the last one may have more rows
			for last := names[len(names)-1]; names[len(names)-1] == last; {
				names, ids = names[:len(names)-1], ids[:len(ids)-1]
			}
		}
	}
	done.Next.Sequence = names[len(names)-1]
	return ids, nil
}

// judged is a sequence of rows that may get another type, or one row without a sequence.
type judged struct {
	ids   []task.ID // that wait
	total int
	left  store.OrphanLeft // Reason "": nothing keeps it
}

// judgeOrphans returns which of the rows may get the other type, and notes what keeps the others.
func (t *tx) judgeOrphans(o store.OrphanStep, ids []task.ID, done *store.OrphansStepped) (good []task.ID, err error) {
	var all []*judged
	sequences := map[string]*judged{}
	err = t.query(func(r *sql.Rows) error {
		var id task.ID
		var name string
		var state task.State
		var noRollback, taken bool
		if err := r.Scan(&id, &name, &state, &noRollback, &taken); err != nil {
			return err
		}
		j := sequences[name]
		if j == nil || name == "" {
			j = &judged{left: store.OrphanLeft{ID: id, Sequence: name}}
			sequences[name], all = j, append(all, j)
		}
		j.add(id, state, noRollback, taken)
		return nil
	}, t.sql.JudgeOrphans, arg("into", o.Into), arg("ids", jsonList(ids)))
	if err != nil {
		return nil, err
	}
	for _, j := range all {
		if err := t.judgeSequence(o, j); err != nil {
			return nil, err
		}
		switch {
		case len(j.ids) == 0:
		case j.left.Reason == "":
			good = append(good, j.ids...)
		default:
			j.left.Rows = len(j.ids)
			done.Left = append(done.Left, j.left)
		}
	}
	slices.SortFunc(done.Left, func(a, b store.OrphanLeft) int { return cmp.Compare(a.ID, b.ID) })
	slices.Sort(good)
	return good, nil
}

// add notes a row, and whether that one keeps it.
func (j *judged) add(id task.ID, state task.State, noRollback, taken bool) {
	j.total++
	if state.Waiting() {
		j.ids = append(j.ids, id)
	}
	if j.left.Reason != "" {
		return
	}
	switch {
	case state.Running():
		j.left.Reason = store.OrphanRunning
	case noRollback:
		j.left.Reason = store.OrphanNoRollback
	case taken:
		j.left.Reason = store.OrphanKey
	default:
		return
	}
	j.left.ID = id
}

// judgeSequence notes what keeps a sequence of which no row does.
func (t *tx) judgeSequence(o store.OrphanStep, j *judged) error {
	if j.left.Sequence == "" || j.left.Reason != "" {
		return nil
	}
	var failed, atWork bool
	err := t.row([]any{&failed, &atWork}, t.sql.JudgeSequence,
		arg("type", o.Type), arg("name", j.left.Sequence), arg("now", stamp(t.now)))
	switch {
	case j.total > store.OrphansChanged:
		j.left.Reason = store.OrphanLong
	case failed:
		j.left.Reason = store.OrphanFailure
	case atWork:
		j.left.Reason = store.OrphanRunning
	}
	return err
}

// moveRows gives rows the other type, and their followers with them.
func (t *tx) moveRows(o store.OrphanStep, ids []task.ID) error {
	of, into := arg("type", o.Type), arg("into", o.Into)
	rows, by, reason := arg("ids", jsonList(ids)), arg("by", null(o.By)), arg("reason", null(o.Reason))
	each := fmt.Sprintf("moved from %s to %s", quoted(o.Type), quoted(o.Into))
	all := fmt.Sprintf("moved %d to %s", len(ids), quoted(o.Into))
	for _, step := range []struct {
		q    *sqltext.Query
		args []sqltext.Arg
	}{
		{t.sql.NoteMovedLocks, []sqltext.Arg{rows}}, {t.sql.NoteMovedTurns, []sqltext.Arg{rows}},
		{t.sql.MoveFollowers, []sqltext.Arg{of, into, rows}}, {t.sql.MoveRows, []sqltext.Arg{into, rows}},
		{t.sql.AuditRows, []sqltext.Arg{by, arg("verb", "move"), reason, rows, arg("answer", each)}},
		{t.sql.AuditType, []sqltext.Arg{by, arg("verb", "move"), of, reason, arg("answer", all)}},
		{t.sql.WakeForDue, nil},
	} {
		if _, err := t.exec(step.q, step.args...); err != nil {
			return err
		}
	}
	return nil
}

// quoted writes a name as JSON.
func quoted(name string) string {
	text, _ := json.Marshal(name) // texts always are JSON
	return string(text)
}
