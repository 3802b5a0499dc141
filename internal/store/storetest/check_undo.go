package storetest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/ops"
)

func undoChecks() []Check {
	return []Check{
		{"columns", with(undoColumns)},
	}
}

func undoColumns(t testing.TB, h NewHarness) {
	r := newRig(t, h)
	id := r.Insert(t, ops.Request{Type: kind, RollbackPayload: raw(`{"was":"az1"}`)})[0]
	require.JSONEq(t, `{"was":"az1"}`, string(r.get(id).RollbackPayload))
}
