package batch

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/telemetry"
)

// Options are the parts and the settings of a Loop.
type Options struct {
	Work    Work
	Poll    time.Duration // about how often to look for work without a notification; > 0
	Log     *slog.Logger
	Metrics *telemetry.Metrics
}

// Bounds of a Loop. Folds and steps each take no more than about half of one connection's time, however much there is to do.
const (
	callTimeout = 15 * time.Second // one call to the store; its own statement timeout comes first
	lastCall    = 2 * time.Second  // a last look at what was noted before the end
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
	share       = 2                      // a look that found nothing is followed by a rest at least this many times as long
)

// Loop folds counters and carries on operations for one agent. Every agent that claims rows has one. Any of them may do this
// work, and several may at once.
type Loop struct {
	o    Options
	fold *worker
	step *worker
	rows int // of the next step
}

// New returns a loop; Run runs it.
func New(o Options) *Loop {
	l := &Loop{o: o, rows: maxRows}
	l.fold = newWorker("fold", o, foldPace, foldGap, l.foldOnce)
	l.step = newWorker("step", o, stepPace, stepGap, l.stepOnce)
	return l
}

// Note is called when there may be work: tasks of a batch have been settled, or an operation may have been requested. It
// never blocks, and may be called as often as you like.
func (l *Loop) Note() {
	l.fold.note()
	l.step.note()
}

// Run works until ctx ends, and returns nil within lastCall then. Errors are logged, counted, and tried again.
func (l *Loop) Run(ctx context.Context) error {
	var workers sync.WaitGroup
	for _, w := range []*worker{l.fold, l.step} {
		workers.Go(func() { w.run(ctx) })
	}
	workers.Wait()
	return nil
}

// foldOnce folds once.
func (l *Loop) foldOnce(ctx context.Context) (look, error) {
	f, err := l.o.Work.Fold(ctx, foldLimit)
	if err != nil {
		return look{}, err
	}
	l.logFold(&f)
	if f.Acted > 0 {
		l.step.note() // there is a new operation
	}
	return look{busy: f.Batches >= foldLimit, found: f.Batches > 0}, nil
}

// stepOnce carries on an operation once.
func (l *Loop) stepOnce(ctx context.Context) (look, error) {
	start := time.Now()
	s, err := l.o.Work.Step(ctx, l.rows)
	took := time.Since(start)
	if err != nil {
		l.rows = max(l.rows/2, minRows)
		return look{}, err
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
		l.fold.note() // the batch may be done now
	}
	return look{busy: s.Ended || s.Rows > 0, found: s.Found, waits: s.Found}, nil
}
