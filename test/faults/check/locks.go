package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/leasehold/leasehold/test/faults/history"
)

// OneOfALockAtATime says: no two attempts of rows with the same lock are at work at once, whatever they are for and whichever agents
// run them: a process starts when that of the other row is dead, and a request comes when that of the other has ended, or its agent
// has closed the connection.
//
// It must hold because a claim gives the lock to one row, and takes it from a row only when that does not run any more; and where the end of
// an attempt is not known, when its lease has ended.
//
// Exempt says: of requests what OneRequestAtATime says.
const OneOfALockAtATime Name = "OneOfALockAtATime"

func oneOfALockAtATime(x *index, f *found) {
	locks := map[string][]*attempt{}
	for _, s := range x.records {
		if s.enqueued == nil || s.enqueued.Lock == "" {
			continue
		}
		for _, a := range s.inOrder() {
			if a.start != nil {
				locks[s.enqueued.Lock] = append(locks[s.enqueued.Lock], a)
			}
		}
	}
	for lock, all := range locks {
		x.oneAtATime(OneOfALockAtATime, "lock "+lock, all, f)
	}
}

// oneAtATime looks at the attempts of rows of which one at most may be at work.
func (x *index) oneAtATime(name Name, of string, all []*attempt, f *found) {
	slices.SortStableFunc(all, func(a, b *attempt) int { return cmp.Compare(a.start.At, b.start.At) })
	var longest *attempt // the one of those before that was seen at work last
	for _, a := range all {
		if longest != nil && longest.id != a.id {
			x.inspectPair(name, of, longest, a, f)
		}
		if longest == nil || longest.atWork() < a.atWork() {
			longest = a
		}
	}
}

// inspectPair looks at two attempts of such rows, the second of which began later.
func (x *index) inspectPair(name Name, of string, before, next *attempt, f *found) {
	began, until := next.start.At, before.atWork()
	if until <= began || !before.child && (until <= began+notice || until <= x.mayLast(before, began) ||
		x.weather.any(span{before.start.At, until}, ofEndpoints)) {
		return
	}
	f.add(name, began, next.id, "it started with %s while task %d with fence %d was at work, which it was for %s more",
		of, before.id, before.fence, (until - began).Round(time.Millisecond))
}

// atWork is the last moment at which a process is known to have been alive, or a connection open.
func (a *attempt) atWork() time.Duration {
	if a.child {
		return a.alive()
	}
	if e := a.first(history.End, history.Gone); e != nil {
		return e.At
	}
	return a.lastSeen()
}
