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
	// HaltChunkPlan makes a plan one of which nothing is planned: "paused" or "parked".
	HaltChunkPlan(t testing.TB, name, how string)
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
