package poll_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// splitsAt splits what is stuck at a key; "": not.
type splitsAt struct {
	at     string
	before func()

	mu    sync.Mutex
	asked int
}

func (s *splitsAt) MaySplit(typ string) bool { return typ == "a" }

func (s *splitsAt) Split(context.Context, *task.Task) *task.Split {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.asked++; s.before != nil {
		s.before()
	}
	if s.at == "" || s.asked > 1 {
		return nil
	}
	return &task.Split{At: s.at, Rows: [2]int{5, 5}}
}

// chunk plans a chunk of type a, up to the key 10, and returns its task and batch.
func chunk(t *testing.T, db *model.Store) (task.ID, task.BatchID) {
	t.Helper()
	db.AddChunkPlan(store.ChunkSpec{Name: "p", Task: "a", Table: "event", Key: "id", Ahead: 8})
	look, err := db.LookPlan(t.Context(), "p", 10)
	require.NoError(t, err)
	step := func(change func(*store.ChunkStep)) *store.ChunkStep {
		s := &store.ChunkStep{Name: "p", Before: look.Plan.Version, After: look.Plan}
		s.After.Version++
		change(s)
		applied, err := db.ApplyChunks(t.Context(), s)
		require.NoError(t, err)
		require.True(t, applied)
		look.Plan = s.After
		return s
	}
	step(func(s *store.ChunkStep) { s.After.Pass, s.After.Planning, s.After.Full = 1, true, true })
	end := store.ChunkKey(strconv.Itoa(10))
	s := step(func(s *store.ChunkStep) {
		s.Items = []store.ChunkItem{{Kind: store.ChunkInsert, Range: store.ChunkRange{Through: &end}, Rows: 10}}
		s.After.Cursor, s.After.Planning, s.Sealed = &end, false, true
	})
	list, err := db.List(t.Context(), store.TaskFilter{Batch: s.Batch, Limit: 10})
	require.NoError(t, err)
	require.Len(t, list, 1)
	return list[0].ID, s.Batch
}

func TestAChunkThatIsStuckIsSplit(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		id, batch := chunk(t, db)
		splits := &splitsAt{at: "5"}
		r := newRig(t, db, func(r *rig) { r.opts.Chunks = splits }, doing(takes(time.Hour)))
		after(40 * time.Second)
		require.Equal(t, task.StateSplit, r.get(id).State)
		b, err := db.GetBatch(t.Context(), batch)
		require.NoError(t, err)
		require.EqualValues(t, 2, b.Total)
		require.EqualValues(t, 2, b.Live)
		require.Len(t, r.deeds.started(), 3, "the chunk, and its halves")
		r.drain()
	})
}

func TestAnAcceptedChunkThatIsStuckIsSplit(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		id, _ := chunk(t, db)
		r := newRig(t, db, lively, func(r *rig) { r.opts.Chunks = &splitsAt{at: "5"} }, doing(accept))
		after(2 * time.Minute)
		require.Equal(t, task.StateSplit, r.get(id).State)
		r.drain()
	})
}

func TestWhatCannotBeSplitIsRetried(t *testing.T) {
	for name, change := range map[string]func(*splitsAt, *model.Store, task.BatchID){
		"no key inside": func(s *splitsAt, _ *model.Store, _ task.BatchID) { s.at = "" },
		"its batch stops": func(s *splitsAt, db *model.Store, id task.BatchID) {
			s.before = func() { _, _ = db.CancelBatch(context.Background(), id, "alice") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, db *model.Store) {
				id, batch := chunk(t, db)
				splits := &splitsAt{at: "5"}
				change(splits, db, batch)
				r := newRig(t, db, func(r *rig) { r.opts.Chunks = splits }, doing(takes(time.Hour)))
				after(21 * time.Second)
				require.Equal(t, task.StateRetryPending, r.get(id).State)
				require.Equal(t, 1, splits.asked)
				r.drain()
			})
		})
	}
}
