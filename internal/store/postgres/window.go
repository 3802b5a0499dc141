package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// fewRows is how many rows a list may find by an index that does not have them in their order, and sort.
const fewRows = 2000

// Window returns the part of the tasks in which a List looks through that many rows of each table at most.
func (s *Store) Window(ctx context.Context, f store.TaskFilter, rows int) (w store.Window, err error) {
	n, err := newFilter(s.schema, f)
	if err != nil {
		return w, fmt.Errorf("list tasks: %w", err)
	}
	if q, err := n.window(s.sql.Window, false, false); len(n.liveProbes()) == 0 && q == nil || err != nil {
		return w, err
	}
	err = s.do(ctx, "list tasks", func(ctx context.Context, conn *pgx.Conn) error {
		w = store.Window{}
		if w.Few, err = s.areFew(ctx, conn, n, n.liveProbes()); err != nil {
			return err
		}
		few, err := s.areFew(ctx, conn, n, n.finishedProbes())
		if err != nil {
			return err
		}
		w.Many = len(n.finishedProbes()) > 0 && !few
		within := n
		if w.Many && f.Batch != 0 {
			if within, err = s.within(ctx, conn, f, &w.Span); err != nil {
				return err
			}
		}
		q, err := within.window(s.sql.Window, w.Few, few)
		if q == nil || err != nil {
			return err
		}
		err = queryRow(ctx, conn, q, within.argsOf(q, arg("skip", int64(max(rows, 1)-1)))...).Scan((*int64)(&w.From), &w.ByType)
		if w.From <= w.Span.First {
			w.From = 0
		}
		return err
	})
	return w, err
}

// within reads the span of the filter's batch, and returns the filter within that.
func (s *Store) within(ctx context.Context, conn *pgx.Conn, f store.TaskFilter, span *store.Span) (*filter, error) {
	if err := queryRow(ctx, conn, s.sql.Span, arg("batch", int64(f.Batch))).Scan((*int64)(&span.First), (*int64)(&span.Last)); err != nil {
		return nil, err
	}
	f.Window.Span = *span
	return newFilter(s.schema, f)
}

// areFew reports whether few rows meet each of the conditions; false where there are none.
func (s *Store) areFew(ctx context.Context, conn *pgx.Conn, n *filter, conditions []string) (few bool, err error) {
	if len(conditions) == 0 {
		return false, nil
	}
	q, err := s.sql.Few.Fill("{few}", n.probe(conditions))
	if err != nil {
		return false, err
	}
	err = queryRow(ctx, conn, q, n.argsOf(q, arg("most", int64(fewRows)))...).Scan(&few)
	return few, err
}

// probe is the condition that few rows meet each of the conditions, which begin with the name of a table.
func (n *filter) probe(conditions []string) string {
	terms := make([]string, len(conditions))
	for i, c := range conditions {
		terms[i] = "NOT EXISTS (SELECT FROM " + n.schema.fill("{schema}.") + c + " OFFSET @most::bigint LIMIT 1)"
	}
	return strings.Join(terms, " AND ")
}

// window returns the statement that finds where a window begins; nil: indexes have all that the filter is for, in their order, or it is few.
func (n *filter) window(q *sqltext.Query, few, fewFinished bool) (*sqltext.Query, error) {
	live, finished, followers := n.liveDepth(few), n.finishedDepths(few, fewFinished), n.followersDepth()
	order := "t.id"
	switch {
	case strings.Contains(finished[0], "(t.type,"):
		order = "t.type DESC, t.id"
	case strings.Contains(finished[0], "(t.batch_id,"):
		order = "t.batch_id DESC, t.id"
	}
	other := "t.id"
	if finished[1] == finished[0] {
		other = order
	}
	if live == nothing && finished[0] == nothing && followers == nothing {
		return nil, nil //nolint:nilnil // as documented
	}
	var err error
	for placeholder, text := range map[string]string{
		"{order}": order, "{other}": other, "{live}": live, "{finished}": finished[0], "{or_finished}": finished[1], "{followers}": followers,
	} {
		if q, err = q.Fill(placeholder, text); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// below is the condition that leaves out what a list has been through.
func (n *filter) below(more ...string) string {
	if n.of.Before != 0 {
		more = append(more, "t.id < @before")
	}
	return strings.Join(append(more, "true"), " AND ")
}

// plain reports whether the filter is for no more than a type and states, where these are given, and a batch.
func (n *filter) plain(typ, states bool) bool {
	return (typ || n.of.Type == "") && (states || len(n.of.States) == 0) && n.of.Key == "" && len(n.of.Labels) == 0
}

func (n *filter) liveDepth(few bool) string {
	switch {
	case few, n.live() == nothing, n.only(task.State.Running), n.plain(false, false), n.of.Key != "":
		return nothing
	case n.of.Batch != 0:
		return n.below("t.batch_id = @batch", "t.state IN ('pending', 'retry_pending', 'rollback_pending')")
	}
	return n.below()
}

// finishedDepths are two conditions, which are the same where an index is for one only.
func (n *filter) finishedDepths(fewLive, few bool) [2]string {
	byType, byState := n.below(n.within("t.type", "t.id")), n.below("t.state <> 'succeeded'")
	failed := n.only(hasFailed)
	switch {
	case few, n.finished() == nothing, n.plain(true, false) && n.of.Batch == 0 && fewLive, failed && n.of.Batch != 0 && n.plain(false, true):
		return [2]string{nothing, nothing}
	case n.of.Batch != 0 && failed:
		c := n.below(n.within("t.batch_id", "t.id"), "t.batch_id IS NOT NULL", "t."+failedOnly)
		return [2]string{c, c}
	case n.of.Type != "" && n.only(unsuccessful):
		return [2]string{byType, byState}
	case n.only(unsuccessful):
		return [2]string{byState, byState}
	case n.of.Type != "":
		return [2]string{byType, byType}
	}
	return [2]string{n.below(), n.below()}
}

func (n *filter) followersDepth() string {
	if n.followers() == nothing || n.plain(false, false) || n.of.Type != "" && n.of.Key != "" {
		return nothing
	}
	return n.below()
}

// source is an index that has the live rows of some states. To count what it has takes no look at the rows.
type source struct {
	probe  string // a table, and the condition of the index
	rows   string // what the rows meet that it is for
	order  string // of the index, so that no other is taken
	states []task.State
	typed  bool // it begins with the type
}

// sources have all live rows between them, some twice.
func sources() []source {
	waiting, back := []task.State{task.StatePending, task.StateRetryPending}, []task.State{task.StateRollbackPending}
	of := func(states []task.State, order, condition string) source {
		return source{"task AS t WHERE " + condition, condition, order, states, strings.HasPrefix(order, "t.type")}
	}
	const region = "t.type, coalesce(t.region, '')"
	const pending = "t.state IN ('pending', 'retry_pending')"
	return []source{
		of(waiting, region, pending+" AND t.held IS NULL AND t.tenant IS NULL"),
		of(waiting, region, pending+" AND t.held IS NULL AND t.tenant IS NOT NULL"),
		of(waiting, "t.lock", "t.held = 'lock'"),
		{"task AS t WHERE t.sequence IS NOT NULL", "t.sequence IS NOT NULL AND t.held = 'sequence'", "t.type, t.sequence", waiting, true},
		{"dependent AS t WHERE true", "t.held = 'after' AND t.id IN (SELECT d.task_id FROM {schema}.dependent AS d)", "t.task_id", waiting, false},
		of(back, region, "t.state = 'rollback_pending' AND t.held IS NULL AND t.tenant IS NULL"),
		of(back, region, "t.state = 'rollback_pending' AND t.held IS NULL AND t.tenant IS NOT NULL"),
		of(back, "t.id", "t.state = 'rollback_pending' AND t.held IS NOT NULL"),
		of([]task.State{task.StateRunning, task.StateRollbackRunning}, "t.session", "t.state IN ('running', 'rollback_running')"),
	}
}

// gathered are the sources of the live rows of a type, or of states that few rows have; none: the filter is for others, or has an index.
func (n *filter) gathered() (list []source) {
	rare := n.only(func(s task.State) bool { return s.Running() || s == task.StateRollbackPending || s.Finished() })
	if n.of.Type == "" && !rare || n.only(task.State.Finished) || n.of.Key != "" || n.of.Batch != 0 {
		return nil
	}
	for _, s := range sources() {
		if len(n.of.States) == 0 || slices.ContainsFunc(s.states, func(st task.State) bool { return slices.Contains(n.of.States, st) }) {
			list = append(list, s)
		}
	}
	return list
}

func (n *filter) liveProbes() (list []string) {
	for _, s := range n.gathered() {
		if s.typed && n.of.Type != "" {
			s.probe += " AND t.type = @type"
		}
		list = append(list, s.probe+" ORDER BY "+s.order)
	}
	return list
}

// gather returns the statement for the ids of all live rows that the filter may be for.
func (n *filter) gather() string {
	list := n.gathered()
	parts := make([]string, len(list))
	for i, s := range list {
		parts[i] = "SELECT t.id FROM {schema}.task AS t WHERE " + s.rows
		if n.of.Type != "" {
			parts[i] += " AND t.type = @type"
		}
	}
	return n.schema.fill(strings.Join(parts, " UNION ALL "))
}

// finishedProbes are for rows of a key or a batch, of which the archive has no index in the order of the ids.
func (n *filter) finishedProbes() (list []string) {
	switch {
	case n.finished() == nothing:
	case n.of.Key != "":
		list = append(list, "task_archive AS t WHERE t.key = @key ORDER BY t.key")
	case n.of.Batch != 0 && !n.only(hasFailed):
		list = append(list, "task_archive AS t WHERE t.batch_id = @batch ORDER BY t.batch_id")
	}
	return list
}
