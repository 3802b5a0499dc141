package ops

import (
	"context"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Reason is one reason why a task is not running, or what it does if it is.
type Reason struct {
	Kind   ReasonKind `json:"reason"`
	Text   string     `json:"text"`
	Remedy string     `json:"remedy,omitempty"` // what an operator can do about it; "": nothing is wrong
	Since  *time.Time `json:"since,omitempty"`
	By     string     `json:"by,omitempty"`         // who has brought it about, where that is known
	Other  task.ID    `json:"other_task,omitempty"` // the task that is in the way
	Agent  string     `json:"agent,omitempty"`
	Ahead  int        `json:"ahead,omitempty"`    // tasks that come first; above store.MostAhead: that many at least
	Starts *time.Time `json:"expected,omitempty"` // an estimate of when the task may start, where one can be given
	// Process is what the process of a running task does, where its agent can see that.
	Process *store.RunningProcess `json:"process,omitempty"`
}

// ReasonKind names a kind of reason. The names are stable.
type ReasonKind string

// The reasons why a task waits, in the order in which they are looked for: the first that holds is the one.
const (
	WhyFollows    ReasonKind = "follows"      // the task before it, with its type and key, has not ended
	WhyAfter      ReasonKind = "after"        // it waits for other tasks
	WhyBatch      ReasonKind = "batch"        // its batch is being cancelled or rolled back
	WhyNotDue     ReasonKind = "not_due"      // for the first time, again after a failure, or as its target asked
	WhyPaused     ReasonKind = "paused"       // its type
	WhyUndeclared ReasonKind = "undeclared"   // no present agent declares its type
	WhyRegion     ReasonKind = "region"       // none of those that do is of its region
	WhyCordoned   ReasonKind = "cordoned"     // all of those are cordoned, draining or observers
	WhyLock       ReasonKind = "lock"         // another task has its lock
	WhySequence   ReasonKind = "sequence"     // another task of its sequence comes first
	WhyBlocked    ReasonKind = "blocked"      // a failed task blocks its sequence
	WhyLimit      ReasonKind = "limit"        // as many attempts of its type run as may
	WhyRate       ReasonKind = "rate"         // as many have started as may
	WhyTenant     ReasonKind = "tenant_limit" // the same of its tenant
	WhyTenantRate ReasonKind = "tenant_rate"  // likewise
	WhyBreaker    ReasonKind = "breaker"      // its target is out of reach
	WhySlots      ReasonKind = "slots"        // all slots of the agents are in use
	WhyAhead      ReasonKind = "ahead"        // other tasks come first
	WhyStarting   ReasonKind = "starting"     // nothing is in the way
	WhyRunning    ReasonKind = "running"      // it runs, or rolls back
	WhyChecking   ReasonKind = "check"        // its agent asks the check whether it is done already
	WhyCancelling ReasonKind = "cancelling"   // it runs, and is to stop
	WhyAgentGone  ReasonKind = "agent_absent" // its agent is gone: another requeues it
	WhyFinished   ReasonKind = "finished"     // it has ended
)

// Explanation says why a task is not running, or what it does.
type Explanation struct {
	ID    task.ID    `json:"id"`
	Type  string     `json:"type"`
	State task.State `json:"state"`
	Reason
	// Also are other reasons, which would keep the task from starting if the first did not.
	Also []Reason `json:"also,omitempty"`
	// History are the attempts that are over, oldest first.
	History []Attempt `json:"-"`
}

// Explainer is what Explain needs of the store.
type Explainer interface {
	// Situation returns a task and all that decides whether it may start, read at one moment; ErrNoTask where there is none.
	Situation(ctx context.Context, id task.ID) (*store.Situation, error)
	redactionStore
}

// Explain says why a task is not running, or what it does.
func Explain(ctx context.Context, s Explainer, id task.ID) (*Explanation, error) {
	w, err := s.Situation(ctx, id)
	if err != nil {
		return nil, taskError(id, err)
	}
	masks, err := ReadRedactions(ctx, s)
	if err != nil {
		return nil, err
	}
	e := Why(w, masks)
	return &e, nil
}

// Why says what follows from a situation: the one reason for which a task is not running, and what else would keep it from that. What it says
// of the task's documents is masked.
func Why(w *store.Situation, masks Redactions) Explanation {
	t := masks.Task(w.Task)
	e := Explanation{ID: t.ID, Type: t.Type, State: t.State, History: History(t)}
	switch {
	case t.State.Finished():
		e.Reason = Reason{Kind: WhyFinished, Text: Summary(t), Since: t.FinishedAt}
	case t.Follows != 0:
		e.Reason = Reason{Kind: WhyFollows, Other: t.Follows, Text: fmt.Sprintf(
			"it follows task %d, which has the same type and key: it becomes a task of its own when that one has ended for good", t.Follows)}
	case t.State.Running():
		e.Reason = whyRunning(w, t)
	default:
		e.Reason, e.Also = whyWaiting(w)
	}
	return e
}

// whyWaiting returns the first reason for which a task that waits does not start, and the others.
func whyWaiting(w *store.Situation) (first Reason, also []Reason) {
	found := candidatesOf(w)
	var all []Reason
	for _, r := range []*Reason{
		whyAfter(w), whyBatch(w), whyNotDue(w), whyPaused(w), found.missing(w), whyLock(w), whySequence(w), whyLimit(w), whyRate(w),
		whyTenant(w), found.unreachable(w), found.busy(w), found.behind(w),
	} {
		if r != nil {
			all = append(all, *r)
		}
	}
	if len(all) == 0 {
		return Reason{Kind: WhyStarting, Text: "nothing is in the way: an agent claims it when it looks next, within its poll interval"}, nil
	}
	return all[0], all[1:]
}

// clock writes how far a time is from now, and the time.
func clock(now, t time.Time) string {
	switch left := t.Sub(now); {
	case left >= time.Second:
		return fmt.Sprintf("in %s, at %s", Age(left), Time(t))
	case left > 0:
		return "now, at " + Time(t)
	}
	return fmt.Sprintf("since %s, %s", Time(t), Age(now.Sub(t)))
}

// in writes after what time something happens: "in 350 ms", or "at once".
func in(d time.Duration) string {
	if d < time.Millisecond {
		return "at once"
	}
	return "in " + Duration(d)
}

// byWhom writes who has brought something about; "" where it is not known.
func byWhom(by string) string {
	const most = 100
	if by = OneLine(by, most); by != "" {
		return " by " + by
	}
	return ""
}

// count writes how many tasks come first.
func count(n int) string {
	if n > store.MostAhead {
		return "more than " + Tasks(store.MostAhead)
	}
	return Tasks(int64(n))
}
