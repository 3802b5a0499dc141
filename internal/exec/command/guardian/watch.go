package guardian

import (
	"math"
	"time"

	"github.com/leasehold/leasehold/internal/lease"
)

// watch is what the guardian knows. It is pure: time is handed in.
//
// An attempt is over once the agent has said so. It is not over while its group is known, nor if its number is above all
// known ones: the agent may have died before the pipe took its record.
type watch struct {
	groups   map[uint64]*group
	high     uint64
	presence time.Duration // when it runs out; never, while none has been sent
	leaving  bool          // the agent starts nothing more
}

// group is a process group that the agent has sent, or is about to start.
type group struct {
	number   uint64
	pgid     int // 0: not known yet
	cgroup   int
	end      time.Duration // of its window
	from, to time.Duration // its leader was started between

	condemned bool // it is to be dead: nothing brings it back
	dead      bool // it is
	tries     int  // how often it was killed
	next      time.Duration
}

const never = time.Duration(math.MaxInt64)

func newWatch() *watch {
	return &watch{groups: make(map[uint64]*group), presence: never}
}

// apply takes in what the agent says.
func (w *watch) apply(r record) {
	switch r.kind {
	case present:
		w.presence = r.end
	case pending, start:
		w.high = max(w.high, r.number)
		before := w.groups[r.number]
		w.groups[r.number] = &group{
			number: r.number, pgid: r.pgid, cgroup: r.cgroup, end: r.end, from: r.from, to: r.to,
			condemned: before != nil && before.condemned,
		}
	case move:
		if g := w.groups[r.number]; g != nil {
			g.end = r.end
		}
	case over:
		w.high = max(w.high, r.number)
		delete(w.groups, r.number)
	case base:
		w.high = max(w.high, r.number)
	case bye:
		w.leaving = true
	}
}

// killAt is when the group is to be dead.
func (w *watch) killAt(g *group) time.Duration { return min(g.end, w.presence) - lease.KillMargin }

// goneAt is when all has to be dead because presence is about to run out, also what has not been sent.
func (w *watch) goneAt() time.Duration {
	if w.presence == never {
		return never
	}
	return w.presence - lease.KillMargin
}

// gone reports whether that time has come.
func (w *watch) gone(now time.Duration) bool { return now >= w.goneAt() }

// condemn condemns the groups whose time has come, or all, and reports whether there were any.
func (w *watch) condemn(now time.Duration, all bool) (some bool) {
	for _, g := range w.groups {
		if !g.condemned && (all || now >= w.killAt(g)) {
			g.condemned, g.next, some = true, now, true
		}
	}
	return some
}

// next is when a group is to be condemned next, or killed again.
func (w *watch) next() time.Duration {
	next := never
	for _, g := range w.groups {
		switch {
		case g.dead:
		case g.condemned:
			next = min(next, g.next)
		default:
			next = min(next, w.killAt(g))
		}
	}
	return next
}

// idle reports whether the agent runs nothing, as far as is known.
func (w *watch) idle() bool { return len(w.groups) == 0 }

// alive reports whether a condemned group is not dead yet.
func (w *watch) alive() bool {
	for _, g := range w.groups {
		if g.condemned && !g.dead {
			return true
		}
	}
	return false
}

// wants reports whether processes with that number are to be killed wherever they are: those of a condemned group, or with
// all, of every attempt that is not over.
func (w *watch) wants(number uint64, all bool) bool {
	if g := w.groups[number]; g != nil {
		return all || g.condemned
	}
	return all && number > w.high
}
