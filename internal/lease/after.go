package lease

import "github.com/leasehold/leasehold/internal/task"

// SetAfter sets what the attempt gets to know of the tasks that its own has waited for, before it starts.
func (l *Lease) SetAfter(after *task.After) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.after = after
}

// After returns what the attempt gets to know of the tasks that its own has waited for; nil: it has waited for none, or is a rollback.
func (l *Lease) After() *task.After {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.after
}
