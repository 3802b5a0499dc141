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
	o := &overview{Now: r.now}
	var all typeRows
	var lately *ops.Activity
	var batches []store.BatchInfo
	if err := atOnce(
		func() (err error) { all, err = d.readTypes(r); return err },
		func() (err error) { lately, err = d.activity(r, ""); return err },
		func() (err error) { o.Doctor, err = d.Checkups.Look(r.ctx); return err },
		func() (err error) {
			o.InFlight, err = d.taskRows(r, store.TaskFilter{
				States: []task.State{task.StateRunning, task.StateRollbackRunning}, Limit: overviewTasks,
			})
			return err
		},
		func() (err error) {
			o.Failed, err = d.taskRows(r, store.TaskFilter{
				States: []task.State{task.StateFailed, task.StateRollbackFailed}, Limit: overviewTasks,
			})
			return err
		},
		func() (err error) {
			batches, err = d.Store.ListBatches(r.ctx, store.BatchFilter{
				States: []store.BatchState{store.BatchPending, store.BatchRunning, store.BatchRollingBack}, Limit: overviewBatches,
			})
			return err
		},
	); err != nil {
		return nil, err
	}
	o.sum(&all)
	o.Chart = chartOf(lately)
	all.sparks(lately)
	slices.SortStableFunc(all.list, func(a, b typeRow) int { return cmp.Compare(b.Running+b.Waiting, a.Running+a.Waiting) })
	o.Types = all.list[:min(len(all.list), overviewTypes)]
	o.MoreTypes = len(all.list) - len(o.Types)
	o.Batches = rowsOfBatches(batches)
	return &view{Title: "Overview", Place: "overview", Name: "overview", Data: o, Live: events}, nil
}

// sum adds up what there is of all types, and of all agents.
func (o *overview) sum(all *typeRows) {
	o.Capped = all.capped
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
}
