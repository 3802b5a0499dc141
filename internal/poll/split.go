package poll

import (
	"context"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Splitter finds where chunks of big tables are split.
type Splitter interface {
	// MaySplit reports whether a task of the type can be a chunk that Split splits.
	MaySplit(typ string) bool
	// Split returns how a task is split that has stalled or timed out, of which its history does not know yet; nil: it is not.
	// It takes a few seconds at most.
	Split(ctx context.Context, t *task.Task) *task.Split
}

// maySplit reports whether a task that ended so may be a chunk that is split.
func (e *Engine) maySplit(t *task.Task, out *task.Outcome) bool {
	stuck := out.Verdict == task.Stalled || out.Verdict == task.TimedOut
	return stuck && !out.NeverStarted && t.Phase() == task.Run && !t.CancelRequested && e.o.Chunks != nil && e.o.Chunks.MaySplit(t.Type)
}

// reapSplit reaps rows that may be split: their targets, who had accepted them, went silent. That takes longer than a sweep may, so
// it is done for those of one sweep at a time. Those of another meanwhile are reaped as they are.
func (e *Engine) reapSplit(stopped, calls context.Context, rows []*store.Reaped, outs []task.Outcome) {
	if len(rows) == 0 {
		return
	}
	if !e.splitting.TryLock() {
		for i, r := range rows {
			e.reap(r, e.policy(&r.Task), outs[i], nil) //nolint:contextcheck // it is settled by the settler
		}
		return
	}
	e.active.reaping.Add(1)
	e.splits.Go(func() {
		defer e.active.reaping.Add(-1)
		defer e.splitting.Unlock()
		ctx, cancel := context.WithTimeout(calls, reapFor/2) // they are held for reapFor
		defer cancel()
		defer context.AfterFunc(stopped, cancel)()
		for i, r := range rows {
			if ctx.Err() == nil {
				outs[i].Split = e.o.Chunks.Split(ctx, &r.Task)
			}
			e.reap(r, e.policy(&r.Task), outs[i], nil) //nolint:contextcheck // it is settled by the settler
		}
	})
}
