package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// pausePlan is what an operator does to a plan: most times it goes on soon.
func (m *machine) pausePlan(t *rapid.T) {
	name := planNames(t)
	pause := rapid.IntRange(0, 2).Draw(t, "pause") == 0
	ctx := m.begin()
	do := func(h Harness) (bool, error) {
		if pause {
			return h.PauseChunks(ctx, name, "alice")
		}
		return h.ResumeChunks(ctx, name, "alice")
	}
	want, reasonWant := do(m.ideal)
	got, reason := do(m.real)
	require.Equal(m.t, errors.Is(reasonWant, store.ErrNoChunkPlan), errors.Is(reason, store.ErrNoChunkPlan), "%v, and %v", reasonWant, reason)
	require.Equal(m.t, reasonWant == nil, reason == nil, "%v, and %v", reasonWant, reason)
	require.Equal(m.t, want, got, "whether that changes the plan")
}

// splitChunk has an agent split a chunk that it holds, or once held. Of several in one call, which comes first is the stores' own.
func (m *machine) splitChunk(t *rapid.T) {
	m.begin()
	s, holds := m.someone(t)
	call := sent{session: s}
	for _, h := range holds {
		at := m.middle(t, h)
		if at == 0 || len(call.holds) > 0 {
			continue
		}
		e := settlement(t, h)
		e.Silent, e.Outcome.Result = false, nil
		e.Next.State, e.Next.Reason, e.Next.AfterLease = task.StateSplit, "too slow", true
		e.Outcome.Verdict, e.Outcome.Split = task.TimedOut, &task.Split{At: strconv.Itoa(at), Rows: [2]int{1, 2}}
		call.holds = append(call.holds, h)
		e.ID = m.tasks[h.row].ideal
		call.onModel = append(call.onModel, e)
		e.ID = m.tasks[h.row].real
		call.onReal = append(call.onReal, e)
	}
	if len(call.holds) == 0 {
		t.Skip("there is no chunk that can be split")
	}
	m.send(call)
	m.addNew()
	m.sent = append(m.sent, call)
}

// middle is a key inside of the chunk that a session holds, or, now and then, any key where the row is no chunk; 0: there is none.
func (m *machine) middle(t *rapid.T, h hold) int {
	ctx := m.t.Context()
	want, reasonWant := m.ideal.ChunkTask(ctx, m.tasks[h.row].ideal)
	got, reason := m.real.ChunkTask(ctx, m.tasks[h.row].real)
	require.Equal(m.t, errors.Is(reasonWant, store.ErrNoChunk), errors.Is(reason, store.ErrNoChunk), "%v, and %v", reasonWant, reason)
	if reasonWant != nil {
		return rapid.SampledFrom([]int{0, 0, 5}).Draw(t, "no chunk")
	}
	require.NoError(m.t, reason)
	require.Equal(m.t, want, got, "the chunk of task %d", h.row)
	low, high := keyNumber(want.Range.After), keyNumber(want.Range.Through)
	if h.phase != task.Run || high-low < 2 {
		return 0
	}
	return low + (high-low)/2
}

// result is a result in one way: the ids in it are those of a store.
func (m *machine) result(raw json.RawMessage, ids taskSide) string {
	var split struct {
		Into []task.ID `json:"split_into"`
	}
	if err := json.Unmarshal(raw, &split); err != nil || len(split.Into) == 0 {
		return oneWay(raw)
	}
	var rows []int
	for _, id := range split.Into {
		rows = append(rows, place(m.tasks, ids, id))
	}
	return fmt.Sprint("split into ", rows)
}

// operateBatch is what an operator does to the batch of a pass.
func (m *machine) operateBatch(t *rapid.T) {
	if len(m.chunks.batches) == 0 {
		t.Skip("there is no batch")
	}
	ctx := m.begin()
	b := rapid.SampledFrom(m.chunks.batches[max(len(m.chunks.batches)-3, 0):]).Draw(t, "batch")
	verb := rapid.SampledFrom([]string{"cancel", "retry", "retry", "retry", "retry", "roll back"}).Draw(t, "verb")
	do := func(h Harness, id task.BatchID) (string, error) {
		switch verb {
		case "cancel":
			return h.CancelBatch(ctx, id, "alice")
		case "retry":
			return h.RetryBatch(ctx, id, "alice")
		}
		return h.RollbackBatch(ctx, id, "alice", true)
	}
	want, reasonWant := do(m.ideal, b.ideal)
	got, reason := do(m.real, b.real)
	require.Equal(m.t, reasonWant == nil, reason == nil, "%s: %v, and %v", verb, reasonWant, reason)
	require.Equal(m.t, want, got, "what becomes of the batch")
}

// batchesGoOn has an agent do all that is wanted of batches: which rows it takes first is the stores' own.
func (m *machine) batchesGoOn(*rapid.T) {
	ctx := m.begin()
	for _, h := range []Harness{m.ideal, m.real} {
		for range 10 {
			folded, err := h.Fold(ctx, 100)
			require.NoError(m.t, err)
			did, err := h.Step(ctx, 1000)
			require.NoError(m.t, err)
			if !did.Found && folded.Acted+folded.Ended == 0 {
				break
			}
		}
	}
}

// batchesMuchLater has what is past its retention removed, where all batches or none have ended: while one goes on, a store may keep
// all rows of batches that finished on the same day.
func (m *machine) batchesMuchLater(t *rapid.T) {
	all, err := m.ideal.ListBatches(m.t.Context(), store.BatchFilter{Limit: 1000})
	require.NoError(m.t, err)
	open := 0
	for i := range all {
		if all[i].EndedAt == nil {
			open++
		}
	}
	if open > 0 && open < len(all) {
		t.Skip("some batches have ended")
	}
	m.muchLater(t)
}
