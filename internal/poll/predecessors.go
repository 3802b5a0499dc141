package poll

import (
	"context"
	"time"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// The wait before what a task has waited for is read again, after an error.
const (
	predecessorsFirst = 10 * time.Millisecond
	predecessorsLast  = 100 * time.Millisecond
)

// readPredecessors reads what a run gets to know of the tasks that its own has waited for. It reports whether the attempt may start:
// it must not know less than it should. After an error it reads again, for as long as the attempt can start in time.
func (e *Engine) readPredecessors(l *lease.Lease) bool {
	row := l.Task()
	if !row.HasAfter || row.Phase() != task.Run {
		return true
	}
	for wait := predecessorsFirst; ; wait = min(2*wait, predecessorsLast) {
		var after task.After
		err := e.call(l.Context(), "predecessors", func(ctx context.Context) (err error) {
			after, err = e.o.Store.Predecessors(ctx, row.ID)
			return err
		})
		if err == nil {
			l.SetAfter(&after)
			return true
		}
		timer := time.NewTimer(wait)
		select {
		case <-l.Context().Done():
			timer.Stop()
			return false
		case <-timer.C:
		}
		if l.Late() {
			return false
		}
	}
}
