package store

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
)

func TestActivityLists(t *testing.T) {
	t.Parallel()
	for want, counts := range map[string][]int64{
		"[]": {0, 0, 0}, "[1]": {1, 0}, "[0,0,7]": {0, 0, 7, 0}, "[0,2147483647,1]": {-5, math.MaxInt64, 1},
	} {
		require.Equal(t, want, ActivityList(counts, "[", "]"))
	}
	counts := make([]int64, 4)
	AddLists(counts, []byte("[1,2][][0,0,0,5][10]"))
	require.Equal(t, []int64{11, 2, 0, 5}, counts)
	for _, hostile := range []string{"", "[", "]", "]]]]]]]]", "[1,2,3,4,5,6,7,8,9]", `{"a": -1e99}`, "[99999999999999999999999999]", ",,,,,,,,,,[", "\x00\xff"} {
		AddLists(counts, []byte(hostile))
	}
}

// TestActivityOutcomes: the order in which stores keep outcomes never changes, and has all verdicts.
func TestActivityOutcomes(t *testing.T) {
	t.Parallel()
	require.Equal(t, []task.Verdict{
		"succeeded", "failed", "rejected", "stalled", "timed_out", "lost", "cancelled", "deferred", "superseded", "undelivered", "drained",
	}, ActivityOutcomes())
	require.ElementsMatch(t, task.Verdicts(), ActivityOutcomes())
	for i, v := range ActivityOutcomes() {
		require.Equal(t, i, OutcomePlace(v))
	}
	require.Equal(t, -1, OutcomePlace("other"))
}

func TestLatencyBucket(t *testing.T) {
	t.Parallel()
	bounds := ActivityBounds()
	require.Equal(t, 0, LatencyBucket(-time.Hour))
	for i, b := range bounds {
		require.Equal(t, i, LatencyBucket(b), "a bound belongs to its bucket")
		require.Equal(t, i+1, LatencyBucket(b+1))
	}
	require.Len(t, ActivityCounts{}.Latency, len(bounds)+1)
}
