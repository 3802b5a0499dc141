package store

import (
	"encoding/json"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// ChunkPlanInfo is a plan as operators see it.
type ChunkPlanInfo struct {
	Spec     ChunkSpec
	Source   json.RawMessage // what is cut, without secrets
	Plan     ChunkPlan       // Paused: nothing is planned, for one of the reasons below or because the pass's batch was stopped
	PausedAt time.Time       // zero: it is not paused
	PausedBy string
	ParkedAt time.Time // since when no present agent declares it; zero: one does
	Live     int       // chunks that have not finished
	Done     ChunkSums // of all passes
}

// ChunkPassInfo is one pass of a plan. A pass that is sealed has cut everything behind From and up to Through into Ranges, which are
// disjoint and leave no gap: each step was applied only because its ranges continued those before it.
type ChunkPassInfo struct {
	Pass    int
	Full    bool // it began with the table
	From    *ChunkKey
	Through *ChunkKey // how far it has come
	Ranges  int       // Chunks, those left to earlier passes, and those without rows
	Chunks  int       // that it inserted
	Rows    int64     // of them
	Batch   task.BatchID
	Began   time.Time
	Sealed  time.Time // zero: it is being planned
	// Of its chunks, those that succeeded, as far as a step or the maintenance has noted it: one that was rolled back and run again
	// counts twice.
	Done     int
	DoneSums ChunkSums
}
