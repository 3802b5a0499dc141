package ops_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
)

// ledger is a plan with its passes, the newest first.
type ledger struct {
	ops.ChunkPlans

	plan   store.ChunkPlanInfo
	passes []store.ChunkPassInfo
	failed []store.ChunkObstacle
}

func (l *ledger) ListChunks(context.Context, store.ChunkPlanFilter) ([]store.ChunkPlanInfo, error) {
	return []store.ChunkPlanInfo{l.plan}, nil
}

func (l *ledger) ListPasses(_ context.Context, f store.ChunkPassFilter) ([]store.ChunkPassInfo, error) {
	at := 0
	if f.Below != 0 {
		at = slices.IndexFunc(l.passes, func(p store.ChunkPassInfo) bool { return p.Pass < f.Below })
	}
	if at < 0 {
		return nil, nil
	}
	return l.passes[at:min(len(l.passes), at+f.Limit)], nil
}

func (l *ledger) LookPlan(context.Context, string, int) (*store.ChunkLook, error) {
	return &store.ChunkLook{Obstacles: l.failed}, nil
}

// pass is a sealed pass; "" is no key.
func pass(n int, from, through string) store.ChunkPassInfo {
	return store.ChunkPassInfo{Pass: n, Whole: from == "", From: ledgerKey(from), Through: ledgerKey(through), SealedAt: time.Unix(1, 0)}
}

func open(p store.ChunkPassInfo) store.ChunkPassInfo {
	p.SealedAt = time.Time{}
	return p
}

func ledgerKey(k string) *store.ChunkKey {
	if k == "" {
		return nil
	}
	return new(store.ChunkKey(k))
}

func TestPassesProveWhatWasCut(t *testing.T) {
	long := []store.ChunkPassInfo{pass(3001, "m", "z")}
	for n := 3000; n > 1; n-- {
		long = append(long, pass(n, "", "b")) // each found less than there was before
	}
	long = append(long, pass(1, "", "m"))
	for name, c := range map[string]struct {
		high    string
		newest  int
		passes  []store.ChunkPassInfo
		covered bool
		proven  []int
	}{
		"nothing has begun":                 {},
		"an empty table":                    {newest: 1, covered: true},
		"the first pass is planned":         {newest: 1, passes: []store.ChunkPassInfo{open(pass(1, "", "c"))}, proven: []int{1}},
		"one pass":                          {high: "m", newest: 1, passes: []store.ChunkPassInfo{pass(1, "", "m")}, covered: true, proven: []int{1}},
		"a pass behind it":                  {"z", 2, []store.ChunkPassInfo{pass(2, "m", "z"), pass(1, "", "m")}, true, []int{2, 1}},
		"one that is planned":               {"m", 2, []store.ChunkPassInfo{open(pass(2, "m", "q")), pass(1, "", "m")}, true, []int{2, 1}},
		"a whole one that is planned":       {"m", 2, []store.ChunkPassInfo{open(pass(2, "", "c")), pass(1, "", "m")}, true, []int{2, 1}},
		"a whole one that found less":       {"m", 2, []store.ChunkPassInfo{pass(2, "", "c"), pass(1, "", "m")}, true, []int{1}},
		"a whole one that found all":        {"z", 3, []store.ChunkPassInfo{pass(3, "", "z"), pass(2, "m", "z"), pass(1, "", "k")}, true, []int{3}},
		"a pass is missing":                 {"z", 3, []store.ChunkPassInfo{pass(3, "m", "z"), pass(1, "", "k")}, false, []int{3}},
		"a pass was not planned to its end": {"z", 2, []store.ChunkPassInfo{pass(2, "m", "z"), open(pass(1, "", "m"))}, false, []int{2, 1}},
		"many passes":                       {"z", 3001, long, true, []int{3001, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			l := &ledger{plan: store.ChunkPlanInfo{Name: "p", Pass: c.newest, High: ledgerKey(c.high)}, passes: c.passes}
			proof, err := ops.ProveChunks(t.Context(), l, "p")
			require.NoError(t, err)
			require.Equal(t, c.covered, proof.Covered)
			require.Equal(t, c.covered, len(proof.Problems()) == 0)
			var proven []int
			for _, p := range proof.Passes {
				proven = append(proven, p.Pass)
			}
			require.Equal(t, c.proven, proven)
			require.Empty(t, proof.Unfinished())
		})
	}
}

func TestTasksOfChunksMayBeUnfinished(t *testing.T) {
	cancelled := pass(1, "", "m")
	cancelled.State, cancelled.Total, cancelled.Live, cancelled.Succeeded, cancelled.Failed = store.BatchState("cancelled"), 9, 1, 2, 3
	l := &ledger{
		plan: store.ChunkPlanInfo{Name: "p", Pass: 1, High: ledgerKey("m"), Live: 4}, passes: []store.ChunkPassInfo{cancelled},
		failed: []store.ChunkObstacle{
			{ID: 7, State: store.ChunkLive}, {ID: 8, State: store.ChunkFailed, Failures: 2}, {ID: 9, State: store.ChunkFailed, Failures: 3},
		},
	}
	proof, err := ops.ProveChunks(t.Context(), l, "p")
	require.NoError(t, err)
	require.Empty(t, proof.Problems())
	require.Equal(t, []ops.FailedRange{{Task: 8, Passes: 2}, {Task: 9, Passes: 3, Held: true}}, proof.Failed)
	require.Equal(t, []string{
		"chunks that have not finished: 4", "ranges that failed: 2: `leasehold chunks retry` runs those with a task",
		"chunks that were cancelled or rolled back: 3",
	}, proof.Unfinished())
}
