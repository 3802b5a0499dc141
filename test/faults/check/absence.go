package check

import (
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/faults/history"
)

// AbsenceIsFree says: a task uses up no attempt because the store or its agent was away. No process of a task is killed but
// for a reason that its agent knows and reports: no row says that SIGKILL ended the process, unless the process announced
// that.
//
// It must hold because an agent and its guardian kill nothing but what is to be dead (rule 4), attempts that are stopped
// because the store is out of reach are drained (rule 7), and a cgroup in which anything was killed is not used again.
//
// Exempt says: attempts that kill themselves, and say so before, and those whose worker the nemesis kills, where they had begun or
// not; processes that the kernel kills because memory ran out; the attempt of an agent that was killed or stood still, which another
// reaps as lost.
const AbsenceIsFree Name = "AbsenceIsFree"

// saysKilled is what a row says of an attempt that SIGKILL ended for no known reason; saysMemory, where the kernel did so.
const (
	saysKilled = "killed by SIGKILL"
	saysMemory = "out of memory"
)

func absenceIsFree(x *index, f *found) {
	for _, s := range x.records {
		for _, t := range s.tried {
			x.inspectKilled(s, t.RanFence, task.Verdict(t.Outcome), t.Error, f)
		}
		for _, st := range s.stretches {
			if st.end != nil && len(st.tried) == 0 { // its first attempt was its last
				x.inspectKilled(s, st.end.fence-1, st.end.outcome, st.end.reason, f)
			}
		}
	}
}

// inspectKilled looks at how an attempt ended, as the row has it.
func (x *index) inspectKilled(s *record, fence int64, outcome task.Verdict, reason string, f *found) {
	if !strings.Contains(reason, saysKilled) || strings.Contains(reason, saysMemory) || s.attempt(fence).saidEnd() || s.check(fence).saidEnd() {
		return
	}
	a, asked := s.attempt(fence), s.check(fence)
	if x.slain(a, forever) || x.slain(asked, forever) || a == nil && asked == nil && s.row != nil && x.h.Kinds[s.row.Type].Worker && x.anySlain() {
		return
	}
	at, lived := x.last(s), "had not begun"
	if a != nil {
		at = a.lastSeen()
		lived = "had been there for " + (at - a.events[0].At).Round(time.Millisecond).String()
	}
	f.add(AbsenceIsFree, at, s.id, "the attempt with fence %d was killed for no known reason, when it %s, and settled as %s: %s", fence, lived, outcome, reason)
}

// saidEnd reports whether the attempt reported that it was about to end; nil never did.
func (a *attempt) saidEnd() bool { return a != nil && a.first(history.End) != nil }
