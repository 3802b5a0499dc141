package storetest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// with is a retry with another payload.
type with func(ctx context.Context, id task.ID, payload json.RawMessage, by string) (store.Became, error)

// edits are the ways to retry a task with another payload.
func (r *opsRig) edits() map[string]with {
	return map[string]with{"Go": r.h.RetryWith, "SQL": r.sql.RetryWith}
}

// retryWithPayload: the task keeps what it was given, through attempts and later retries, and all else is as after any retry.
func retryWithPayload(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	for way, edit := range r.edits() {
		for n, s := range retriable() {
			id := r.wasted(way+string(s), s)
			before := r.get(id)
			payload := fmt.Sprintf(`{"edited": %d}`, n)
			r.audited(func() {
				got, err := edit(r.ctx, id, raw(payload), "alice")
				require.NoError(t, err, way)
				require.Equal(t, became(task.StatePending), got)
			}, Audited{Who: "alice", Verb: "retry", Task: id, Reason: "with another payload", Answer: "pending"})
			got := r.get(id)
			sameJSON(t, payload, got.Payload, "%s", way)
			sameOr(t, before.RollbackPayload, got.RollbackPayload, way)
			sameOr(t, before.Labels, got.Labels, way)
			require.Equal(t, before.Key, got.Key)
			require.Equal(t, before.Fence+1, got.Fence)
			row := r.claimOne(kind, task.Run)
			sameJSON(t, payload, row.Payload, "%s", way)
			r.settled(ended(row, task.Failed, task.StateFailed))
			r.did(became(task.StatePending), r.h.Retry, id, "alice")
			row = r.claimOne(kind, task.Run)
			sameJSON(t, payload, row.Payload, "%s: it was kept", way)
			r.settled(finish(row))
		}
	}
}

// retryPayloadRefused: what does not get the payload stays as it is, and says so.
func retryPayloadRefused(t testing.TB, h Harness) {
	r := newOpsRig(t, h)
	refused := func(id task.ID, payload string, words ...string) {
		t.Helper()
		for way, edit := range r.edits() {
			var err error
			r.audited(func() {
				r.idle(id, func() { _, err = edit(r.ctx, id, raw(payload), "alice") })
			})
			require.Error(t, err, way)
			says(t, err, words...)
		}
	}
	for _, s := range plainStates() {
		if s == task.StateFailed || s == task.StateCancelled || s == task.StateRolledBack {
			continue
		}
		id := r.rowIn(store.EnqueueRequest{Type: kind}, s, true)
		refused(id, `{"edited": 1}`, "was cancelled or was rolled back can be retried with another payload")
		if s.Running() {
			r.letGo(id)
		}
	}
	id := r.wasted("invoice-7", task.StateFailed)
	refused(id, `{"edited": `)
	refused(id, `"`+strings.Repeat("x", store.DefaultMaxPayload)+`"`, "payload")
	live := r.Insert(t, store.EnqueueRequest{Type: kind, Key: "invoice-7"})[0]
	refused(id, `{"edited": 1}`, "the key")
	require.Equal(t, task.StatePending, r.state(live))
	for way, edit := range r.edits() {
		_, err := edit(r.ctx, 1<<40, raw(`{"edited": 1}`), "alice")
		require.Error(t, err, way)
	}
}
