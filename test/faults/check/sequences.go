package check

import (
	"cmp"
	"slices"

	"github.com/leasehold/leasehold/test/faults/history"
)

// OneOfASequenceAtATime says: no two attempts of rows of a type with the same sequence are at work at once, as OneOfALockAtATime does.
//
// It must hold because only the head of a sequence starts, and no other becomes the head before that has ended for good; and where the end of
// an attempt is not known, before its lease has ended.
const OneOfASequenceAtATime Name = "OneOfASequenceAtATime"

// SequenceInTurn says: once a row of a sequence has started, no other one starts before it has ended for good.
//
// It must hold because a row is the head for as long as it is live.
//
// Exempt says: rows that an operator has retried or rolled back, or whose batch, which have a second turn.
const SequenceInTurn Name = "SequenceInTurn"

func sequencesInTurn(x *index, f *found) {
	type sequence struct{ kind, name string }
	all := map[sequence][]*attempt{}
	again := map[int64]bool{}
	rows := map[int64]*record{}
	for _, s := range x.records {
		if s.enqueued == nil || s.enqueued.Sequence == "" {
			continue
		}
		of := sequence{s.enqueued.Kind, s.enqueued.Sequence}
		for _, a := range s.inOrder() {
			if a.start != nil {
				all[of] = append(all[of], a)
			}
		}
		again[s.id] = slices.ContainsFunc(s.ops, func(o *history.Op) bool { return o.Verb != verbSkip }) || len(x.batches.ops[s.batch()]) > 0
		rows[s.id] = s
	}
	for of, attempts := range all {
		x.oneAtATime(OneOfASequenceAtATime, "sequence "+of.name+" of "+of.kind, attempts, f)
		attempts = slices.DeleteFunc(attempts, func(a *attempt) bool { return again[a.id] })
		slices.SortStableFunc(attempts, func(a, b *attempt) int { return cmp.Compare(a.start.At, b.start.At) })
		x.inspectTurns(of.kind, of.name, turnsOf(attempts, rows), f)
		had := map[int64]bool{} // rows that others have followed
		for i, a := range attempts {
			if had[a.id] {
				f.add(SequenceInTurn, a.start.At, a.id, "it started with fence %d after task %d of its sequence %s had",
					a.fence, attempts[i-1].id, of.name)
			}
			if i > 0 && attempts[i-1].id != a.id {
				had[attempts[i-1].id] = true
			}
		}
	}
}
