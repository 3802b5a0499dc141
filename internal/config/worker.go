package config

import (
	"errors"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// Bounds and defaults of the worker block.
const (
	defaultIdle  = time.Minute
	minIdle      = time.Second
	maxIdle      = task.Day
	defaultTasks = 1000
	mostTasks    = 1_000_000_000
	defaultReady = 10 * time.Second
	minReady     = 100 * time.Millisecond
	maxReady     = time.Hour
)

func workerShape() *shape {
	return &shape{name: "worker", attrs: []string{"processes", "idle", "max_tasks", "ready"}}
}

// worker decodes the worker block in b; nil where there is none. workers is the default of processes; 0: it is not known.
func (b *block) worker(workers int) *task.Worker {
	hb := b.child("worker")
	if hb == nil {
		return nil
	}
	sub := b.block(hb, workerShape())
	b.out.blocks = append(b.out.blocks, sub.out)
	w := &task.Worker{Processes: 1}
	if workers > 0 || sub.attr("processes") != nil {
		w.Processes = sub.num("processes", max(workers, 1), 1, maxWorkers)
		sub.ofAgent("processes")
	}
	w.Idle = sub.length("idle", defaultIdle, minIdle, maxIdle)
	w.MaxTasks = sub.num("max_tasks", defaultTasks, 0, mostTasks)
	w.Ready = sub.length("ready", defaultReady, minReady, maxReady)
	return w
}

// errWorkerRow refuses row data in what a process is started with.
var errWorkerRow = errors.New("row data is not allowed beside a worker block, because one process runs many tasks; " +
	"the worker reads the row's data in the envelope, or leave the block out to start a process for each task")
