package check_test

import (
	"encoding/json"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/faults/history"
)

// life is one row's way through the store.
type life struct {
	g       *sim
	script  script
	kind    history.Kind
	policy  task.Policy
	row     task.Task
	now     time.Duration
	lease   time.Duration // the end of the present attempt's, as far as anybody saw
	stands  *simEffect    // its effect, if it is there
	ended   int           // how many attempts of this phase have
	tried   []history.Tried
	untold  *history.Tried // the attempt that ended it, where the history does not have it
	outcome task.Verdict
	reason  string
	result  json.RawMessage
}

// live lets a row live until it ends, and write down what everybody saw of it; then an operator wants something else.
func (g *sim) live(sc script) *life {
	l := g.begin(sc)
	l.proceed()
	for _, verb := range sc.ops {
		l.operate(verb)
	}
	l.over()
	return l
}

// begin enqueues a row.
func (g *sim) begin(sc script) *life {
	g.nextID++
	k := g.Kinds[sc.kind]
	l := &life{
		g: g, script: sc, kind: k, now: sc.from,
		policy: task.Policy{
			Timeout: k.Timeout, Heartbeat: k.Heartbeat, Stop: k.Stop,
			Retry: task.Retry{Limit: 4, Backoff: task.Constant, Min: time.Second, Max: time.Second, On: task.DefaultOn(), MaxDeferrals: 2},
		},
		row: task.Task{ID: task.ID(g.nextID), State: task.StatePending},
	}
	if k.Rollback != nil {
		retry := l.policy.Retry
		retry.Limit = k.Rollback.Limit - 1
		l.policy.Rollback = &task.RollbackPolicy{Timeout: k.Rollback.Timeout, Heartbeat: k.Rollback.Heartbeat, Stop: k.Rollback.Stop, Retry: retry}
	}
	l.move()
	return l
}

// move writes down how the row stands.
func (l *life) move() {
	r := &l.row
	l.g.Moves = append(l.g.Moves, history.Move{
		Serial: l.g.serial(), ID: int64(r.ID), Batch: l.script.batch, State: string(r.State), Fence: int64(r.Fence), Attempt: r.Attempt,
		Round: r.Round, EverStarted: r.EverStarted, Outcome: string(l.outcome), Archived: r.State.Finished(),
	})
}

// proceed goes on until the row has ended.
func (l *life) proceed() {
	for l.row.State.Live() {
		ends := l.script.ends
		if l.row.State.Phase() == task.Rollback {
			ends = l.script.rollBack
		}
		end := task.Succeeded // whatever the script says: an end comes
		if l.ended < len(ends) {
			end = ends[l.ended]
		}
		l.ended++
		l.now += l.g.between(s(0.01), s(0.5))
		if l.row.State.Phase() == task.Run && l.cancelled(l.now) {
			l.callOff()
			continue
		}
		l.try(end)
	}
}

// callOff cancels the row while it waits.
func (l *life) callOff() {
	l.outcome, l.reason = task.Cancelled, "cancelled while it waited"
	l.row.Fence++
	if l.row.EverStarted && l.kind.Rollback != nil {
		l.toRollBack()
	} else {
		l.row.State = task.StateCancelled
	}
	l.move()
}

// toRollBack has the row be rolled back.
func (l *life) toRollBack() {
	l.row.State, l.row.Attempt, l.row.Deferrals, l.ended = task.StateRollbackPending, 0, 0, 0
	l.now = max(l.now, l.lease)
}

// operate does what an operator wants of a row that has ended.
func (l *life) operate(verb string) {
	l.now += l.g.between(s(0.5), s(3))
	o := history.Op{Requested: l.now, Verb: verb, ID: int64(l.row.ID)}
	switch state := l.row.State; {
	case verb == "retry" && (state == task.StateFailed || state == task.StateCancelled || state == task.StateRolledBack):
		l.row.Fence++
		l.row.State, l.row.Attempt, l.row.Deferrals, l.ended = task.StatePending, 0, 0, 0
		l.row.Round++
		l.row.EverStarted = l.row.EverStarted && state != task.StateRolledBack
		l.result = nil
	case verb == "rollback" && l.kind.Rollback != nil && l.row.EverStarted && state != task.StateRolledBack:
		l.row.Fence++
		l.toRollBack()
	default:
		return
	}
	if l.untold != nil {
		l.tried = append(l.tried, *l.untold)
		l.untold = nil
	}
	l.now = max(l.now, l.lease)
	l.move()
	o.At, o.Answer = l.now+s(0.01), string(l.row.State)
	l.g.Ops = append(l.g.Ops, o)
	l.proceed()
}

// over records the row at the end of the run.
func (l *life) over() {
	sc := l.script
	l.g.row(int64(l.row.ID), sc.kind, string(l.row.State), int64(l.row.Fence), l.row.Attempt, func(e *enq, r *row) {
		e.Expects.Limit, e.Expects.Guarded, e.At = 5, sc.guarded, sc.from
		r.Outcome, r.Error, r.Result = string(l.outcome), l.reason, l.result
		r.Round, r.EverStarted, r.Batch = l.row.Round, l.row.EverStarted, sc.batch
		if sc.cancel > 0 {
			e.Expects.CancelRequested, e.Expects.CancelAt = true, sc.cancel+s(0.05)
		}
	})
	l.g.Tried = append(l.g.Tried, l.tried...)
}

// cancelled reports whether a cancellation has come by then.
func (l *life) cancelled(at time.Duration) bool {
	return l.script.cancel > 0 && l.script.cancel <= at && l.row.Round == 0
}

// agent is who claims the row now.
func (l *life) agent() *simAgent {
	var able []string
	for _, name := range []string{"a1.1", "a1.2", "a2.1", steady} {
		if l.g.agents[name].works(l.now) {
			if name == l.script.who {
				return l.g.agents[name]
			}
			able = append(able, name)
		}
	}
	return l.g.agents[rapid.SampledFrom(able).Draw(l.g.t, "agent")]
}

// try is one claim and what comes of it.
func (l *life) try(end task.Verdict) {
	g := l.g
	who := l.agent()
	l.row.Fence++
	l.row.Attempt++
	l.row.State = l.row.State.Claimed()
	l.lease = 0
	l.move()
	fails, dies := who.fails(l.now)
	if end == task.Undelivered || l.script.who == "" && g.one(20) {
		l.settle(task.Outcome{Verdict: task.Undelivered, NeverStarted: true}, l.row.Fence, end == task.Undelivered)
		return
	}
	began := l.now + g.between(0, s(0.3))
	a := &attempted{life: l, who: who, began: began, fence: int64(l.row.Fence), number: l.row.Attempt, cut: fails}
	if began >= fails {
		l.lost(a, fails, dies)
		return
	}
	a.check()
	a.report(began, history.Start, "")
	over := a.work(end)
	if a.completed {
		return
	}
	if over >= fails {
		l.lost(a, fails, dies)
		return
	}
	l.now = over + g.between(s(0.01), s(0.1))
	l.settle(task.Outcome{
		Verdict: end, Error: "as it was to be", EndUnknown: !l.kind.Child && (end == task.Stalled || end == task.Drained),
	}, l.row.Fence, true)
}

// lost is what becomes of a row whose agent was killed or stands still: another reaps it.
func (l *life) lost(a *attempted, failed time.Duration, dies bool) {
	reaped := failed + l.g.Presence + l.g.between(0, s(1.5))
	if !l.kind.Child && a.began < failed {
		gone := failed + l.g.between(s(0.01), s(0.4))
		if !dies {
			gone = a.who.thaw + l.g.between(s(0.01), s(2))
		}
		a.reportAfter(gone, history.Gone)
		if l.script.guarded && !a.made {
			a.reportAfter(gone+l.g.between(0, s(3)), history.Refused)
		}
	}
	if !dies {
		l.g.Said = append(l.g.Said, history.Said{
			At: a.who.thaw + time.Second, Who: a.who.name, ID: int64(l.row.ID), Fence: a.fence, Text: "lease lost: another holds the row",
		})
	}
	l.now = max(l.now, reaped)
	ran := l.row.Fence
	l.row.Fence++
	l.move()
	l.settle(task.Outcome{Verdict: task.Lost, Error: "its agent is gone", EndUnknown: true}, ran, true)
}

// settle ends the hold on the row.
func (l *life) settle(o task.Outcome, ran task.Fence, report bool) {
	asked := l.cancelled(l.now)
	l.row.CancelRequested = asked
	number, phase := l.row.Attempt, l.row.State.Phase()
	next := task.Decide(&l.row, &l.policy, o, 0, 0.5)
	line := history.Tried{
		ID: int64(l.row.ID), Attempt: number, Fence: int64(l.row.Fence), RanFence: int64(ran), Phase: string(phase), Outcome: string(o.Verdict),
	}
	l.untold = nil
	if report && (!next.State.Finished() || number != 1 || phase == task.Rollback) {
		l.tried = append(l.tried, line)
	} else if report {
		l.untold = &line
	}
	if o.Verdict == task.Succeeded && phase == task.Run {
		l.result = result(int64(ran))
	}
	if phase == task.Run && next.State.Phase() == task.Rollback {
		l.ended = 0
	}
	l.row.State, l.row.Attempt, l.row.Deferrals, l.row.EverStarted = next.State, next.Attempt, next.Deferrals, next.EverStarted
	l.row.Fence++
	l.outcome, l.reason = o.Verdict, next.Reason
	l.now += next.Delay
	if next.AfterLease {
		l.now = max(l.now, l.lease)
	}
	l.move()
}
