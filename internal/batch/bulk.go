package batch

import (
	"context"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// BulkStore is what a Bulk needs of the store. Looks lock nothing. Each call is one short transaction.
type BulkStore interface {
	// OpenBulks returns at most limit bulk changes behind the one with that id that have not ended, oldest first.
	OpenBulks(ctx context.Context, after int64, limit int) ([]store.Bulk, error)
	// LookBulk returns at most as many tasks as the look says, in its order.
	LookBulk(ctx context.Context, l *store.BulkLook) ([]store.BulkTask, error)
	// BatchSpan bounds the ids of the tasks of a batch; the zero value: it is not known.
	BatchSpan(ctx context.Context, id task.BatchID) (store.Span, error)
	// ApplyBulk applies a step. One whose reply was lost is not applied again.
	ApplyBulk(ctx context.Context, s *store.BulkStep) (store.BulkResult, error)
}

// BulkWork is what a Loop does; a Bulk does it on a store. Many agents may call it at once.
type BulkWork interface {
	// Step carries on one bulk change that can be, by at most rows tasks.
	Step(ctx context.Context, rows int) (BulkStepped, error)
}

// Bounds of one step of a bulk change.
const (
	bulkRows  = 250    // tasks that it changes
	bulkSkims = 20_000 // tasks that are looked at to find some to change
)

// Bulk carries on changes of all tasks that match a filter. As an Engine it decides, has a store apply, and holds no lock in between.
type Bulk struct {
	store     BulkStore
	signature func(text string) string
	from      atomic.Int64 // the change behind which the next Step begins; 0: with the oldest
}

// NewBulk returns a Bulk that works on a store. signature returns the signature of an error.
func NewBulk(s BulkStore, signature func(text string) string) *Bulk {
	return &Bulk{store: s, signature: signature}
}

// BulkStepped is what a step has done.
type BulkStepped struct {
	Found bool        // there was a change to carry on, if only to find that it has to wait
	Moved bool        // it has come further
	Bulk  *store.Bulk // as it is now, where it has Moved
}

// Step carries on a bulk change that can be, by at most rows tasks: they take turns, the oldest first.
func (b *Bulk) Step(ctx context.Context, rows int) (did BulkStepped, err error) {
	after := b.from.Swap(0)
	list, err := b.store.OpenBulks(ctx, after, listed)
	if err == nil && len(list) == 0 && after != 0 {
		list, err = b.store.OpenBulks(ctx, 0, listed)
	}
	if err != nil {
		return did, err
	}
	began := time.Now()
	for i := range list {
		did.Found = true
		moved, err := b.CarryOn(ctx, &list[i], rows)
		if err != nil || moved || time.Since(began) > lookFor {
			b.from.Store(list[i].ID)
		}
		if err != nil {
			return did, err
		}
		if moved {
			did.Moved, did.Bulk = true, &list[i]
			return did, nil
		}
	}
	return did, nil
}

// CarryOn takes a step of a bulk change, and reports whether it has come further by that: else another is carrying it on, or all that is left
// is locked. It keeps o up to date.
func (b *Bulk) CarryOn(ctx context.Context, o *store.Bulk, rows int) (moved bool, err error) {
	if rows <= 0 || o.Foreign {
		return false, ctx.Err()
	}
	p := &bulkPlan{BulkStep: store.BulkStep{Bulk: o, Progress: o.BulkProgress}, signature: b.signature, rows: min(rows, bulkRows)}
	p.Progress.Again = slices.Clone(o.Again)
	if o.After < o.UpTo {
		err = b.pass(ctx, p)
	} else {
		err = b.again(ctx, p)
	}
	if err != nil {
		return false, err
	}
	again := len(o.Again)
	r, err := b.store.ApplyBulk(ctx, &p.BulkStep)
	if err != nil || !r.Applied {
		return false, err
	}
	moved = p.Progress.After > o.After || r.Rows > 0 || r.Ended || len(p.Progress.Again) < again && p.Changes() == 0
	o.Version++
	o.BulkProgress, o.Done = p.Progress, o.Done+int64(r.Rows)
	o.Refused += r.Refused
	o.Again = append(o.Again, r.Missed[:min(len(r.Missed), max(store.BulkAgain-len(o.Again), 0))]...)
	if r.Ended {
		now := time.Now()
		o.EndedAt = &now
	}
	return moved, nil
}

// look returns what a look for tasks of a change asks for.
func look(verb string, f *store.BulkFilter) store.BulkLook {
	states := f.StatesFor(verb)
	l := store.BulkLook{
		Limit: store.BulkLooked, Type: f.Type, Labels: len(f.Labels) > 0, Errors: f.Signature != "",
		Succeeded: slices.Contains(states, task.StateSucceeded),
	}
	for _, s := range states {
		if s.Live() {
			l.Live = true
		} else {
			l.Finished = true
		}
	}
	return l
}

// pass looks at the tasks behind the cursor, until it has found some to change, or has looked at enough.
func (b *Bulk) pass(ctx context.Context, p *bulkPlan) error {
	o, began := p.Bulk, time.Now()
	for l := look(o.Verb, &o.Filter); p.Progress.Looked-o.Looked < bulkSkims && time.Since(began) < lookFor; {
		l.After, l.UpTo = p.Progress.After, o.UpTo
		tasks, err := b.store.LookBulk(ctx, &l)
		if err != nil {
			return err
		}
		for i := range tasks {
			if p.Changes() >= p.rows {
				return nil
			}
			p.take(&tasks[i])
			p.Progress.After = tasks[i].ID
			p.Progress.Looked++
		}
		if len(tasks) < l.Limit {
			p.Progress.After, p.Passed = o.UpTo, true
			return nil
		}
		if p.Changes() > 0 {
			return nil
		}
	}
	return nil
}

// again looks at those again that were locked. What has gone, or does not match any more, is not met again.
func (b *Bulk) again(ctx context.Context, p *bulkPlan) error {
	p.Passed = true
	now := p.Progress.Again[:min(len(p.Progress.Again), p.rows)]
	p.Progress.Again = slices.Clone(p.Progress.Again[len(now):])
	if len(now) == 0 {
		return nil
	}
	l := look(p.Bulk.Verb, &p.Bulk.Filter)
	l.Of, l.Live, l.Finished, l.Succeeded = now, true, true, true // one may have moved
	tasks, err := b.store.LookBulk(ctx, &l)
	for i := range tasks {
		p.take(&tasks[i])
	}
	return err
}

// bulkPlan is a step that is being decided on.
type bulkPlan struct {
	store.BulkStep

	signature func(text string) string
	rows      int
}

// take decides on a task.
func (p *bulkPlan) take(t *store.BulkTask) {
	o := p.Bulk
	if !matches(o.Verb, &o.Filter, t, p.signature) {
		return
	}
	can := t.OwnRollback || t.TypeRollback
	switch waits := t.State.Waiting() && t.State.Phase() == task.Run; {
	case o.Verb == store.VerbRetry && t.Finished.After(o.RequestedAt):
		// it has failed since
	case o.Verb == store.VerbRetry && t.Awaited, o.Verb == store.VerbRollback && !can:
		p.Progress.Refused++
	case t.Follower:
		p.Followers = append(p.Followers, *t)
	case waits:
		p.Cancel = append(p.Cancel, store.Cancellation{
			BatchTask: t.BatchTask, RollBack: task.RollsBack(t.EverStarted, t.OwnRollback || o.Verb == store.VerbRollback),
		})
	case t.State == task.StateRunning:
		p.Ask = append(p.Ask, *t)
	default:
		p.Revive = append(p.Revive, *t)
	}
}

// matches reports whether a verb is for a task, and changes it or is refused.
func matches(verb string, f *store.BulkFilter, t *store.BulkTask, signature func(string) string) bool {
	switch {
	case !slices.Contains(store.BulkStates(verb), t.State), !f.Matches(t):
		return false
	case f.Signature != "" && !signed(f.Signature, signature(t.Error), signature):
		return false
	case t.State == task.StateRunning && verb == store.VerbCancel:
		return !t.Cancelled
	case t.State == task.StateRunning:
		return !t.Awaited
	case verb == store.VerbRollback && !t.State.Live():
		return t.EverStarted // what never started has nothing to roll back
	}
	return true
}

// Count counts the tasks that a bulk change would be for, the newest first, until it has looked at most of them or so long, whichever comes
// first. It takes one look at least.
func (b *Bulk) Count(ctx context.Context, r *store.BulkRequest, most int, within time.Duration) (c store.BulkCount, err error) {
	began, l := time.Now(), look(r.Verb, &r.Filter)
	l.Newest, l.UpTo = true, math.MaxInt64
	if r.Filter.Batch != 0 {
		span, err := b.store.BatchSpan(ctx, r.Filter.Batch)
		if err != nil {
			return c, err
		}
		if span.Last != 0 {
			l.After, l.UpTo = span.First-1, span.Last
		}
	}
	for looked, looks := 0, time.Duration(1); ; looks++ {
		tasks, err := b.store.LookBulk(ctx, &l)
		if err != nil {
			return c, err
		}
		for i := range tasks {
			if matches(r.Verb, &r.Filter, &tasks[i], b.signature) {
				c.Tasks++
			}
			c.Back, c.BackTo, l.UpTo = tasks[i].ID, tasks[i].Created, tasks[i].ID-1
		}
		if len(tasks) < l.Limit {
			c.All = true
			return c, nil
		}
		looked += len(tasks)
		if spent := time.Since(began); looked >= most || spent+spent/looks > within { // the next look would take as long
			return c, nil
		}
	}
}

// signed reports whether a signature is the one that was given, or that of the error that was given.
func signed(given, sign string, signature func(string) string) bool {
	return sign == given || sign == signature(given)
}
