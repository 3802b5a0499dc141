package ops

import (
	"context"
	"errors"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// How a Wait asks the store.
const (
	waitFirst   = 5 * time.Millisecond   // between looks right after a change
	waitLongest = 250 * time.Millisecond // between looks at tasks that do not change
	waitLook    = 10 * time.Second       // for one look at one task
)

// Watch is what a Wait reports while it goes on. Its functions may be nil.
type Watch struct {
	// Changed is called with each task as it is first seen, and whenever its state or fence is another.
	Changed func(Task)
	// Progressed is called when only its progress or message is another.
	Progressed func(Task)
	// Trouble is called when the store begins to fail; the wait goes on.
	Trouble func(error)
}

// Wait looks at the tasks until each has finished, and returns them in the order of ids. It looks often right after a
// change and seldom later, and never takes more than a fifth of the time for looking. It fails with ErrNoTask where
// one does not exist, with ctx's error when ctx ends (the tasks as last seen come with it, nil where never seen), and
// when the store has failed for 30 s without a break.
func Wait(ctx context.Context, s Store, ids []task.ID, w Watch) ([]*Task, error) {
	wait := waiting{store: s, watch: w, ids: ids, raw: make([]*store.TaskInfo, len(ids)), seen: make([]*Task, len(ids))}
	err := follow(ctx, waitFirst, waitLongest, func() (changed, done bool, err error) {
		changed, left, err := wait.look(ctx)
		return changed, left == 0, err
	})
	return wait.seen, err
}

// FillTrace has a task show the trace context that its attempts are in: its own, or else, as where its own is not valid, the one
// that derive returns. Where derive fails, the task stays as it is.
func FillTrace(i *Task, derive func(task.ID) (string, error)) error {
	if _, ok := task.ParseTraceparent(i.Traceparent); ok {
		return nil
	}
	trace, err := derive(i.ID)
	if err == nil {
		i.Traceparent = trace
	}
	return err
}

// waiting is a Wait in progress.
type waiting struct {
	store    Store
	watch    Watch
	ids      []task.ID
	raw      []*store.TaskInfo // as they were seen
	seen     []*Task           // the same, as they may be shown
	masks    Redactions        // nil: not read yet
	patience patience
}

// look asks for each task that has not finished, and reports whether one changed and how many are left.
func (w *waiting) look(ctx context.Context) (changed bool, left int, err error) {
	masks := false // have been read in this look
	for i, id := range w.ids {
		old := w.raw[i]
		if old != nil && old.State.Finished() {
			continue
		}
		info, err := w.get(ctx, id)
		if err != nil {
			return false, 0, err
		}
		if info == nil { // the store failed: look again later
			return changed, len(w.ids), nil
		}
		moved := old == nil || old.State != info.State || old.Fence != info.Fence
		progressed := !moved && (string(old.Progress) != string(info.Progress) || old.Message != info.Message)
		if (moved || progressed) && !masks {
			if masks, err = w.readMasks(ctx); err != nil || !masks {
				return changed, len(w.ids), err
			}
		}
		w.raw[i], w.seen[i] = info, w.masks.Task(info)
		changed = changed || moved
		w.show(w.seen[i], moved, progressed)
		if !info.State.Finished() {
			left++
		}
	}
	return changed, left, nil
}

// show calls the functions of the watch.
func (w *waiting) show(i *Task, moved, progressed bool) {
	if moved && w.watch.Changed != nil {
		w.watch.Changed(*i)
	}
	if progressed && w.watch.Progressed != nil {
		w.watch.Progressed(*i)
	}
}

// get reads one task; nil without an error says that the store failed and may be asked again.
func (w *waiting) get(ctx context.Context, id task.ID) (info *store.TaskInfo, err error) {
	err = w.ask(ctx, func(ctx context.Context) (err error) {
		info, err = w.store.Get(ctx, id)
		return err
	})
	return info, taskError(id, err)
}

// readMasks reads what is masked; false without an error says that the store failed and may be asked again.
func (w *waiting) readMasks(ctx context.Context) (read bool, err error) {
	err = w.ask(ctx, func(ctx context.Context) error {
		masks, err := ReadRedactions(ctx, w.store)
		if err == nil {
			w.masks, read = masks, true
		}
		return err
	})
	return read, err
}

// ask makes one call to the store. It returns nil where the store failed and may be asked again.
func (w *waiting) ask(ctx context.Context, call func(context.Context) error) error {
	timed, cancel := context.WithTimeout(ctx, waitLook)
	defer cancel()
	err := call(timed)
	switch {
	case err == nil:
		w.patience.worked()
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, store.ErrNoTask):
		return err
	}
	return w.patience.failed(err, w.watch.Trouble)
}
