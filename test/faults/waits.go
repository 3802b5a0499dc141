//go:build linux

package faults

import (
	"hash/fnv"
	"math/rand/v2"
	"slices"

	"github.com/leasehold/leasehold/test/faults/history"
)

// waitable is among how many of the newest rows one chooses those that it waits for.
const waitable = 40

// wait has a third of the rows of some kinds wait for some of the rows before them, of their own transaction or committed. They have
// no sequence: an operator may retry a row of which one is to wait that has the turn before it.
func (w *world) wait(rows []row) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range rows {
		row := &rows[i]
		h := fnv.New64a()
		_, _ = h.Write([]byte(row.Key + " waits")) // it never fails
		r := rand.New(rand.NewPCG(h.Sum64(), 1))
		if !slices.Contains(waitingKinds(), row.Kind) || r.IntN(3) > 0 {
			continue
		}
		for range 1 + r.IntN(3) {
			if i > 0 && r.IntN(2) == 0 {
				row.own = append(row.own, r.IntN(i))
				continue
			}
			if n := len(w.rows) - 1 - r.IntN(waitable); n >= 0 && w.rows[n].Commit == history.Committed {
				row.After = append(row.After, w.rows[n].ID)
			}
		}
		if len(row.own)+len(row.After) == 0 {
			continue
		}
		row.Sequence, row.AfterAny = "", r.IntN(3) == 0
		if len(row.Expects.States) > 0 && !row.AfterAny {
			row.Expects.States = append(row.Expects.States, "cancelled")
		}
	}
}

// waitingKinds are those of which some rows wait for others.
func waitingKinds() []string { return []string{"plain", "held", "child"} }
