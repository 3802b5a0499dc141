package storetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/task"
)

func claimChecks() []Check {
	return []Check{
		{"never more than wanted", claimBounded},
		{"priority, then due time, then id", claimOrder},
		{"future rows stay", claimFuture},
	}
}

func claimBounded(t testing.TB, h Harness) {
	r := newRig(t, h)
	all := r.insert(10)
	first := r.claim(want(kind, 4))
	require.Equal(t, all[:4], ids(first))
	require.Equal(t, all[4:7], ids(r.claim(want(kind, 3))))
	require.Equal(t, all[7:], ids(r.claim(want(kind, 100))))
	require.Empty(t, r.claim(want(kind, 100)))
}

func claimOrder(t testing.TB, h Harness) {
	r := newRig(t, h)
	in := func(priority int, ago time.Duration) ops.Request {
		return ops.Request{Type: kind, Priority: priority, RunAt: r.now().Add(-ago)}
	}
	due := r.now().Add(-time.Hour)
	got := r.Insert(t,
		in(0, time.Minute), in(0, 3*time.Minute), in(10, time.Minute), in(-10, 4*time.Minute), in(1, 2*time.Minute),
		ops.Request{Type: kind, RunAt: due}, ops.Request{Type: kind, RunAt: due})
	wanted := []task.ID{got[2], got[4], got[5], got[6], got[1], got[0], got[3]}
	require.Equal(t, wanted[:2], ids(r.claim(want(kind, 2))))
	require.Equal(t, wanted[2:], ids(r.claim(want(kind, 10))))
}

func claimFuture(t testing.TB, h Harness) {
	r := newRig(t, h)
	got := r.Insert(t, ops.Request{Type: kind, In: 10 * time.Minute, Priority: 10}, ops.Request{Type: kind})
	require.Equal(t, got[1:], ids(r.claim(want(kind, 10))))
	r.Advance(t, 9*time.Minute)
	require.Empty(t, r.claim(want(kind, 10)))
	r.Advance(t, 2*time.Minute)
	require.Equal(t, got[:1], ids(r.claim(want(kind, 10))))
}
