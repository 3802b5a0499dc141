package exec

import (
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// How the share of a target grows that was out of reach.
const (
	rampFirst = 2               // attempts at once to begin with
	rampSteps = 10              // after so many doublings there is no bound
	rampMost  = 2 * time.Second // the longest step
)

// ramp bounds how many attempts run at once at a target that was out of reach, and is back: it may be starting, or its caches are
// empty, and very many rows are due. The bound doubles with each step, whatever becomes of the attempts, as some take very
// long; all steps together take as long as the target was out of reach, or 20 s. The zero value is no bound.
type ramp struct {
	began time.Time     // with rampFirst
	step  time.Duration // 0: no bound
	runs  map[task.ID]struct{}
}

// newRamp makes the ramp of a target that is back now, and was out of reach for so long.
func newRamp(now time.Time, away time.Duration) ramp {
	return ramp{began: now, step: min(away/rampSteps, rampMost), runs: make(map[task.ID]struct{})}
}

// steps returns how often the bound has doubled; over: there is none any more.
func (r *ramp) steps(now time.Time) (n int, over bool) {
	if r.step <= 0 {
		return 0, true
	}
	n = int(now.Sub(r.began) / r.step)
	if n >= rampSteps {
		*r = ramp{}
		return 0, true
	}
	return n, false
}

// room returns how many attempts may start beside those that run; negative: no bound; 0: none until wait is over.
func (r *ramp) room(now time.Time) (n int, wait time.Duration) {
	steps, over := r.steps(now)
	if over {
		return noBound, 0
	}
	if n = rampFirst<<steps - len(r.runs); n > 0 {
		return n, 0
	}
	return closedForNow, r.began.Add(time.Duration(steps+1) * r.step).Sub(now)
}

// begin counts an attempt that starts.
func (r *ramp) begin(id task.ID, now time.Time) {
	if _, over := r.steps(now); !over {
		r.runs[id] = struct{}{}
	}
}

// end counts an attempt no more.
func (r *ramp) end(id task.ID) { delete(r.runs, id) }

// shrink goes back by two steps: the target says that it is too much.
func (r *ramp) shrink(now time.Time) {
	if steps, over := r.steps(now); !over {
		r.began = now.Add(-time.Duration(max(steps-2, 0)) * r.step)
	}
}
