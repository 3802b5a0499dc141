package check

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/faults/history"
)

func TestFailureOnce(t *testing.T) {
	t.Parallel()
	moves := []history.Move{
		{Serial: 1, ID: 1, State: "failed", Archived: true},
		{Serial: 2, ID: 1, State: "rollback_pending", Cause: "failed"},
		{Serial: 3, ID: 1, State: "rollback_failed", Cause: "failed", Archived: true},
		{Serial: 4, ID: 1, State: "rolled_back", Cause: "failed", Archived: true},
		{Serial: 5, ID: 1, Round: 1, State: "rolled_back", Cause: "lost", Archived: true},
		{Serial: 6, ID: 2, State: "cancelled", Archived: true},
		{Serial: 7, ID: 3, State: "rolled_back", Cause: "succeeded", Archived: true},
	}
	well := []history.Grave{{ID: 1, State: "failed"}, {ID: 1, State: "rolled_back"}}
	for name, c := range map[string]struct {
		graves []history.Grave
		breaks int
	}{
		"one for each": {well, 0}, "none": {nil, 1}, "one is missing": {well[:1], 1}, "one too many": {append(well[:2:2], well[1]), 1},
		"another state":      {[]history.Grave{well[0], {ID: 1, State: "failed"}}, 1},
		"of a cancelled one": {append(well[:2:2], history.Grave{ID: 2, State: "failed"}), 1},
		"of no task":         {append(well[:2:2], history.Grave{ID: 9, State: "failed"}), 1},
	} {
		h := &history.History{Moves: moves, Graves: c.graves, Mourned: true}
		for _, id := range []int64{1, 2, 3} {
			h.Rows = append(h.Rows, history.Row{ID: id, Type: "a", State: "failed", Archived: 1})
		}
		var f found
		failureOnce(newIndex(h), &f)
		require.Len(t, f.all, c.breaks, "%s: %v", name, f.all)
	}
}
