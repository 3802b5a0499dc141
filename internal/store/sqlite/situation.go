package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// Situation reads a task, and all that decides whether it may start, at one moment.
func (s *Store) Situation(ctx context.Context, id task.ID) (found *store.Situation, err error) {
	err = s.view(ctx, "look at task", func(t *snapshot) error {
		found = &store.Situation{Now: s.now()}
		return t.situation(id, found)
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

func (t *snapshot) situation(id task.ID, found *store.Situation) (err error) {
	if found.Task, err = t.get(id); err != nil {
		return err
	}
	if found.Agents, err = t.agents(found.Now, false); err != nil {
		return err
	}
	if found.Task.State.Finished() || found.Task.Follows != 0 {
		return nil
	}
	if found.Running, err = t.runningTypes(); err != nil {
		return err
	}
	if err := t.circumstances(found); err != nil {
		return err
	}
	if found.Task.State.Running() {
		if err := t.query(func(r *sql.Rows) error {
			found.Holder = &store.SessionHolder{}
			return r.Scan(timeOf{&found.Holder.SeenAt}, timeOf{&found.Holder.Until})
		}, t.sql.HolderSeen, arg("session", int64(found.Task.Session))); err != nil {
			return err
		}
	}
	if found.Task.Sequence != "" {
		if found.Sequence, err = t.sequence(found.Task.Type, found.Task.Sequence); err != nil {
			return err
		}
	}
	found.Ahead, err = t.ahead(found.Task, found.Now)
	return err
}

// runningTypes counts what runs by type: the ten types with the most.
func (t *snapshot) runningTypes() (list []store.TypeCount, err error) {
	const most = 10
	counts := map[string]int64{}
	err = t.query(func(r *sql.Rows) error {
		var typ string
		err := r.Scan(&typ)
		counts[typ]++
		return err
	}, t.sql.RunningTypes)
	for typ, n := range counts {
		list = append(list, store.TypeCount{Type: typ, State: task.StateRunning, N: n})
	}
	slices.SortFunc(list, func(a, b store.TypeCount) int { return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Type, b.Type)) })
	return list[:min(len(list), most)], err
}

// circumstances reads what keeps a task from being claimed.
func (t *snapshot) circumstances(found *store.Situation) error {
	var (
		policy               string
		batch                store.StoppedBatch
		pause                store.TypePause
		lock                 store.LockHolder
		limit                store.LimitUse
		tokens, tenant       store.Bucket
		paused, since, until time.Time
	)
	if err := t.row([]any{
		&policy, &batch.Verb, &batch.By, truthOf{&batch.ByFailure}, timeOf{&paused}, &pause.By, &pause.Reason,
		numberOf[task.ID]{&lock.Task}, textOf[task.State]{&lock.State}, timeOf{&since}, timeOf{&until},
		&limit.Name, &limit.Most, &limit.Rate, &limit.Burst, &limit.Tenant.Most, &limit.Tenant.Rate, &limit.Tenant.Burst,
		&limit.Running, &tokens.Tokens, timeOf{&tokens.At}, &limit.TenantRunning, &tenant.Tokens, timeOf{&tenant.At},
	}, t.sql.Circumstances, arg("id", int64(found.Task.ID)), arg("now", stamp(found.Now))); err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(policy), &found.Policy); err != nil {
		return fmt.Errorf("its policy: %w", err)
	}
	if batch.Verb != "" {
		batch.ID = found.Task.Batch
		found.Batch = &batch
	}
	if !paused.IsZero() {
		pause.Type, pause.At = found.Task.Type, paused
		found.Pause = &pause
	}
	if found.Task.Lock != "" {
		lock.Since, lock.Until = pointer(since), pointer(until)
		found.Lock = &lock
	}
	if limit.Name != "" {
		limit.Type = found.Task.Type
		limit.Rates(tokens, tenant, 0, found.Now)
		found.Limit = &limit
	}
	return nil
}

// sequence returns a sequence as operators see it; nil where it has no rows.
func (t *snapshot) sequence(typ, name string) (found *store.SequenceInfo, err error) {
	var list []store.SequenceInfo
	if err := t.sql.showSequence(t, typ, name, store.CountedRows, &list); err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

// ahead counts what comes before a task that waits, store.MostAhead + 1 at most.
func (t *snapshot) ahead(info *store.TaskInfo, now time.Time) (n int, err error) {
	most := arg("most", store.MostAhead+1)
	var q *sqltext.Query
	var args []sqltext.Arg
	switch {
	case !info.State.Waiting(), info.Held == task.HoldAfter:
		return 0, nil
	case info.Held == task.HoldLock:
		q, args = t.sql.WaitingForLock, []sqltext.Arg{arg("lock", info.Lock), most}
	case info.Held == task.HoldSequence:
		q = t.sql.AheadInSequence
		args = []sqltext.Arg{arg("type", info.Type), arg("sequence", info.Sequence), arg("id", int64(info.ID)), most}
	default:
		if q, err = t.sql.ahead(info); err != nil {
			return 0, err
		}
		region := info.Region
		if info.Spilled {
			region = "" // it has none any more
		}
		args = []sqltext.Arg{
			arg("type", info.Type), arg("region", region), arg("priority", info.Priority), arg("run_at", stamp(info.RunAt)),
			arg("id", int64(info.ID)), arg("now", stamp(now)), most,
		}
		if info.Tenant != "" {
			args = append(args, arg("tenant", info.Tenant))
		}
	}
	err = t.row([]any{&n}, q, args...)
	return n, err
}

// ahead returns the statement of that name for a task of that class.
func (q *statements) ahead(i *store.TaskInfo) (*sqltext.Query, error) {
	class, index := "task.state IN ('pending', 'retry_pending') AND task.held IS NULL", "due"
	if i.State.Phase() == task.Rollback {
		class, index = "task.state = 'rollback_pending' AND task.held IS NULL", "rollback"
	}
	switch {
	case i.Tenant == "":
		class += " AND task.tenant IS NULL"
	case index == "due":
		class, index = class+" AND task.tenant IS NOT NULL AND task.tenant = @tenant", "tenant"
	default:
		class, index = class+" AND task.tenant IS NOT NULL AND task.tenant = @tenant", "tenant_rollback"
	}
	f, err := q.Ahead.Fill("{where}", class)
	if err != nil {
		return nil, err
	}
	return f.Fill("{index}", "INDEXED BY task_"+index)
}
