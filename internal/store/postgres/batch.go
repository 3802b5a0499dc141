package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// GetBatch returns a batch.
func (s *Store) GetBatch(ctx context.Context, id task.BatchID) (*store.BatchInfo, error) {
	var found []store.BatchInfo
	err := s.do(ctx, fmt.Sprintf("get batch %d", id), func(ctx context.Context, conn *pgx.Conn) (err error) {
		found, err = s.batches(ctx, conn, "b.id = @id", arg("limit", 1), arg("id", int64(id)))
		if err == nil && len(found) == 0 {
			err = store.ErrNoBatch
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return &found[0], nil
}

// ListBatches returns batches that match, newest first.
func (s *Store) ListBatches(ctx context.Context, f store.BatchFilter) (list []store.BatchInfo, err error) {
	terms, args := []string{"true"}, []sqltext.Arg{arg("limit", store.PageSize(f.Limit))}
	term := func(text, name string, value any) {
		terms, args = append(terms, text), append(args, arg(name, value))
	}
	if f.Before != 0 {
		term("b.id < @before", "before", int64(f.Before))
	}
	if f.Name != "" {
		term("b.name = @name", "name", f.Name)
	}
	if len(f.States) > 0 {
		term("b.state = ANY (@states::text[])", "states", texts(f.States))
	}
	err = s.do(ctx, "list batches", func(ctx context.Context, conn *pgx.Conn) (err error) {
		list, err = s.batches(ctx, conn, strings.Join(terms, " AND "), args...)
		return err
	})
	return list, err
}

func (s *Store) batches(ctx context.Context, conn *pgx.Conn, where string, args ...sqltext.Arg) ([]store.BatchInfo, error) {
	q, err := s.sql.Batches.Fill("{where}", where)
	if err != nil {
		return nil, err
	}
	rows, err := query(ctx, conn, q, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (b store.BatchInfo, err error) {
		err = row.Scan((*int64)(&b.ID), &b.Name, (*string)(&b.State), (*string)(&b.OnFailure), &b.Sealed, &b.Stopping, &b.Round,
			&b.Total, &b.Live, &b.Waiting, &b.Running, &b.RollingBack, &b.Succeeded, &b.Failed, &b.Cancelled, &b.RolledBack,
			&b.RollbackFailed, &b.Failures, &b.Progress, &b.FinishType, (*[]byte)(&b.Labels), &b.CreatedBy, &b.CreatedAt, &b.EndedAt,
			&b.Operation, &b.RequestedBy, &b.Refused)
		return b, err
	})
}

// BatchFailures calls each with the rows of a batch that went wrong, newest first, and the first 1,024 characters of their
// errors.
func (s *Store) BatchFailures(ctx context.Context, id task.BatchID, each func(task.ID, string)) error {
	return s.do(ctx, fmt.Sprintf("failures of batch %d", id), func(ctx context.Context, conn *pgx.Conn) error {
		var there int64
		err := queryRow(ctx, conn, s.sql.IsBatch, arg("id", int64(id))).Scan(&there)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return store.ErrNoBatch
		case err != nil:
			return err
		}
		var of int64
		var reason *string
		return forEach(ctx, conn, []any{&of, &reason}, func() error {
			each(task.ID(of), or(reason))
			return nil
		}, s.sql.BatchFailures, arg("id", int64(id)))
	})
}
