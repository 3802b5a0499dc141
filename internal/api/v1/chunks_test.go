package v1

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// TestChunkPasses reads and changes the pass of a plan.
func TestChunkPasses(t *testing.T) {
	eachStore(t, func(t *testing.T, r *rig) {
		session := r.join("billing-1", "event")
		_, err := r.store.DeclareChunks(t.Context(), session, []store.ChunkDeclaration{{Spec: store.ChunkSpec{
			Name: "events", Task: "event", Table: "event", Key: "id", Size: store.ChunkSize{Start: 10, Min: 1, Max: 100}, Ahead: 5,
		}}})
		require.NoError(t, err)
		look, err := r.store.LookPlan(t.Context(), "events", 1)
		require.NoError(t, err)
		key := func(n int) *store.ChunkKey { k := store.ChunkKey(fmt.Sprint(n)); return &k }
		applied, err := r.store.ApplyChunks(t.Context(), &store.ChunkStep{
			Name: "events", Before: look.Plan.Version, First: key(1), Last: key(20), Sealed: true,
			After: store.ChunkPlan{
				Version: look.Plan.Version + 1, Pass: 1, Full: true, Over: true, Cursor: key(20), High: key(20), Chunks: 2, Size: 10, Sizes: []int{10},
			},
			Items: []store.ChunkItem{
				{Kind: store.ChunkInsert, Range: store.ChunkRange{Through: key(10)}, Rows: 10},
				{Kind: store.ChunkInsert, Range: store.ChunkRange{After: key(10), Through: key(20)}, Rows: 10},
			},
		})
		require.NoError(t, err)
		require.True(t, applied)
		r.end(session, "event", task.StateFailed, task.Failed, "exit code 1")
		r.end(session, "event", task.StateSucceeded, task.Succeeded, "")
		r.is(200, "GET", "/chunks/events", "", `"passes":[{"pass":1,`, `"through":"20"`, `"failed":[{"after":`, `"tasks":2`)
		r.is(200, "POST", "/chunks/events/retry", `{"dry_run": true, "pass": 1}`, `"tasks":1,"dry_run":true`)
		r.is(200, "POST", "/chunks/events/cancel", `{"dry_run": true}`, `"dry_run":true`)
		r.is(200, "GET", "/chunks", "", `"state":"over"`)
		r.is(200, "POST", "/chunks/events/retry", `{"requested_by": "alice"}`, `"became":"`)
		r.is(200, "POST", "/chunks/events/cancel", "", `"became":"`)
		r.is(200, "GET", "/chunks", "", `"state":"paused"`, `"paused_by":"api"`)
		r.is(200, "POST", "/chunks/events/rollback", `{"force": true}`, `"became":"`)
	})
}
