package ops

import (
	"context"
	"errors"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// How a WatchBatch asks the store.
const (
	batchFirst    = 50 * time.Millisecond // between looks right after its state has changed
	batchLongest  = time.Second           // between looks at a batch that goes on
	batchFailures = 2 * time.Second       // between looks at what went wrong
	batchLook     = 30 * time.Second      // for one look
)

// BatchView is a batch as a watch shows it.
type BatchView struct {
	BatchDetail      // its failures may be a few seconds old
	Changed     bool // the state or the operation is another than at the last look
	Pace        Pace // up to this look
}

// BatchWatch is what a WatchBatch reports while it goes on. Its functions may be nil.
type BatchWatch struct {
	Kinds int // kinds of failures to read while the batch goes on; 0: none until it has ended
	// Seen is called with each look at a batch that has not ended. Its error ends the watch.
	Seen func(*BatchView) error
	// Trouble is called when the store begins to fail; the watch goes on.
	Trouble func(error)
	// Unread is called where the failures cannot be read: the view has those of before, or none.
	Unread func(error)
}

// WatchBatch looks at the batch until it has ended, and returns it as it is then, with up to FailuresShown kinds of failures.
// It looks often right after a change and seldom later. It fails with ErrNoBatch, which names the batch, with ctx's error when
// ctx ends, with the error of Seen, and when the store has failed for 30 s without a break.
func WatchBatch(ctx context.Context, s Batches, id task.BatchID, w BatchWatch) (*BatchView, error) {
	f := &batchFollower{store: s, id: id, watch: w, view: BatchView{BatchDetail: BatchDetail{Failures: []FailureGroup{}}}}
	err := follow(ctx, batchFirst, batchLongest, func() (changed, done bool, err error) { return f.look(ctx) })
	if err != nil {
		return nil, batchError(id, err)
	}
	return &f.view, nil
}

// batchFollower is a WatchBatch in progress.
type batchFollower struct {
	store    Batches
	id       task.BatchID
	watch    BatchWatch
	view     BatchView
	faults   int64     // of the batch, when its failures were read
	read     time.Time // when that was
	patience patience
}

// look reads the batch once, and reports it.
func (f *batchFollower) look(ctx context.Context) (changed, done bool, err error) {
	call, cancel := context.WithTimeout(ctx, batchLook)
	defer cancel()
	b, err := f.store.GetBatch(call, f.id)
	switch {
	case err == nil:
		f.patience.worked()
	case ctx.Err() != nil:
		return false, false, ctx.Err()
	case errors.Is(err, store.ErrNoBatch):
		return false, false, err
	default:
		return false, false, f.patience.failed(err, f.watch.Trouble)
	}
	last := f.view.BatchInfo
	f.view.Changed = last == nil || last.State != b.State || last.Operation != b.Operation
	f.view.BatchInfo = b
	f.view.Pace.Add(b, time.Now())
	if b.EndedAt != nil {
		f.readFailures(ctx, FailuresShown)
		return f.view.Changed, true, nil
	}
	if f.watch.Kinds > 0 && time.Since(f.read) >= batchFailures && BatchFaults(b) != f.faults {
		f.readFailures(ctx, f.watch.Kinds)
	}
	if f.watch.Seen == nil {
		return f.view.Changed, false, nil
	}
	return f.view.Changed, false, f.watch.Seen(&f.view)
}

// readFailures reads what went wrong. What cannot be read is left out: it is only shown beside the counts.
func (f *batchFollower) readFailures(ctx context.Context, kinds int) {
	call, cancel := context.WithTimeout(ctx, batchLook)
	defer cancel()
	n := BatchFaults(f.view.BatchInfo)
	groups, capped, err := failuresOf(call, f.store, f.view.BatchInfo, kinds)
	if err != nil {
		if f.watch.Unread != nil {
			f.watch.Unread(err)
		}
		return
	}
	f.view.Failures, f.view.FailuresCapped, f.faults, f.read = groups, capped, n, time.Now()
}
