package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// List returns tasks that match, newest first.
func (s *Store) List(ctx context.Context, f store.TaskFilter) ([]store.TaskInfo, error) {
	q, args, err := s.listQuery(f)
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	var list []store.TaskInfo
	err = s.do(ctx, "list tasks", func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := query(ctx, conn, q, args...)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (i store.TaskInfo, err error) {
			err = row.Scan(infoTargets(&i)...)
			return i, err
		})
		return err
	})
	return list, err
}

// listQuery returns the statement of a List, and its arguments.
func (s *Store) listQuery(f store.TaskFilter) (*sqltext.Query, []sqltext.Arg, error) {
	q := s.sql.List
	if f.Batch != 0 {
		q = s.sql.ListOfBatch
	}
	n, err := newFilter(s.schema, f)
	if err != nil {
		return nil, nil, err
	}
	if q, err = n.fill(q); err != nil {
		return nil, nil, err
	}
	return q, n.argsOf(q, arg("limit", store.PageSize(f.Limit))), nil
}

// texts makes states a value that pgx can send without knowing their type.
func texts[T ~string](states []T) []string {
	list := make([]string, len(states))
	for i, s := range states {
		list[i] = string(s)
	}
	return list
}

// failedOnly implies the condition of the index of what went wrong of batches.
const failedOnly = "state IN ('failed', 'rollback_failed')"

// filter is a TaskFilter as conditions: what all rows have to meet, and what those of each table have to, too.
type filter struct {
	schema schema
	of     store.TaskFilter
	all    []string
	args   []sqltext.Arg
}

func newFilter(in schema, f store.TaskFilter) (*filter, error) {
	f = f.Window.Span.Within(f)
	n := &filter{schema: in, of: f}
	term := func(text, name string, value any) {
		n.all, n.args = append(n.all, text), append(n.args, arg(name, value))
	}
	if f.Type != "" {
		term("type = @type", "type", f.Type)
	}
	if f.Key != "" {
		term("key = @key", "key", f.Key)
	}
	if f.Batch != 0 {
		term("batch_id = @batch", "batch", int64(f.Batch))
	}
	if f.Before != 0 {
		term("id < @before", "before", int64(f.Before))
	}
	if f.Window.From != 0 {
		term("id >= @from", "from", int64(f.Window.From))
	}
	if len(f.Labels) > 0 {
		labels, err := json.Marshal(f.Labels)
		if err != nil {
			return nil, err
		}
		term("labels @> @labels::text::jsonb", "labels", string(labels))
	}
	if len(f.States) > 0 {
		term("state = ANY (@states::text[])", "states", texts(f.States))
	}
	return n, nil
}

// conditions returns those that rows of a table have to meet, and more of them.
func (n *filter) conditions(more ...string) string {
	return strings.Join(append(append([]string{"true"}, n.all...), more...), " AND ")
}

// only reports whether the filter is for some states, all of which are such.
func (n *filter) only(such func(task.State) bool) bool {
	return len(n.of.States) > 0 && !slices.ContainsFunc(n.of.States, func(s task.State) bool { return !such(s) })
}

// nothing is the condition that no row of a table meets: those states are not to be found in it.
const nothing = "false"

func (n *filter) live() string {
	switch {
	case n.only(task.State.Finished):
		return nothing
	case n.only(task.State.Running) && !n.of.Window.Few:
		return n.conditions("state IN ('running', 'rollback_running')")
	case n.of.Window.Few:
		return n.conditions("id = ANY (ARRAY(" + n.gather() + "))")
	}
	return n.conditions()
}

// orderLive sorts the live rows that run: they are few.
func (n *filter) orderLive() string {
	if n.of.Window.Few || n.only(task.State.Running) {
		return "id + 0"
	}
	return "id"
}

func (n *filter) finished() string {
	var more []string
	switch {
	case n.only(func(s task.State) bool { return !s.Finished() }):
		return nothing
	case n.only(hasFailed):
		more = []string{"state <> 'succeeded'", failedOnly} // the archive's index of what did not succeed, and a batch's
	case n.only(unsuccessful):
		more = []string{"state <> 'succeeded'"}
	}
	return n.ofIndex(n.conditions(more...))
}

// ofIndex puts the conditions so that no other index fits them than the one that they are looked through by.
func (n *filter) ofIndex(conditions string) string {
	switch {
	case n.of.Window.Many:
		return strings.NewReplacer("key = @key", "key || '' = @key", "batch_id = @batch", "batch_id + 0 = @batch").Replace(conditions)
	case n.of.Window.From != 0:
	case n.byType():
		return strings.Replace(conditions, "type = @type", n.within("type", "id"), 1)
	case n.of.Batch != 0 && n.only(hasFailed):
		return strings.Replace(conditions, "batch_id = @batch", n.within("batch_id", "id")+" AND batch_id IS NOT NULL", 1)
	}
	return conditions
}

// within is the condition that a column has the filter's value, put so that it stays a part of the order. Where a scan ends it bounds by the
// column alone, so it is for lists that a limit ends.
func (n *filter) within(column, id string) string {
	value := map[string]string{"type": "@type", "batch_id": "@batch"}[strings.TrimPrefix(column, "t.")]
	before := "9223372036854775807"
	if n.of.Before != 0 {
		before = "@before"
	}
	return fmt.Sprintf("%s >= %s AND (%s, %s) < (%s, %s)", column, value, column, id, value, before)
}

// byType reports whether finished tasks are found by the index of types.
func (n *filter) byType() bool {
	return n.of.Type != "" && n.of.Key == "" && n.of.Batch == 0 && (n.of.Window.ByType || !n.only(unsuccessful))
}

func (n *filter) orderFinished() string {
	few := n.of.Window.From != 0 && !n.of.Window.Many // of those that its index has in the window
	switch {
	case n.byType() && !few:
		return "type DESC, id"
	case n.of.Batch != 0 && n.only(hasFailed) && !few:
		return "batch_id DESC, id"
	case (n.of.Batch != 0 || n.of.Key != "") && !n.of.Window.Many, n.byType():
		return "id + 0"
	}
	return "id"
}

func (n *filter) followers() string {
	if n.only(func(s task.State) bool { return s != task.StatePending }) || n.of.Batch != 0 {
		return nothing
	}
	return n.conditions()
}

// fill puts the conditions into a statement.
func (n *filter) fill(q *sqltext.Query) (*sqltext.Query, error) {
	for placeholder, text := range map[string]string{
		"{live}": n.live(), "{finished}": n.finished(), "{followers}": n.followers(), "{order_live}": n.orderLive(),
		"{order_finished}": n.orderFinished(),
	} {
		var err error
		if q, err = q.Fill(placeholder, text); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// argsOf returns the arguments that a statement takes.
func (n *filter) argsOf(q *sqltext.Query, more ...sqltext.Arg) []sqltext.Arg {
	all := append(slices.Clone(n.args), more...)
	return slices.DeleteFunc(all, func(a sqltext.Arg) bool { return !slices.Contains(q.Names, a.Name) })
}

func hasFailed(s task.State) bool { return s == task.StateFailed || s == task.StateRollbackFailed }

func unsuccessful(s task.State) bool { return s != task.StateSucceeded }
