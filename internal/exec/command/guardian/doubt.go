package guardian

import (
	"time"

	"github.com/leasehold/leasehold/internal/lease"
)

// This file decides what the guardian process may have killed. The guardian process does not report its kills: the agent
// derives them from what it has written, and when. The guardian process reads its clock first, then all that the agent has
// written, and kills after that. So it knows at a time all that was in the pipe before that time. The agent reads its clock
// after it has written, and assumes that the guardian process did not know what was written too late.

// unsure is by how much the clocks of two processes may differ: after a suspension each finds out in its own time
// (lease.BootClock).
const unsure = 100 * time.Millisecond

// late reports whether the guardian process may have taken the attempt's group for one that is to be dead by now, as watch
// has it. g.mu is held, as in all that follows.
func (g *Guardian) late(t *attempt, now time.Duration) bool {
	return now >= t.end-lease.KillMargin-unsure || g.absent(now) || g.doubt || g.behind()
}

// absent reports whether the session's presence is so near to its end that all is to be dead.
func (g *Guardian) absent(now time.Duration) bool {
	return g.presence != 0 && now >= g.presence-lease.KillMargin-unsure
}

// behind reports whether records for the guardian process are still to be written, because they did not fit into the pipe.
func (g *Guardian) behind() bool { return g.child != nil && len(g.child.backlog) > 0 }

// suspect notes that the guardian process may be killing everything, in free cgroups too. That is over once it has
// answered the last record: it answers before it looks at the time again.
func (g *Guardian) suspect() {
	g.blame()
	if g.child != nil {
		g.doubt, g.answers = true, g.child.sent
	}
}

// trust ends the doubt if it is over. What has begun meanwhile may have been killed, too.
func (g *Guardian) trust() {
	if g.doubt && g.child != nil && g.child.answered.Load() >= g.answers {
		g.blame()
		g.doubt = false
	}
}

// lastDoubt ends the doubt about a guardian process that is gone, and has perhaps killed to its end.
func (g *Guardian) lastDoubt(c *child) {
	if c == g.child && (g.doubt || g.behind()) {
		g.blame()
	}
	g.doubt = false
}

// blame takes all attempts for killed, and all cgroups.
func (g *Guardian) blame() {
	for _, t := range g.attempts {
		t.overdue = true
	}
	if g.o.Killed != nil {
		g.o.Killed()
	}
}
