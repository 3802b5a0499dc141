package storetest

import (
	"testing"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Chunker is what the suite does to chunk plans from outside.
type Chunker interface {
	// AddChunkPlan declares a plan as an agent does.
	AddChunkPlan(t testing.TB, spec store.ChunkSpec)
	// PauseChunkPlan makes a plan one of which nothing is planned.
	PauseChunkPlan(t testing.TB, name string)
	// LockChunkPlan begins an operator's transaction that has a plan locked until release; nil where a store has one writer, for which all wait.
	LockChunkPlan(t testing.TB, name string) (release func())
	// ChunkPasses reads the ledger of a plan, by pass.
	ChunkPasses(t testing.TB, name string) []ChunkPass
}

// ChunkPass is a row of the ledger. A nil bound is open.
type ChunkPass struct {
	Pass           int
	Full           bool
	From, Through  *store.ChunkKey
	Ranges, Chunks int
	Rows           int64
	Batch          task.BatchID
	Sealed         time.Time // zero: it is being planned
}
