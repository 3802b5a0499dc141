package poll

import (
	"time"

	"github.com/leasehold/leasehold/internal/fault"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// claiming is a claim on its way.
type claiming struct {
	claim     store.Claim
	under     *generation
	sent      time.Duration
	extra     time.Duration // of its windows
	rows      int           // asked for
	cut, left *bool
}

// newClaim makes a claim of asks. It notes the time before the claim is sent, because each lease counts from there.
func (e *Engine) newClaim(asks []ask) claiming {
	e.number = fault.Number(e.number + 1)
	g := e.declarations()
	r := claiming{under: g, extra: e.extra, cut: new(bool), left: new(bool)}
	r.claim = store.Claim{Session: e.keeper.Session(), Number: e.number, Region: g.Region, Bytes: claimBytes, Cut: r.cut, Left: r.left,
		Limited: make(map[string]store.Room)}
	for _, a := range asks {
		w := a.want
		w.Window += r.extra
		r.claim.Wants = append(r.claim.Wants, w)
		r.rows += a.n
	}
	r.sent = e.o.Clock.Now()
	e.active.asked.Store(true)
	return r
}

// failed notes that it is unknown whether a claim has committed.
func (e *Engine) failed(r claiming) {
	e.unread = &unread{r.claim.Number, r.under, r.sent, r.extra}
	e.size.failed(r.rows)
}

// read takes in the reply to a claim.
func (e *Engine) read(r claiming, tasks []task.Task) {
	e.size.went()
	if *r.left {
		e.locks.claimIn()
	}
	took := e.o.Clock.Now() - r.sent
	e.latency.weight = 0.2
	e.latency.add(took.Seconds())
	e.extra = extraWindow(took)
	e.take(r.under, r.claim.Number, tasks, r.sent, r.extra)
}

// countEach returns how many of the rows each ask has got.
func countEach(asks []ask, tasks []task.Task) []int {
	type from struct {
		name  string
		phase task.Phase
	}
	counts := make(map[from]int, len(asks))
	for i := range tasks {
		counts[from{tasks[i].Type, tasks[i].Phase()}]++
	}
	each := make([]int, len(asks))
	for i, a := range asks {
		each[i] = counts[from{a.source.name, a.source.phase}]
	}
	return each
}
