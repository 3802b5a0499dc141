package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
)

// ListAudit returns entries of the audit that match, newest first.
func (s *Store) ListAudit(ctx context.Context, f store.AuditFilter) (look store.AuditLook, err error) {
	edge, list, args, err := s.auditQueries(f)
	if err != nil {
		return look, fmt.Errorf("list the audit: %w", err)
	}
	err = s.do(ctx, "list the audit", func(ctx context.Context, conn *pgx.Conn) error {
		// One snapshot: so both look at the same entries.
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
			look = store.AuditLook{}
			var n int
			var oldest, newest *time.Time
			if err := queryRow(ctx, tx.Conn(), edge, edge.Takes(args...)...).Scan(&n, &look.From, &oldest, &newest); err != nil || n == 0 {
				return err
			}
			look.Oldest, look.Newest = oldest.UTC(), newest.UTC()
			if n < f.Looks() {
				look.From = 0
			}
			rows, err := query(ctx, tx.Conn(), list, list.Takes(args...)...)
			if err != nil {
				return err
			}
			look.Entries, err = pgx.CollectRows(rows, scanAudit)
			return err
		})
	})
	return look, err
}

func scanAudit(row pgx.CollectableRow) (e store.AuditEntry, err error) {
	err = row.Scan(&e.ID, &e.At, &e.RequestedBy, &e.Role, &e.Verb, &e.Answer, &e.Reason, (*int64)(&e.Task), (*int64)(&e.Batch), &e.Type, &e.Schedule,
		&e.Chunks, (*int64)(&e.Agent))
	e.At = e.At.UTC()
	return e, err
}

// auditQueries returns the statements of a ListAudit, and their arguments.
func (s *Store) auditQueries(f store.AuditFilter) (edge, list *sqltext.Query, args []sqltext.Arg, err error) {
	args = []sqltext.Arg{arg("before", f.Below()), arg("look", f.Looks()), arg("limit", store.PageSize(f.Limit))}
	of, order, where := "a.id < @before", "a.id DESC", "true"
	// The comparison of rows and the order are put so that only the index of the column fits; it is read backwards, up to the limit.
	by := func(column, name string, value int64) {
		args = append(args, arg(name, value))
		of = fmt.Sprintf("a.%[1]s >= @%[2]s AND (a.%[1]s, a.id) < (@%[2]s, @before) AND a.%[1]s IS NOT NULL", column, name)
		order = fmt.Sprintf("a.%s DESC, a.id DESC", column)
	}
	term := func(text, name string, value any) {
		where, args = where+" AND "+text, append(args, arg(name, value))
	}
	switch {
	case f.Task != 0:
		by("task_id", "task", int64(f.Task))
		if f.Batch != 0 {
			term("a.batch_id + 0 = @batch", "batch", int64(f.Batch))
		}
	case f.Batch != 0:
		by("batch_id", "batch", int64(f.Batch))
	}
	if f.RequestedBy != "" {
		term("a.requested_by = @by", "by", storable(f.RequestedBy))
	}
	if f.Verb != "" {
		term("a.verb = @verb", "verb", storable(f.Verb))
	}
	if f.Type != "" {
		term("a.type = @type", "type", storable(f.Type))
	}
	if f.Since != nil {
		term("a.at >= @since", "since", *f.Since)
	}
	if edge, err = s.sql.AuditEdge.FillAll("{of}", of, "{order}", order); err != nil {
		return nil, nil, nil, err
	}
	list, err = s.sql.Audit.FillAll("{of}", of, "{order}", order, "{where}", where)
	return edge, list, args, err
}
