package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// Redactions returns the members that are masked where documents are shown, by row type.
func (s *Store) Redactions(ctx context.Context) (all map[string][]string, err error) {
	err = s.do(ctx, "read what is masked", func(ctx context.Context, conn *pgx.Conn) error {
		all = map[string][]string{}
		var typ, name string
		return forEach(ctx, conn, []any{&typ, &name}, func() error {
			all[typ] = append(all[typ], name)
			return nil
		}, s.sql.Redactions)
	})
	return all, err
}
