package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
)

// RegionOrphans lists the due rows of regions, by type, that no present agent with workers of that region declares.
func (s *Store) RegionOrphans(ctx context.Context) (list []store.RegionOrphan, err error) {
	err = s.do(ctx, "count the rows of regions without an agent", func(ctx context.Context, conn *pgx.Conn) error {
		list, err = s.readRegionOrphans(ctx, conn)
		return err
	})
	return list, err
}

func (s *Store) readRegionOrphans(ctx context.Context, on querier) (list []store.RegionOrphan, err error) {
	var o store.RegionOrphan
	err = forEach(ctx, on, []any{&o.Region, &o.Type, &o.Due, &o.More}, func() error {
		list = append(list, o)
		return nil
	}, s.sql.RegionOrphans, arg("steps", store.RegionSteps), arg("pairs", store.RegionPairs), arg("looked", store.RegionLooked))
	return list, err
}
