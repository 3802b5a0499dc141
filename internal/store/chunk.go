package store

import (
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// ChunkKey is a key of a table that is cut into chunks, as text from which its database makes exactly the same value again. Only
// that database compares keys.
type ChunkKey string

// ChunkRange is the rows with keys above After and up to Through: (after, through]. A bound that is nil is open.
type ChunkRange struct {
	After   *ChunkKey `json:"after"`
	Through *ChunkKey `json:"through"`
}

// ChunkSize is how many rows a chunk has.
type ChunkSize struct {
	Start    int           // of the first chunks, and of all where Target is 0; >= 1
	Min, Max int           // bounds where Target is not 0
	Target   time.Duration // how long a chunk should take; 0: chunks keep their size
}

// ChunkSpec is what a plan declares.
type ChunkSpec struct {
	Name   string
	Task   string // the type of its rows
	Table  string // as the payloads of its rows have it; and so has Key
	Key    string
	Size   ChunkSize
	Ahead  int           // chunks that wait or run at once, >= 1
	Follow time.Duration // how often to look for new rows; 0: the plan is over after one pass
}

// ChunkPlan is the state of a plan that only agents change. What is planned of a pass lies between From and Cursor, without a gap.
type ChunkPlan struct {
	Version int64 // rises with each step that is applied
	Paused  bool  // or its pass's batch accepts no more rows: nothing is planned; only operators change this

	Pass     int       // the newest, from 1; 0: there was none
	Planning bool      // it is not planned to its end
	Full     bool      // it begins with the table; else behind everything that was planned before
	From     *ChunkKey // where it began; nil: with the table
	Cursor   *ChunkKey // up to where it is planned; nil: nothing is
	High     *ChunkKey // the end of all that was ever planned
	Chunks   int       // of it
	Cost     time.Duration

	Over     bool          // no pass follows
	GrowAt   time.Time     // when to look behind High
	RepeatAt time.Time     // when to begin with the table again
	Rest     time.Duration // GrowAt may be this far away, although Follow is shorter; whole microseconds

	Size    int     // rows of the next chunk
	Sizes   []int   // what it was in this pass, each time it had changed by an eighth; the newest ChunkSizes
	PerRow  float64 // seconds, smoothed; 0: nothing is known
	Sampled string  // the newest chunk that it is made of; opaque

	Holder    string    // the agent that plans now; a hint that spares others the work
	HeldUntil time.Time // zero: nobody does
}

// ChunkState is what became of a range that an earlier pass planned.
type ChunkState string

// Those that a later pass must heed. A range whose task ended otherwise is none of them.
const (
	ChunkLive   ChunkState = "live"   // its task has not finished, or is being rolled back
	ChunkFailed ChunkState = "failed" // it failed for good
)

// ChunkOver is the state of all others, as stores keep it.
const ChunkOver ChunkState = "over"

// ChunkHeldAfter is in how many passes in a row a range fails before it is held: it is not planned any more.
const ChunkHeldAfter = 3

// ChunkPassesBack is how many passes a look goes back, to find the last one over the whole table.
const ChunkPassesBack = 1000

// ChunkSizes is how many sizes of chunks a pass keeps.
const ChunkSizes = 16

// ChunkObstacle is a range of an earlier pass that is not planned like the rest of the table.
type ChunkObstacle struct {
	ID       int64 // names it to the store, with State
	Pass     int   // that planned it, or was the last to skip it
	Range    ChunkRange
	Rows     int
	State    ChunkState
	Failures int // passes in a row in which it failed
}

// ChunkLook is a plan, and what it depends on. Looks lock nothing.
type ChunkLook struct {
	Spec ChunkSpec
	Plan ChunkPlan
	Now  time.Time // the store's clock
	Live int       // chunks of the plan that have not finished
	// Obstacles are those of passes before Plan.Pass, or of all where Planning is false, pass by pass: of a pass by its
	// steps, and of its steps by their items; the halves of a range are in the place that it had. More: there are others behind.
	//
	// Those of pass Whole and later ones come in the order in which they begin; 0: all do. It is the last pass over the whole table that has
	// planned or skipped something, where Plan.Full. It has planned the ranges of passes before it again, or found nothing in them, so those were
	// brought back since, and may be anywhere. Of very many passes since then, it is one of these.
	Obstacles []ChunkObstacle
	More      bool
	Whole     int

	// Chunks of the plan that succeeded behind Plan.Sampled, some of the newest: their rows and time together. Sampled is the newest.
	Rows    int64
	Took    time.Duration
	Sampled string
}

// ChunkItemKind is what a pass does with a range.
type ChunkItemKind string

// What it may do.
const (
	ChunkInsert ChunkItemKind = "insert" // a row of the plan's type
	ChunkSkip   ChunkItemKind = "skip"   // nothing: an obstacle that stays one, from now on of this pass
	ChunkGap    ChunkItemKind = "gap"    // nothing: it has no rows; where it was an obstacle it is none from now on
)

// ChunkItem is a range of a pass.
type ChunkItem struct {
	Kind     ChunkItemKind
	Range    ChunkRange
	Rows     int
	Obstacle *ChunkObstacle // that the item stands for; the new row inherits its Failures
}

// ChunkStep changes a plan, in one transaction: the new state, and a row for each item to insert, in the pass's batch, which the
// first of them creates. A store applies it where the plan has the version of Before, is not paused, and each failed obstacle of an
// item has failed still. Where Sealed, the batch is sealed and the ledger says so.
type ChunkStep struct {
	Name   string
	Before int64
	After  ChunkPlan // with Before + 1 as Version
	Items  []ChunkItem
	Sealed bool
	First  *ChunkKey // where the step begins a pass: the lowest key of the table, and the highest, for those who follow its progress
	Last   *ChunkKey
	Batch  task.BatchID // set by the store, for the log
}
