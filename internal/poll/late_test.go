package poll_test

import (
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// session is the number of the rig's session: the first of its store.
func (r *rig) session() task.Session { return 1 }

// claimLate has a claim of the session take effect behind the agent's back, as one that was still under way in the
// server when the agent gave up waiting for it.
func (r *rig) claimLate(s task.Session, number int64) []task.ID {
	r.t.Helper()
	r.wire.setHook(func(op string) fault {
		if op == "claim" {
			return lostCall
		}
		return none
	})
	ids := r.insert(1)
	got, err := r.store.Claim(r.t.Context(), store.Claim{Session: s, Number: number, Wants: []store.Want{
		{Type: "a", Phase: task.Run, N: 1, Window: time.Minute, Policy: r.opts.Types[0].Policy.Hash("a")},
	}})
	require.NoError(r.t, err)
	require.Len(r.t, got, 1)
	r.wire.setHook(nil)
	return ids
}
