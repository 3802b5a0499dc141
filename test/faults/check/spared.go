package check

import (
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/faults/history"
)

// OneFailureChargesNoOther says: where a request with several attempts ends badly, none of those that had no line is settled as
// failed: their rows are released, and no attempt of them counts.
//
// It must hold because one row among many may be what makes every request fail; so the rows are sent again in halves, until that one
// is alone in its request.
//
// Exempt says: what was decided for another reason, as that the attempt has stalled or timed out, or that its agent was lost.
const OneFailureChargesNoOther Name = "OneFailureChargesNoOther"

func oneFailureChargesNoOther(x *index, f *found) {
	for _, s := range x.records {
		for _, a := range s.attempts {
			e := a.first(history.Spared)
			if e == nil {
				continue
			}
			outcome, own := s.settledBy(a.fence)
			if v := task.Verdict(outcome); own && (v == task.Failed || v == task.Rejected) {
				f.add(OneFailureChargesNoOther, e.At, s.id, "fence %d had no line when its request ended badly, and was settled as %s", a.fence, outcome)
			}
		}
	}
}
