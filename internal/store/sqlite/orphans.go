package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

// Orphans lists the types of waiting rows that no present agent with workers declares.
func (s *Store) Orphans(ctx context.Context) (list []store.OrphanType, err error) {
	err = s.view(ctx, "list orphans", func(t *snapshot) error {
		list = nil
		return t.query(func(r *sql.Rows) error {
			var o store.OrphanType
			var declared time.Time
			err := r.Scan(&o.Type, &o.Waiting, &o.Running, timeOf{&o.Oldest}, timeOf{&declared}, &o.DeclaredBy, &o.DeclaredAs)
			if !declared.IsZero() {
				o.DeclaredAt = &declared
			}
			list = append(list, o)
			return err
		}, t.sql.Orphans)
	})
	return list, err
}
