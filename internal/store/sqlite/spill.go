package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

// lateRows are the rows of a type and a region that have been due since before a time.
type lateRows struct {
	typ, region string
	after       time.Duration
}

// Spill lets agents of any region claim rows that have waited too long for those of theirs. It looks first, as it mostly finds nothing.
func (s *Store) Spill(ctx context.Context, region string, types []store.Spill) (n int, err error) {
	var late []lateRows
	err = s.view(ctx, "look for rows that wait too long for their region", func(t *snapshot) error {
		late = nil
		for _, of := range types {
			if err := t.lateRows(region, of, s.now(), &late); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil || len(late) == 0 {
		return 0, err
	}
	err = s.change(ctx, "spill", func(t *tx) error {
		n = 0
		for _, l := range late {
			some, err := t.exec(t.sql.Spill, arg("type", l.typ), arg("region", l.region), arg("before", stamp(t.now.Add(-l.after))),
				arg("limit", store.SpillMost-n))
			if err != nil {
				return err
			}
			n += int(some)
		}
		if n == 0 {
			return nil
		}
		_, err := t.exec(t.sql.WakeForDue)
		return err
	})
	return n, err
}

// lateRows adds the regions of which rows of a type have waited too long.
func (t *snapshot) lateRows(own string, of store.Spill, now time.Time, late *[]lateRows) error {
	region := ""
	for range store.SpillRegions {
		err := t.row([]any{&region}, t.sql.NextRegion, arg("type", of.Type), arg("after", region))
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		if region == own {
			continue
		}
		some := false
		err = t.row([]any{&some}, t.sql.AnyLate, arg("type", of.Type), arg("region", region), arg("before", stamp(now.Add(-of.After))))
		if err != nil {
			return err
		}
		if some {
			*late = append(*late, lateRows{of.Type, region, of.After})
		}
	}
	return nil
}
