package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// renew moves the end of one lease. It returns how many rows that changed: 0 where the lease is lost.
func (t *tx) renew(s task.Session, r *store.Renewal) (int64, error) {
	least, most := r.Bounds()
	from, to := stamp(t.now.Add(least)), stamp(t.now.Add(most))
	if r.Report.Empty() && !r.Detach && r.Marks == nil {
		return t.exec(t.sql.Renew, arg("least", from), arg("most", to),
			arg("id", int64(r.ID)), arg("fence", int64(r.Fence)), arg("session", int64(s)))
	}
	var marks json.RawMessage
	if r.Marks != nil {
		all, err := t.marks(r.ID, r.Fence)
		if errors.Is(err, sql.ErrNoRows) {
			return 0, nil
		}
		if err != nil {
			return 0, err
		}
		all.Merge(*r.Marks)
		marks = all.JSON()
	}
	return t.exec(t.sql.RenewWithProgress, arg("least", from), arg("most", to), arg("progress", jsonText(r.Progress)),
		arg("message", null(r.Message)), arg("checkpoint", jsonText(r.Checkpoint)), arg("detach", r.Detach),
		arg("marks", jsonText(marks)), arg("id", int64(r.ID)), arg("fence", int64(r.Fence)), arg("session", int64(s)))
}

// Renew moves lease ends. It never answers Busy: rows of this store cannot be locked.
func (s *Store) Renew(ctx context.Context, session task.Session, rows []store.Renewal) ([]store.Answer, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	answers := make([]store.Answer, len(rows))
	err := s.keep(ctx, "renew leases", func(t *tx) error {
		for i := range rows {
			n, err := t.renew(session, &rows[i])
			if err != nil {
				return fmt.Errorf("task %d: %w", rows[i].ID, err)
			}
			if n == 1 {
				answers[i] = store.Applied
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return answers, nil
}
