package batch

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/telemetry"
	"github.com/leasehold/leasehold/internal/work"
)

// Options are the parts and the settings of a Loop.
type Options struct {
	Work    Work
	Bulk    BulkWork      // nil: no bulk changes
	Poll    time.Duration // about how often to look for work without a notification; > 0
	Look    time.Duration // likewise, for operations and bulk changes, if Changed is called while there are some; 0: Poll
	Log     *slog.Logger
	Metrics *telemetry.Metrics
	// Ended is called with each batch that the loop has completed, between two folds; nil: no call.
	Ended func(context.Context, *store.BatchSummary)
}

// Bounds of a Loop. Folds and steps each take no more than about half of one connection's time, however much there is to do.
const (
	callTimeout = 15 * time.Second // one fold or step, of several calls to the store, each with a shorter timeout of its own
	foldLimit   = 100              // batches of one fold
	maxRows     = 1000             // tasks of one step
	minRows     = 10
	slowStep    = 500 * time.Millisecond // a step that takes longer is too large
	quickStep   = 100 * time.Millisecond // one that takes less may be larger
	foldPace    = 50 * time.Millisecond  // between folds of as many batches as one takes
	stepPace    = 2 * time.Millisecond   // between steps that changed something
	foldGap     = 100 * time.Millisecond // between looks, however often something is noted
	stepGap     = 250 * time.Millisecond
	waitGap     = 100 * time.Millisecond // for operations that wait for attempts to end; longer each time
	firstRetry  = 100 * time.Millisecond // after a call that failed; longer each time
	lastRetry   = 5 * time.Second
	jitter      = 0.2 // part of each rest by which it is longer or shorter
)

// Loop folds counters and carries on operations for one agent. Every agent that claims rows has one. Any of them may do this
// work, and several may at once.
type Loop struct {
	o    Options
	fold *work.Loop
	step *work.Loop
	bulk *work.Loop

	folding  sync.Mutex // held by a fold
	stepping sync.Mutex // held by a step
	rows     int        // of the next step

	bulking  sync.Mutex // held by a step of a bulk change
	bulkRows int        // of the next one
}

// New returns a loop; Run runs it.
func New(o Options) *Loop {
	l := &Loop{o: o, rows: maxRows, bulkRows: bulkRows}
	look := cmp.Or(o.Look, o.Poll)
	l.fold = l.repeat("fold", l.foldOnce, o.Poll, foldPace, foldGap)
	l.step = l.repeat("step", l.stepOnce, look, stepPace, stepGap)
	l.bulk = l.repeat("bulk", l.bulkOnce, look, stepPace, stepGap)
	return l
}

// repeat returns a loop that makes one kind of call. Each calls about once in two Polls while there is nothing to do.
func (l *Loop) repeat(name string, call func(context.Context) (work.Seen, error), poll, pace, gap time.Duration) *work.Loop {
	return work.New(work.Options{
		Name: name, Call: call, Timeout: callTimeout,
		Poll: poll, Busy: pace, Idle: gap, Wait: waitGap, Retry: work.Backoff{First: firstRetry, Last: lastRetry}, Jitter: jitter,
		Log: l.o.Log, Metrics: l.o.Metrics,
	})
}

// Note is called when there may be work: tasks of a batch have been settled, or an operation may have been requested. It
// never blocks, and may be called as often as you like.
func (l *Loop) Note() {
	l.fold.Note()
	l.Changed()
}

// Changed is called when an operation or a bulk change may have been requested. It never blocks, and may be called as often as you like.
func (l *Loop) Changed() {
	l.step.Note()
	if l.o.Bulk != nil {
		l.bulk.Note()
	}
}

// Run works until ctx ends, and returns nil within work.LastCall then. Errors are logged, counted, and tried again.
func (l *Loop) Run(ctx context.Context) error {
	var loops sync.WaitGroup
	loops.Go(func() { l.fold.Run(ctx) })
	loops.Go(func() { l.step.Run(ctx) })
	if l.o.Bulk != nil {
		loops.Go(func() { l.bulk.Run(ctx) })
	}
	loops.Wait()
	return nil
}

// Settle does at once what can be done now, beside Run: it folds, and carries on operations, until there is nothing more to do. It
// reports whether tasks have changed by that, or something is still to be done. An operation that can only wait is nothing to do.
func (l *Loop) Settle(ctx context.Context) (changed bool, err error) {
	for {
		f, err := l.foldNow(ctx)
		if err != nil {
			return true, err
		}
		stepped, err := l.stepOnce(ctx)
		if err != nil {
			return true, err
		}
		bulk, err := l.bulkOnce(ctx)
		if err != nil {
			return true, err
		}
		if !stepped.Busy && !bulk.Busy && f.Batches < foldLimit {
			return changed || f.Missed > 0, nil
		}
		changed = changed || stepped.Busy || bulk.Busy
	}
}

// foldNow folds once.
func (l *Loop) foldNow(ctx context.Context) (store.Folded, error) {
	l.folding.Lock()
	defer l.folding.Unlock()
	f, err := l.o.Work.Fold(ctx, foldLimit)
	l.logFold(&f)
	for i := range f.Ends {
		if l.o.Ended != nil {
			l.o.Ended(ctx, &f.Ends[i])
		}
	}
	return f, err
}

// foldOnce folds once, for its loop.
func (l *Loop) foldOnce(ctx context.Context) (work.Seen, error) {
	f, err := l.foldNow(ctx)
	if f.Acted+f.Resumed > 0 {
		l.step.Note() // there is a new operation
	}
	if err != nil {
		if f.Batches > 0 {
			l.fold.Note() // what follows from what was summed is still to do, even if this agent is stopping
		}
		return work.Seen{}, err
	}
	return work.Seen{Busy: f.Batches >= foldLimit, Found: f.Batches > 0}, nil
}

// stepOnce carries on an operation once.
func (l *Loop) stepOnce(ctx context.Context) (work.Seen, error) {
	l.stepping.Lock()
	defer l.stepping.Unlock()
	start := time.Now()
	s, err := l.o.Work.Step(ctx, l.rows)
	took := time.Since(start)
	if err != nil {
		l.rows = max(l.rows/2, minRows)
		return work.Seen{}, err
	}
	switch {
	case took > slowStep:
		l.rows = max(l.rows/2, minRows)
	case took < quickStep && s.Rows >= l.rows:
		l.rows = min(l.rows*2, maxRows)
	}
	if s.Ended {
		l.logStep(&s)
	}
	if s.Ended || s.Rows > 0 {
		l.fold.Note() // the batch may be done now
	}
	return work.Seen{Busy: s.Ended || s.Rows > 0, Found: s.Found, Waits: s.Found}, nil
}

// bulkOnce carries on a bulk change once.
func (l *Loop) bulkOnce(ctx context.Context) (work.Seen, error) {
	if l.o.Bulk == nil {
		return work.Seen{}, nil
	}
	l.bulking.Lock()
	defer l.bulking.Unlock()
	start := time.Now()
	s, err := l.o.Bulk.Step(ctx, l.bulkRows)
	if err != nil {
		l.bulkRows = max(l.bulkRows/2, minRows)
		return work.Seen{}, err
	}
	switch took := time.Since(start); {
	case took > slowStep:
		l.bulkRows = max(l.bulkRows/2, minRows)
	case took < quickStep && s.Moved:
		l.bulkRows = min(l.bulkRows*2, bulkRows)
	}
	if s.Moved {
		l.fold.Note() // a batch may be done now
		l.step.Note() // tasks that run may be rolled back once they have ended
		if s.Bulk.EndedAt != nil {
			l.logBulk(s.Bulk)
		}
	}
	return work.Seen{Busy: s.Moved, Found: s.Found, Waits: s.Found}, nil
}
