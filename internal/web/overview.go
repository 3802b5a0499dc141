package web

import (
	"cmp"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// How much the overview has of each.
const (
	overviewTypes   = 12
	overviewTasks   = 8
	overviewBatches = 5
)

// overview is how everything is, on one page.
type overview struct {
	Now                            time.Time
	Waiting, Running, Due, Orphans int64
	Retrying, RollingBack          int64
	Oldest                         time.Duration // for how long the longest due task has been due
	Capped                         bool
	Agents, Working                int
	Slots                          int
	Types                          []typeRow
	MoreTypes                      int
	InFlight, Failed               []taskRow
	Batches                        []batchRow
	Doctor                         ops.Checkup
	Chart                          *chart
}

// overview reads how everything is.
func (d *Dashboard) overview(r *request) (*view, error) {
	all, err := d.readTypes(r)
	if err != nil {
		return nil, err
	}
	o := &overview{Now: r.now, Capped: all.capped}
	if o.Doctor, err = d.Checkups.Look(r.ctx); err != nil {
		return nil, err
	}
	for _, a := range all.agents {
		o.Agents++
		if a.State == store.AgentWorking {
			o.Working++
			o.Slots += a.Workers
		}
	}
	for _, t := range all.list {
		o.Waiting, o.Running, o.Due = o.Waiting+t.Waiting, o.Running+t.Running, o.Due+t.Due
		o.Retrying, o.RollingBack = o.Retrying+t.Retrying, o.RollingBack+t.RollingBack
		o.Oldest = max(o.Oldest, t.Oldest)
		if t.Orphans {
			o.Orphans += t.Waiting
		}
	}
	lately, err := d.activity(r, "")
	if err != nil {
		return nil, err
	}
	o.Chart = chartOf(lately)
	all.sparks(lately)
	slices.SortStableFunc(all.list, func(a, b typeRow) int { return cmp.Compare(b.Running+b.Waiting, a.Running+a.Waiting) })
	o.Types = all.list[:min(len(all.list), overviewTypes)]
	o.MoreTypes = len(all.list) - len(o.Types)
	if o.InFlight, err = d.taskRows(r, store.TaskFilter{
		States: []task.State{task.StateRunning, task.StateRollbackRunning}, Limit: overviewTasks,
	}); err != nil {
		return nil, err
	}
	if o.Failed, err = d.taskRows(r, store.TaskFilter{
		States: []task.State{task.StateFailed, task.StateRollbackFailed}, Limit: overviewTasks,
	}); err != nil {
		return nil, err
	}
	batches, err := d.Store.ListBatches(r.ctx, store.BatchFilter{
		States: []store.BatchState{store.BatchPending, store.BatchRunning, store.BatchRollingBack}, Limit: overviewBatches,
	})
	if err != nil {
		return nil, err
	}
	o.Batches = rowsOfBatches(batches)
	return &view{Title: "Overview", Place: "overview", Name: "overview", Data: o, Live: events}, nil
}
