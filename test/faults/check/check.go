// Package check checks invariants of what happened in a run under faults: pure functions over a history. Each invariant has
// a file of its own (or shares one with a related invariant), which says what is promised, why that must hold, and which
// histories only look as if they broke it. What the data cannot prove is no violation: a run of a correct product is clean,
// however many attempts it has.
package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/leasehold/leasehold/test/faults/history"
)

// Name names an invariant.
type Name string

// Violation is one breach of an invariant.
type Violation struct {
	Invariant Name
	IDs       []int64       // the tasks concerned; none where the row never had an id that is known
	What      string        // what is wrong, for people
	Lease     string        // the named lease concerned; "": none
	At        time.Duration // when, as events have it; of what only the store's end shows, the last that is known of the task
}

func (v Violation) String() string {
	switch len(v.IDs) {
	case 0:
		if v.Lease != "" {
			return fmt.Sprintf("%s: lease %q: %s", v.Invariant, v.Lease, v.What)
		}
		return fmt.Sprintf("%s: %s", v.Invariant, v.What)
	case 1:
		return fmt.Sprintf("%s: task %d: %s", v.Invariant, v.IDs[0], v.What)
	}
	return fmt.Sprintf("%s: tasks %v: %s", v.Invariant, v.IDs, v.What)
}

// Tolerances that no history changes.
const (
	leastSlack = 500 * time.Millisecond // what a busy machine takes
	startWait  = time.Second            // how long a claimed row may wait inside its agent
	notice     = 300 * time.Millisecond // until an endpoint notices that a connection was closed
	noticeKill = time.Second            // the same where the agent was killed
	obituary   = 5 * time.Second        // how long after an agent's death it may be written down
	wakeUp     = 5 * time.Second        // what an agent that stood still takes to find out what it has missed
)

// invariant is a check of one or more named invariants.
type invariant struct {
	names   []Name
	inspect func(*index, *found)
}

// invariants lists them in the order of a row's life.
func invariants() []invariant {
	return []invariant{
		{[]Name{CommittedEnds}, committedEnds},
		{[]Name{RolledBackNeverRuns}, rolledBackNeverRuns},
		{[]Name{OneChildAtATime}, oneChildAtATime},
		{[]Name{OneRequestAtATime}, oneRequestAtATime},
		{[]Name{LimitHolds}, limitHolds},
		{[]Name{TenantLimitHolds}, tenantLimitHolds},
		{[]Name{OneOfALockAtATime}, oneOfALockAtATime},
		{[]Name{OneOfASequenceAtATime, SequenceInTurn, SequenceInOrder, FailureBlocks}, sequencesInTurn},
		{[]Name{StartsAfterAll, CancelledForOne}, waitsForAll},
		{[]Name{FencesRise}, fencesRise},
		{[]Name{NoStaleSettlement}, noStaleSettlement},
		{[]Name{LineSettlesItsOwn}, lineSettlesItsOwn},
		{[]Name{GuardedEffectOnce}, guardedEffectOnce},
		{[]Name{AttemptsWithinLimit, ReleasedAreFree}, attemptsCount},
		{[]Name{OneFailureChargesNoOther}, oneFailureChargesNoOther},
		{[]Name{AbsenceIsFree}, absenceIsFree},
		{[]Name{LeaseFollowsPing}, leaseFollowsPing},
		{[]Name{HungIsCaught}, hungIsCaught},
		{[]Name{DeadComesBack}, deadComesBack},
		{[]Name{CancelledStays}, cancelledStays},
		{[]Name{OrphansWait}, orphansWait},
		{[]Name{LossIsTrue}, lossIsTrue},
		{[]Name{OrderKept}, orderKept},
		{[]Name{RolledBackOnce}, rolledBackOnce},
		{[]Name{RollbackAfterEnd}, rollbackAfterEnd},
		{[]Name{FreshBudget}, freshBudget},
		{[]Name{FailureOnce}, failureOnce},
		{[]Name{BatchEnds}, batchEnds},
		{[]Name{CancelHolds}, cancelHolds},
		{[]Name{CountersEqualRows}, countersEqualRows},
		{[]Name{BatchRollbackComplete}, batchRollbackComplete},
		{[]Name{SlotsOnce, SlotsAccounted}, slotsOnce},
		{[]Name{FollowedRuns, FollowedInTurn}, followed},
		{[]Name{ChunkRangesDisjoint, ChunkPassComplete, ChunkHalvesCover, ChunkRowsMarked, ChunksAhead}, chunksPlanned},
		{[]Name{LeaseFencesRise, LeaseEffectsGuarded}, leaseSteps},
		{[]Name{OneHolderAtATime, LeaseOutlivesJump, HolderAsksAgain}, leaseBeliefs},
	}
}

// Names lists the invariants that Check looks at.
func Names() []Name {
	var all []Name
	for _, i := range invariants() {
		all = append(all, i.names...)
	}
	return all
}

// Check gives what the history breaks, in the order of time; nil where it is clean. It changes nothing of h.
func Check(h *history.History) []Violation {
	x := newIndex(h)
	var f found
	for _, i := range invariants() {
		i.inspect(x, &f)
	}
	slices.SortStableFunc(f.all, func(a, b Violation) int { return cmp.Compare(a.At, b.At) })
	return f.all
}

// found gathers violations.
type found struct{ all []Violation }

// add adds one about a single task; id 0: one whose id is not known.
func (f *found) add(n Name, at time.Duration, id int64, format string, args ...any) {
	v := Violation{Invariant: n, What: fmt.Sprintf(format, args...), At: at}
	if id != 0 {
		v.IDs = []int64{id}
	}
	f.all = append(f.all, v)
}
