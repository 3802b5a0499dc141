package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
)

// Spill lets agents of any region claim rows that have waited too long for those of theirs.
func (s *Store) Spill(ctx context.Context, region string, types []store.Spill) (n int, err error) {
	names, afters := make([]string, len(types)), make([]int64, len(types))
	for i, t := range types {
		names[i], afters[i] = storable(t.Type), t.After.Microseconds()
	}
	err = s.do(ctx, "spill", func(ctx context.Context, conn *pgx.Conn) error {
		n = 0
		notified := false
		return s.change(ctx, conn, func(on querier) error {
			return scanOne(ctx, on, []any{&n, &notified}, s.sql.Spill, arg("types", names), arg("afters", afters),
				arg("region", storable(region)), arg("most", int64(store.SpillMost)), arg("regions", store.SpillRegions))
		})
	})
	if err == nil && n > 0 {
		s.lowWater.rose()
	}
	return n, err
}
