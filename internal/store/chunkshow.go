package store

import (
	"encoding/json"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// ChunkPlanState is what a plan does.
type ChunkPlanState string

// The states of a plan.
const (
	ChunksPaused    ChunkPlanState = "paused"    // by an operator
	ChunksParked    ChunkPlanState = "parked"    // no present agent declares it
	ChunksStopped   ChunkPlanState = "stopped"   // the batch of its pass was cancelled or rolled back
	ChunksPlanning  ChunkPlanState = "planning"  // a pass is being planned
	ChunksFollowing ChunkPlanState = "following" // the next pass begins in time
	ChunksOver      ChunkPlanState = "over"      // no pass follows
)

// ChunkPlanInfo is a plan as operators see it. Keys are texts of the table's database.
type ChunkPlanInfo struct {
	Name      string          `json:"name"`
	State     ChunkPlanState  `json:"state"`
	Task      string          `json:"task"`
	Table     string          `json:"table"`
	Key       string          `json:"key"`
	Source    json.RawMessage `json:"source"` // ChunkSource
	Ahead     int             `json:"ahead"`
	Follow    time.Duration   `json:"follow_ns,omitempty"` // 0: one pass
	Target    time.Duration   `json:"target_ns,omitempty"` // how long a chunk should take; 0: chunks keep their size
	Size      int             `json:"size"`                // rows of the next chunk
	PerRow    float64         `json:"seconds_per_row,omitempty"`
	Pass      int             `json:"pass"`           // the newest; 0: there was none
	Live      int64           `json:"live"`           // chunks that have not finished
	Held      int64           `json:"held"`           // ranges that failed too often to be planned again
	Done      int64           `json:"done_rows"`      // of chunks that have succeeded, as far as agents have noted it
	High      *ChunkKey       `json:"high,omitempty"` // the end of all that was ever planned
	CreatedAt time.Time       `json:"created_at"`
	PausedAt  time.Time       `json:"paused_at,omitzero"`
	PausedBy  string          `json:"paused_by,omitempty"`
}

// ChunkStanding is what the state of a plan follows from.
type ChunkStanding struct {
	Paused, Declared, Halted, Planning, Over bool
}

// State returns the state: what an operator did comes first, and then what keeps agents from planning.
func (s ChunkStanding) State() ChunkPlanState {
	switch {
	case s.Paused:
		return ChunksPaused
	case s.Halted:
		return ChunksStopped
	case s.Over && !s.Planning:
		return ChunksOver
	case !s.Declared:
		return ChunksParked
	case s.Planning:
		return ChunksPlanning
	}
	return ChunksFollowing
}

// ChunkPassInfo is a row of the ledger, with the batch of the pass.
type ChunkPassInfo struct {
	Pass      int          `json:"pass"`
	Whole     bool         `json:"whole"`   // it began with the table
	From      *ChunkKey    `json:"from"`    // nil: the table's begin
	Through   *ChunkKey    `json:"through"` // up to where it is planned; nil: nothing is
	Ranges    int          `json:"ranges"`  // chunks, those left to earlier passes, and those without rows
	Chunks    int          `json:"chunks"`
	Rows      int64        `json:"rows"`                // of its chunks, when they were cut
	Sizes     []int        `json:"sizes,omitempty"`     // rows of a chunk as they changed, the newest ChunkSizes
	First     *ChunkKey    `json:"first_key,omitempty"` // of the table, when the pass began
	Last      *ChunkKey    `json:"last_key,omitempty"`
	BeganAt   time.Time    `json:"began_at"`
	SealedAt  time.Time    `json:"sealed_at,omitzero"` // zero: it is being planned
	Batch     task.BatchID `json:"batch,omitempty"`
	State     BatchState   `json:"batch_state,omitempty"` // "": its batch is past its retention, or there is none
	Total     int64        `json:"tasks,omitempty"`
	Live      int64        `json:"live,omitempty"`
	Succeeded int64        `json:"succeeded,omitempty"`
	Failed    int64        `json:"failed,omitempty"`
	EndedAt   time.Time    `json:"ended_at,omitzero"` // of its batch
}

// ChunkPassFilter narrows a ListPasses.
type ChunkPassFilter struct {
	Plan  string
	Below int // only passes with a lower number; 0: all
	Limit int // PageSize
}

// ChunkPlanFilter narrows a ListChunks. Zero values match everything.
type ChunkPlanFilter struct {
	Name  string // only this plan
	From  string // only plans from this name on
	Limit int    // PageSize
}
