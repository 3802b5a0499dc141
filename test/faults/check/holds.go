package check

import (
	"slices"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/faults/history"
)

// CancelHolds says: once a batch's cancel or rollback has committed, no row of it is claimed to be run, however long it
// takes to mark them, until an operator retries it; and what was claimed ahead before that starts only until its agent
// knows of the cancel.
//
// It must hold because a claim looks at the batches of its rows after it has locked them, and a cancel waits for the
// claims in flight before it commits. That it had committed is known from a look at the store: what is claimed after
// that has a higher fence. Agents ask the store what is to stop when a notification that commits with the cancel arrives.
//
// Tolerated says: heardWithin, and what a busy machine takes: once in a while busyOnce, as a rule busyMostly, so that three
// batches of which something started later than that are too many. An agent without notifications may start what it has
// claimed for as long as a claimed row may wait inside it.
//
// So an agent that does not listen is detected only where the rows that it has claimed ahead wait long, as behind slow ones
// (faults.Options.Caught, which the sabotage `hear` runs with): what its workers do in 50 ms has else started before busyMostly
// is over.
//
// Exempt says: a crash of the server just after the look, or the answer, which may lose what was seen of a transaction that
// was not flushed; of starts what was broken between the agent and the store, or the endpoint, a moment before, and an agent
// that stood still; what an operator had retried meanwhile; rows with a check, which comes before the start.
const CancelHolds Name = "CancelHolds"

const (
	heardWithin = 50 * time.Millisecond  // after the commit, docs/batches.md
	busyMostly  = 200 * time.Millisecond // later than that
	busyOnce    = leastSlack
	lateBatches = 3
	reconnects  = 5 * time.Second // what an agent takes to listen again once it can
)

// flushed is how long after it was seen a transaction is on the disk, at the latest.
const flushed = time.Second

func cancelHolds(x *index, f *found) {
	for i := range x.h.Of.Samples {
		sample := &x.h.Of.Samples[i]
		if !sample.Stopping || len(sample.Fences) == 0 || slices.ContainsFunc(x.h.Crashes, func(at time.Duration) bool {
			return at >= sample.At-sample.Within-x.slack && at <= sample.At+flushed
		}) {
			continue
		}
		for id, fence := range sample.Fences {
			if s := x.byID[id]; s != nil {
				x.inspectHeld(s, sample, fence, f)
			}
		}
	}
	x.inspectHeard(f)
}

// lateStart is the attempt of a batch's row that started the latest after the batch was cancelled.
type lateStart struct {
	a  *attempt
	by time.Duration
}

// inspectHeard looks for rows that were claimed before their batch was cancelled, and started when their agent must have
// known of that.
func (x *index) inspectHeard(f *found) {
	var late []lateStart
	for _, g := range x.batches.all {
		var worst lateStart
		for _, o := range x.batches.ops[g.id] {
			if answers := o.Answer == "cancelling" || o.Answer == "rolling_back"; !answers || o.At == 0 {
				continue
			}
			for _, s := range g.rows {
				if a, by := x.startedAfter(s, o.At); by > worst.by {
					worst = lateStart{a, by}
				}
			}
		}
		if worst.by > heardWithin+busyMostly {
			late = append(late, worst)
		}
	}
	for _, l := range late {
		if len(late) >= lateBatches || l.by > heardWithin+busyOnce {
			f.add(CancelHolds, l.a.start.At, l.a.id, "fence %d started %s after its batch had been cancelled", l.a.fence, l.by.Round(time.Millisecond))
		}
	}
}

// startedAfter is the last run of a task that started after its batch was seen to be cancelled, and how much later than what
// its agent is allowed that was; 0: none did.
func (x *index) startedAfter(s *record, cancelled time.Duration) (last *attempt, by time.Duration) {
	for _, a := range s.attempts {
		if a.start == nil || a.start.At <= cancelled || a.phase != task.Run || a.kind.Check > 0 {
			continue
		}
		since := span{cancelled - reconnects, a.start.At}
		crashed := slices.ContainsFunc(x.h.Crashes, func(at time.Duration) bool {
			return at >= cancelled-x.slack && at <= cancelled+flushed
		})
		if crashed || x.late(a) || x.agent(a.who).shaken(since) || x.revived(s, cancelled, a.start.At) ||
			x.weather.any(since, ofNetwork, ofServer, ofAgents, ofDisks, ofEndpoints) {
			continue
		}
		late := a.start.At - cancelled
		if name, _, _ := strings.Cut(a.who, "."); slices.Contains(x.h.Deaf, name) {
			late -= startWait
		}
		if late > by {
			last, by = a, late
		}
	}
	return last, by
}

// inspectHeld looks for claims of a row that had this fence when its batch was seen to be cancelled.
func (x *index) inspectHeld(s *record, sample *history.BatchSample, fence int64, f *found) {
	round := -1
	for i, m := range s.moves {
		switch {
		case m.Fence <= fence:
			round = m.Round
		case m.State == "running" && m.Round == round && waits(s.moves[i-1].State):
			f.add(CancelHolds, sample.At, s.id, "it was claimed with fence %d in round %d, and had fence %d when its batch %d was seen to be cancelled",
				m.Fence, m.Round, fence, sample.ID)
			return
		}
	}
}
