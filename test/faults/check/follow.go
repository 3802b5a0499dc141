package check

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/leasehold/leasehold/test/faults/history"
)

// FollowedRuns says: a row that was enqueued with a key, and committed, is run after that, or a later one of its key is: it is not
// lost because another was live. And the row that was answered is there, and has ended.
//
// It must hold because a transaction that enqueues a follower keeps the live row from ending, and whatever ends a row looks for its
// follower after that.
//
// Exempt says: a row whose COMMIT got no reply may be there or not.
const FollowedRuns Name = "FollowedRuns"

// FollowedInTurn says: of the rows of one key each has the values of one time that it was enqueued, in the order of these, and each
// starts after the one before it has ended.
//
// It must hold because there is one follower for each key, which takes the values of the latest, becomes a task in the transaction
// that ends the live row, and is due no earlier than that row's lease ends if something of it may be at work.
//
// Exempt says: attempts of a row whose settlement another took, which may begin late; of which handlers outlive their request; and
// where agents or clocks were broken, all but the last attempt.
const FollowedInTurn Name = "FollowedInTurn"

func followed(x *index, f *found) {
	rows := map[string][]history.FollowRow{}
	byID := map[int64]history.FollowRow{}
	for _, r := range x.h.FollowRows {
		rows[r.Key] = append(rows[r.Key], r)
		byID[r.ID] = r
	}
	for i := range x.h.Followed {
		e := &x.h.Followed[i]
		if e.Commit != history.Committed {
			continue
		}
		s := x.byID[e.ID]
		switch _, there := byID[e.ID]; {
		case !there || s == nil || s.row == nil:
			f.add(FollowedRuns, e.At, e.ID, "the answer to number %d of %q was %s, and there is no such row", e.N, e.Key, e.Answer)
			continue
		case s.unfinished(nil) != "":
			f.add(FollowedRuns, e.At, e.ID, "number %d of %q: it %s", e.N, e.Key, s.unfinished(nil))
			continue
		}
		if !slices.ContainsFunc(rows[e.Key], func(r history.FollowRow) bool { return r.N >= e.N && x.lastStart(r.ID) >= e.At }) {
			f.add(FollowedRuns, e.At, e.ID, "neither number %d of %q nor a later one was run after that (%s)", e.N, e.Key, e.Answer)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		x.inTurn(rows[key], f)
	}
}

// inTurn looks at the rows of one key. Their ids are in the order in which they came to be.
func (x *index) inTurn(rows []history.FollowRow, f *found) {
	slices.SortFunc(rows, func(a, b history.FollowRow) int { return cmp.Compare(a.ID, b.ID) })
	for i := 1; i < len(rows); i++ {
		before, r := rows[i-1], rows[i]
		if r.Follower {
			continue // FollowedRuns says so
		}
		if r.N <= before.N {
			f.add(FollowedInTurn, x.last(x.record(r.ID)), r.ID, "it has number %d, and task %d before it has %d", r.N, before.ID, before.N)
		}
		first, last := x.firstStart(r.ID), x.lastStart(before.ID)
		if first > 0 && last > first {
			f.add(FollowedInTurn, first, r.ID, "it started %s before the last attempt of task %d, which it follows", last-first, before.ID)
		}
		if s := x.byID[before.ID]; s != nil && first > 0 {
			for _, a := range s.attempts {
				if end := a.first(history.End); end != nil && end.At > first+x.slack && !x.mayOutlive(a) {
					f.add(FollowedInTurn, first, r.ID, "it started %s before fence %d of task %d ended, which it follows", end.At-first, a.fence,
						before.ID)
				}
			}
		}
	}
}

// mayOutlive reports whether an attempt's handler may have gone on after its lease, as some do.
func (x *index) mayOutlive(a *attempt) bool {
	end := a.first(history.End)
	return a.first(history.Gone) != nil || x.weather.any(span{a.start.At, end.At}, ofClocks, ofAgents, ofNetwork, ofServer) ||
		end.At > a.start.At+a.kind.Timeout-x.slack
}

// firstStart is when the first attempt of a task began; 0: none did.
func (x *index) firstStart(id int64) (first time.Duration) {
	for _, at := range x.starts(id) {
		if first == 0 || at < first {
			first = at
		}
	}
	return first
}

// lastStart is when the attempt began that ended the task, or the last of which that is known; 0: none did.
func (x *index) lastStart(id int64) time.Duration {
	s := x.byID[id]
	if s != nil && s.row != nil {
		if a := s.attempt(s.row.Fence - 1); a != nil && a.start != nil {
			return a.start.At
		}
	}
	return slices.Max(append(x.starts(id), 0))
}

func (x *index) starts(id int64) (all []time.Duration) {
	s := x.byID[id]
	if s == nil {
		return nil
	}
	for _, a := range s.attempts {
		if a.start != nil {
			all = append(all, a.start.At)
		}
	}
	return all
}
