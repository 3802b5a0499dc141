package sqlite

import (
	"database/sql"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// rejectTooLarge archives due rows of a want, of one region, tenant and priority that no agent can run, at most 100 of them, without reading their
// documents. It returns how many.
func (t *tx) rejectTooLarge(w *store.Want, region, tenant string, priority int, now string) (int, error) {
	list, end := t.sql.TooLargeDue, task.StateFailed
	if w.Phase == task.Rollback {
		list, end = t.sql.TooLargeRollback, task.StateRollbackFailed
	}
	args := []sqltext.Arg{arg("type", w.Type), arg("priority", priority), arg("now", now), arg("region", region)}
	if tenant != "" {
		args = append(args, arg("tenant", tenant))
		list = t.sql.TooLargeTenantRollback
		if w.Phase != task.Rollback {
			list, args = t.sql.TooLargeTenantDue, append(args, arg("look_past", lookPast))
		}
	}
	reasons := map[int64]string{}
	err := t.query(func(r *sql.Rows) error {
		var id, payload, rollback, result, checkpoint int64
		if err := r.Scan(&id, &payload, &rollback, &result, &checkpoint); err != nil {
			return err
		}
		for _, d := range []struct {
			what  string
			bytes int64
		}{{"checkpoint", checkpoint}, {"result", result}, {"rollback payload", rollback}, {"payload", payload}} {
			if d.bytes > store.MaxMaxPayload {
				reasons[id] = store.Unfit(d.what, d.bytes) + "; it was not kept"
			}
		}
		return nil
	}, list, args...)
	if err != nil {
		return 0, err
	}
	rejected := make([]*store.Settlement, 0, len(reasons))
	for id := range reasons {
		rejected = append(rejected, &store.Settlement{ID: task.ID(id), Phase: w.Phase, Next: task.Transition{State: end}, Silent: true})
	}
	if err := t.tally(rejected); err != nil {
		return 0, err
	}
	for id, reason := range reasons {
		if _, err := t.exec(t.sql.Reject, arg("state", string(end)), arg("error", reason), arg("now", now), arg("id", id),
			arg("policy", int64(w.Policy))); err != nil {
			return 0, err
		}
	}
	return len(reasons), nil
}
