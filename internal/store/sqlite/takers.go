package sqlite

import (
	"context"
	"database/sql"

	"github.com/leasehold/leasehold/internal/ops"
)

// Takers counts the agents that claim tasks, and those of them that claim tasks of a type.
func (s *Store) Takers(ctx context.Context, typ string) (ops.Takers, error) {
	var t ops.Takers
	err := s.view(ctx, "look for agents", func(tx *sql.Tx) error {
		const count = `SELECT count(*), coalesce(sum(EXISTS (SELECT 1 FROM json_each(types) WHERE value = ?)), 0)
FROM agent WHERE present_until > ? AND workers > 0`
		return tx.QueryRowContext(ctx, count, typ, stamp(s.now())).Scan(&t.Agents, &t.OfType)
	})
	return t, err
}
