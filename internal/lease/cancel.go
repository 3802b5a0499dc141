package lease

import (
	"cmp"

	"github.com/leasehold/leasehold/internal/fault"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// cancelled acts on what Store.Cancels returned for the row.
func (l *Lease) cancelled(c store.Cancel) {
	if fault.Off(fault.Hear) && !l.begun() {
		return // a session heartbeat may still stop it
	}
	if c.Requested {
		l.requestCancel(c.Reason)
		return
	}
	if !l.begun() {
		l.Stop(&Cause{Verdict: task.Drained, Reason: "its batch is being stopped"})
	}
}

// begun reports whether anything of the attempt has begun: its check, its run, or its end.
func (l *Lease) begun() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.isStart || l.isCheck || l.over
}

// CancelRequested reports whether a cancellation of the task was requested, as far as the agent knows.
func (l *Lease) CancelRequested() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.cancelRequested
}

// CancelledBy returns who requested the cancellation, as ", by alice"; "" if that is unknown.
func (l *Lease) CancelledBy() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cancelRequestedBy == "" {
		return ""
	}
	return ", by " + l.cancelRequestedBy
}

// requestCancel stops the attempt because a cancellation was requested. A rollback continues.
func (l *Lease) requestCancel(reason string) {
	if l.phase == task.Rollback {
		return
	}
	l.mu.Lock()
	first, detached := !l.cancelRequested, l.detached
	l.cancelRequested, l.cancelRequestedBy = true, reason
	reason = l.cancelReason()
	l.mu.Unlock()
	if first && !detached { // a detached task learns of it when it pings
		l.Stop(&Cause{Verdict: task.Cancelled, Reason: reason})
	}
}

// cancelReason returns why the task is to stop, human-readable. l.mu is held, and a cancellation was requested.
func (l *Lease) cancelReason() string {
	return cmp.Or(l.cancelRequestedBy, "cancellation requested")
}

// NoteCancel records that a cancellation was requested, which the settlement found out. It stops nothing.
func (l *Lease) NoteCancel() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancelRequested = true
}
