package sqlite

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// List returns tasks that match, newest first.
func (s *Store) List(ctx context.Context, f store.TaskFilter) (found []store.TaskInfo, err error) {
	limit := store.PageSize(f.Limit)
	err = s.view(ctx, "list tasks", func(t *snapshot) error {
		var few []task.ID
		if f.Window.Few {
			if few, err = t.gather(f); err != nil {
				return err
			}
		}
		for _, list := range []*sqltext.Query{t.sql.ListLive, t.sql.ListFinished, t.sql.ListFollowers} {
			if !t.sql.mayHave(list, f) {
				continue
			}
			q, args, err := t.sql.listQuery(list, f, few)
			if err != nil {
				return err
			}
			if err := t.query(scanInfos(&found), q, append(args, arg("limit", limit))...); err != nil {
				return err
			}
		}
		return nil
	})
	slices.SortFunc(found, func(a, b store.TaskInfo) int { return cmp.Compare(b.ID, a.ID) })
	return found[:min(limit, len(found))], err
}

// mayHave reports whether a table has rows of the states that a filter is for.
func (q *statements) mayHave(list *sqltext.Query, f store.TaskFilter) bool {
	switch {
	case len(f.States) == 0:
		return true
	case list == q.ListLive:
		return slices.ContainsFunc(f.States, task.State.Live)
	case list == q.ListFinished:
		return slices.ContainsFunc(f.States, task.State.Finished)
	}
	return slices.Contains(f.States, task.StatePending)
}

// listQuery returns one of the statements that read the tasks that match, newest first, and its arguments but for the limit. few are the
// live ones among which they are, where the window says that there are few.
func (q *statements) listQuery(list *sqltext.Query, f store.TaskFilter, few []task.ID) (*sqltext.Query, []sqltext.Arg, error) {
	where, args := conditions(f)
	switch {
	case list == q.ListLive && f.Window.Few:
		where, args = append(where, "id IN (SELECT value FROM json_each(@ids))"), append(args, arg("ids", jsonList(few)))
	case list == q.ListLive && f.Key != "" && f.Type == "":
		where = append(where, keyedTypes) // the index of keys begins with the type
	case list == q.ListLive && f.Batch != 0 && len(f.States) == 0:
		where = append(where, liveOfBatch) // the index of batches has rows of one state in the order of their ids
	case list == q.ListFinished:
		index := unsuccessful(f)
		if index != "" {
			index = "INDEXED BY " + index
			where = append(where, "state <> 'succeeded'")
		}
		var err error
		if list, err = list.Fill("{index}", index); err != nil {
			return nil, nil, err
		}
	}
	list, err := list.Fill("{where}", conjunction(where))
	return list, args, err
}

// keyedTypes finds the types of the live rows with keys one after another. It is one line, as it also gets into the statement's comment.
const keyedTypes = "type IN (WITH RECURSIVE keyed (type) AS (" +
	"SELECT (SELECT min(type) FROM task INDEXED BY task_key WHERE key IS NOT NULL) UNION ALL " +
	"SELECT (SELECT min(type) FROM task INDEXED BY task_key WHERE key IS NOT NULL AND type > keyed.type) FROM keyed " +
	"WHERE keyed.type IS NOT NULL) SELECT type FROM keyed WHERE type IS NOT NULL)"

const liveOfBatch = "state IN ('pending', 'running', 'retry_pending', 'rollback_pending', 'rollback_running')"

// conjunction returns the condition that all of the conditions are met.
func conjunction(conditions []string) string {
	if len(conditions) == 0 {
		return "true"
	}
	return strings.Join(conditions, " AND ")
}

// unsuccessful returns the index that has only the finished rows that did not succeed, where a filter is for such; "" where
// another serves better. The planner cannot know that nearly all rows succeed.
func unsuccessful(f store.TaskFilter) string {
	switch {
	case f.Key != "" || len(f.States) == 0 || slices.Contains(f.States, task.StateSucceeded):
		return ""
	case f.Batch != 0:
		return "task_archive_batch_unsuccessful"
	case f.Type != "" && f.Window.ByType:
		return ""
	}
	return "task_archive_unsuccessful"
}

// conditions returns a filter as SQL, and its arguments.
func conditions(f store.TaskFilter) (all []string, args []sqltext.Arg) {
	add := func(condition string, values ...sqltext.Arg) {
		all, args = append(all, condition), append(args, values...)
	}
	if f.Type != "" {
		add("type = @type", arg("type", f.Type))
	}
	if f.Key != "" {
		add("key = @key", arg("key", f.Key))
	}
	if f.Batch != 0 {
		add("batch_id = @batch", arg("batch", int64(f.Batch)))
	}
	if f.Before != 0 {
		add("id < @before", arg("before", int64(f.Before)))
	}
	if f.Window.From != 0 {
		add("id >= @from", arg("from", int64(f.Window.From)))
	}
	if len(f.States) > 0 {
		add("state IN (SELECT value FROM json_each(@states))", arg("states", jsonList(f.States)))
	}
	for name, value := range f.Labels {
		n := strconv.Itoa(len(args))
		add("EXISTS (SELECT 1 FROM json_each(labels) AS label WHERE label.key = @label"+n+" AND label.value = @value"+n+")",
			arg("label"+n, name), arg("value"+n, value))
	}
	return all, args
}
