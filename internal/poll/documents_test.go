package poll_test

import (
	"encoding/json"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// TestDocumentsAreKeptNoLongerThanTheirAttempts: not by an attempt that goes on and was claimed with them, nor by one that was accepted.
func TestDocumentsAreKeptNoLongerThanTheirAttempts(t *testing.T) {
	for name, first := range map[string]func(*lease.Lease, *task.Type) task.Outcome{"running": takes(time.Hour), "accepted": accept} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, db *model.Store) {
				const rows = 20
				document := json.RawMessage(`"` + strings.Repeat("x", 5000) + `"`)
				for range rows { // before there is an agent, which then claims them at once
					_, err := db.Insert(t.Context(), store.EnqueueRequest{Type: "a", Payload: document})
					require.NoError(t, err)
				}
				seen := make(chan weak.Pointer[byte], rows)
				r := newRig(t, db, lively, doing(func(l *lease.Lease, typ *task.Type) task.Outcome {
					if l.Task().ID == 1 && name == "running" {
						return first(l, typ)
					}
					seen <- weak.Make(&l.Task().Payload[0])
					if l.Task().ID == 1 {
						return first(l, typ)
					}
					return task.Outcome{Verdict: task.Succeeded}
				}))
				after(2 * time.Second)
				require.Len(t, seen, map[string]int{"running": rows - 1, "accepted": rows}[name])
				runtime.GC()
				for range len(seen) {
					require.Nil(t, (<-seen).Value())
				}
				r.cancel()
				<-r.over
			})
		})
	}
}
