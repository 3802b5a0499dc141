package task

// RollsBack reports whether a row is rolled back that was cancelled or has failed for good, instead of ending there: it was
// ever started, and it has a rollback.
func RollsBack(everStarted, hasRollback bool) bool { return everStarted && hasRollback }

// Cause returns why a row is rolled back whose last run ended with that verdict. cancelled: its cancellation was requested,
// which counts more than how the attempt ended. A verdict that releases the row ends its life only where no other attempt may
// follow, such as past its deadline: the row has failed then.
func Cause(v Verdict, cancelled bool) Verdict {
	switch {
	case cancelled:
		return Cancelled
	case v.Releases():
		return Failed
	}
	return v
}
