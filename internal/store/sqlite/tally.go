package sqlite

import (
	"database/sql"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// tally is what changes of the counters of a batch.
type tally struct {
	finished                        map[task.State]int64
	rollingBack, failures, attempts int64
}

// add counts the end of a hold; cause is why the row is rolled back from now on, if it is.
func (c *tally) add(e *store.Settlement, cause task.Verdict) {
	if !e.Silent {
		c.attempts++
	}
	switch next := e.Next.State; {
	case e.Cause() != "":
		c.rollingBack++
		if cause != task.Cancelled {
			c.failures++
		}
	case next == task.StateFailed:
		c.failures++
	case next == task.StateRolledBack, next == task.StateRollbackFailed:
		c.rollingBack--
	}
	if e.Next.State.Finished() {
		c.finished[e.Next.State]++
	}
}

// tally counts what was applied to rows of batches, once for each batch. The rows are in the hot table still.
func (t *tx) tally(applied []*store.Settlement) error {
	open := false
	if len(applied) == 0 {
		return nil
	}
	if err := t.row([]any{&open}, t.sql.AnyOpenBatch); err != nil || !open {
		return err
	}
	ids := make([]task.ID, len(applied))
	ends := make(map[task.ID]*store.Settlement, len(applied))
	for i, e := range applied {
		ids[i], ends[e.ID] = e.ID, e
	}
	tallies := map[task.BatchID]*tally{}
	err := t.query(func(r *sql.Rows) error {
		var id task.ID
		var of task.BatchID
		var cause task.Verdict
		if err := r.Scan(numberOf[task.ID]{&id}, numberOf[task.BatchID]{&of}, textOf[task.Verdict]{&cause}); err != nil {
			return err
		}
		if tallies[of] == nil {
			tallies[of] = &tally{finished: map[task.State]int64{}}
		}
		tallies[of].add(ends[id], cause)
		return nil
	}, t.sql.OfBatch, arg("ids", jsonList(ids)))
	if err != nil {
		return err
	}
	for of, c := range tallies {
		if _, err := t.exec(t.sql.Tally,
			arg("succeeded", c.finished[task.StateSucceeded]), arg("failed", c.finished[task.StateFailed]),
			arg("cancelled", c.finished[task.StateCancelled]), arg("rolled_back", c.finished[task.StateRolledBack]),
			arg("rollback_failed", c.finished[task.StateRollbackFailed]), arg("rolling_back", c.rollingBack),
			arg("failures", c.failures), arg("attempts", c.attempts), arg("batch", int64(of))); err != nil {
			return err
		}
	}
	return nil
}
