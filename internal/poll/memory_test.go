package poll_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// large is a store whose rows have large payloads.
type large struct{ *wire }

func (l large) Claim(ctx context.Context, c store.Claim) ([]task.Task, error) {
	got, err := l.wire.Claim(ctx, c)
	for i := range got {
		got[i].Payload = make([]byte, 32<<20)
	}
	return got, err
}

// What a large row has taken is returned before its settlement, which may take as much, and after it, also where that comes long after the
// end of its attempt.
func TestMemoryOfALargeRowIsReturned(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		r := newRig(t, db, func(r *rig) { r.opts.Store, r.opts.Poll = large{r.wire}, time.Hour })
		r.wire.setHook(func(op string) fault {
			if op == "settle" {
				return lostCall
			}
			return none
		})
		forced := func() uint32 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.NumForcedGC
		}
		before := forced()
		id := r.insert(1)[0]
		after(time.Minute)
		require.Len(t, r.deeds.started(), 1)
		require.GreaterOrEqual(t, forced(), before+4, "once it was claimed, once it was sent, and twice after its end")
		before = forced()
		r.wire.setHook(nil)
		after(5 * time.Second)
		require.Equal(t, task.StateSucceeded, r.get(id).State)
		require.Greater(t, forced(), before, "debug.FreeOSMemory was called")
		before = forced()
		after(time.Minute)
		require.Greater(t, forced(), before, "once more, for what was still referred to")
		before = forced()
		after(10 * time.Minute)
		require.Equal(t, before, forced(), "and then no more")
		r.drain()
	})
}
