package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
)

// Takers counts the agents that claim tasks, and those of them that claim tasks of a type.
func (s *Store) Takers(ctx context.Context, typ string) (store.Takers, error) {
	var t store.Takers
	err := s.do(ctx, "look for agents", func(ctx context.Context, conn *pgx.Conn) error {
		return queryRow(ctx, conn, s.sql.Takers, arg("type", typ)).Scan(&t.Agents, &t.OfType)
	})
	return t, err
}
