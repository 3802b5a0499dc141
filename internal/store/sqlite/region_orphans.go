package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"slices"

	"github.com/leasehold/leasehold/internal/store"
)

// RegionOrphans lists the due rows of regions, by type, that no present agent with workers of that region declares.
func (s *Store) RegionOrphans(ctx context.Context) (list []store.RegionOrphan, err error) {
	err = s.view(ctx, "count the rows of regions without an agent", func(t *snapshot) error {
		return t.query(func(r *sql.Rows) error {
			var o store.RegionOrphan
			if err := r.Scan(&o.Region, &o.Type, &o.Due, truthOf{&o.More}); err != nil {
				return err
			}
			if o.Due > 0 {
				list = append(list, o)
			}
			return nil
		}, t.sql.RegionOrphans, arg("now", stamp(s.now())), arg("steps", store.RegionSteps), arg("pairs", store.RegionPairs),
			arg("looked", store.RegionLooked))
	})
	slices.SortFunc(list, func(a, b store.RegionOrphan) int {
		return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Type, b.Type))
	})
	return list, err
}
