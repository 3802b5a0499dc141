package pgsource

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/chunk"
)

// Plans returns the plans of the statements that a call of Cut makes, as they run, by name, in JSON.
func (s *Source) Plans(ctx context.Context, q chunk.Query, through []chunk.Key) (map[string][]byte, error) {
	plans := map[string][]byte{}
	err := s.read(ctx, lengthy, func(ctx context.Context, tx pgx.Tx, sh *shape) error {
		for name, f := range map[string]fragment{
			"cut": sh.cut(q, s.o.Where), "rest": sh.rest(q, through, s.o.Where), "nth": sh.nth(q.After, q.Limit, q.Rows),
		} {
			var text []byte
			if err := tx.QueryRow(ctx, "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) "+f.text, f.args...).Scan(&text); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			plans[name] = text
		}
		return nil
	})
	return plans, err
}

// Silently reads after hush has been called in the middle of a transaction.
func Silently(ctx context.Context, s *Source, hush func()) error {
	return s.read(ctx, quick, func(ctx context.Context, tx pgx.Tx, _ *shape) error {
		hush()
		_, err := tx.Exec(ctx, "SELECT 1")
		return err
	})
}
