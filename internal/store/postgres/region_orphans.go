package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
)

// RegionOrphans lists the due rows of regions, by type, that no present agent with workers of that region declares.
func (s *Store) RegionOrphans(ctx context.Context) (list []store.RegionOrphan, err error) {
	err = s.do(ctx, "count the rows of regions without an agent", func(ctx context.Context, conn *pgx.Conn) error {
		list = nil
		var o store.RegionOrphan
		return forEach(ctx, conn, []any{&o.Region, &o.Type, &o.Due, &o.More}, func() error {
			list = append(list, o)
			return nil
		}, s.sql.RegionOrphans, arg("steps", store.RegionSteps), arg("pairs", store.RegionPairs), arg("looked", store.RegionLooked))
	})
	return list, err
}
