package sqlite

import (
	"database/sql"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// rejectTooLarge archives due rows of one type and priority that no agent can run, at most 100 of them, without reading their
// documents.
func (t *tx) rejectTooLarge(p task.Phase, typ, region string, priority int, now string) error {
	list := t.sql.TooLargeDue
	if p == task.Rollback {
		list = t.sql.TooLargeRollback
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
	}, list, arg("type", typ), arg("priority", priority), arg("now", now), arg("region", region))
	if err != nil {
		return err
	}
	for id, reason := range reasons {
		if _, err := t.exec(t.sql.Reject, arg("error", reason), arg("now", now), arg("id", id)); err != nil {
			return err
		}
		if _, err := t.exec(t.sql.CountRejected, arg("id", id)); err != nil {
			return err
		}
		if _, err := t.exec(t.sql.DeleteRejected, arg("id", id)); err != nil {
			return err
		}
	}
	return nil
}
