package storetest

import (
	"strconv"

	"github.com/leasehold/leasehold/internal/store"
)

// FoldCases returns batches of every kind that a fold tells apart. Each has its place in the list as its name. Stores select by
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
