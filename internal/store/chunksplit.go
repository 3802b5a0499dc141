package store

import (
	"encoding/json"
	"errors"

	"github.com/leasehold/leasehold/internal/task"
)

// ErrNoChunk says that a task is no live chunk of a batch that goes on.
var ErrNoChunk = errors.New("the task is no chunk that can be split")

// ChunkTask is a live chunk, as an agent sees it that may split it.
type ChunkTask struct {
	Plan       string
	Table, Key string // of the plan
	Range      ChunkRange
	Rows       int // when it was cut
	Stuck      int // attempts in the history that stalled or timed out
}

// ChunkPlace is a chunk that is being split.
type ChunkPlace struct {
	Spec    ChunkSpec // Name, Table and Key
	Planned int       // the pass that inserted it
	Part    string
	Range   ChunkRange
}

// ChunkHalf is a half of a chunk that is split. It has the chunk's place, but its own part of it.
type ChunkHalf struct {
	Part    string
	Range   ChunkRange
	Rows    int
	Payload string
}

// Halves returns the halves, in the order of the key. Together they cover exactly what the chunk did.
func (p *ChunkPlace) Halves(s *task.Split) [2]ChunkHalf {
	at := ChunkKey(s.At)
	halves := [2]ChunkHalf{
		{Part: p.Part + "0", Range: ChunkRange{After: p.Range.After, Through: &at}, Rows: s.Rows[0]},
		{Part: p.Part + "1", Range: ChunkRange{After: &at, Through: p.Range.Through}, Rows: s.Rows[1]},
	}
	for n := range halves {
		h := &halves[n]
		h.Payload = string(p.Spec.Payload(p.Planned, h.Range, h.Rows))
	}
	return halves
}

// SplitResult is the result of the task of a chunk that was split: {"split_into": [id, id]}.
func SplitResult(ids [2]task.ID) json.RawMessage {
	text, _ := json.Marshal(map[string][2]task.ID{"split_into": ids}) // of numbers
	return text
}
