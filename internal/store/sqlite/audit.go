package sqlite

import (
	"context"
	"database/sql"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
)

// ListAudit returns entries of the audit that match, newest first. It does not wait for writers.
func (s *Store) ListAudit(ctx context.Context, f store.AuditFilter) (look store.AuditLook, err error) {
	err = s.view(ctx, "list the audit", func(t *snapshot) error {
		look = store.AuditLook{}
		of, where, args := auditConditions(f)
		edge, err := t.sql.AuditEdge.FillAll("{of}", of)
		if err != nil {
			return err
		}
		list, err := t.sql.Audit.FillAll("{of}", of, "{where}", conjunction(where))
		if err != nil {
			return err
		}
		var n int
		err = t.row([]any{&n, &look.From, timeOf{&look.Oldest}, timeOf{&look.Newest}}, edge, edge.Takes(args...)...)
		if err != nil || n == 0 {
			return err
		}
		err = t.query(scanAudit(&look.Entries), list, list.Takes(append(args, arg("from", look.From))...)...)
		if n < f.Looks() {
			look.From = 0
		}
		return err
	})
	return look, err
}

func scanAudit(into *[]store.AuditEntry) func(*sql.Rows) error {
	return func(r *sql.Rows) error {
		var e store.AuditEntry
		err := r.Scan(&e.ID, timeOf{&e.At}, &e.RequestedBy, &e.Role, &e.Verb, &e.Answer, &e.Reason, &e.Task, &e.Batch, &e.Type,
			&e.Schedule, &e.Chunks, &e.Agent)
		*into = append(*into, e)
		return err
	}
}

// auditConditions returns what says which entries are looked at, what those have to meet that match, and the arguments but for "from".
func auditConditions(f store.AuditFilter) (of string, where []string, args []sqltext.Arg) {
	args = []sqltext.Arg{arg("before", f.Below()), arg("look", f.Looks()), arg("limit", store.PageSize(f.Limit))}
	term := func(text, name string, value any) {
		where, args = append(where, text), append(args, arg(name, value))
	}
	of = "id < @before"
	if f.Batch != 0 {
		of = "batch_id = @batch AND id < @before"
		term("batch_id = @batch", "batch", int64(f.Batch))
	}
	if f.Task != 0 {
		of = "task_id = @task AND id < @before"
		term("task_id = @task", "task", int64(f.Task))
	}
	if f.RequestedBy != "" {
		term("requested_by = @by", "by", f.RequestedBy)
	}
	if f.Verb != "" {
		term("verb = @verb", "verb", f.Verb)
	}
	if f.Type != "" {
		term("type = @type", "type", f.Type)
	}
	if f.Since != nil {
		term("at >= @since", "since", stamp(*f.Since))
	}
	return of, where, args
}
