package storetest

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/batch"
	"github.com/leasehold/leasehold/internal/store"
)

// FoldCases returns batches of every kind that a fold distinguishes. Each is named by its index in the list. Stores select by
// SQL those for which a fold has something to do; their tests compare that with batch.Conclude.
func FoldCases() (all []store.SummedBatch) {
	onFailure := []store.OnFailure{store.OnFailureContinue, store.OnFailureCancel, store.OnFailureRollback}
	failures := []store.SummedBatch{{}, {Failures: 3}, {Failures: 3, FailuresSeen: 3}}
	for n := range 3 * 3 * 3 * 2 * 2 * 2 * 2 * 2 * 2 {
		choice := func(of int) (i int) {
			i, n = n%of, n/of
			return i
		}
		b := failures[choice(len(failures))]
		b.Name, b.OnFailure = strconv.Itoa(len(all)), onFailure[choice(len(onFailure))]
		b.Requested = []string{"", store.VerbCancel, store.VerbRollback}[choice(3)]
		b.Succeeded, b.Failed, b.Cancelled, b.RolledBack, b.RollbackFailed = 1, 2, 3, 4, 5
		b.RollingBack = int64(choice(2))
		b.Total = 15 + b.RollingBack + int64(choice(2))
		b.Sealed, b.Operation, b.TaskOperation, b.Ended = choice(2) == 0, choice(2) == 1, choice(2) == 1, choice(2) == 1
		b.Summed = true
		all = append(all, b)
	}
	return all
}

// Concluded sums the counters of the one batch that there is, and returns what follows for it, which has to be want.
func Concluded(t testing.TB, s batch.Store, want store.FoldAct) []store.Conclusion {
	t.Helper()
	list, err := s.SumBatches(t.Context(), 10)
	require.NoError(t, err)
	require.Len(t, list, 1)
	require.Equal(t, want, batch.Conclude(&list[0]))
	return []store.Conclusion{{Batch: &list[0], Act: want}}
}
