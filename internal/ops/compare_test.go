package ops_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
)

func TestCompareNamesWhatBecomesDifferent(t *testing.T) {
	block := func(kind, name, timeout string) store.Block {
		return store.Block{Kind: kind, Name: name, Fields: map[string]string{"timeout": timeout}}
	}
	before := []store.Block{block("task", "a", "1s"), block("task", "b", "1s"), block("schedule", "a", "1s"), block("agent", "", "1s")}
	after := []store.Block{block("agent", "", "1s"), block("task", "c", "1s"), block("task", "a", "2s"), block("schedule", "a", "1s")}
	require.Equal(t, []ops.BlockChange{
		{Kind: "task", Name: "a", What: ops.PlanChanged, Fields: []ops.FieldChange{{Name: "timeout", Before: "1s", After: "2s"}}},
		{Kind: "task", Name: "b", What: ops.PlanRemoved},
		{Kind: "task", Name: "c", What: ops.PlanAdded},
	}, ops.Compare(before, after))
	require.Empty(t, ops.Compare(before, before))
}
