package lease

import "github.com/leasehold/leasehold/internal/task"

// An agent can claim a row while it still runs an earlier attempt of it: another agent has taken the row and released it, and
// the heartbeat that would have shown the loss comes after the claim. Then the earlier attempt is stopped at once, and the
// later one starts when that has ended. So two attempts of a row never run in one agent.

// follow makes l the lease that comes after earlier on the same row; nil: there is none. It reports whether anything of earlier
// attempts was left and not known to be lost: it is stopped now.
func (l *Lease) follow(earlier *Lease) (stopped bool) {
	if l.earlier = earlier.unended(); l.earlier == nil {
		return false
	}
	if l.earlier.Failed() { // by its own report: nothing was lost
		l.earlier.Stop(&Cause{Verdict: task.Lost, Reason: "the task had reported its failure, and this agent has claimed it again"})
		return false
	}
	if !l.earlier.noteLost() {
		return false
	}
	l.earlier.Stop(&Cause{Verdict: task.Lost, Reason: "the row was taken away, and this agent has claimed it again"})
	return true
}

// isLost reports whether the attempt was stopped because it has lost its row.
func (l *Lease) isLost() bool {
	c := l.Cause()
	return c != nil && c.Verdict == task.Lost
}

// noteLost notes that the lease is lost, and reports whether that is new.
func (l *Lease) noteLost() (isNew bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	isNew = !l.lost
	l.lost = true
	return isNew
}

// unended returns the last lease on the row, from l back, of which something is left here; nil: there is none.
func (l *Lease) unended() *Lease {
	for l != nil && l.isGone() {
		l = l.earlier
	}
	return l
}

// AwaitEarlier waits until nothing is left in this agent of earlier attempts of the row, which have been stopped, or l itself is
// to stop. It reports whether it had to wait.
func (l *Lease) AwaitEarlier() (waited bool) {
	for e := l.earlier.unended(); e != nil; e = e.earlier.unended() { // a lease that the queue released has not waited for those before
		waited = true
		select {
		case <-e.whenGone():
		case <-l.ctx.Done():
			return waited
		}
	}
	return waited
}

// isGone reports whether a later attempt of the row need not wait for this one.
func (l *Lease) isGone() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.nothingLeft()
}

// nothingLeft is isGone: the attempt is over, or goes on although it is detached or has completed its task. l.mu is held.
func (l *Lease) nothingLeft() bool { return l.over || l.detached || l.completed }

// whenGone returns a channel that is closed once isGone.
func (l *Lease) whenGone() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone == nil {
		l.gone = make(chan struct{})
		if l.nothingLeft() {
			close(l.gone)
		}
	}
	return l.gone
}

// leave closes the channel of whenGone. l.mu is held, and what makes isGone true comes after it.
func (l *Lease) leave() {
	if l.gone != nil && !l.nothingLeft() {
		close(l.gone)
	}
}

// Waits reports whether something is left of earlier attempts of the row, so that AwaitEarlier would wait now. Once it does not, it never
// does again.
func (l *Lease) Waits() bool { return l.earlier != nil && l.earlier.unended() != nil }
