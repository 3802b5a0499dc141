package check

import (
	"encoding/json"
	"regexp"
	"strconv"
)

// LineSettlesItsOwn says: no row is settled by a line that names another attempt. Attempts write their row's id and their fence into
// their results and errors; a row's result names the row, and each settlement's error names the attempt that it settled.
//
// It must hold because several attempts share a channel: those of a worker one after another, those of a request with several
// rows at once. The agent compares id and fence of each line with the attempts that run.
//
// Exempt says: an error that a finished row repeats of an earlier attempt, as one that was cancelled while it waited does.
const LineSettlesItsOwn Name = "LineSettlesItsOwn"

// saysLine is what the suite's attempts say in an error.
var saysLine = regexp.MustCompile(`says the line of (\d+)/(\d+)`)

func lineSettlesItsOwn(x *index, f *found) {
	for _, s := range x.records {
		if s.row == nil {
			continue
		}
		if of, says := resultOf(s.row.Result); says && of.ID != 0 && of.ID != s.id {
			f.add(LineSettlesItsOwn, x.last(s), s.id, "its result is of task %d, fence %d", of.ID, of.Fence)
		}
		if of, says := failureOf(s.row.Error); says && (of.ID != s.id || of.Fence >= s.row.Fence) {
			f.add(LineSettlesItsOwn, x.last(s), s.id, "its error is of task %d, fence %d, and the row has fence %d", of.ID, of.Fence, s.row.Fence)
		}
		for _, t := range s.tried {
			if of, says := failureOf(t.Error); says && (of.ID != s.id || of.Fence != t.RanFence) {
				f.add(LineSettlesItsOwn, x.last(s), s.id, "the attempt with fence %d was settled as %s by the line of task %d, fence %d",
					t.RanFence, t.Outcome, of.ID, of.Fence)
			}
		}
	}
}

// author is the attempt that a result or an error names.
type author struct {
	ID    int64 `json:"id"`
	Fence int64 `json:"fence"`
}

// resultOf is the attempt that a result says it is of; ok is false where it does not say. ID is 0 where it names only the fence.
func resultOf(result json.RawMessage) (of author, ok bool) {
	var r struct {
		ID    int64  `json:"id"`
		Fence *int64 `json:"fence"`
	}
	if len(result) == 0 || json.Unmarshal(result, &r) != nil || r.Fence == nil {
		return author{}, false
	}
	return author{r.ID, *r.Fence}, true
}

// failureOf is the same of an error.
func failureOf(text string) (of author, ok bool) {
	m := saysLine.FindStringSubmatch(text)
	if m == nil {
		return author{}, false
	}
	id, errID := strconv.ParseInt(m[1], 10, 64)
	fence, errFence := strconv.ParseInt(m[2], 10, 64)
	return author{id, fence}, errID == nil && errFence == nil
}
