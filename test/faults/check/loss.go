package check

import (
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// LossIsTrue says: an agent that says of a hold that another has the row, or has taken it, is right. It is wrong where
// the store shows that this hold was never taken away: it was settled with its own fence.
//
// It must hold because a settlement that is repeated finds itself done (rule 10), and a row that another transaction has
// locked is busy and never taken for lost (rule 1).
//
// Exempt says: "lease lost" of a row that its attempt has completed itself, if the store was out of reach when the
// agent wanted to know what had become of it.
const LossIsTrue Name = "LossIsTrue"

// What agents say, as their log has it.
const (
	saysRefused = "outcome refused: another has taken the row"
	saysLost    = "lease lost: another holds the row"
)

// asking is how long an agent may have asked before it says that a lease is lost.
const asking = 20 * time.Second

func lossIsTrue(x *index, f *found) {
	for i := range x.h.Said {
		said := &x.h.Said[i]
		refused := strings.Contains(said.Text, saysRefused)
		s := x.byID[said.ID]
		if s == nil || !refused && !strings.Contains(said.Text, saysLost) {
			continue
		}
		outcome, own := s.settledBy(said.Fence)
		if !own {
			continue
		}
		if !refused && outcome == string(task.Succeeded) && x.weather.any(span{said.At - asking, said.At}, ofNetwork, ofServer) {
			continue
		}
		f.add(LossIsTrue, said.At, s.id, "%s says of fence %d %q, and the row was settled with that fence, as %s",
			said.Who, said.Fence, said.Text, outcome)
	}
}

// settledBy reports whether the hold with that fence ended by its own settlement, and as what.
func (s *record) settledBy(fence int64) (outcome string, own bool) {
	for _, t := range s.tried {
		if t.Fence == fence {
			return t.Outcome, true
		}
	}
	// A row that finished with the next fence was settled by this one: taking a row away raises the fence, too.
	for _, st := range s.stretches {
		if st.end != nil && st.end.fence == fence+1 {
			return string(st.end.outcome), true
		}
	}
	return "", false
}

// endedWith reports whether the attempt with that fence ended the row by its own settlement.
func (s *record) endedWith(fence int64) bool {
	_, own := s.settledBy(fence)
	return own
}
