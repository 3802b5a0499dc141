package activity

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/internal/telemetry"
	"github.com/leasehold/leasehold/internal/work"
)

// Store keeps what agents count.
type Store interface {
	// KeepActivity sets rows of a session, store.ActivityRows at most, each interval and type once, whether they were written before or not.
	// It drops those of intervals that begin later than store.ActivityAhead from now by the store's clock, or began longer ago than such
	// rows are kept: an agent may know that clock badly. dropped is their number.
	KeepActivity(ctx context.Context, session task.Session, rows []store.ActivityRow) (dropped int, err error)
}

// Options are the parts of a Recorder.
type Options struct {
	Counters *Counters
	Store    Store
	Joined   <-chan struct{} // closed once the session is open
	Session  func() (s task.Session, joined bool)
	Now      func() time.Time // the store's clock, as well as the agent knows it; zero while it does not
	Log      *slog.Logger
	Metrics  *telemetry.Metrics
}

// How often counters are read and rows are written.
const (
	recordEvery  = 10 * time.Second
	recordJitter = 0.2
	recordWithin = 5 * time.Second // one write
	recordFirst  = 2 * time.Second // after one that failed
	recordLast   = time.Minute
)

// Recorder writes into the store what the counters of an agent have counted in each minute.
type Recorder struct {
	o    Options
	loop *work.Loop

	mu    sync.Mutex
	rows  *rows
	since time.Time // when the counters were last read, by the store's clock; zero: never
}

// NewRecorder returns a Recorder; Run runs it.
func NewRecorder(o Options) *Recorder {
	r := &Recorder{o: o, rows: newRows()}
	r.loop = work.New(work.Options{
		Name: "activity", Call: r.write, Timeout: recordWithin, Poll: time.Hour, Idle: recordEvery / 2,
		Retry: work.Backoff{First: recordFirst, Last: recordLast}, Jitter: recordJitter, Log: o.Log, Metrics: o.Metrics,
	})
	return r
}

// Run records until ctx ends, and then writes once more what was counted by then, in work.LastCall at most. It returns nil.
func (r *Recorder) Run(ctx context.Context) error {
	select {
	case <-r.o.Joined:
	case <-ctx.Done():
		return nil
	}
	var wg sync.WaitGroup
	writing, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	wg.Go(func() { r.loop.Run(writing) })
	for next := time.Now(); ; {
		if !time.Now().Before(next) {
			r.read(true)
			next = time.Now().Add(time.Duration(float64(recordEvery) * (1 + recordJitter*(2*rand.Float64()-1))))
		} else {
			r.read(false)
		}
		wait := min(time.Until(next), r.untilMinute())
		select {
		case <-ctx.Done():
			r.read(true)
			stop()
			wg.Wait()
			return nil
		case <-time.After(wait):
		}
	}
}

// untilMinute returns how long it is until the next minute of the store's clock begins. Counters are read then, and nothing is written: so
// agents do not all write at once.
func (r *Recorder) untilMinute() time.Duration {
	now := r.o.Now()
	if now.IsZero() {
		return recordEvery
	}
	return now.Truncate(time.Minute).Add(time.Minute).Sub(now) + time.Millisecond
}

// read reads the counters. What was counted since they were last read belongs to the interval in which that was: they are read at the
// beginning of each.
func (r *Recorder) read(write bool) {
	now := r.o.Now()
	if now.IsZero() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.since
	if at.IsZero() || now.Sub(at).Abs() > time.Minute+recordEvery { // the clock has jumped, or the agent was suspended
		at = now
	}
	r.since = now
	r.o.Counters.each(func(typ string, n *store.ActivityCounts) { r.rows.add(at, typ, n) })
	r.rows.trim(now)
	if write && r.rows.changed > 0 {
		r.loop.Note()
	}
}

// write writes the rows that have changed, in calls of a bounded size. There are maxRows of them at most.
func (r *Recorder) write(ctx context.Context) (work.Seen, error) {
	session, _ := r.o.Session()
	for {
		rows := r.take()
		if len(rows) == 0 {
			return work.Seen{}, nil
		}
		refused, err := r.o.Store.KeepActivity(ctx, session, rows)
		lost := r.wrote(rows, err)
		if err != nil {
			return work.Seen{}, err
		}
		if refused > 0 {
			r.o.Log.Warn("the store did not take counts of attempts: their minutes are too far from its clock", "rows", refused)
		}
		if lost > 0 {
			r.o.Log.Warn("counts of attempts were dropped while the store was out of reach: charts lack them", "rows", lost)
		}
	}
}

// take takes the next rows to be written.
func (r *Recorder) take() []store.ActivityRow {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.rows.next()
}

// wrote notes that rows were written, or were not, and returns how many rows have been dropped before they could be written; 0 after an
// error: a later call returns them.
func (r *Recorder) wrote(rows []store.ActivityRow, err error) (lost int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.rows.again(rows)
		return 0
	}
	lost, r.rows.dropped = r.rows.dropped, 0
	return lost
}
