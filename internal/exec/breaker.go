package exec

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// How a breaker opens and closes.
const (
	firstPause    = 500 * time.Millisecond // until the first trial
	longestPause  = 30 * time.Second       // the pause doubles up to it
	enoughRows    = 5                      // rows that found the target unavailable, with no success between them
	trialBound    = 30 * time.Second       // a trial that takes longer does not keep the next one back
	lookAgain     = time.Second            // while a trial runs
	noBound       = -1
	oneTrial      = 1
	closedForNow  = 0
	jitterOfPause = 0.5 // a pause is shortened by up to that share, so that agents do not try in step
)

// Breakers hold back attempts at targets that are out of reach: one breaker for each type and phase. It opens when an
// attempt could not be delivered, or when five rows in a row got the answer that the target is unavailable; then one
// attempt at a time is let through, after growing pauses, until one reaches the target. From then on the target gets a growing
// share (ramp). Types are named as declared.
type Breakers struct {
	open *prometheus.GaugeVec // by type and phase; nil: none
	rand func() float64

	mu  sync.Mutex
	all map[place]*breaker
}

type place struct {
	typ   string
	phase task.Phase
}

type breaker struct {
	gauge prometheus.Gauge // nil: none

	isOpen      bool
	since       time.Time // when it opened
	reason      string    // of the last attempt that found the target out of reach
	ramp        ramp
	pause       time.Duration // the last one
	until       time.Time     // no trial before
	lastTrial   time.Time     // when the latest of the trials began
	trials      map[task.ID]struct{}
	unavailable map[task.ID]struct{} // rows that the target sent away since its last success; at most enoughRows
}

// NewBreakers makes breakers that are all closed. open is set to 1 while one is open; random gives numbers in [0, 1)
// for jitter. Both may be nil.
func NewBreakers(open *prometheus.GaugeVec, random func() float64) *Breakers {
	if random == nil {
		random = rand.Float64
	}
	return &Breakers{open: open, rand: random, all: make(map[place]*breaker)}
}

// Room returns how many attempts may start beside those that run: n < 0 is no bound, and 0 is none, to be asked again once wait
// has passed. While the breaker is open, it is one at most, the trial. Asking changes nothing.
func (b *Breakers) Room(typ string, phase task.Phase) (n int, wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	x := b.all[place{typ, phase}]
	if x == nil {
		return noBound, 0
	}
	if !x.isOpen {
		return x.ramp.room(time.Now())
	}
	if wait := x.wait(time.Now()); wait > 0 {
		return closedForNow, wait
	}
	return oneTrial, 0
}

// Begin asks for leave to start an attempt now. While the breaker is open the first who asks in time is its trial, and
// all others are refused.
func (b *Breakers) Begin(typ string, phase task.Phase, id task.ID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	x := b.at(typ, phase)
	now := time.Now()
	if !x.isOpen {
		x.ramp.begin(id, now)
		return true
	}
	if x.wait(now) > 0 {
		return false
	}
	x.trials[id], x.lastTrial = struct{}{}, now
	return true
}

// Reached says that an attempt that has not ended yet has got as far as its target.
func (b *Breakers) Reached(typ string, phase task.Phase, id task.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	x := b.at(typ, phase)
	if _, ok := x.trials[id]; ok {
		x.close()
	}
}

// Release says that an attempt never started, or ended without an outcome.
func (b *Breakers) Release(typ string, phase task.Phase, id task.ID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if x := b.all[place{typ, phase}]; x != nil {
		x.ramp.end(id)
		delete(x.trials, id)
	}
}

// Done reports how an attempt ended. While the breaker is open only its trials have a say: an attempt that began
// before describes a target that was still there.
func (b *Breakers) Done(typ string, phase task.Phase, id task.ID, o task.Outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	x := b.at(typ, phase)
	verdict := classify(o)
	x.ramp.end(id)
	if !x.isOpen {
		if verdict == sentAway {
			x.ramp.shrink(time.Now())
		}
		if x.opens(id, o, verdict) {
			b.openUp(x, o.Error)
		}
		return
	}
	if _, ok := x.trials[id]; !ok {
		return
	}
	delete(x.trials, id)
	switch verdict {
	case reached:
		x.close()
	case outOfReach, sentAway:
		b.openUp(x, o.Error)
	}
}

// Open lists the breakers that are open, by the types' names and by phase.
func (b *Breakers) Open() (open []store.OpenBreaker) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	for p, x := range b.all {
		if x.isOpen {
			open = append(open, store.OpenBreaker{
				Types: []string{p.typ}, Phase: p.phase, OpenFor: now.Sub(x.since).Milliseconds(), Error: x.reason,
				RetryIn: max(x.until.Sub(now), 0).Milliseconds(),
			})
		}
	}
	slices.SortFunc(open, func(a, b store.OpenBreaker) int {
		return cmp.Or(strings.Compare(a.Types[0], b.Types[0]), strings.Compare(string(a.Phase), string(b.Phase)))
	})
	return open
}

// at finds or makes a breaker. b.mu is held.
func (b *Breakers) at(typ string, phase task.Phase) *breaker {
	p := place{typ, phase}
	x := b.all[p]
	if x == nil {
		x = &breaker{trials: make(map[task.ID]struct{}), unavailable: make(map[task.ID]struct{})}
		if b.open != nil {
			x.gauge = b.open.WithLabelValues(typ, string(phase))
			x.gauge.Set(0)
		}
		b.all[p] = x
	}
	return x
}

// Forget drops the breakers of a type of which nothing runs any more.
func (b *Breakers) Forget(typ string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.all, func(p place, _ *breaker) bool { return p.typ == typ })
}

// openUp opens a breaker for that reason, or leaves it open for a longer pause than before.
func (b *Breakers) openUp(x *breaker, reason string) {
	x.reason = reason
	if !x.isOpen {
		x.isOpen, x.since, x.ramp = true, time.Now(), ramp{}
	}
	x.pause = min(max(2*x.pause, firstPause), longestPause)
	x.until = time.Now().Add(time.Duration(float64(x.pause) * (1 - jitterOfPause*b.rand())))
	clear(x.unavailable)
	if x.gauge != nil {
		x.gauge.Set(1)
	}
}

func (x *breaker) close() {
	now := time.Now()
	x.isOpen, x.pause, x.ramp = false, 0, newRamp(now, now.Sub(x.since))
	for id := range x.trials { // one that has reached its target may go on
		x.ramp.begin(id, now)
	}
	clear(x.trials)
	clear(x.unavailable)
	if x.gauge != nil {
		x.gauge.Set(0)
	}
}

// wait is how long an open breaker lets nothing through.
func (x *breaker) wait(now time.Time) time.Duration {
	wait := x.until.Sub(now)
	if len(x.trials) > 0 {
		if trial := x.lastTrial.Add(trialBound).Sub(now); trial > 0 {
			wait = max(wait, min(trial, lookAgain))
		}
	}
	return max(wait, 0)
}

// opens reports whether an outcome is one that opens a closed breaker.
func (x *breaker) opens(id task.ID, o task.Outcome, v finding) bool {
	switch {
	case o.Verdict == task.Succeeded:
		clear(x.unavailable)
	case v == outOfReach:
		return true
	case v == sentAway:
		x.unavailable[id] = struct{}{}
		return len(x.unavailable) >= enoughRows
	}
	return false
}

// finding is what an outcome says about the target.
type finding int

const (
	nothing    finding = iota // the target got no request, or its response was not read to its end
	reached                   // it was there
	sentAway                  // it said that it is unavailable
	outOfReach                // it was not there
)

func classify(o task.Outcome) finding {
	switch {
	case o.Verdict == task.Undelivered:
		return outOfReach
	case o.Unavailable:
		return sentAway
	case o.NeverStarted:
		return nothing
	}
	switch o.Verdict {
	case task.Cancelled, task.Drained, task.Lost:
		return nothing
	}
	return reached
}
