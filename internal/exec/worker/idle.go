package worker

import (
	"fmt"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// watch sees to a process while it runs no attempt: it is ended when it is idle for too long, has ended, or has broken the protocol.
func (p *Pool) watch(w *worker) {
	idle := time.NewTimer(p.command.Worker.Idle)
	defer idle.Stop()
	for {
		select {
		case <-w.process.Exited():
		case <-w.process.Silent():
		case <-w.broken:
		case <-p.closing:
		case <-idle.C:
			if left := p.takeOld(w); left > 0 {
				idle.Reset(left)
				continue
			}
			p.retire(w)
			return
		}
		if p.take(w) {
			p.lost(w)
			p.retire(w)
		}
		return // else it runs an attempt, and give sees what has become of it
	}
}

// takeOld takes a process that has been idle for long enough, or returns how long it is to be left alone; one that runs an attempt
// is as good as fresh.
func (p *Pool) takeOld(w *worker) (left time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.idle, w)
	if i < 0 {
		return p.command.Worker.Idle
	}
	if left = p.command.Worker.Idle - time.Since(w.since); left > 0 {
		return left
	}
	p.remove(i)
	return 0
}

// take takes that process, if it is idle.
func (p *Pool) take(w *worker) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.Index(p.idle, w)
	if i >= 0 {
		p.remove(i)
	}
	return i >= 0
}

// remove takes an idle process that is to be ended. p.mu is held.
func (p *Pool) remove(i int) {
	p.idle = slices.Delete(p.idle, i, i+1)
	p.ending++
}

// lost notes that an idle process cannot be used any more. One that was never given an attempt counts as a start that came to
// nothing.
func (p *Pool) lost(w *worker) {
	if w.usable() || w.process.Overdue() { // the pool is closing; or the agent was late, which is no fault of the process
		return
	}
	w.exits(exitWithin)  // at an exit, the end of descriptor 3 comes first
	const most = 2 << 10 // bytes of the output's end
	why, output := w.why(), w.process.Output()
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.closed:
	case w.runs == 0:
		p.fail(fmt.Errorf("it ended before it was given an attempt: %s", why), output, w.began, true)
	default:
		w.log.Warn("a worker that ran nothing is lost", "err", why, "runs", w.runs, "output", task.Text(output[max(len(output)-most, 0):], most))
	}
}

// retire ends a process that was taken.
func (p *Pool) retire(w *worker) {
	c := w.retire(p.closing)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leave(c.stuck)
}
