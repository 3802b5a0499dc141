package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
)

// Orphans lists the types of waiting rows that no present agent with workers declares.
func (s *Store) Orphans(ctx context.Context) (list []store.OrphanType, err error) {
	err = s.do(ctx, "list orphans", func(ctx context.Context, conn *pgx.Conn) error {
		list = nil
		var o store.OrphanType
		into := []any{&o.Type, &o.Waiting, &o.Running, &o.Oldest, &o.DeclaredAt, &o.DeclaredBy, &o.DeclaredAs}
		return forEach(ctx, conn, into, func() error {
			one := o
			one.Oldest = o.Oldest.UTC()
			if o.DeclaredAt != nil {
				at := o.DeclaredAt.UTC()
				one.DeclaredAt = &at
			}
			list = append(list, one)
			return nil
		}, s.sql.Orphans)
	})
	return list, err
}
