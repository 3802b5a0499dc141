package store

import (
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// MostAhead bounds how many tasks a Situation counts that come first: one more means that there are more.
const MostAhead = 10_000

// Situation is a task with all that decides whether it may start, read at one moment of the store: ops.Why says what follows from it.
type Situation struct {
	Now  time.Time // the store's clock
	Task *TaskInfo
	// Policy is what the last claim of the task bound it to; nil: it was never claimed, or the policy is not there.
	Policy *task.Policy
	// Agents are the present sessions.
	Agents []AgentInfo
	// Holder is the session that runs the task; nil: none does, or the store knows that session no more.
	Holder *SessionHolder
	// Running are the types with the most attempts of all present agents, by their numbers: ten at most.
	Running []TypeCount

	// Of a waiting task; what does not apply is nil or 0:

	Batch    *StoppedBatch // its batch, which starts nothing any more
	Pause    *TypePause    // of its type
	Lock     *LockHolder   // its lock
	Sequence *SequenceInfo // its sequence
	Limit    *LimitUse     // of its type
	// Ahead is how many tasks of its type, region and tenant are due, may start and come first, MostAhead + 1 at most. Of a task that is held back
	// for its sequence, how many of the sequence come first; for its lock, how many wait for it, this one included.
	Ahead int
}

// SessionHolder is what the store knows of the session that runs a task, present or not.
type SessionHolder struct {
	SeenAt time.Time // the last heartbeat
	Until  time.Time // when the session expires, or has expired; not after SeenAt: it was closed
}

// StoppedBatch is a batch whose tasks are to be cancelled or rolled back.
type StoppedBatch struct {
	ID        task.BatchID
	Verb      string // VerbCancel or VerbRollback
	By        string // who requested it, where that is known
	ByFailure bool   // one of its tasks has failed
}

// LockHolder is what has the lock of a task.
type LockHolder struct {
	Task  task.ID    // 0: no other task is known to
	State task.State // of Task; "": it has ended
	Since *time.Time // when Task was claimed; nil: it is not running
	Until *time.Time // what an attempt has left behind may be at work until then; nil: nothing has
}

// LimitUse is how much of a limit is in use.
type LimitUse struct {
	LimitInForce

	Running int           // attempts, and places that ended ones keep until their leases end
	Next    time.Duration // until the rate lets one start; 0: now
	// The same of the task's tenant.
	TenantRunning int
	TenantNext    time.Duration
}

// Rates fills in Next and TenantNext: the buckets are those of the limit and of the tenant, and back is how many tokens were returned to the
// first since they were counted.
func (l *LimitUse) Rates(b, tenant Bucket, back int, now time.Time) {
	if l.Rate > 0 {
		_, l.Next = b.Refilled(l.Rate, l.Burst, back, now).Room(l.Rate, l.Burst)
	}
	if l.Tenant.Rate > 0 {
		_, l.TenantNext = tenant.Refilled(l.Tenant.Rate, l.Tenant.Burst, 0, now).Room(l.Tenant.Rate, l.Tenant.Burst)
	}
}
