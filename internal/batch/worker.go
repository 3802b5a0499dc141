package batch

import (
	"context"
	"math/rand/v2"
	"time"
)

// look is what one call found.
type look struct {
	busy  bool // there is more to do right now
	found bool // there is something that may come to need work
	waits bool // it waits for something that comes soon
}

// worker makes one kind of call again and again: at once while there is work, soon after something was noted, and seldom
// otherwise.
type worker struct {
	name   string
	o      Options
	pace   time.Duration // between calls that found work, at the least
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

// run works until ctx ends. What was noted by then is looked at once more: this may be the last agent.
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

// turn makes one call and tells how long to rest: least even where something is noted, most where nothing is.
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

// failed notes a call that failed. It is tried again, later each time; the store may have been out of reach.
func (w *worker) failed(err error) (least, most time.Duration) {
	const first, last = 100 * time.Millisecond, 5 * time.Second
	w.o.Metrics.StoreErrors.WithLabelValues(w.name).Inc()
	w.o.Metrics.Outage.Failed(w.o.Log, w.name, err)
	pause := min(first<<min(w.misses, 10), last)
	w.misses++
	return pause, pause
}

// rest waits as turn says, about; it is false where ctx ended first.
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

// pause waits for d; it is false where ctx ended first.
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

// spread gives d, or up to a fifth more or less: agents do not look all at once.
func spread(d time.Duration) time.Duration {
	return d*4/5 + time.Duration(float64(d)*0.4*rand.Float64())
}
