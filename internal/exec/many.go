package exec

import (
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// Checks that are asked for the attempts of one request.
const (
	checksAtOnce = 32
	// checksBegin is how long after the first one the last one begins. With the check's timeout that is less than the time which each
	// lease has until its attempt must start; attempts whose checks have not begun are released.
	checksBegin = task.StartWait / 2
)

// RunMany runs attempts of one type and phase in one request; the target of that phase is a webhook with a Batch. It calls ended once
// for each, with its place in ls, as soon as it is known how it has ended, from any goroutine and from several at once. It returns
// once nothing of the request is left. Where the type has a check, all of them are asked first. While the breaker is open only
// one attempt is run, its trial.
func (r *Runner) RunMany(ls []*lease.Lease, t *task.Type, ended func(i int, o task.Outcome)) {
	phase := ls[0].Phase()
	m := many{runner: r, all: ls, typ: t, ended: ended, places: make([]int, 0, len(ls))}
	for i, l := range ls {
		if o, ok := r.begin(t, l); ok {
			m.places = append(m.places, i)
		} else {
			ended(i, o)
		}
	}
	if phase == task.Run && t.Check != nil {
		m.check()
	}
	if len(m.places) == 0 {
		return
	}
	target, ok := t.TargetOf(phase).(*task.Webhook)
	if !ok {
		panic("only webhooks have a Batch")
	}
	rest := make([]*lease.Lease, len(m.places))
	for j, i := range m.places {
		rest[j] = ls[i]
	}
	r.webhooks.Load().RunMany(rest, t, target, func(j int, o task.Outcome) { ended(m.places[j], o) })
}

// many is one call of RunMany.
type many struct {
	runner *Runner
	all    []*lease.Lease
	typ    *task.Type
	ended  func(i int, o task.Outcome)
	places []int // in all, of those that have not ended
}

// check asks the checks of all attempts, many at once, and keeps those that are to run.
func (m *many) check() {
	late := time.NewTimer(checksBegin)
	defer late.Stop()
	runs := make([]bool, len(m.all))
	next := make(chan int)
	var asking sync.WaitGroup
	for range min(checksAtOnce, len(m.places)) {
		asking.Go(func() {
			for i := range next {
				runs[i] = m.ask(i)
			}
		})
	}
	for n, i := range m.places {
		select {
		case next <- i:
			continue
		case <-late.C:
		}
		m.skip(m.places[n:])
		break
	}
	close(next)
	asking.Wait()
	kept := m.places[:0]
	for _, i := range m.places {
		if runs[i] {
			kept = append(kept, i)
		}
	}
	m.places = kept
}

// ask asks the check of one attempt, and reports whether it is to run.
func (m *many) ask(i int) (run bool) {
	defer func() {
		if p := recover(); p != nil {
			m.runner.log.Error("a check panicked", "task", m.all[i].Task().ID, "type", m.typ.Name, "panic", p, "stack", string(debug.Stack()))
			m.ended(i, task.Outcome{
				Verdict: task.Failed, NeverStarted: true, InCheck: true, Error: fmt.Sprintf("check: the agent failed to ask it: %v", p),
			})
		}
	}()
	o, over := m.runner.check(m.all[i], m.typ)
	if over {
		m.ended(i, o)
	}
	return !over
}

// skip releases attempts whose checks cannot begin in time.
func (m *many) skip(places []int) {
	for _, i := range places {
		m.ended(i, task.Outcome{
			Verdict: task.Drained, NeverStarted: true, InCheck: true, Error: "check: those of other tasks in its request took too long",
		})
	}
}
