package lease

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/leasehold/leasehold/internal/fault"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// How long a ping may wait for others before it is written: a quarter of its window, within these bounds. Until then
// the lease in the store ends as the ping before set it, which is early rather than late.
const (
	writeSoon = 100 * time.Millisecond
	writeLate = time.Second
)

// reported is what a task has reported, and how much of it the store knows.
type reported struct {
	progress, checkpoint json.RawMessage // the last ones
	ignored              bool            // the last ping did not count
	marks                task.Marks      // what it has reported; only where its type requires progress

	report store.Report  // not on their way yet
	flying store.Report  // on their way
	renew  bool          // a ping counted that is not on its way yet
	pinged time.Duration // local time of the last that counted
	detach bool          // the store is to learn that the lease is detached
	until  time.Duration // the window's end that is on its way; 0: none
}

// reports returns what the task has reported, to be changed. Most tasks report nothing, and it would double the size of their
// leases. l.mu is held.
func (l *Lease) reports() *reported {
	if l.reported == nil {
		l.reported = &reported{marks: task.Marks{Fence: l.task.Fence}}
	}
	return l.reported
}

// unwritten reports whether the store does not know all that the task has reported.
func (l *Lease) unwritten() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.reported
	return s != nil && (s.renew || s.detach || s.until != 0 || !s.report.Empty() || !s.flying.Empty())
}

// Ping handles a ping and returns its reply. Where the policy requires progress, only a ping that advances counts
// (task.Marks).
func (l *Lease) Ping(p store.Ping) store.PingReply {
	l.mu.Lock()
	now := l.clock.Now()
	reply, by := l.take(&p, now)
	onPing := l.onPing
	l.mu.Unlock()
	if onPing != nil {
		onPing(p, reply)
	}
	if l.warden != nil {
		l.warden.count(l.task.Type, reply)
	}
	switch {
	case by == 0:
	case l.warden != nil:
		l.warden.write(l, by)
	default:
		if r, ok := l.outgoing(); ok {
			l.answered(&r, store.Applied)
		}
	}
	return reply
}

// take is Ping; by is the local time by which the store is to learn of it, 0: never. l.mu is held.
func (l *Lease) take(p *store.Ping, now time.Duration) (reply store.PingReply, by time.Duration) {
	cause := l.Cause()
	if l.over && !l.detached || l.failed || cause != nil && cause.Verdict == task.Lost {
		return store.PingReply{}, 0
	}
	reply = store.PingReply{Answer: store.Applied, Counted: true, Remaining: l.remaining()}
	l.heard = true
	l.note(p)
	s := l.reports()
	if _, strict, _ := l.policy.Liveness(l.phase); strict && !s.marks.Advance(p.Progress, p.Checkpoint) {
		reply.Counted, reply.Reason = false, "progress did not change"
		if p.Progress == nil && p.Checkpoint == nil {
			reply.Reason = "the ping reported no progress, which this type requires"
		}
	}
	switch {
	case cause != nil && !l.detached: // what ends an agent's work ends nothing that goes on without it
		reply.Counted, reply.Cancel, reply.Reason = false, true, cause.Error()
	case l.cancelRequested:
		reply.Cancel, reply.Reason = true, l.cancelReason()
	}
	s.ignored = !reply.Counted
	if reply.Counted {
		l.beat(p.NextWithin, now)
	}
	if s.renew || !s.report.Empty() {
		by = now + min(max(l.alarm.window/4, writeSoon), writeLate)
	}
	return reply, by
}

// beat opens a new window, for a ping that counts. l.mu is held.
func (l *Lease) beat(next, now time.Duration) {
	window := l.policy.PingWindow(l.phase, next)
	if window == 0 || !l.isStart {
		return
	}
	before := l.alarm.due
	l.alarm.window, l.alarm.due = window, now+window
	l.alarm.doubted = 0
	s := l.reports()
	s.renew, s.pinged = true, now
	if l.alarm.due < before && !l.detached { // else the alarm is set again when it goes off: a ping costs no timer
		l.arm(now)
	}
}

// Silence is how long an attempt has said nothing to this agent.
type Silence struct {
	Since, For time.Duration // the local time of the last ping that counted, or of the attempt's start; and how long ago that was
	Pinged     bool          // there was a ping
}

// Silence returns how long the attempt has said nothing; ok is false before its start.
func (l *Lease) Silence() (s Silence, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Since = l.started
	if l.reported != nil && l.reported.pinged > 0 {
		s.Since, s.Pinged = l.reported.pinged, true
	}
	s.For = l.clock.Now() - s.Since
	return s, l.isStart
}

// Heard reports whether a ping of the attempt has come, by any way that the agent knows of, whether it counted or not.
func (l *Lease) Heard() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heard
}

// note keeps what is new, to be written. l.mu is held.
func (l *Lease) note(p *store.Ping) {
	s := l.reports()
	if p.Progress != nil && !bytes.Equal(p.Progress, s.progress) {
		s.progress, s.report.Progress = p.Progress, p.Progress
	}
	before := s.checkpoint
	if before == nil {
		before = l.task.Checkpoint
	}
	if p.Checkpoint != nil && !bytes.Equal(p.Checkpoint, before) {
		s.checkpoint, s.report.Checkpoint = p.Checkpoint, p.Checkpoint
	}
	if p.Message != "" {
		s.report.Message = p.Message
	}
}

// Report returns the reports that the store is not known to have, for the settlement to write.
func (l *Lease) Report() store.Report {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reported == nil {
		return store.Report{}
	}
	return l.reported.report.Over(l.reported.flying)
}

// outgoing returns what is to be written now; ok is false if there is nothing. The store's answer goes to answered, before
// the next outgoing.
//
// It sends how old the ping is, and not the time of the ping or of the lease's end: the store subtracts the age from its own
// clock when it writes. So the time that a ping waits here does not extend the lease; only
// the time that the call is in flight does.
func (l *Lease) outgoing() (r store.Renewal, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.reported
	if s == nil || l.over && !l.detached || l.completed || l.failed || !s.renew && !s.detach && s.report.Empty() {
		return store.Renewal{}, false
	}
	r = store.Renewal{ID: l.task.ID, Fence: l.task.Fence, Detach: s.detach}
	if s.renew {
		_, _, stop := l.policy.Lengths(l.phase)
		s.until = min(l.alarm.due, l.alarm.last) + stop
		r.Age, r.Window = l.clock.Now()-s.pinged, s.until-s.pinged
		if fault.Off(fault.PingAge) {
			r.Age = 0
		}
		r.Exact = s.until < l.end // the task asked for a longer window before, and that one is over
		if _, strict, _ := l.policy.Liveness(l.phase); strict {
			marks := s.marks
			r.Marks = &marks
		}
	}
	s.flying = s.report.Over(s.flying)
	s.report, s.renew = store.Report{}, false
	r.Report = s.flying
	return r, true
}

// unconfirmed reports whether a renewal is to be written, or its answer is not there yet. l.mu is held.
func (l *Lease) unconfirmed() bool {
	return l.reported != nil && (l.reported.renew || l.reported.until > 0)
}

// answered takes the store's answer to what outgoing returned; Busy also stands for an answer that never came. It reports
// whether the renewal has to be written again.
func (l *Lease) answered(r *store.Renewal, a store.Answer) (again bool) {
	l.mu.Lock()
	s := l.reports()
	until := s.until
	s.until = 0
	switch a {
	case store.Busy:
		s.renew = s.renew || until > 0
		s.report, s.flying = s.report.Over(s.flying), store.Report{}
		l.mu.Unlock()
		return true
	case store.Applied:
		s.flying = store.Report{}
		if r.Detach {
			s.detach = false
		}
	default:
	}
	var moved func()
	if a == store.Applied && (until > l.end || r.Exact) {
		l.setEnd(until)
		moved = l.moved
	}
	l.mu.Unlock()
	if moved != nil {
		moved()
	}
	return false
}

// applyHeld takes what the store knows of the row, as of the local time sent: a requested cancellation, and pings that arrived
// elsewhere.
func (l *Lease) applyHeld(h store.Held, sent time.Duration) {
	if h.CancelRequested {
		l.requestCancel(h.CancelReason)
	}
	if !h.Pinged {
		return
	}
	l.mu.Lock()
	l.heard = true
	if h.Marks != nil {
		l.reports().marks.Merge(task.MarksOf(h.Marks, l.task.Fence))
	}
	_, _, stop := l.policy.Lengths(l.phase)
	var moved func()
	if due := sent + h.PingDue; l.isStart && due > l.alarm.due {
		l.alarm.due, l.alarm.doubted = min(due, l.alarm.last), 0
	}
	if end := min(sent+h.Left, l.alarm.last+stop); l.isStart && end > l.end {
		l.setEnd(end)
		moved = l.moved
	}
	l.mu.Unlock()
	if moved != nil {
		moved()
	}
}
