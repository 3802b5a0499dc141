package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/task"
)

// Get returns a task, live or finished, with its history; ops.ErrNoTask where there is none.
func (s *Store) Get(ctx context.Context, id task.ID) (info *ops.Info, err error) {
	err = s.view(ctx, "get task", func(t *sql.Tx) error {
		var found []ops.Info
		err := scanInfos(ctx, t, &found, "SELECT "+columns+", finished_at, output, detached, "+
			notes+", "+agentName("tasks")+" FROM tasks WHERE id = ?", int64(id))
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return fmt.Errorf("%d: %w", id, ops.ErrNoTask)
		}
		info = &found[0]
		info.History, err = history(ctx, t, id)
		return err
	})
	if err != nil {
		return nil, err
	}
	return info, nil
}

// showable is a document as it can be shown with others: what is no JSON, which an application may have written in spite of
// the checks, as its text; "null" for one that was too large to be kept.
func showable(doc json.RawMessage) json.RawMessage {
	switch {
	case doc == nil, len(doc) > 0 && json.Valid(doc):
		return doc
	case len(doc) == 0:
		return json.RawMessage("null")
	}
	quoted, err := json.Marshal(string(doc))
	if err != nil {
		return json.RawMessage("null")
	}
	return quoted
}

// agentName reads the name of the agent of a row's session, while that is known.
func agentName(table string) string {
	return "ifnull((SELECT name FROM agent WHERE session = " + table + ".session), '')"
}

// notes are the columns of what a task has said of itself beside its checkpoint, and of what was asked of it.
const notes = "progress, message, cancel_asked, cancel_by"

// scanInfos appends the rows of a query for columns, finished_at, output, detached, notes and the agent's name.
func scanInfos(ctx context.Context, t *sql.Tx, into *[]ops.Info, text string, args ...any) error {
	rows, err := t.QueryContext(ctx, text, args...)
	if err != nil {
		return err
	}
	return eachRow(rows, func(rows *sql.Rows) error {
		var r record
		var finished, asked time.Time
		var i ops.Info
		if err := rows.Scan(append(r.fields(), timeOf{&finished}, textOf[string]{&i.Output}, truthOf{&i.Detached},
			jsonOf{&i.Progress}, textOf[string]{&i.Message}, timeOf{&asked}, textOf[string]{&i.CancelBy}, &i.Agent)...); err != nil {
			return err
		}
		k := r.complete()
		for _, doc := range []*json.RawMessage{&k.Payload, &k.Labels, &k.Result, &k.Checkpoint, &k.RollbackPayload, &i.Progress} {
			*doc = showable(*doc)
		}
		*into = append(*into, ops.Info{
			ID: k.ID, Type: k.Type, State: k.State, Priority: k.Priority, Region: k.Region, Key: k.Key,
			Labels: k.Labels, Payload: k.Payload, Result: k.Result, Error: r.err, Outcome: r.outcome,
			Attempt: k.Attempt, MaxAttempts: k.MaxAttempts, Deferrals: k.Deferrals, EverStarted: k.EverStarted, Fence: k.Fence,
			Session: r.session, Agent: i.Agent, CreatedBy: k.CreatedBy, Traceparent: k.Traceparent,
			CreatedAt: k.CreatedAt, RunAt: k.RunAt, ClaimedAt: pointer(k.ClaimedAt), LeaseEnd: pointer(k.LeaseEnd),
			Deadline: pointer(k.Deadline), FinishedAt: pointer(finished), Output: i.Output,
			Progress: i.Progress, Message: i.Message, Checkpoint: k.Checkpoint, CancelAsked: pointer(asked),
			CancelBy: i.CancelBy, Detached: i.Detached,
			Batch: k.Batch, Round: k.Round, RollbackPayload: k.RollbackPayload, Cause: k.Cause,
		})
		return nil
	})
}

func history(ctx context.Context, t *sql.Tx, id task.ID) (list []ops.Attempt, err error) {
	rows, err := t.QueryContext(ctx, `
		SELECT ran_fence, session, phase, attempt, outcome, ifnull(error, ''), ifnull(output, ''), result, state,
			started_at, ended_at
		FROM attempt WHERE task_id = ? ORDER BY fence`, int64(id))
	if err != nil {
		return nil, err
	}
	err = eachRow(rows, func(r *sql.Rows) error {
		var a ops.Attempt
		var started time.Time
		if err := r.Scan(&a.Fence, &a.Session, &a.Phase, &a.Attempt, &a.Outcome, &a.Error, &a.Output, jsonOf{&a.Result}, &a.State,
			timeOf{&started}, timeOf{&a.EndedAt}); err != nil {
			return err
		}
		a.StartedAt = pointer(started)
		list = append(list, a)
		return nil
	})
	return list, err
}

// List returns tasks that match, newest first.
func (s *Store) List(ctx context.Context, f ops.Filter) (list []ops.Info, err error) {
	limit := f.Limit
	if limit <= 0 {
		limit = 50
	}
	limit = min(limit, 1000)
	err = s.view(ctx, "list tasks", func(t *sql.Tx) error {
		for _, table := range []string{"task", "task_archive"} {
			text, args, err := listQuery(table, f)
			if err != nil {
				return err
			}
			if err := scanInfos(ctx, t, &list, text, append(args, limit)...); err != nil {
				return err
			}
		}
		return nil
	})
	slices.SortFunc(list, func(a, b ops.Info) int { return cmp.Compare(b.ID, a.ID) })
	return list[:min(limit, len(list))], err
}

// listQuery reads the rows of one table that match, newest first; its last parameter is how many.
func listQuery(table string, f ops.Filter) (text string, args []any, err error) {
	where, args, err := conditions(f)
	if err != nil {
		return "", nil, err
	}
	from, finished, detached := table, "NULL", "ifnull(detached, 0)"
	if table == "task_archive" {
		finished, detached = "finished_at", "0"
		if index := unwell(f); index != "" {
			from += " INDEXED BY " + index
			where += " AND state <> 'succeeded'"
		}
	}
	return "SELECT " + columns + ", " + finished + ", NULL, " + detached + ", " + notes + ", " + agentName(table) + " FROM " + from + where +
		" ORDER BY id DESC LIMIT ?", args, nil
}

// unwell names the index that has just the finished rows that did not succeed, where a filter asks for such; "" where
// another serves better.
func unwell(f ops.Filter) string {
	switch {
	case f.Key != "" || len(f.States) == 0 || slices.Contains(f.States, task.StateSucceeded):
		return ""
	case f.Batch != 0:
		return "task_archive_batch_unwell"
	case f.Type != "":
		return ""
	}
	return "task_archive_unwell"
}

// conditions writes a filter as SQL.
func conditions(f ops.Filter) (where string, args []any, err error) {
	var all []string
	add := func(condition string, values ...any) {
		all, args = append(all, condition), append(args, values...)
	}
	if f.Type != "" {
		add("type = ?", f.Type)
	}
	if f.Key != "" {
		add("key = ?", f.Key)
	}
	if f.Batch != 0 {
		add("batch_id = ?", int64(f.Batch))
	}
	if f.Before != 0 {
		add("id < ?", int64(f.Before))
	}
	if len(f.States) > 0 {
		states, err := json.Marshal(f.States)
		if err != nil {
			return "", nil, fmt.Errorf("encode states: %w", err)
		}
		add("state IN (SELECT value FROM json_each(?))", string(states))
	}
	for name, value := range f.Labels {
		add("EXISTS (SELECT 1 FROM json_each(labels) AS label WHERE label.key = ? AND label.value = ?)", name, value)
	}
	if len(all) == 0 {
		return "", nil, nil
	}
	return " WHERE " + strings.Join(all, " AND "), args, nil
}

// counting counts the rows of each type in some states. The counts are read from one index alone, and in its order, so
// payloads cost them nothing and nothing is sorted.
type counting struct {
	text   string
	states []task.State
}

func countings() []counting {
	count := func(from string, states ...task.State) counting {
		counts := make([]string, len(states))
		for i, state := range states {
			counts[i] = "count(*) FILTER (WHERE state = '" + string(state) + "')"
		}
		text := "SELECT type, min(run_at), " + strings.Join(counts, ", ") + " FROM " + from + " GROUP BY type"
		return counting{text, states}
	}
	return []counting{
		count(due, task.StatePending, task.StateRetryPending),
		count(undo, task.StateRollbackPending),
		count("task INDEXED BY task_running WHERE "+running, task.StateRunning, task.StateRollbackRunning),
	}
}

// Stats counts what waits and runs.
func (s *Store) Stats(ctx context.Context) (ops.Stats, error) {
	st := ops.Stats{OldestDue: map[string]time.Duration{}, Orphans: map[string]int64{}}
	err := s.view(ctx, "count tasks", func(t *sql.Tx) error {
		now := s.now()
		declared, err := declaredTypes(ctx, t, now, &st)
		if err != nil {
			return err
		}
		for _, c := range countings() {
			if err := c.add(ctx, t, &st, declared, now); err != nil {
				return err
			}
		}
		if st.BatchTasks, err = batchTasks(ctx, t); err != nil {
			return err
		}
		return t.QueryRowContext(ctx, "SELECT count(*) FROM task_archive").Scan(&st.Archived)
	})
	return st, err
}

// add runs the counting and adds what it finds to the statistics.
func (c *counting) add(ctx context.Context, t *sql.Tx, st *ops.Stats, declared map[string]bool, now time.Time) error {
	rows, err := t.QueryContext(ctx, c.text)
	if err != nil {
		return err
	}
	return eachRow(rows, func(r *sql.Rows) error {
		var name string
		var oldest time.Time
		counts := make([]int64, len(c.states))
		dest := []any{&name, timeOf{&oldest}}
		for i := range counts {
			dest = append(dest, &counts[i])
		}
		if err := r.Scan(dest...); err != nil {
			return err
		}
		for i, n := range counts {
			if n == 0 {
				continue
			}
			st.Waiting = append(st.Waiting, ops.TypeCount{Type: name, State: c.states[i], N: n})
			if c.states[i].Waiting() && !declared[name] {
				st.Orphans[name] += n
			}
		}
		if ago := now.Sub(oldest); c.states[0].Waiting() && ago >= 0 {
			st.OldestDue[name] = max(st.OldestDue[name], ago)
		}
		return nil
	})
}

// declaredTypes gathers the types of the agents that are present, and counts these. An observer (no workers) claims
// nothing, so it is none of them.
func declaredTypes(ctx context.Context, t *sql.Tx, now time.Time, st *ops.Stats) (map[string]bool, error) {
	rows, err := t.QueryContext(ctx, "SELECT types FROM agent WHERE present_until > ? AND workers > 0", stamp(now))
	if err != nil {
		return nil, err
	}
	declared := map[string]bool{}
	err = eachRow(rows, func(r *sql.Rows) error {
		var text []byte
		var types []string
		if err := r.Scan(&text); err != nil {
			return err
		}
		if err := json.Unmarshal(text, &types); err != nil {
			return fmt.Errorf("an agent's types: %w", err)
		}
		st.AgentsPresent++
		for _, name := range types {
			declared[name] = true
		}
		return nil
	})
	return declared, err
}
