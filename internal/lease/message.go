package lease

import "github.com/leasehold/leasehold/internal/store"

// SetMessage takes a message of the task that does not count as a ping.
func (l *Lease) SetMessage(message string) {
	l.mu.Lock()
	if message == "" || l.over && !l.detached || l.isLost() {
		l.mu.Unlock()
		return
	}
	l.reports().report.Message = message
	by := l.clock.Now() + writeLate
	l.mu.Unlock()
	if l.warden != nil {
		l.warden.write(l, by)
	} else if r, ok := l.outgoing(); ok {
		l.answered(&r, store.Applied)
	}
}
