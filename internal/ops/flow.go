package ops

import (
	"context"

	"github.com/leasehold/leasehold/internal/store"
)

// Flows is what those read who want to know what limits, rates and locks let start.
type Flows interface {
	// Flow reads what is in use of them, and who waits for them. What it reads is bounded.
	Flow(ctx context.Context) (store.Flow, error)
}

// FlowStore is what ReadFlow reads.
type FlowStore interface {
	Flows
	Counts(ctx context.Context) (store.Stats, error)
}

// ReadFlow reads what limits, rates and locks let start, with how many tasks are due that each limit is for. Its lists are not nil.
func ReadFlow(ctx context.Context, s FlowStore) (store.Flow, error) {
	f, err := s.Flow(ctx)
	if err != nil {
		return f, err
	}
	stats, err := s.Counts(ctx)
	AddDue(&f, &stats)
	return f, err
}

// AddDue adds how many tasks are due that each limit is for. It leaves no list nil.
func AddDue(f *store.Flow, stats *store.Stats) {
	for i := range f.Limits {
		l := &f.Limits[i]
		for _, typ := range l.Types {
			l.Due += stats.Due[typ]
		}
		l.DueCapped = stats.More && l.Due > 0
	}
	f.Limits, f.Tenants, f.Locks = notNil(f.Limits), notNil(f.Tenants), notNil(f.Locks)
}

func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
