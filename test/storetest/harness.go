// Package storetest says what a store is: one conformance suite (Run) and one state machine (RunMachine) that every
// store passes. The package model, beside it, is the store written to be read.
package storetest

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/leasehold/leasehold/internal/activity"
	"github.com/leasehold/leasehold/internal/batch"
	"github.com/leasehold/leasehold/internal/chunk"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/poll"
	"github.com/leasehold/leasehold/internal/schedule"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/internal/work"
)

// Harness is a store under test and what the suite must be able to do to it from outside.
type Harness interface {
	lease.Store
	lease.Remote
	poll.Store
	poll.Adopter
	ops.Store
	ops.Operator
	ops.Rollbacks
	ops.Agents
	ops.Pauses
	ops.Orphans
	ops.Declarations
	ops.Batches
	ops.Schedules
	ops.Sequences
	batch.Work
	work.Store
	activity.Store
	ops.Activities
	schedule.Store
	schedule.Declarations
	Scheduler
	chunk.Store
	chunk.Declarations
	chunk.Tasks
	ops.ChunkPlans
	Chunker

	// Insert adds rows as an application would, by plain INSERT with an application's rights and nothing more, and
	// returns their ids. As with EnqueueSQL and Enqueue they have their batch and their rollback payload. It is fatal to t where the store refuses a row.
	Insert(t testing.TB, r ...store.EnqueueRequest) []task.ID
	// EnqueueSQL is Insert by the store's SQL enqueue (a function or a view): the id of the row, new or live.
	EnqueueSQL(t testing.TB, r store.EnqueueRequest) task.ID
	// EnqueueResultSQL is EnqueueSQL of a row that may say what becomes of a live one, and returns what was done with it.
	EnqueueResultSQL(t testing.TB, r store.EnqueueRequest) (task.ID, store.Enqueued, error)
	// Advance makes it later by d: it moves the store's clock, or shifts all that the store has written back. A store
	// that remembers how far its claims have come forgets it here, for this harness.
	Advance(t testing.TB, d time.Duration)
	// Now is the store's clock.
	Now() time.Time
	// Fail has hook called at the named points between hot table and archive, for this harness and its twins made
	// from then on; an error of the hook ends the call as a crash at that point would. nil: no hook.
	Fail(hook func(point string) error)
	// Failpoints names every point that a Settle of a finished and a released row comes by.
	Failpoints() []string
	// BatchFailpoints names every point that a Fold which ends a batch, or a Step, comes by.
	BatchFailpoints() []string
	// LockRow begins a transaction of an application that keeps the row where it is (hold: docs/sql.md) until
	// release is called. It returns nil on a store that has no locks on rows.
	LockRow(t testing.TB, id task.ID) (release func())
	// Begin begins a transaction of an application on the store's database, with an application's rights and nothing
	// more, that may write. On a store without row locks all other writers wait for its end.
	Begin(t testing.TB) Application
	// Produce begins a transaction in which an application inserts, with an application's rights and nothing more. On a
	// store without row locks all other writers wait for its end.
	Produce(t testing.TB) Producer
	// OperatorSQL gives what an operator's role, with its rights and nothing more, does by the store's SQL.
	OperatorSQL(t testing.TB) OperatorSQL
	// Roles names the database roles that the store's calls and OperatorSQL log in with; "" on a store without roles.
	Roles(t testing.TB) (agents, operators string)
	// ComparesJSON reports whether pings by the store's SQL compare texts and checkpoints, as those by Go do. Where they
	// cannot, only numbers advance what has to advance.
	ComparesJSON() bool
	// BatchStates creates batches with these counters, whatever tasks there are, and returns the state that the store
	// gives each.
	BatchStates(t testing.TB, facts []store.BatchFacts) []store.BatchState
	// NamedLeases reads the view leases, by name, with an application's rights and nothing more.
	NamedLeases(t testing.TB) []store.NamedLease
	// Audit reads the table audit, oldest first.
	Audit(t testing.TB) []Audited
	// Twin is a second, independent connection to the same store, as another agent would have.
	Twin(t testing.TB) Harness
}

// Application is a transaction in which an application uses what the store offers to SQL. Where a call is refused, the
// transaction can only be rolled back. Every transaction ends by Commit or Rollback; Rollback after Commit does nothing.
type Application interface {
	Hold(ctx context.Context, id task.ID, f task.Fence) error
	Complete(ctx context.Context, id task.ID, f task.Fence, result json.RawMessage) error
	// Ping gives a nil PingReply on a store whose SQL does not answer. Its Answer and its Reason may be left out.
	Ping(ctx context.Context, id task.ID, f task.Fence, p store.Ping) (*store.PingReply, error)
	// Cancel gives "" on a store whose SQL does not answer.
	Cancel(ctx context.Context, id task.ID, by string) (store.Became, error)
	// Acquire takes a named lease, and returns 0 where another holds it.
	Acquire(ctx context.Context, name, holder string, ttl time.Duration) (task.Fence, error)
	RenewLease(ctx context.Context, name string, f task.Fence) error
	ReleaseLease(ctx context.Context, name string, f task.Fence) error
	HoldLease(ctx context.Context, name string, f task.Fence) error
	Commit(ctx context.Context) error
	Rollback(ctx context.Context) error
}

// Check is one thing that must be true of a store. It needs a store with nothing in it, and takes t as an interface
// so that a store made to be wrong can be shown to fail it.
type Check struct {
	Name string
	Run  func(t testing.TB, h Harness)
}

// Checks lists the suite.
func Checks() []Check {
	var all []Check
	for _, p := range []part{
		{"claim", claimChecks()},
		{"claimed", claimedChecks()},
		{"limit", limitChecks()},
		{"exchange", exchangeChecks()},
		{"rate", rateChecks()},
		{"tenants", tenantChecks()},
		{"limits of tenants", tenantLimitChecks()},
		{"locks", lockChecks()},
		{"locks and limits", lockLimitChecks()},
		{"sequences", sequenceChecks()},
		{"passing on", passChecks()},
		{"after", slices.Concat(afterChecks(), afterRevivalChecks(), afterRefChecks())},
		{"settle", settleChecks()},
		{"repeat", repeatChecks()},
		{"lease", leaseChecks()},
		{"sweep", sweepChecks()},
		{"history", historyChecks()},
		{"enqueue", enqueueChecks()},
		{"on_live", onLiveChecks()},
		{"follow", followChecks()},
		{"look", lookChecks()},
		{"agents", agentChecks()},
		{"what others have left", leftChecks()},
		{"paused types", pauseChecks()},
		{"redactions", redactionChecks()},
		{"activity", activityChecks()},
		{"spill", spillChecks()},
		{"rows of on_failed", onFailedChecks()},
		{"orphans", append(orphanChecks(), orphanMoveChecks()...)},
		{"orphans of regions", regionOrphanChecks()},
		{"declared", declaredChecks()},
		{"maintain", maintainChecks()},
		{"concurrent", concurrentChecks()},
		{"failpoints", failpointChecks()},
		{"wake", wakeChecks()},
		{"hostile", hostileChecks()},
		{"ping", pingChecks()},
		{"marks", markChecks()},
		{"notes", noteChecks()},
		{"detach", detachChecks()},
		{"hold", holdChecks()},
		{"complete", completeChecks()},
		{"named_lease", namedLeaseChecks()},
		{"cancel", cancelChecks()},
		{"adopt", adoptChecks()},
		{"live", liveChecks()},
		{"rules", ruleChecks()},
		{"rollback_phase", rollbackPhaseChecks()},
		{"retry", retryChecks()},
		{"rollback", rollbackChecks()},
		{"batch", batchChecks()},
		{"batch_ops", batchOpsChecks()},
		{"batch_races", batchRaceChecks()},
		{"schedule", scheduleChecks()},
		{"schedule_declared", scheduleDeclaredChecks()},
		{"schedule_changed", scheduleChangedChecks()},
		{"schedule_ops", scheduleOpsChecks()},
		{"schedule_hcl", scheduleHCLChecks()},
		{"chunks", chunkChecks()},
		{"chunks_declared", chunkDeclaredChecks()},
		{"chunks_split", chunkSplitChecks()},
		{"chunks_operated", chunkOpsChecks()},
	} {
		all = append(all, p.named()...)
	}
	return all
}

// Explained lists the checks of why tasks are not running, of what doctor finds, of what those read who follow tasks, of lists of the audit, and of what waits for limits and locks. The model has none of that.
func Explained() []Check {
	return slices.Concat(
		part{"situation", situationChecks()}.named(), part{"doctor", doctorChecks()}.named(), part{"glance", glanceChecks()}.named(),
		part{"audit", auditChecks()}.named(), part{"flow", flowChecks()}.named(),
	)
}

// Bulk lists the checks of changes of all tasks that match a filter. The model makes none.
func Bulk() []Check { return part{"bulk", bulkChecks()}.named() }

// part is some checks that are about one thing.
type part struct {
	name   string
	checks []Check
}

func (p part) named() []Check {
	all := make([]Check, len(p.checks))
	for i, c := range p.checks {
		all[i] = Check{Name: p.name + "/" + c.Name, Run: c.Run}
	}
	return all
}

// Run runs every check of Checks, and more, as a parallel subtest, each on a store of its own from open. open cleans up with t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) Harness, more ...Check) {
	t.Helper()
	for _, c := range append(Checks(), more...) {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.Run(t, open(t))
		})
	}
}
