package batch

import "github.com/leasehold/leasehold/internal/store"

// State returns the state of a batch. The view batches of each store has the same rule, for those who read it by SQL; the
// conformance suite compares the two.
func State(f *store.BatchFacts) store.BatchState {
	switch live := f.Live(); {
	case f.Ended:
		return end(f)
	case f.Requested == store.VerbRollback, f.RollingBack > 0 && live == f.RollingBack:
		return store.BatchRollingBack
	case f.Attempts > 0, f.Running > 0, f.RollingBack > 0, live < f.Total:
		return store.BatchRunning
	}
	return store.BatchPending
}

// end returns the state of a batch that has ended.
func end(f *store.BatchFacts) store.BatchState {
	switch {
	case f.RollbackFailed > 0:
		return store.BatchRollbackFailed
	case f.Requested == store.VerbRollback:
		return store.BatchRolledBack
	case f.Requested == store.VerbCancel && !f.ByFailure && f.Cancelled > 0:
		return store.BatchCancelled
	case f.Total > 0 && f.RolledBack == f.Total:
		return store.BatchRolledBack
	case f.Failed+f.RolledBack > 0 && f.Succeeded > 0:
		return store.BatchPartiallyFailed
	case f.Failed+f.RolledBack > 0:
		return store.BatchFailed
	case f.Cancelled > 0:
		return store.BatchCancelled
	}
	return store.BatchSucceeded
}
