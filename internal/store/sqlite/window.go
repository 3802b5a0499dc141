package sqlite

import (
	"context"
	"slices"
	"strings"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// fewRows is how many rows a list may find by an index that does not have them in their order, and sort.
const fewRows = 2000

// Window returns the part of the tasks in which a List looks through that many rows of each table at most.
func (s *Store) Window(ctx context.Context, f store.TaskFilter, rows int) (w store.Window, err error) {
	if len(f.States) == 0 && f.Type == "" && len(f.Labels) == 0 && (f.Key != "" || f.Batch == 0) {
		return w, nil // an index has the tasks in their order
	}
	err = s.view(ctx, "list tasks", func(t *snapshot) error {
		w = store.Window{}
		d := depths{t: t, f: f, skip: max(rows, 1) - 1}
		d.f.Window = store.Window{}
		if w.Few, err = d.few(); err != nil {
			return err
		}
		if !w.Few {
			if err := d.live(); err != nil {
				return err
			}
		}
		if err := d.finished(); err != nil {
			return err
		}
		if !(f.Type != "" && f.Key != "") && t.sql.mayHave(t.sql.ListFollowers, f) && f.Batch == 0 {
			if err := d.of(t.sql.FollowerDepth); err != nil {
				return err
			}
		}
		w.From, w.ByType = d.from, d.byType
		return nil
	})
	return w, err
}

// depths finds where a window begins.
type depths struct {
	t      *snapshot
	f      store.TaskFilter
	skip   int
	from   task.ID
	byType bool
}

// id returns the id that so many rows come before; 0: there are not that many. An index has the rows of the conditions in their order.
func (d *depths) id(q *sqltext.Query, index string, where ...string) (id task.ID, err error) {
	if d.f.Before != 0 {
		where = append(where, "id < @before")
	}
	if q, err = q.Fill("{index}", index); err != nil {
		return 0, err
	}
	if q, err = q.Fill("{where}", conjunction(where)); err != nil {
		return 0, err
	}
	_, args := conditions(d.f)
	var found []task.ID
	if err := d.t.query(scanIDs(&found), q, given(q, append(args, arg("skip", d.skip)))...); err != nil || len(found) == 0 {
		return 0, err
	}
	return found[0], nil
}

// of has the window begin where so many rows of a table have been looked at.
func (d *depths) of(q *sqltext.Query, where ...string) error {
	id, err := d.id(q, "", where...)
	d.from = max(d.from, id)
	return err
}

func (d *depths) live() error {
	switch {
	case !d.t.sql.mayHave(d.t.sql.ListLive, d.f), d.f.Key != "":
		return nil
	case d.f.Batch == 0:
		return d.of(d.t.sql.LiveDepth)
	}
	for _, s := range task.States() {
		if s.Live() && (len(d.f.States) == 0 || slices.Contains(d.f.States, s)) {
			if err := d.of(d.t.sql.LiveDepth, "batch_id = @batch", "state = '"+string(s)+"'"); err != nil {
				return err
			}
		}
	}
	return nil
}

func (d *depths) finished() error {
	q, f := d.t.sql.FinishedDepth, d.f
	if !d.t.sql.mayHave(d.t.sql.ListFinished, f) {
		return nil
	}
	index, where := unsuccessful(f), []string(nil)
	switch {
	case f.Key != "":
		where = append(where, "key = @key")
	case f.Batch != 0:
		where = append(where, "batch_id = @batch")
	case f.Type != "" && index == "":
		where = append(where, "type = @type")
		if len(f.States)+len(f.Labels) == 0 {
			return nil // just those
		}
	}
	if index == "" {
		return d.of(q, where...)
	}
	id, err := d.id(q, "INDEXED BY "+index, append(where, "state <> 'succeeded'")...)
	if err == nil && id > 0 && f.Type != "" && f.Batch == 0 {
		var typed task.ID
		typed, err = d.id(q, "INDEXED BY task_archive_type", "type = @type")
		d.byType, id = typed < id, min(typed, id)
	}
	d.from = max(d.from, id)
	return err
}

// source is an index of live rows of some states.
type source struct {
	index, where string
	states       []task.State
	typed        bool // it begins with the type
}

// sources have all live rows between them.
func sources() []source {
	waiting, back := []task.State{task.StatePending, task.StateRetryPending}, []task.State{task.StateRollbackPending}
	either := slices.Concat(waiting, back)
	const pending, rollback = "state IN ('pending', 'retry_pending')", "state = 'rollback_pending'"
	return []source{
		{"task_due", pending + " AND held IS NULL AND tenant IS NULL", waiting, true},
		{"task_tenant", pending + " AND held IS NULL AND tenant IS NOT NULL", waiting, true},
		{"task_rollback", rollback + " AND held IS NULL AND tenant IS NULL", back, true},
		{"task_tenant_rollback", rollback + " AND held IS NULL AND tenant IS NOT NULL", back, true},
		{"task_held", "held = 'lock'", either, false},
		{"task_turns", "held = 'sequence'", either, true},
		{"task_after", "held = 'after'", waiting, true},
		{"task_running", "state IN ('running', 'rollback_running')", []task.State{task.StateRunning, task.StateRollbackRunning}, false},
	}
}

// gathered are the sources of the live rows of a type, or of states that few rows have; none: the filter is for others, or has an index.
func gathered(f store.TaskFilter) (list []source) {
	rare := len(f.States) > 0 && !slices.ContainsFunc(f.States, func(s task.State) bool {
		return s == task.StatePending || s == task.StateRetryPending
	})
	if f.Type == "" && !rare || f.Key != "" || f.Batch != 0 {
		return nil
	}
	for _, s := range sources() {
		if len(f.States) == 0 || slices.ContainsFunc(s.states, func(st task.State) bool { return slices.Contains(f.States, st) }) {
			list = append(list, s)
		}
	}
	return list
}

// few reports whether indexes have the live rows that the filter is for, and they are few.
func (d *depths) few() (few bool, err error) {
	list := gathered(d.f)
	if len(list) == 0 {
		return false, nil
	}
	terms := make([]string, len(list))
	for i, s := range list {
		terms[i] = "NOT EXISTS (SELECT 1 FROM task INDEXED BY " + s.index + " WHERE " + s.where
		if s.typed && d.f.Type != "" {
			terms[i] += " AND type = @type"
		}
		terms[i] += " LIMIT 1 OFFSET @most)"
	}
	q, err := d.t.sql.Few.Fill("{where}", strings.Join(terms, " AND "))
	if err != nil {
		return false, err
	}
	err = d.t.row([]any{&few}, q, given(q, []sqltext.Arg{arg("type", d.f.Type), arg("most", fewRows)})...)
	return few, err
}

// gather returns the ids of all live rows that the filter may be for.
func (t *snapshot) gather(f store.TaskFilter) (ids []task.ID, err error) {
	for _, s := range gathered(f) {
		if f.Type != "" {
			s.where += " AND type = @type"
		}
		q, err := t.sql.Gather.Fill("{index}", "INDEXED BY "+s.index)
		if err != nil {
			return nil, err
		}
		if q, err = q.Fill("{where}", s.where); err != nil {
			return nil, err
		}
		if err := t.query(scanIDs(&ids), q, given(q, []sqltext.Arg{arg("type", f.Type)})...); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// given leaves out the arguments that a statement does not take.
func given(q *sqltext.Query, args []sqltext.Arg) []sqltext.Arg {
	return slices.DeleteFunc(args, func(a sqltext.Arg) bool { return !slices.Contains(q.Names, a.Name) })
}
