package sqlite

import (
	"context"

	"github.com/leasehold/leasehold/internal/store"
)

// Takers counts the agents that claim tasks, and those of them that claim tasks of a type.
func (s *Store) Takers(ctx context.Context, typ string) (store.Takers, error) {
	var t store.Takers
	err := s.view(ctx, "look for agents", func(tx *snapshot) error {
		return tx.row([]any{&t.Agents, &t.OfType}, tx.sql.Takers, arg("type", typ), arg("now", stamp(s.now())))
	})
	return t, err
}
