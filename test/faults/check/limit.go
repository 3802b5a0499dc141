package check

import (
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/faults/history"
)

// LimitHolds says: of a type with a limit no more rows run at once, on all agents together, than the limit says, whatever they are for
// and whichever session holds them. Where the limit changes, what runs goes on, and nothing starts until fewer run than the new one says;
// types that share a limit are counted together.
//
// It must hold because a claim counts what runs while it has the limit locked, and commits before another one counts; and because a
// limit changes under the same lock.
//
// There are no exemptions: neither crashes nor jumps of the server's clock may have one more row run.
const LimitHolds Name = "LimitHolds"

func limitHolds(x *index, f *found) {
	for _, s := range x.h.Limits {
		if most := x.h.Kinds[s.Kind].Most; s.Running > most {
			f.add(LimitHolds, s.At, 0, "%d tasks of type %q ran at once, and its limit is %d", s.Running, s.Kind, most)
		}
	}
	starts(x.h, func(s limitedStart) {
		if s.running > s.most {
			f.add(LimitHolds, x.end, s.ID, "is claimed with fence %d as one of %d that run under limit %q of %d", s.Fence, s.running, s.limit, s.most)
		}
	})
}

// limitedStart is a claim of a row that a limit bounds.
type limitedStart struct {
	history.Move

	limit   string
	most    int
	running int // under the limit, with this row
}

// starts calls each for every claim of a row that a limit bounds. The order of the serials is that in which limits were counted: a
// claim, and a change of a limit, take theirs under the limit's lock, and what ends takes it before a claim can see the end.
func starts(h *history.History, each func(limitedStart)) {
	limits, changes := map[string]history.LimitMove{}, h.LimitMoves
	running := map[int64]string{} // rows that run, with their types
	for _, m := range h.Moves {
		for ; len(changes) > 0 && changes[0].Serial < m.Serial; changes = changes[1:] {
			limits[changes[0].Type] = changes[0]
		}
		_, ran := running[m.ID]
		if !task.State(m.State).Running() || m.Archived {
			delete(running, m.ID)
			continue
		}
		running[m.ID] = m.Type
		limit := limits[m.Type]
		if ran || limit.Most == 0 {
			continue
		}
		beside := 0
		for _, other := range running {
			if limits[other].Name == limit.Name {
				beside++
			}
		}
		each(limitedStart{m, limit.Name, limit.Most, beside})
	}
}
