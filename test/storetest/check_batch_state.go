package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/batch"
	"github.com/leasehold/leasehold/internal/store"
)

// batchDerived compares the state that the store derives from counters by SQL with that of internal/batch.
func batchDerived(t testing.TB, h Harness) {
	facts := generatedFacts()
	got := h.BatchStates(t, facts)
	require.Len(t, got, len(facts))
	seen := map[store.BatchState]bool{}
	for i := range facts {
		want := batch.State(&facts[i])
		require.Equal(t, want, got[i], "%+v", facts[i])
		seen[want] = true
	}
	require.Len(t, seen, len(store.BatchStates()), "each state comes up")
}

// generatedFacts returns batches with every combination of counters that are zero or not, thinned out evenly, each with every
// request.
func generatedFacts() (all []store.BatchFacts) {
	requests := []store.BatchFacts{
		{}, {Requested: store.VerbCancel}, {Requested: store.VerbCancel, ByFailure: true}, {Requested: store.VerbRollback},
	}
	for n := range 1 << 10 {
		if n%7 != 0 && n&(n-1) != 0 { // each alone, and some together
			continue
		}
		bit := func(place int) int64 { return int64(n>>place&1) * int64(1+n%3) }
		f := store.BatchFacts{
			Ended: n&1 != 0, Attempts: bit(1), Running: bit(2), RollingBack: bit(3), Succeeded: bit(4), Failed: bit(5),
			Cancelled: bit(6), RolledBack: bit(7), RollbackFailed: bit(8),
		}
		f.Total = f.Running + f.RollingBack + f.Succeeded + f.Failed + f.Cancelled + f.RolledBack + f.RollbackFailed + bit(9)
		for _, r := range requests {
			f.Requested, f.ByFailure = r.Requested, r.ByFailure
			all = append(all, f)
		}
	}
	return all
}
