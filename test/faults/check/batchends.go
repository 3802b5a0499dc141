package check

import (
	"slices"
	"time"

	"github.com/leasehold/leasehold/test/faults/history"
)

// BatchEnds says: a batch ends when it is sealed and its rows have ended, and not before. Its counters and its state then
// follow from its rows, and each round inserts one finish task, if the batch has a finish type, with the counts of that
// moment. What was committed is there, what was rolled back is not; no operation is left half done.
//
// It must hold because ending is a claim (rule 7), and the same transaction inserts the finish task.
//
// Exempt says: a batch whose rows have not ended, which CommittedEnds reports; one that was committed with
// synchronous_commit off, after a crash; one whose COMMIT got no reply.
const BatchEnds Name = "BatchEnds"

func batchEnds(x *index, f *found) {
	for i := range x.h.Of.Made {
		made := &x.h.Of.Made[i]
		g := x.batches.byName[made.Name]
		switch {
		case g == nil && made.Commit == history.Committed, g == nil && made.Commit == history.Async && !x.forgotten(made.At):
			f.add(BatchEnds, made.At, 0, "batch %q was %s and is not there", made.Name, made.Commit)
		case g != nil && made.Commit == history.RolledBack:
			f.add(BatchEnds, made.At, 0, "batch %q was rolled back and is there", made.Name)
		}
	}
	for _, g := range x.batches.all {
		if g.row == nil {
			f.addTo(BatchEnds, x, g, "is not there, and something is of it")
			continue
		}
		x.inspectEnd(g, f)
		x.inspectReports(g, f)
	}
}

// forgotten reports whether a crash may have lost what was committed at that time without waiting for the disk.
func (x *index) forgotten(at time.Duration) bool {
	return slices.ContainsFunc(x.h.Crashes, func(crash time.Duration) bool { return crash >= at-x.slack })
}

// inspectEnd looks at the batch at the end of the run.
func (x *index) inspectEnd(g *group, f *found) {
	b, rows := g.row, g.counted(0)
	switch {
	case b.Ended && rows.Live > 0:
		f.addTo(BatchEnds, x, g, "has ended, and %d of its rows have not", rows.Live)
		return
	case b.Ended && !b.Sealed:
		f.addTo(BatchEnds, x, g, "has ended, and was never sealed")
	case !b.Ended && b.Sealed && rows.Live == 0:
		f.addTo(BatchEnds, x, g, "has not ended, and all of its %d rows have: it is %s, operation %q", rows.Total, b.State, b.Operation)
		return
	}
	if b.Counts != rows {
		f.addTo(BatchEnds, x, g, "says that it has %+v in the end, and its rows are %+v", b.Counts, rows)
	}
	if b.Ended && b.Operation != "" {
		f.addTo(BatchEnds, x, g, "has ended, and its %s has not", b.Operation)
	}
	if b.Ended {
		if m := g.endOf(b.Round); m == nil {
			f.addTo(BatchEnds, x, g, "has ended in round %d, and no transaction ended it", b.Round)
		} else if is := ended(&rows, m.Requested, m.ByFailure); is != b.State {
			f.addTo(BatchEnds, x, g, "is %s, and its rows are %+v: it should be %s", b.State, rows, is)
		}
	}
}

// inspectReports looks at the batch's finish tasks.
func (x *index) inspectReports(g *group, f *found) {
	notified := make(map[int]int)
	for _, row := range g.finishes {
		notified[row.Round]++
		end := g.endOf(row.Round)
		if end == nil {
			f.addTo(BatchEnds, x, g, "has a finish task of round %d, and has not ended in it", row.Round)
			continue
		}
		c := g.counted(end.Serial)
		is := ended(&c, end.Requested, end.ByFailure)
		if c.Live > 0 {
			f.addTo(BatchEnds, x, g, "ended in round %d, and %d of its rows had not", row.Round, c.Live)
		}
		if row.Counts != c || row.State != is || row.Name != g.row.Name {
			f.addTo(BatchEnds, x, g, "has a finish task of round %d as %s, with %+v, and was %s, with %+v", row.Round, row.State, row.Counts, is, c)
		}
	}
	for round := range g.row.Round + 1 {
		want := 0
		if g.row.FinishType != "" && (round < g.row.Round || g.row.Ended) {
			want = 1
		}
		if notified[round] != want {
			f.addTo(BatchEnds, x, g, "has %d finish tasks of round %d, and not %d", notified[round], round, want)
		}
	}
}
