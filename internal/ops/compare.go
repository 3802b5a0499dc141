package ops

import (
	"cmp"
	"slices"
	"strings"

	"github.com/leasehold/leasehold/internal/store"
)

// Compare returns what becomes different when one configuration's blocks replace another's, as a plan has it, without any rows.
func Compare(before, after []store.Block) []BlockChange {
	changes := []BlockChange{}
	old := make(map[blockKey]*store.Block, len(before))
	for i := range before {
		old[blockKey{before[i].Kind, before[i].Name}] = &before[i]
	}
	for i := range after {
		k := blockKey{after[i].Kind, after[i].Name}
		was := old[k]
		delete(old, k)
		if was == nil {
			changes = append(changes, BlockChange{Kind: k.kind, Name: k.name, What: PlanAdded})
		} else if fields := differences(was.Fields, after[i].Fields); len(fields) > 0 {
			changes = append(changes, BlockChange{Kind: k.kind, Name: k.name, What: PlanChanged, Fields: fields})
		}
	}
	for k := range old {
		changes = append(changes, BlockChange{Kind: k.kind, Name: k.name, What: PlanRemoved})
	}
	slices.SortFunc(changes, func(a, b BlockChange) int {
		return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
	return changes
}
