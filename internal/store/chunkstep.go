package store

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// ErrNoChunkPlan says that there is no chunk plan of that name.
var ErrNoChunkPlan = errors.New("no such chunk plan")

// Bounds of what one call does.
const (
	// ChunksNoted is how many chunks of a plan whose tasks have finished one step notes.
	ChunksNoted = 1000
	// ChunkTextMost is the longest name of a plan, in bytes: it is part of its batches' names.
	ChunkTextMost = 200
)

// ChunkFailedFor reports whether a chunk failed for good: its task failed, also if it was rolled back or could not be rolled back
// because of that. The state is that of a finished task; the cause that of its rollback, "" where there was none.
func ChunkFailedFor(state task.State, cause task.Verdict) bool {
	switch state {
	case task.StateFailed, task.StateRolledBack, task.StateRollbackFailed:
		return cause != task.Succeeded && cause != task.Cancelled
	}
	return false
}

// Begins returns the key behind which a step begins. It is an error where the ranges of the items are not a chain from there to the
// cursor, or where an item cannot be: stores rely on that for what the ledger says of a pass.
func (s *ChunkStep) Begins() (*ChunkKey, error) {
	if len(s.Items) == 0 {
		return s.After.Cursor, nil
	}
	begins := s.Items[0].Range.After
	at := begins
	for n := range s.Items {
		i := &s.Items[n]
		switch {
		case !sameKey(i.Range.After, at):
			return nil, s.wrong(n, "does not begin where the one before ends")
		case i.Range.Through == nil:
			return nil, s.wrong(n, "has no end")
		case sameKey(i.Range.After, i.Range.Through):
			return nil, s.wrong(n, "is empty")
		case i.Kind == ChunkSkip && i.Obstacle == nil:
			return nil, s.wrong(n, "skips nothing")
		case i.Kind != ChunkSkip && i.Obstacle != nil && i.Obstacle.State != ChunkFailed:
			return nil, s.wrong(n, "stands for a live one")
		}
		at = i.Range.Through
	}
	if !sameKey(at, s.After.Cursor) {
		return nil, s.wrong(len(s.Items)-1, "does not end at the cursor")
	}
	return begins, nil
}

func (s *ChunkStep) wrong(item int, what string) error {
	return fmt.Errorf("step of chunk plan %q: range %d %s", s.Name, item, what)
}

func sameKey(a, b *ChunkKey) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// ChunkSums are what the chunks of a plan that succeeded add up to, since its beginning.
type ChunkSums struct {
	Rows int64
	Took time.Duration // whole microseconds
}

// Sample writes into a look what succeeded since its plan was sampled last. It takes all there is until now.
func (l *ChunkLook) Sample(all ChunkSums) {
	var last ChunkSums
	if rows, us, ok := strings.Cut(l.Plan.Sampled, " "); ok {
		last.Rows, _ = strconv.ParseInt(rows, 10, 64)
		n, _ := strconv.ParseInt(us, 10, 64)
		last.Took = time.Duration(n) * time.Microsecond
	}
	if all == last {
		return
	}
	// A chunk that was sampled, and rolled back before it was noted, makes them fall.
	l.Rows, l.Took = max(all.Rows-last.Rows, 0), max(all.Took-last.Took, 0)
	l.Sampled = fmt.Sprintf("%d %d", all.Rows, all.Took.Microseconds())
}

// ChunkBatchName returns the name of a pass's batch.
func ChunkBatchName(plan string, pass int) string { return fmt.Sprintf("chunks %s pass %d", plan, pass) }

// ChunkCreator returns the created_by of a plan's tasks and batches.
func ChunkCreator(plan string) string { return "chunks:" + plan }
