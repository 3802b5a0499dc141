package check

import (
	"cmp"
	"slices"
)

// FencesRise says: a row's attempts start in the order of their fences, each fence starts once, none is as high as the
// fence that a finished row has in the end, and the numbers of attempts never fall while none begins
// anew, for a rollback or after a retry: the n-th attempt comes with the n-th claim at the earliest.
//
// It must hold because the fence rises on every claim and on every release and is never reset (rule 1), claims commit
// before anything of theirs starts and a crash does not forget them; Go's transport never sends a request again on its
// own; and the release of an attempt frees that attempt's number, and no other.
//
// Exempt says: a start that is late because its agent stood still between the claim and the request, or because the way
// to the endpoint was broken. It comes with an old fence, by which an endpoint distinguishes it from a new one.
const FencesRise Name = "FencesRise"

func fencesRise(x *index, f *found) {
	var inTime []*attempt
	for _, s := range x.records {
		inTime = inTime[:0]
		for _, a := range s.attempts {
			if a.start == nil {
				continue
			}
			inTime = append(inTime, a)
			if a.starts > 1 {
				f.add(FencesRise, a.start.At, s.id, "fence %d started %d times", a.fence, a.starts)
			}
			if s.row != nil && (a.fence > s.row.Fence || a.fence == s.row.Fence && s.finished()) {
				f.add(FencesRise, a.start.At, s.id, "fence %d started, and in the end the row, %s, has fence %d", a.fence, s.row.State, s.row.Fence)
			}
		}
		for _, st := range s.stretches {
			s.numbersRise(st, f)
		}
		slices.SortStableFunc(inTime, func(a, b *attempt) int { return cmp.Compare(a.start.At, b.start.At) })
		var top *attempt
		for _, a := range inTime {
			if top != nil && a.fence < top.fence && !x.late(a) {
				f.add(FencesRise, a.start.At, s.id, "fence %d started after fence %d", a.fence, top.fence)
			}
			if top == nil || a.fence > top.fence {
				top = a
			}
		}
	}
}

// numbersRise looks at the numbers of a stretch's attempts, which come by fence.
func (s *record) numbersRise(st *stretch, f *found) {
	var before *attempt
	for _, a := range st.attempts {
		if a.number == 0 || a.start == nil {
			continue
		}
		if before != nil && a.number < before.number {
			f.add(FencesRise, a.start.At, s.id, "fence %d is attempt %d, and fence %d was attempt %d already",
				a.fence, a.number, before.fence, before.number)
		}
		if int64(a.number) > (a.fence-st.after+1)/2 {
			f.add(FencesRise, a.start.At, s.id, "fence %d is attempt %d, and there cannot have been so many claims", a.fence, a.number)
		}
		before = a
	}
}

// late reports whether an attempt may have been claimed long before it started.
func (x *index) late(a *attempt) bool {
	around := span{a.start.At - wakeUp, a.start.At}
	return x.agent(a.who).shaken(around) || !a.child && x.weather.any(around, ofEndpoints)
}
