package lease

import (
	"log/slog"
	"slices"
	"sync"
	"time"
)

// How long a process that stood still is an excuse for calls that fail: their time may have run out meanwhile, or the store may have
// closed their connections.
const excusedFor = 2 * time.Second

// pulse knows when the process stood still: it was stopped by a signal, its container or machine was frozen or suspended, or it got no CPU
// time. An agent that stood still has not reached its store meanwhile, which says nothing about the store.
//
// Something beats regularly, and a beat that comes late by as long as the time between two says so. Whatever needs to know looks
// first, because after a pause timers go off in any order.
type pulse struct {
	clock Clock
	log   *slog.Logger
	every time.Duration // between two beats

	mu     sync.Mutex
	last   time.Duration // local time of the last beat
	beats  bool          // run does
	pauses []span        // the latest
}

// span is a stretch of local time.
type span struct{ from, to time.Duration }

// maxPauses is how many pauses are remembered.
const maxPauses = 20

// beat notes that the process runs at the local time now, and logs that it stood still until then. Looking is a beat, too.
func (p *pulse) beat(now time.Duration) {
	p.mu.Lock()
	last := p.last
	p.last = max(now, last)
	stood := p.beats && now-last > 2*p.every
	if stood {
		if len(p.pauses) == maxPauses {
			p.pauses = slices.Delete(p.pauses, 0, 1)
		}
		p.pauses = append(p.pauses, span{last + p.every, now})
	}
	p.mu.Unlock()
	if stood {
		p.log.Warn("the process stood still: it was stopped, frozen or suspended, or got no CPU time", "for", now-last-p.every)
	}
}

// since returns for how long the process has stood still since a local time, at least.
func (p *pulse) since(from time.Duration) (still time.Duration) {
	p.beat(p.clock.Now())
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.pauses {
		still += max(s.to-max(s.from, from), 0)
	}
	return still
}

// excuses reports whether a call that fails now may have failed because the process stood still.
func (p *pulse) excuses() bool {
	now := p.clock.Now()
	p.beat(now)
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.pauses) > 0 && now-p.pauses[len(p.pauses)-1].to <= excusedFor
}

// set notes that run begins to beat, or ends.
func (p *pulse) set(beats bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last, p.beats = p.clock.Now(), beats
}

// run beats until done is closed.
func (p *pulse) run(done <-chan struct{}) {
	p.set(true)
	defer p.set(false)
	ticker := time.NewTicker(p.every)
	defer ticker.Stop()
	for {
		select {
		case <-done:
			return
		case <-ticker.C:
			p.beat(p.clock.Now())
		}
	}
}
