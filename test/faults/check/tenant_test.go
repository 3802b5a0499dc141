package check_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/faults/check"
	"github.com/leasehold/leasehold/test/faults/history"
)

func TestTenantLimitHolds(t *testing.T) {
	t.Parallel()
	for running, holds := range map[int]bool{1: true, 2: true, 3: false} {
		found := check.Check(&history.History{
			Kinds: map[string]history.Kind{"shared": {Name: "shared", Each: 2}},
			Tenants: []history.TenantSample{
				{At: time.Second, Kind: "shared", Tenant: "x", Running: 2}, {At: time.Second, Kind: "shared", Tenant: "y", Running: running},
			},
		})
		if holds {
			require.Empty(t, found)
			continue
		}
		require.Len(t, found, 1)
		require.Equal(t, check.TenantLimitHolds, found[0].Invariant)
	}
}
