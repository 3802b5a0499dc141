package check

import "github.com/leasehold/leasehold/internal/task"

// BatchRollbackComplete says: when a batch has ended whose rollback an operator or a failure requested, every row of it that
// was ever started is rolled back or could not be, where its type can be; none has succeeded, failed or been cancelled
// and is left so.
//
// It must hold because a rollback ends only when no row is left that was started and is not rolled back, and a batch only
// when its operations have.
const BatchRollbackComplete Name = "BatchRollbackComplete"

func batchRollbackComplete(x *index, f *found) {
	for _, g := range x.batches.all {
		for _, m := range g.moves {
			if !m.Ended || m.Requested != verbRollback {
				continue
			}
			for _, s := range g.rows {
				row := s.moveAt(m.Serial)
				if row == nil || !row.EverStarted || x.h.Kinds[s.row.Type].Rollback == nil {
					continue
				}
				if state := task.State(row.State); state != task.StateRolledBack && state != task.StateRollbackFailed {
					f.add(BatchRollbackComplete, x.last(s), s.id, "batch %d was rolled back in round %d, and it is %s, with fence %d",
						g.id, m.Round, state, row.Fence)
				}
			}
		}
	}
}
