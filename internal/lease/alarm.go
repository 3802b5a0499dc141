package lease

import (
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// patience is how long the store gets to answer before an attempt is stopped without its answer. It is taken from the margin
// that a stop has beside the grace (task.StopMargin), so that KillMargin is still kept.
const patience = 500 * time.Millisecond

// alarm is when a lease has to be checked, and why.
type alarm struct {
	timer      *time.Timer
	last       time.Duration // local time at which the attempt's time is over
	byDeadline bool          // because of the task's own deadline
	due        time.Duration // local time by which the next ping must come, if there is a heartbeat
	window     time.Duration // the time between two pings that due allows

	doubted time.Duration // local time since which the store is asked whether pings arrived elsewhere; 0: it is not
	urged   time.Duration // local time since which a renewal is overdue; 0: it is not
}

func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

// arm sets the alarm to the next moment that matters, at the local time now. l.mu is held, and the attempt has started.
func (l *Lease) arm(now time.Duration) {
	a := &l.alarm
	next := a.last
	if _, heartbeat, stop := l.policy.Lengths(l.phase); heartbeat > 0 {
		due, whole := a.due, l.end-stop
		if a.doubted > 0 {
			due = a.doubted + patience
		}
		if a.urged > 0 {
			whole = a.urged + patience
		}
		next = min(next, due, whole)
	}
	in := max(next-now, 0)
	if a.timer == nil {
		a.timer = time.AfterFunc(in, l.ring)
	} else {
		a.timer.Reset(in)
	}
}

// ring checks the lease when the alarm goes off. The alarm may go off early, and is set again then.
func (l *Lease) ring() {
	l.mu.Lock()
	if l.over || l.detached || l.ctx.Err() != nil {
		l.mu.Unlock()
		return
	}
	now := l.clock.Now()
	cause, ask := l.look(now)
	if cause == nil {
		l.arm(now)
	}
	l.mu.Unlock()
	switch {
	case cause != nil:
		l.Stop(cause)
	case ask == askStore:
		l.warden.doubt(l)
	case ask == hurryUp && l.warden != nil:
		l.warden.write(l, now)
	}
}

// asking is what a check of a lease asks of its warden.
type asking int

const (
	nothing  asking = iota
	askStore        // whether pings came elsewhere
	hurryUp         // with the renewal
)

// look returns why the attempt must stop now, or nil. l.mu is held.
//
// Two doubts come before a stop, each with the store's patience. If no ping has come in time, pings may have arrived at
// another agent or by SQL: the store is asked before the attempt is called stalled. If pings have come but the store has not
// confirmed the renewal, the write is hurried: an attempt with progress is then drained, not stalled.
func (l *Lease) look(now time.Duration) (*Cause, asking) {
	a := &l.alarm
	_, heartbeat, stop := l.policy.Lengths(l.phase)
	switch {
	case now >= a.last:
		return l.timedOut(), nothing
	case heartbeat == 0:
		return nil, nothing
	case now >= a.due:
		if l.warden != nil && a.doubted == 0 {
			a.doubted = now
			return nil, askStore
		}
		if l.warden == nil || now >= a.doubted+patience {
			return l.stalled(), nothing
		}
	case now >= l.end-stop: // there was progress, and the store has not confirmed it
		if a.urged == 0 {
			a.urged = now
			return nil, hurryUp
		}
		if now >= a.urged+patience {
			return &Cause{Verdict: task.Drained, Reason: "the store was out of reach when the lease had to be renewed"}, nothing
		}
	}
	return nil, nothing
}

func (l *Lease) timedOut() *Cause {
	if l.alarm.byDeadline {
		return &Cause{Verdict: task.TimedOut, Reason: "the task's deadline has come"}
	}
	timeout, _, _ := l.policy.Lengths(l.phase)
	return &Cause{Verdict: task.TimedOut, Reason: fmt.Sprintf("ran longer than its timeout of %s", timeout)}
}

func (l *Lease) stalled() *Cause {
	what := "no ping"
	if l.reported != nil && l.reported.ignored {
		what = "pings, but no progress,"
	}
	return &Cause{Verdict: task.Stalled, Reason: fmt.Sprintf("%s for %s", what, l.alarm.window.Round(time.Millisecond))}
}

// settleDoubt ends a doubt. The store has answered (see applyHeld), or could not be reached.
func (l *Lease) settleDoubt() {
	l.mu.Lock()
	if l.over || l.detached || l.ctx.Err() != nil || l.alarm.doubted == 0 {
		l.mu.Unlock()
		return
	}
	var cause *Cause
	if now := l.clock.Now(); now >= l.alarm.due {
		cause = l.stalled()
	} else {
		l.alarm.doubted = 0
		l.arm(now)
	}
	l.mu.Unlock()
	if cause != nil {
		l.Stop(cause)
	}
}
