package storetest

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// mournOne draws which end of a call inserts a row of on_failed: one at most, as the order of such rows is the stores' own.
func mournOne(t *rapid.T, c *sent) {
	for i := range c.onModel {
		switch c.onModel[i].Next.State {
		case task.StateFailed, task.StateRolledBack, task.StateRollbackFailed:
			if rapid.IntRange(0, 2).Draw(t, "row of on_failed") == 0 {
				c.onModel[i].Next.OnFailed, c.onReal[i].Next.OnFailed = "b", "b"
				return
			}
		}
	}
}

// findLetter notes the row of on_failed that has come since the last look.
func (m *machine) findLetter(want, got []store.TaskInfo) {
	find := func(list []store.TaskInfo, ids taskSide) (found []store.TaskInfo) {
		for i := range list {
			if place(m.tasks, ids, list[i].ID) < 0 {
				found = append(found, list[i])
			}
		}
		return found
	}
	ideal, actual := find(want, onIdeal), find(got, onReal)
	require.Len(m.t, actual, len(ideal), "rows of on_failed")
	if len(ideal) == 0 {
		return
	}
	require.Len(m.t, ideal, 1, "one at a time")
	of := func(row store.TaskInfo) task.ID {
		var said struct{ ID task.ID }
		require.NoError(m.t, json.Unmarshal(row.Payload, &said))
		return said.ID
	}
	p := pair[task.ID]{ideal: of(ideal[0]), real: of(actual[0])}
	require.Equal(m.t, place(m.tasks, onIdeal, p.ideal), place(m.tasks, onReal, p.real), "of which task")
	m.letters[len(m.tasks)] = p
	m.added(pair[task.ID]{ideal: ideal[0].ID, real: actual[0].ID})
}

// letter is the payload of a row of on_failed with the task's place in place of its id, and without the slot of that task.
func (m *machine) letter(row int, text string) string {
	p, ok := m.letters[row]
	if !ok {
		return text
	}
	of := place(m.tasks, onIdeal, p.ideal)
	for _, id := range []task.ID{p.ideal, p.real} {
		text = strings.Replace(text, fmt.Sprintf(`"id":%d,"outcome"`, id), fmt.Sprintf(`"place":%d,"outcome"`, of), 1)
	}
	return m.slotless(of, text)
}
