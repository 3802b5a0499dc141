package v1

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/ops"
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
		verifyChunks(t, r)
		r.is(200, "POST", "/chunks/events/retry", `{"dry_run": true, "pass": 1}`, `"tasks":1,"dry_run":true`)
		r.is(200, "POST", "/chunks/events/cancel", `{"dry_run": true}`, `"dry_run":true`)
		r.is(200, "GET", "/chunks", "", `"state":"over"`)
		r.is(200, "POST", "/chunks/events/retry", `{"requested_by": "alice"}`, `"became":"`)
		r.is(200, "POST", "/chunks/events/cancel", "", `"became":"`)
		r.is(200, "GET", "/chunks", "", `"state":"paused"`, `"paused_by":"api"`)
		r.is(200, "POST", "/chunks/events/rollback", `{"force": true}`, `"became":"`)
	})
}

// verifyChunks counts what is left of a plan that was cut up to 20 and of which a chunk has failed.
func verifyChunks(t *testing.T, r *rig) {
	t.Helper()
	const path = "/chunks/events/verify"
	r.is(409, "GET", path, "", "this agent has no such plan")
	r.is(200, "GET", path+"?count=false", "", `"through":"20","covered":true`, `"counted":false`, "ranges that failed: 1")
	five := store.ChunkKey("5")
	r.api.CountChunks = func(_ context.Context, p *ops.ChunkProof) (ops.ChunkLeft, error) {
		require.Equal(t, "event", p.Table)
		return ops.ChunkLeft{Counted: true, Left: 3, First: &five}, nil
	}
	r.is(200, "GET", path, "", `"counted":true,"left":3,"first_left":"5","problems":["rows left: 3, from the key 5 on"]`)
	r.api.CountChunks = func(ctx context.Context, _ *ops.ChunkProof) (ops.ChunkLeft, error) {
		<-ctx.Done()
		return ops.ChunkLeft{Left: 2, First: &five}, ctx.Err()
	}
	r.is(200, "GET", path+"?timeout=20ms", "", `"counted":false,"left":2`, "ranges that failed: 1", "rows left: 2 or more, from the key 5 on",
		"the table event was not read to its end within")
	r.is(400, "GET", path+"?timeout=3m", "", "a duration up to 2m0s")
	r.is(400, "GET", path+"?count=1", "", "use true or false")
	r.api.CountChunks = func(context.Context, *ops.ChunkProof) (ops.ChunkLeft, error) {
		r.is(503, "GET", path, "", "busy") //nolint:contextcheck // it has the test's. One is counted at a time
		return ops.ChunkLeft{Counted: true}, nil
	}
	r.is(200, "GET", path, "", `"counted":true,"left":0,"first_left":null,"problems":[]`)
}
