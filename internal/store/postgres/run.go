package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leasehold/leasehold/internal/store/sqltext"
)

// querier is a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

// query runs a statement that returns rows.
func query(ctx context.Context, on querier, q *sqltext.Query, args ...sqltext.Arg) (pgx.Rows, error) {
	return on.Query(ctx, q.Text, q.Args(args...)...)
}

// forEach calls f for each row of a statement, once its columns are in into.
func forEach(ctx context.Context, on querier, into []any, f func() error, q *sqltext.Query, args ...sqltext.Arg) error {
	rows, err := query(ctx, on, q, args...)
	if err != nil {
		return err
	}
	_, err = pgx.ForEachRow(rows, into, f)
	return err
}

// scanOne reads a statement of one row to its end: where the statement stands alone, it has committed then.
func scanOne(ctx context.Context, on querier, into []any, q *sqltext.Query, args ...sqltext.Arg) error {
	return forEach(ctx, on, into, func() error { return nil }, q, args...)
}

// queryRow runs a statement of which the first row counts.
func queryRow(ctx context.Context, on querier, q *sqltext.Query, args ...sqltext.Arg) pgx.Row {
	return on.QueryRow(ctx, q.Text, q.Args(args...)...)
}

// exec runs a statement that returns nothing.
func exec(ctx context.Context, on querier, q *sqltext.Query, args ...sqltext.Arg) error {
	_, err := on.Exec(ctx, q.Text, q.Args(args...)...)
	return err
}
