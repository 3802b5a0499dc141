package store

import (
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// Reaped is a row whose lease or session has expired without an outcome.
type Reaped struct {
	task.Task            // with the fence under which it is reaped
	RanFence  task.Fence // the fence of the attempt
	// RanSession is the session that the attempt ran in, also where another had reaped the row before and has expired too; RanAgent is the
	// name of its agent, while that is known.
	RanSession task.Session
	RanAgent   string
	Present    bool          // its session has not expired, so the lease itself has
	Detached   bool          // it depended on its window alone
	Left       time.Duration // until the task's own deadline, by the store's clock; meaningless without one
}
