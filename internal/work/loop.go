// Package work is the loop for work that any agent may do: it repeats a call that claims a bounded step of the work and does
// it. Of many agents that call at once, one gets a step. The package also has the two such loops without a package of their own:
// the maintenance of the store, and the record of what agents declare.
package work

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/leasehold/leasehold/internal/telemetry"
)

// Seen is what one call has seen. The zero value: there was nothing to do.
type Seen struct {
	Busy  bool // there is more to do at once
	Found bool // there is something that may need work soon
	Waits bool // it waits for something that will happen soon
}

// Options are the parts of a Loop, and how long it rests between calls. However short these times are, the loop rests for at
// least as long as a call took that had work, and for twice as long as any other took: it uses no more than half of one
// connection's time.
type Options struct {
	Name    string // of the call, in metrics and logs
	Call    func(context.Context) (Seen, error)
	Timeout time.Duration // of one call

	Poll   time.Duration // about how often to call without a note: this often if the last call found something, half as often if not
	Busy   time.Duration // least rest after a call that left more to do at once
	Idle   time.Duration // least rest after other calls, however often something is noted; Poll if that is shorter
	Wait   time.Duration // rest while there is only something to wait for; doubled each time, up to Poll
	Retry  Backoff       // after calls that failed
	Jitter float64       // part of each rest, 0 to 1, by which it is longer or shorter, so that agents do not all call at once

	Log     *slog.Logger
	Metrics *telemetry.Metrics
}

// Backoff is how long to rest after a call that failed: First, then twice as long each time, up to Last.
type Backoff struct{ First, Last time.Duration }

// After returns how long to rest after a call that failed, as so many in a row before it did.
func (b Backoff) After(misses int) time.Duration { return min(b.First<<min(misses, doubled), b.Last) }

// LastCall bounds the call that a Loop makes after its context has ended.
const LastCall = 2 * time.Second

const (
	share   = 2  // rest after a call that had no work, in multiples of the call
	doubled = 10 // how often a rest is doubled at most
)

// Loop repeats one kind of call: at once while there is work, soon after a note, and rarely otherwise.
type Loop struct {
	o      Options
	noted  chan struct{} // has an element when there may be work
	misses int           // calls in a row that failed
	waits  int           // calls in a row that could only wait
}

// New returns a loop; Run runs it.
func New(o Options) *Loop {
	o.Idle = min(o.Idle, o.Poll)
	return &Loop{o: o, noted: make(chan struct{}, 1)}
}

// Note is called when there may be work. It never blocks, and may be called at any time and as often as you like.
func (l *Loop) Note() {
	select {
	case l.noted <- struct{}{}:
	default:
	}
}

// Run works until ctx ends. If something was noted by then it makes one more call, in LastCall at most, because this may be
// the last agent. Errors are logged, counted, and tried again.
func (l *Loop) Run(ctx context.Context) {
	for ctx.Err() == nil {
		least, most := l.turn(ctx)
		if !l.rest(ctx, least, most) {
			break
		}
	}
	select {
	case <-l.noted:
	default:
		return
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), LastCall)
	defer cancel()
	l.turn(last)
}

// turn makes one call and returns how long to rest: least even if something is noted, most if nothing is.
func (l *Loop) turn(ctx context.Context) (least, most time.Duration) {
	noted := false
	select {
	case <-l.noted: // this call sees it
		noted = true
	default:
	}
	call, cancel := context.WithTimeout(ctx, l.o.Timeout)
	defer cancel()
	start := time.Now()
	seen, err := l.o.Call(call)
	took := time.Since(start)
	l.o.Metrics.StoreDuration.WithLabelValues(l.o.Name).Observe(took.Seconds())
	took = min(took, l.o.Timeout) // longer only where the agent stood still
	if err != nil {
		if ctx.Err() != nil { // interrupted, not failed
			if noted {
				l.Note() // for the last call
			}
			return 0, 0
		}
		return l.failed(err)
	}
	l.misses = 0
	l.o.Metrics.Outage.Worked(l.o.Log, l.o.Name)
	if !seen.Waits || seen.Busy {
		l.waits = 0
	}
	switch {
	case seen.Busy:
		return max(l.o.Busy, took), max(l.o.Busy, took)
	case seen.Waits:
		pause := min(max(l.o.Wait<<min(l.waits, doubled), share*took), max(l.o.Poll, share*took))
		l.waits++
		return min(max(l.o.Wait, share*took), pause), pause
	case seen.Found:
		return max(l.o.Idle, share*took), max(l.o.Poll, share*took)
	}
	return max(l.o.Idle, share*took), max(2*l.o.Poll, share*took)
}

// failed handles a call that failed: the store may be out of reach.
func (l *Loop) failed(err error) (least, most time.Duration) {
	l.o.Metrics.StoreErrors.WithLabelValues(l.o.Name).Inc()
	l.o.Metrics.Outage.Failed(l.o.Log, l.o.Name, err)
	pause := l.o.Retry.After(l.misses)
	l.misses++
	return pause, pause
}

// rest waits for about as long as turn returned. It returns false if ctx ended first.
func (l *Loop) rest(ctx context.Context, least, most time.Duration) bool {
	if !pause(ctx, l.spread(least)) {
		return false
	}
	timer := time.NewTimer(l.spread(most - least))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-l.noted:
		l.Note() // the next call takes it, or else the last
	case <-timer.C:
	}
	return true
}

// pause waits for d. It returns false if ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// spread returns d with jitter.
func (l *Loop) spread(d time.Duration) time.Duration {
	return d + time.Duration(float64(d)*l.o.Jitter*(2*rand.Float64()-1))
}
