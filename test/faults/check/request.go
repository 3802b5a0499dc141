package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/faults/history"
)

// OneRequestAtATime says: of a webhook's row the next request comes after the one before has ended, or its agent has
// closed the connection. An endpoint gets 300 ms to notice that.
//
// It must hold because for HTTP the end of a lease means refused (rule 4): the connection is closed when the window is
// over, and the row is due again no earlier than that. A handler may be at work all the same; that is what fences are
// for, and no breach.
//
// Exempt says: requests with several attempts, whose connection stays for the others when one is stopped; an agent that stood
// still when the next request came, until 5 s after it went on; one that was killed before (its connections close with it, in a
// second); an attempt that was accepted with a 202, which has no connection; an endpoint, or a way to it, that was broken
// meanwhile; an attempt that reported nothing more; one that has completed its row, whose rollback was requested before it could
// answer.
const OneRequestAtATime Name = "OneRequestAtATime"

func oneRequestAtATime(x *index, f *found) {
	for _, s := range x.records {
		var before *attempt
		for _, a := range s.inOrder() {
			if a.child || a.kind.Many || a.start == nil {
				continue
			}
			if before != nil {
				x.inspectRequests(before, a, f)
			}
			before = a
		}
	}
}

// inOrder is all that was done for the task: by fence, and what was asked first.
func (s *record) inOrder() []*attempt {
	if len(s.checks) == 0 {
		return s.attempts
	}
	all := slices.Concat(s.checks, s.attempts)
	slices.SortStableFunc(all, func(a, b *attempt) int { return cmp.Compare(a.fence, b.fence) })
	return all
}

// inspectRequests looks at two requests of a row, the second with the higher fence.
func (x *index) inspectRequests(before, next *attempt, f *found) {
	began := next.start.At
	if before.start.At > began || before.detached() {
		return
	}
	open := before.lastSeen() // the last moment at which the connection was open, as far as is known
	if e := before.first(history.End, history.Gone); e != nil {
		open = e.At
	}
	if e := before.first(history.Effect); e != nil && e.At <= began && next.phase == task.Rollback && before.phase == task.Run {
		return
	}
	if open <= began+notice || open <= x.mayLast(before, began) ||
		x.weather.any(span{before.start.At, open}, ofEndpoints) {
		return
	}
	f.add(OneRequestAtATime, began, before.id, "the request with fence %d came while that of fence %d was open, which it was for %s more",
		next.fence, before.fence, (open - began).Round(time.Millisecond))
}

// mayLast is until when the connection of an attempt may be open although another began at that time.
func (x *index) mayLast(a *attempt, began time.Duration) time.Duration {
	agent := x.agent(a.who)
	until := began + notice
	if agent.killed <= began {
		until = max(until, agent.killed+noticeKill)
	}
	for _, still := range agent.frozen {
		switch {
		case still.from > began:
		case still.to == forever:
			return forever
		case began <= still.to+wakeUp:
			until = max(until, still.to+wakeUp)
		}
	}
	return until
}
