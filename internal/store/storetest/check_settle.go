package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
)

func settleChecks() []Check {
	return []Check{
		{"a finished row is kept in the archive", settleFinish},
	}
}

func settleFinish(t testing.TB, h Harness) {
	r := newRig(t, h)
	row := r.held()
	r.settled(finish(row))
	info := r.get(row.ID)
	require.Equal(t, task.StateSucceeded, info.State)
	require.Equal(t, row.Fence+1, info.Fence)
	require.NotNil(t, info.FinishedAt)
	near(t, r.now(), *info.FinishedAt)
}
