package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// ErrNoChunkPlan says that there is no chunk plan of that name.
var ErrNoChunkPlan = errors.New("no such chunk plan")

// ChunksNoted is of how many chunks one step notes at most that their tasks have finished.
const ChunksNoted = 1000

// ChunkFailedFor reports whether a chunk failed for good: its task failed, also if it was rolled back or could not be rolled back
// because of that. The state is that of a finished task; the cause that of its rollback, "" where there was none.
func ChunkFailedFor(state task.State, cause task.Verdict) bool {
	switch state {
	case task.StateFailed:
		return true
	case task.StateRolledBack, task.StateRollbackFailed:
		return cause != task.Succeeded && cause != task.Cancelled
	}
	return false
}

// Begins reports whether the step begins a pass. pass is the plan's newest, and planning whether it is being planned, up to cursor.
// It is an error where the step neither begins the next nor carries that one on, where the ranges of its items are not a chain from
// the cursor to that of After, or where an item cannot be: stores rely on that for what the ledger says of a pass.
func (s *ChunkStep) Begins(pass int, planning bool, cursor *ChunkKey) (bool, error) {
	begins := !planning && s.After.Pass == pass+1
	switch {
	case begins:
		cursor = s.After.From
	case !planning || s.After.Pass != pass:
		return false, fmt.Errorf("step of chunk plan %q: it is for pass %d, and %d is the newest", s.Name, s.After.Pass, pass)
	}
	return begins, s.chain(cursor)
}

// chain checks that the items lie one behind another, from a key on.
func (s *ChunkStep) chain(at *ChunkKey) error {
	for n := range s.Items {
		i := &s.Items[n]
		switch {
		case !sameKey(i.Range.After, at):
			return s.wrong(n, "does not begin where the one before ends")
		case i.Range.Through == nil:
			return s.wrong(n, "has no end")
		case sameKey(i.Range.After, i.Range.Through):
			return s.wrong(n, "is empty")
		case i.Kind == ChunkSkip && i.Obstacle == nil:
			return s.wrong(n, "skips nothing")
		case i.Kind != ChunkSkip && i.Obstacle != nil && i.Obstacle.State != ChunkFailed:
			return s.wrong(n, "stands for a live one")
		}
		at = i.Range.Through
	}
	if !sameKey(at, s.After.Cursor) {
		return s.wrong(len(s.Items)-1, "does not end at the cursor")
	}
	return nil
}

// Planned returns how many chunks the step inserts, and how many rows they have together.
func (s *ChunkStep) Planned() (chunks int, rows int64) {
	for n := range s.Items {
		if s.Items[n].Kind == ChunkInsert {
			chunks++
			rows += int64(s.Items[n].Rows)
		}
	}
	return chunks, rows
}

// Again lists the ranges that failed and that the step plans again, or finds without rows.
func (s *ChunkStep) Again() (ids []int64) {
	for n := range s.Items {
		if i := &s.Items[n]; i.Obstacle != nil && i.Kind != ChunkSkip {
			ids = append(ids, i.Obstacle.ID)
		}
	}
	return ids
}

// Failures is in how many passes in a row before this one the range failed.
func (i *ChunkItem) Failures() int {
	if i.Obstacle == nil {
		return 0
	}
	return i.Obstacle.Failures
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

// Sample writes into a look what succeeded since its plan was sampled last.
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
	l.Rows, l.Took = all.Rows-last.Rows, all.Took-last.Took
	l.Sampled = fmt.Sprintf("%d %d", all.Rows, all.Took.Microseconds())
}

// FinishedChunk is a chunk whose task has finished, as a step finds it.
type FinishedChunk struct {
	Task  task.ID
	Rows  int
	State task.State
	Cause task.Verdict
	Took  time.Duration // of its last attempt
}

// Note returns what the chunk is from now on, and adds it up where it succeeded.
func (f *FinishedChunk) Note(sums *ChunkSums) ChunkState {
	if ChunkFailedFor(f.State, f.Cause) {
		return ChunkFailed
	}
	if f.State == task.StateSucceeded {
		sums.Rows += int64(f.Rows)
		sums.Took += max(f.Took.Truncate(time.Microsecond), 0)
	}
	return ChunkOver
}

// Standing writes into an obstacle what it is, and counts this failure. It reports false where it is none any more. live: its task
// has not finished; noted: as the store keeps it; state and cause: of the archived task, "" where there is none.
func (o *ChunkObstacle) Standing(live bool, noted string, state task.State, cause task.Verdict) bool {
	switch {
	case live:
		o.State = ChunkLive
	case state == "" && noted == string(ChunkFailed), ChunkFailedFor(state, cause):
		o.State = ChunkFailed
		o.Failures++
	default:
		return false
	}
	return true
}

// ChunkSizesText writes sizes as stores keep them: a JSON array.
func ChunkSizesText(sizes []int) string {
	if len(sizes) == 0 {
		return "[]"
	}
	text, _ := json.Marshal(sizes) // of numbers
	return string(text)
}

// ParseChunkSizes reads them; those that are none are left out.
func ParseChunkSizes(text string) (sizes []int) {
	_ = json.Unmarshal([]byte(text), &sizes) // only agents write them, and they are for show
	if len(sizes) == 0 {
		return nil
	}
	return sizes
}

// ChunkBatchName returns the name of a pass's batch.
func ChunkBatchName(plan string, pass int) string {
	return fmt.Sprintf("chunks %s pass %d", plan, pass)
}

// ChunkCreator returns the created_by of a plan's tasks and batches.
func ChunkCreator(plan string) string { return "chunks:" + plan }

// Payload returns the payload of the task of a chunk.
func (s *ChunkSpec) Payload(pass int, r ChunkRange, rows int) json.RawMessage {
	text, _ := json.Marshal(struct { // of texts and numbers
		Chunks string    `json:"chunks"`
		Pass   int       `json:"pass"`
		Table  string    `json:"table"`
		Key    string    `json:"key"`
		After  *ChunkKey `json:"after"`
		Upto   *ChunkKey `json:"through"`
		Rows   int       `json:"rows"`
	}{s.Name, pass, s.Table, s.Key, r.After, r.Through, rows})
	return text
}
