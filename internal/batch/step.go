package batch

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Bounds of one Step.
const (
	listed = 50     // operations that are listed at once
	looks  = 40     // steps on one operation that change no task
	paged  = 1000   // finished tasks of one look, however few of them a step may change
	skims  = 20_000 // finished tasks that are looked at to find some that can be rolled back
)

// Operations that can only wait must not delay those behind them, however many they are.
const (
	lookFor  = 200 * time.Millisecond // a Step that has found nothing to do for so long ends, and the next begins where it was
	againFor = 100 * time.Millisecond // where it took longer to find an operation, the next Step begins with that
)

// Engine decides what folds and steps do, and has a store do it. Between calls it keeps nothing but where the next Step begins.
// Between its look at the store and the change it holds no lock: the change applies where what it saw is still so. Of many agents
// that look at the same operation, one changes it.
type Engine struct {
	store Store
	from  atomic.Int64 // the operation behind which the next Step begins; 0: with the oldest
}

// NewEngine returns an Engine that works on a store.
func NewEngine(s Store) *Engine { return &Engine{store: s} }

// Step carries on the oldest operation that can be, by at most rows tasks. Where it takes long to find that operation, or
// carrying it on fails, the next call begins there, or behind it.
func (e *Engine) Step(ctx context.Context, rows int) (did store.Stepped, err error) {
	if rows <= 0 {
		return did, ctx.Err()
	}
	began := time.Now()
	for after := e.from.Swap(0); ; {
		list, open, err := e.store.Operations(ctx, after, listed)
		if err != nil {
			return did, err
		}
		did.Found = did.Found || open
		for i := range list {
			o := &list[i]
			after = o.ID
			did.Rows, did.Ended, err = e.carryOn(ctx, o, rows)
			took := time.Since(began)
			if err != nil {
				e.from.Store(o.ID)
				return did, err
			}
			if did.Rows == 0 && !did.Ended {
				if took > lookFor {
					e.from.Store(o.ID)
					return did, nil
				}
				continue
			}
			if i > 0 && took > againFor {
				e.from.Store(list[i-1].ID) // the next Step begins with this one, and the one after that with the oldest
			}
			if did.Ended {
				did.Verb, did.Task, did.Done, did.Refused = o.Verb, o.Task, o.Done, o.Refused
				if o.Task == 0 {
					did.Batch = o.Batch
				}
			}
			return did, nil
		}
		if len(list) < listed {
			return did, nil
		}
	}
}

// carryOn takes steps of an operation until one changes a task or ends it, or nothing more can be done for now. It keeps o up
// to date.
func (e *Engine) carryOn(ctx context.Context, o *store.Operation, rows int) (changed int, ended bool, err error) {
	for range looks {
		p := &planned{Step: store.Step{Operation: o, Progress: o.Progress, By: requester(o)}}
		can, err := e.plan(ctx, p, rows)
		if err != nil || !can {
			return 0, false, err
		}
		r, err := e.store.ApplyStep(ctx, &p.Step)
		if err != nil || !r.Applied {
			return 0, false, err
		}
		stopped := r.Stopped && !o.Stopped
		o.Version++
		o.Progress, o.Done = p.Progress, o.Done+int64(r.Rows)
		o.Stopped, o.Missed, o.Refused = r.Stopped, o.Missed || r.Missed, o.Refused+r.Refused
		if r.Rows > 0 || r.Ended || !p.more && !stopped {
			return r.Rows, r.Ended, nil
		}
	}
	return 0, false, nil
}

// planned is a step, and whether another can be taken at once if it changes nothing.
type planned struct {
	store.Step
	more bool
}

// plan decides on the next step of an operation, and reports whether there is one: else it can only wait.
func (e *Engine) plan(ctx context.Context, p *planned, rows int) (can bool, err error) {
	o := p.Operation
	switch {
	case o.Task != 0:
		return e.planOne(ctx, p)
	case o.Verb == store.VerbRetry:
		return true, e.planRetry(ctx, p, rows)
	case o.Verb == store.VerbCancel || !o.Stopped:
		return e.planStop(ctx, p, rows)
	}
	return true, e.planRollback(ctx, p, rows)
}

// planOne decides about a task that ran when its rollback was requested.
func (e *Engine) planOne(ctx context.Context, p *planned) (can bool, err error) {
	t, err := e.store.BatchTask(ctx, p.Operation.Task)
	if err != nil {
		return false, err
	}
	p.Ends = true
	switch {
	case t == nil: // past its retention
	case t.State == task.StateRunning:
		return false, nil
	case t.State.Waiting() && t.State.Phase() == task.Run:
		p.Cancel = []store.Cancellation{cancelled(p.Operation, t)}
	case CanRollBack(t):
		p.Revive, p.Reopens = []store.Revival{{BatchTask: *t}}, true
	}
	return true, nil
}

// planStop asks what runs of a batch to stop, and cancels what waits. It is done when no task does either, and no open
// transaction inserts one.
func (e *Engine) planStop(ctx context.Context, p *planned, rows int) (can bool, err error) {
	o := p.Operation
	look := func() (*store.Unstopped, error) { return e.store.Unstopped(ctx, o.Batch, p.Progress.After.ID, rows) }
	s, err := look()
	if err == nil && len(s.Waiting) == 0 && s.Left > 0 && p.Progress.After.ID != 0 {
		p.Progress.After = store.Cursor{} // what turned out to be behind the cursor takes another pass
		s, err = look()
	}
	if err != nil {
		return false, err
	}
	p.Ask = s.Running[:min(len(s.Running), rows)]
	if len(s.Waiting) > 0 { // those that run may be locked for long
		p.Ask = p.Ask[:min(len(p.Ask), max(rows/2, 1))]
	}
	room := rows - len(p.Ask)
	more := len(s.Waiting) >= room
	p.Progress.After = store.Cursor{}
	for i := range s.Waiting[:min(len(s.Waiting), room)] {
		p.Cancel = append(p.Cancel, cancelled(o, &s.Waiting[i]))
		if more {
			p.Progress.After.ID = s.Waiting[i].ID
		}
	}
	p.more = more && len(p.Cancel) > 0
	if p.Stops = s.Left <= int64(len(p.Cancel)); p.Stops {
		p.Ends = o.Verb == store.VerbCancel
		p.Progress.After, p.Progress.Goal = store.Cursor{}, s.Total
	}
	return p.Stops || len(p.Ask)+len(p.Cancel) > 0, nil // else what is left runs, and knows that it is to stop
}

// planRetry revives tasks of a batch that failed, by id.
func (e *Engine) planRetry(ctx context.Context, p *planned, rows int) error {
	o := p.Operation
	return e.pass(p, rows, func() ([]store.BatchTask, error) {
		return e.store.Failed(ctx, o.Batch, p.Progress.After.ID, paged)
	}, func(t *store.BatchTask) {
		p.Progress.After.ID = t.ID
		if canRetry(o, t) {
			p.Revive = append(p.Revive, store.Revival{BatchTask: *t})
		}
	})
}

// planRollback revives the finished tasks of a batch that can be rolled back, those that started last first.
func (e *Engine) planRollback(ctx context.Context, p *planned, rows int) error {
	o := p.Operation
	return e.pass(p, rows, func() ([]store.BatchTask, error) {
		return e.store.Finished(ctx, o.Batch, p.Progress.After, paged)
	}, func(t *store.BatchTask) {
		p.Progress.After = store.Cursor{ID: t.ID, At: t.Started}
		if CanRollBack(t) {
			p.Progress.Taken++
			p.Revive = append(p.Revive, store.Revival{BatchTask: *t, Due: due(o, p.Progress.Goal, p.Progress.Taken-1)})
		}
	})
}

// pass takes a page of finished tasks, the first that has some to revive. After the last page the operation is over, or, if
// tasks were missed, begins another pass.
func (*Engine) pass(
	p *planned, rows int, page func() ([]store.BatchTask, error), take func(*store.BatchTask),
) error {
	for looked := 0; looked < skims; looked += paged {
		tasks, err := page()
		if err != nil {
			return err
		}
		if len(tasks) == 0 && p.Progress.Missed {
			p.Progress.After, p.Progress.Missed, p.Progress.Refused = store.Cursor{}, false, 0
			if tasks, err = page(); err != nil {
				return err
			}
		}
		for i := range tasks {
			if len(p.Revive) == rows {
				p.more = true
				return nil
			}
			take(&tasks[i])
		}
		if p.more = len(tasks) >= paged; !p.more {
			p.Ends = !p.Progress.Missed
			return nil
		}
		if len(p.Revive) > 0 {
			return nil
		}
	}
	return nil
}
