package store

import (
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// Renewal asks for a lease that ends Window after the moment that was Age ago, by the store's clock when it writes.
type Renewal struct {
	ID     task.ID
	Fence  task.Fence
	Age    time.Duration // how long ago the progress was
	Window time.Duration // heartbeat + stop, or what is left of the attempt if that is less
	// Exact sets the end to just that. Otherwise an end that is already later stays,
	Exact bool
	// but where Most is above 0 it is cut to the longer of Most and what is asked for, from when it is written.
	Most time.Duration
	// Detach detaches the lease from the session: from now on it depends on its window alone.
	Detach bool
	Report // written with it, whether the end moves or not
	// Marks are the positions that the task has reported through its session, if its type requires progress. They are merged
	// with the row's, so that pings through other agents have to advance beyond them. nil: nothing to write.
	Marks *task.Marks
}

// Bounds returns the bounds of the lease's end, from the moment when it is written: not before least, not after most.
func (r *Renewal) Bounds() (least, most time.Duration) {
	least = r.Window - r.Age
	switch {
	case r.Exact:
		return least, least
	case r.Most > 0:
		return least, max(least, r.Most)
	}
	return least, unbounded
}

// unbounded is longer than any lease, and short enough to be added to a time.
const unbounded = 100 * 365 * 24 * time.Hour
