package store

import (
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// ChunkHeldAfter is in how many passes in a row a range fails before no pass plans it any more.
const ChunkHeldAfter = 3

// ChunkPlanState is what a plan is doing, as operators see it.
type ChunkPlanState string

// States of plans.
const (
	PlanPlanning  ChunkPlanState = "planning"  // chunks are inserted
	PlanWaiting   ChunkPlanState = "waiting"   // for chunks to finish
	PlanFollowing ChunkPlanState = "following" // for new rows; no pass is being planned
	PlanOver      ChunkPlanState = "over"      // all is planned and finished, and no pass follows
	PlanPaused    ChunkPlanState = "paused"    // by an operator
	PlanStopped   ChunkPlanState = "stopped"   // the batch of its pass accepts no more tasks
	PlanParked    ChunkPlanState = "parked"    // no present agent declares it
)

// ChunkInfo is a plan as operators see it. All times are UTC by the store's clock; zero: none.
type ChunkInfo struct {
	Spec       ChunkSpec
	Source     ChunkSource
	CreatedAt  time.Time
	Now        time.Time // the store's clock
	DeclaredBy []string  // names of the present agents that declare it
	PausedAt   time.Time
	PausedBy   string
	Holder     string // the agent that plans, a hint
	Over       bool   // no pass follows
	Stopped    bool   // it is not paused, and the batch of its pass accepts no more rows
	Planning   bool   // its newest pass is not planned to its end
	Pass       int    // the newest; 0: there was none
	Chunks     int    // of the newest pass
	Rows       int64  // of these
	Size       int    // rows of the next chunk; 0: as declared
	Live       int    // chunks that have not finished, of all passes
	LiveOfPass int    // of these, those of the newest pass
	Failed     int    // ranges that failed for good and that no later pass has planned again
	Held       int    // of these, those that no pass plans any more
}

// State returns what the plan is doing.
func (i *ChunkInfo) State() ChunkPlanState {
	switch {
	case i.Over && i.Live == 0:
		return PlanOver
	case !i.PausedAt.IsZero():
		return PlanPaused
	case i.Stopped:
		return PlanStopped
	case len(i.DeclaredBy) == 0:
		return PlanParked
	case i.Over, i.Planning && i.Live >= i.Spec.Ahead:
		return PlanWaiting
	case i.Planning, i.Pass == 0:
		return PlanPlanning
	}
	return PlanFollowing
}

// ChunkFilter says which plans a list has.
type ChunkFilter struct {
	Name  string // only this one; "": all
	From  string // of all: those from this name on, in the store's order of names
	Limit int    // PageSize
}

// ChunkPassInfo is a pass of the ledger.
type ChunkPassInfo struct {
	Pass    int            `json:"pass"`
	Whole   bool           `json:"whole"`   // it began with the table
	From    *ChunkKey      `json:"from"`    // behind which it began; nil: with the table
	Through *ChunkKey      `json:"through"` // up to where it is planned
	Ranges  int            `json:"ranges"`  // chunks, ranges left to earlier passes, and ranges without rows
	Chunks  int            `json:"chunks"`
	Rows    int64          `json:"rows"`
	Cost    time.Duration  `json:"-"`                  // for which the source was read
	Batch   task.BatchID   `json:"batch,omitempty"`    // 0: the next chunk gets a new one
	Earlier []task.BatchID `json:"earlier,omitempty"`  // those that accepted no more tasks when the plan was resumed
	Began   time.Time      `json:"began_at"`           //
	Sealed  time.Time      `json:"sealed_at,omitzero"` // zero: it is being planned
}

// Batches lists the batches of the pass, oldest first.
func (p *ChunkPassInfo) Batches() []task.BatchID {
	all := append([]task.BatchID(nil), p.Earlier...)
	if p.Batch != 0 {
		all = append(all, p.Batch)
	}
	return all
}
