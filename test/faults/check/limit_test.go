package check_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/faults/check"
	"github.com/leasehold/leasehold/test/faults/history"
)

func TestLimitHolds(t *testing.T) {
	t.Parallel()
	h := &history.History{
		Kinds:  map[string]history.Kind{"capped": {Name: "capped", Most: 3}},
		Limits: []history.LimitSample{{At: time.Second, Kind: "capped", Running: 3, Waiting: true}},
	}
	require.Empty(t, check.Check(h))
	h.Limits = append(h.Limits, history.LimitSample{At: 2 * time.Second, Kind: "capped", Running: 4})
	found := check.Check(h)
	require.Len(t, found, 1)
	require.Equal(t, check.LimitHolds, found[0].Invariant)
}
