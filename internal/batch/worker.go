package batch

import (
	"context"
	"math/rand/v2"
	"time"
)

// look is what one call found.
type look struct {
	busy  bool // there is more to do at once
	found bool // there is something that may need work soon
	waits bool // it waits for something that will happen soon
}

// worker repeats one kind of call: at once while there is work, soon after a note, and rarely otherwise.
type worker struct {
	name   string
	o      Options
	pace   time.Duration // least time between calls that found work
	gap    time.Duration // between calls that found nothing to do
	call   func(context.Context) (look, error)
	noted  chan struct{} // has an element when there may be work
	misses int           // calls in a row that failed
	idle   int           // calls in a row that could only wait
}

func newWorker(name string, o Options, pace, gap time.Duration, call func(context.Context) (look, error)) *worker {
	return &worker{name: name, o: o, pace: pace, gap: min(gap, o.Poll), call: call, noted: make(chan struct{}, 1)}
}

// note says that there may be work.
func (w *worker) note() {
	select {
	case w.noted <- struct{}{}:
	default:
	}
}

// run works until ctx ends. If something was noted by then it makes one more call, because this may be the last agent.
func (w *worker) run(ctx context.Context) {
	for ctx.Err() == nil {
		least, most := w.turn(ctx)
		if !w.rest(ctx, least, most) {
			break
		}
	}
	select {
	case <-w.noted:
	default:
		return
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastCall)
	defer cancel()
	w.turn(last)
}

// turn makes one call and returns how long to rest: least even if something is noted, most if nothing is.
func (w *worker) turn(ctx context.Context) (least, most time.Duration) {
	select {
	case <-w.noted: // this call sees it
	default:
	}
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	start := time.Now()
	saw, err := w.call(call)
	took := time.Since(start)
	w.o.Metrics.StoreDuration.WithLabelValues(w.name).Observe(took.Seconds())
	if err != nil {
		if ctx.Err() != nil {
			return 0, 0 // interrupted, not failed
		}
		return w.failed(err)
	}
	w.misses = 0
	w.o.Metrics.Outage.Worked(w.o.Log, w.name)
	if !saw.waits || saw.busy {
		w.idle = 0
	}
	switch {
	case saw.busy:
		return max(w.pace, took), max(w.pace, took)
	case saw.waits:
		w.idle++
		pause := min(max(waitGap<<min(w.idle-1, 10), share*took), max(w.o.Poll, share*took))
		return min(max(waitGap, share*took), pause), pause
	case saw.found:
		return max(w.gap, share*took), max(w.o.Poll, share*took)
	}
	return max(w.gap, share*took), max(2*w.o.Poll, share*took) // of two workers: one call for each poll
}

// failed handles a call that failed. It is repeated, after a longer rest each time; the store may be out of reach.
func (w *worker) failed(err error) (least, most time.Duration) {
	const first, last = 100 * time.Millisecond, 5 * time.Second
	w.o.Metrics.StoreErrors.WithLabelValues(w.name).Inc()
	w.o.Metrics.Outage.Failed(w.o.Log, w.name, err)
	pause := min(first<<min(w.misses, 10), last)
	w.misses++
	return pause, pause
}

// rest waits for about as long as turn returned. It returns false if ctx ended first.
func (w *worker) rest(ctx context.Context, least, most time.Duration) bool {
	if !pause(ctx, spread(least)) {
		return false
	}
	timer := time.NewTimer(spread(most - least))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-w.noted:
		w.note() // the next call takes it, or else the last
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

// spread returns d with up to a fifth of jitter either way, so that agents do not all look at once.
func spread(d time.Duration) time.Duration {
	return d*4/5 + time.Duration(float64(d)*0.4*rand.Float64())
}
