package model

import (
	"cmp"
	"context"
	"slices"

	"github.com/leasehold/leasehold/internal/store"
)

// RegionOrphans lists the due rows of regions, by type, that no present agent with workers of that region declares. The model has no bounds.
func (s *Store) RegionOrphans(ctx context.Context) (list []store.RegionOrphan, err error) {
	now, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	type pair struct{ region, typ string }
	claimed := map[pair]bool{}
	for session, a := range s.agents {
		if s.present(session, now) && a.Workers > 0 {
			for _, typ := range a.Types {
				claimed[pair{a.Region, typ}] = true
			}
		}
	}
	due := map[pair]int64{}
	for _, r := range s.live {
		p := pair{r.Region, r.Type}
		if r.Region != "" && !r.Spilled && r.State.Waiting() && r.Held == "" && !r.RunAt.After(now) && !claimed[p] {
			due[p]++
		}
	}
	for p, n := range due {
		list = append(list, store.RegionOrphan{Region: p.region, Type: p.typ, Due: n})
	}
	slices.SortFunc(list, func(a, b store.RegionOrphan) int {
		return cmp.Or(cmp.Compare(a.Region, b.Region), cmp.Compare(a.Type, b.Type))
	})
	return list, nil
}
