package schedule

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasehold/leasehold/internal/telemetry"
	"github.com/leasehold/leasehold/internal/work"
)

// Options are the parts and the settings of a Loop.
type Options struct {
	Settle  func(ctx context.Context) error                     // Turn of a Declarer, before each Fire
	Fire    func(ctx context.Context, limit int) (Fired, error) // of an Engine
	Poll    time.Duration                                       // how often to look, at least; longestPoll if that is shorter
	Log     *slog.Logger
	Metrics *telemetry.Metrics
}

// Bounds of a Loop.
const (
	longestPoll = time.Second
	callTimeout = 15 * time.Second // one Fire, of several calls to the store, each with a shorter timeout of its own
	fireLimit   = 1000             // schedules of one Fire
	shortRest   = 5 * time.Millisecond
	spread      = 20 * time.Millisecond // agents do not all look at the same moment
	firstRetry  = 100 * time.Millisecond
	lastRetry   = 5 * time.Second
)

// Loop fires schedules for one agent. Every agent has one, observers too. It looks when a schedule is due by what it saw last, and
// polls, since others insert schedules.
type Loop struct {
	o      Options
	noted  chan struct{}
	poll   atomic.Int64 // nanoseconds
	misses int          // calls in a row that failed

	turning sync.Mutex // held by a call
}

// NewLoop returns a loop; Run runs it.
func NewLoop(o Options) *Loop {
	l := &Loop{o: o, noted: make(chan struct{}, 1)}
	l.SetPoll(o.Poll)
	return l
}

// SetPoll sets how often to look, at least, as Options.Poll. It may be called at any time, and counts from the next look on.
func (l *Loop) SetPoll(d time.Duration) { l.poll.Store(int64(min(d, longestPoll))) }

// Note is called when a schedule may be due: it was declared, resumed, or its last task has ended. It never blocks.
func (l *Loop) Note() {
	select {
	case l.noted <- struct{}{}:
	default:
	}
}

// Run works until ctx ends, and returns nil then. Errors are logged, counted, and tried again.
func (l *Loop) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		timer := time.NewTimer(l.turn(ctx))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-l.noted:
		}
		timer.Stop()
	}
	return nil
}

// turn fires once, and returns how long to rest.
func (l *Loop) turn(ctx context.Context) time.Duration {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	start := time.Now()
	did, err := l.once(call)
	took := time.Since(start)
	l.o.Metrics.StoreDuration.WithLabelValues("schedule").Observe(took.Seconds())
	for name, reason := range did.Invalid {
		l.o.Log.Error("a schedule cannot be used until it is declared anew", "schedule", name, "error", reason)
	}
	if err != nil {
		if ctx.Err() != nil {
			return 0
		}
		return l.failed(err)
	}
	l.misses = 0
	l.o.Metrics.Outage.Worked(l.o.Log, "schedule")
	if did.Rows+did.Missed > 0 {
		l.o.Log.Debug("fired schedules", "schedules", did.Schedules, "rows", did.Rows, "missed", did.Missed)
	}
	poll := time.Duration(l.poll.Load())
	switch {
	case did.Held:
		return poll
	case did.Looked >= fireLimit && did.Schedules > 0: // else others fire them all, or have locked them
		return shortRest
	case did.Next == 0:
		return poll
	}
	return min(max(did.Next-took, shortRest)+rand.N(spread), poll)
}

// once settles and fires.
func (l *Loop) once(ctx context.Context) (Fired, error) {
	l.turning.Lock()
	defer l.turning.Unlock()
	settled := l.o.Settle(ctx)
	did, err := l.o.Fire(ctx, fireLimit) // also where nothing could be settled
	return did, cmp.Or(err, settled)
}

// Fire fires at once what is due, beside Run. left: schedules are due that may not be fired yet, as a new session believes the store's
// clock only after some seconds. waits is as in Fired.
func (l *Loop) Fire(ctx context.Context) (left bool, waits map[string]time.Duration, err error) {
	for {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		did, err := l.once(call)
		cancel()
		if err != nil || did.Looked == 0 || did.Held || did.Schedules == 0 {
			return did.Looked > 0, did.Waits, err
		}
	}
}

// failed handles a call that failed: the store may be out of reach.
func (l *Loop) failed(err error) time.Duration {
	l.o.Metrics.StoreErrors.WithLabelValues("schedule").Inc()
	l.o.Metrics.Outage.Failed(l.o.Log, "schedule", err)
	pause := work.Backoff{First: firstRetry, Last: lastRetry}.After(l.misses)
	l.misses++
	return pause
}
