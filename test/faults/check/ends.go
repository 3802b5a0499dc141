package check

import (
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/faults/history"
)

// CommittedEnds says: what was committed ends, and ends once. Every row whose transaction committed is finished at the
// end of the run, is in the archive exactly once and not in the hot table, in a state that it was made for; and the
// store has no row that was never enqueued, except for finish tasks of batches and tasks of chunks.
//
// It must hold because the row is in the application's own transaction, nothing is ever discarded (rule 9), and a
// settlement moves a row to the archive in one statement.
//
// Exempt says: a row whose COMMIT got no reply may be there or not; if it is, it ends as any other. One that was
// committed with synchronous_commit off may be gone after a crash of the server, unless it was started: the claim was
// flushed, and with it all that came before.
const CommittedEnds Name = "CommittedEnds"

func committedEnds(x *index, f *found) {
	seen := make(map[int64]bool, len(x.records))
	for i := range x.h.Enqueued {
		e, s := &x.h.Enqueued[i], x.byEntry[i]
		switch {
		case e.Commit == history.RolledBack:
		case s == nil && x.mustExist(e):
			f.add(CommittedEnds, max(e.At, x.begin), e.ID, "%q was %s and is in neither table", e.Key, e.Commit)
		case s != nil && !seen[s.id]:
			seen[s.id] = true
			if what := s.unfinished(e.Expects.States); what != "" {
				f.add(CommittedEnds, x.last(s), s.id, "%q was %s and %s", e.Key, e.Commit, what)
			}
		}
	}
	for _, s := range x.records {
		if s.row == nil || s.enqueued != nil {
			continue
		}
		if k := x.h.Kinds[s.row.Type]; k.Finish || k.Chunk {
			if what := s.unfinished(nil); what != "" {
				f.add(CommittedEnds, x.last(s), s.id, "Leasehold inserted it, and it %s", what)
			}
			continue
		}
		if x.h.Kinds[s.row.Type].Follow {
			continue // FollowedRuns
		}
		// What was rolled back and is there is RolledBackNeverRuns' business.
		if !slices.ContainsFunc(x.h.Enqueued, func(e history.Enqueued) bool { return e.Key == s.row.Key }) {
			f.add(CommittedEnds, x.last(s), s.id, "the store has a row %q that was never enqueued", s.row.Key)
		}
	}
}

// mustExist reports whether a row that the store does not have should be there.
func (x *index) mustExist(e *history.Enqueued) bool {
	switch e.Commit {
	case history.Committed:
		return true
	case history.Async:
		if s := x.byID[e.ID]; s != nil && s.row == nil && len(s.attempts) > 0 {
			return true
		}
		return !slices.ContainsFunc(x.h.Crashes, func(at time.Duration) bool { return at >= e.At-x.slack })
	default:
		return false
	}
}

// unfinished returns what is wrong with the row at the end of the run; "": nothing.
func (s *record) unfinished(states []string) string {
	r := s.row
	switch {
	case s.again:
		return "the store has several rows with its id"
	case r.Live && r.Archived > 0:
		return "is in the hot table and in the archive"
	case r.Archived > 1:
		return "is in the archive more than once"
	case r.Live || r.Archived == 0:
		return "has not ended: it is " + r.State
	case !task.State(r.State).Finished():
		return "is in the archive as " + r.State
	case len(states) > 0 && !slices.Contains(states, r.State):
		return "has ended as " + r.State + ", which it cannot"
	}
	return ""
}
