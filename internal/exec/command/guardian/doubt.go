package guardian

import (
	"time"

	"github.com/leasehold/leasehold/internal/lease"
)

// What the guardian process may have killed. It acts on its own, and says nothing of it: the agent has to know from what
// it has told, and when. The guardian process looks at its clock first, then reads all that the agent has written, and
// kills after that. So what stands in the pipe before a time has come is known when it has; and the agent looks at its
// clock after it has written, and takes whatever was written too late for not having been known.

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

// behind reports whether the guardian process has not been told all that is so: something did not fit into the pipe.
func (g *Guardian) behind() bool { return g.child != nil && len(g.child.backlog) > 0 }

// suspect says that the guardian process may be killing all, in free cgroups too. That is over once it has answered what
// it was told last: it answers before it looks at the time again.
func (g *Guardian) suspect() {
	g.blame()
	if g.child != nil {
		g.doubt, g.answers = true, g.child.sent
	}
}

// trust ends the doubt where it is over. What has begun meanwhile may have been killed, too.
func (g *Guardian) trust() {
	if g.doubt && g.child != nil && g.child.heard.Load() >= g.answers {
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
