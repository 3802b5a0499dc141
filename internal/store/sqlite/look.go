package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// Get returns a task, live or finished, with its history; store.ErrNoTask where there is none.
func (s *Store) Get(ctx context.Context, id task.ID) (info *store.TaskInfo, err error) {
	err = s.view(ctx, "get task", func(t *snapshot) error {
		info, err = t.get(id)
		return err
	})
	if err != nil {
		return nil, err
	}
	return info, nil
}

func (t *snapshot) get(id task.ID) (*store.TaskInfo, error) {
	var found []store.TaskInfo
	if err := t.query(scanInfos(&found), t.sql.Get, arg("id", int64(id))); err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%d: %w", id, store.ErrNoTask)
	}
	info := &found[0]
	var err error
	if info.History, err = t.history(id); err != nil {
		return nil, err
	}
	if err := t.row([]any{&info.FollowedBy}, t.sql.FollowedBy, arg("id", int64(id))); err != nil {
		return nil, err
	}
	info.Related, err = t.related(id, info.Batch)
	return info, err
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

// scanInfos gathers the rows of the statements get, list_live, list_finished and list_followers.
func scanInfos(into *[]store.TaskInfo) func(*sql.Rows) error {
	return func(rows *sql.Rows) error {
		var r record
		var finished, asked time.Time
		var i store.TaskInfo
		if err := rows.Scan(append(r.fields(), timeOf{&finished}, textOf[string]{&i.Output}, truthOf{&i.Detached},
			jsonOf{&i.Progress}, textOf[string]{&i.Message}, timeOf{&asked}, textOf[string]{&i.CancelRequestedBy},
			textOf[task.Hold]{&i.Held}, numberOf[task.Session]{&i.Session}, &i.Agent, &i.Follows, &i.FailedTask)...); err != nil {
			return err
		}
		k := r.complete()
		for _, doc := range []*json.RawMessage{&k.Payload, &k.Labels, &k.Result, &k.Checkpoint, &k.RollbackPayload, &i.Progress} {
			i.NotJSON = i.NotJSON || len(*doc) > 0 && !json.Valid(*doc)
			*doc = showable(*doc)
		}
		*into = append(*into, store.TaskInfo{
			ID: k.ID, Type: k.Type, State: k.State, Priority: k.Priority, Region: k.Region, Spilled: k.Spilled, Key: k.Key,
			Labels: k.Labels, Payload: k.Payload, Result: k.Result, Error: r.err, Outcome: r.outcome,
			Attempt: k.Attempt, MaxAttempts: k.MaxAttempts, Deferrals: k.Deferrals, EverStarted: k.EverStarted, Fence: k.Fence,
			Session: i.Session, Agent: i.Agent, CreatedBy: k.CreatedBy, Traceparent: k.Traceparent,
			CreatedAt: k.CreatedAt, RunAt: k.RunAt, ClaimedAt: pointer(k.ClaimedAt), LeaseEnd: pointer(k.LeaseEnd),
			Deadline: pointer(k.Deadline), FinishedAt: pointer(finished), Output: i.Output,
			Progress: i.Progress, Message: i.Message, Checkpoint: k.Checkpoint, CancelRequested: pointer(asked),
			CancelRequestedBy: i.CancelRequestedBy, Detached: i.Detached,
			Batch: k.Batch, Lock: k.Lock, Sequence: k.Sequence, Tenant: k.Tenant, Held: i.Held,
			Round: k.Round, RollbackPayload: k.RollbackPayload, Cause: k.Cause,
			Follows: i.Follows, FailedTask: i.FailedTask, NotJSON: i.NotJSON,
		})
		return nil
	}
}

func (t *snapshot) history(id task.ID) (list []store.AttemptInfo, err error) {
	err = t.query(func(r *sql.Rows) error {
		var a store.AttemptInfo
		var started time.Time
		if err := r.Scan(&a.Fence, &a.Session, &a.Policy, &a.Phase, &a.Attempt, &a.Outcome, &a.Error, &a.Output, jsonOf{&a.Result}, &a.State,
			timeOf{&started}, timeOf{&a.EndedAt}, &a.Agent, &a.ReapedSession, &a.ReapedBy); err != nil {
			return err
		}
		a.StartedAt = pointer(started)
		list = append(list, a)
		return nil
	}, t.sql.History, arg("id", int64(id)))
	return list, err
}

// counting is a statement that counts the live rows of each type in some states, in their order.
type counting struct {
	query  *sqltext.Query
	due    bool // its rows can be due
	states []task.State
}

func (q *statements) countings() []counting {
	return []counting{
		{q.CountDue, true, []task.State{task.StatePending, task.StateRetryPending}},
		{q.CountRollback, true, []task.State{task.StateRollbackPending}},
		{q.CountTenantDue, true, []task.State{task.StatePending, task.StateRetryPending}},
		{q.CountTenantRollback, true, []task.State{task.StateRollbackPending}},
		{q.CountHeld, false, []task.State{task.StatePending, task.StateRetryPending, task.StateRollbackPending}},
		{q.CountTurns, false, []task.State{task.StatePending, task.StateRetryPending, task.StateRollbackPending}},
		{q.CountAfter, false, []task.State{task.StatePending, task.StateRetryPending}},
		{q.CountRunning, false, []task.State{task.StateRunning, task.StateRollbackRunning}},
	}
}

// Stats counts what waits and runs.
func (s *Store) Stats(ctx context.Context) (store.Stats, error) {
	st := store.Stats{Due: map[string]int64{}, OldestDue: map[string]time.Duration{}, Orphans: map[string]int64{}}
	err := s.view(ctx, "count tasks", func(t *snapshot) error {
		now := s.now()
		declared, err := t.declaredTypes(now, &st)
		if err != nil {
			return err
		}
		for _, c := range t.sql.countings() {
			if err := c.add(t, &st, declared, now); err != nil {
				return err
			}
		}
		st.BatchTasks, err = t.batchTasks()
		return err
	})
	return st, err
}

// add runs the counting and adds what it finds to the statistics.
func (c *counting) add(t *snapshot, st *store.Stats, declared map[string]bool, now time.Time) error {
	var args []sqltext.Arg
	if c.due {
		args = []sqltext.Arg{arg("now", stamp(now))}
	}
	return t.query(func(r *sql.Rows) error {
		var name string
		var oldest time.Time
		var due int64
		counts := make([]int64, len(c.states))
		dest := []any{&name, timeOf{&oldest}, &due}
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
			addCount(st, store.TypeCount{Type: name, State: c.states[i], N: n})
			if c.states[i].Waiting() && !declared[name] {
				st.Orphans[name] += n
			}
		}
		if due > 0 {
			st.Due[name] += due
			st.OldestDue[name] = max(st.OldestDue[name], now.Sub(oldest))
		}
		return nil
	}, c.query, args...)
}

// addCount adds rows to the count of their type and state: those that wait for their lock are counted apart.
func addCount(st *store.Stats, c store.TypeCount) {
	for i := range st.Waiting {
		if w := &st.Waiting[i]; w.Type == c.Type && w.State == c.State {
			w.N += c.N
			return
		}
	}
	st.Waiting = append(st.Waiting, c)
}

// declaredTypes gathers the types of the agents that are present, and counts these. An observer (no workers) claims
// nothing, so it is none of them.
func (t *snapshot) declaredTypes(now time.Time, st *store.Stats) (map[string]bool, error) {
	declared := map[string]bool{}
	err := t.query(func(r *sql.Rows) error {
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
	}, t.sql.DeclaredTypes, arg("now", stamp(now)))
	return declared, err
}
