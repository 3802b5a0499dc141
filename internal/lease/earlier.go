package lease

import "github.com/leasehold/leasehold/internal/task"

// An agent can claim a row while it still runs an earlier attempt of it: another agent has taken the row and released it, and
// the heartbeat that would have shown the loss comes after the claim. Then the earlier attempt is stopped at once, and the
// later one starts when that has ended. So two attempts of a row never run in one agent.

// follow makes l the lease that comes after earlier on the same row; nil: there is none. It reports whether anything of earlier
// attempts is left, which it has stopped then.
func (l *Lease) follow(earlier *Lease) (stopped bool) {
	if l.earlier = earlier.unended(); l.earlier == nil {
		return false
	}
	l.earlier.Stop(&Cause{Verdict: task.Lost, Reason: "the row was taken away, and this agent has claimed it again"})
	return true
}

// unended returns the last lease on the row, from l back, of which something is left here; nil: there is none.
func (l *Lease) unended() *Lease {
	for l != nil && l.isGone() {
		l = l.earlier
	}
	return l
}

// AwaitEarlier returns when nothing is left in this agent of earlier attempts of the row. They have been stopped, so it takes
// no longer than that.
func (l *Lease) AwaitEarlier() {
	for e := l.earlier; e != nil; e = e.earlier { // each: a lease that is released from the queue has not waited for those before it
		<-e.whenGone()
	}
}

// isGone reports whether nothing of the attempt is left in this agent: it is over, or goes on as a detached one.
func (l *Lease) isGone() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over || l.detached
}

// whenGone returns a channel that is closed once isGone.
func (l *Lease) whenGone() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.gone == nil {
		l.gone = make(chan struct{})
		if l.over || l.detached {
			close(l.gone)
		}
	}
	return l.gone
}

// leave closes the channel of whenGone. l.mu is held, and the lease is neither over nor detached yet.
func (l *Lease) leave() {
	if l.gone != nil && !l.over && !l.detached {
		close(l.gone)
	}
}
