package ops

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

// Attempts writes the number of a task's attempts: "2 of 3" where the row has a limit of its own.
func Attempts(i *Task) string {
	if i.MaxAttempts > 0 {
		return fmt.Sprintf("%d of %d", i.Attempt, i.MaxAttempts)
	}
	return strconv.Itoa(i.Attempt)
}

// InsertedFor returns for which failure a task was inserted (on_failed); "" for none.
func InsertedFor(i *Task) string {
	if i.FailedTask == 0 {
		return ""
	}
	return fmt.Sprintf("because task %d failed", i.FailedTask)
}

// When writes when a task is due, for how long it has been running, or when it ended, as seen from now.
func When(i *Task, now time.Time) string {
	switch {
	case i.FinishedAt != nil:
		return Age(now.Sub(*i.FinishedAt)) + " ago"
	case i.State.Running() && i.ClaimedAt != nil:
		return "for " + Age(now.Sub(*i.ClaimedAt))
	case i.RunAt.After(now):
		return "in " + Age(i.RunAt.Sub(now))
	}
	return "due " + Age(now.Sub(i.RunAt))
}

// Detail writes the progress of a task that runs, and otherwise the reason for its state. It may be long and may hold what does
// not print.
func Detail(i *Task) string {
	if !i.State.Running() {
		return Cause(i.Error)
	}
	detail := ""
	if len(i.Progress) > 0 {
		detail = Progress(i.Progress)
	}
	if i.Message != "" {
		detail = strings.TrimSpace(detail + " " + i.Message)
	}
	return detail
}

// Progress writes the progress that a task reported: 40%, 40 of 100, or the position that it named.
func Progress(doc json.RawMessage) string {
	const most = 100
	var v any
	if json.Unmarshal(doc, &v) != nil {
		return OneLine(string(doc), most)
	}
	switch v := v.(type) {
	case float64:
		return Percent(v)
	case string:
		return OneLine(v, most)
	case map[string]any:
		var count struct{ Done, Total json.Number }
		if json.Unmarshal(doc, &count) == nil && count.Done != "" && count.Total != "" {
			return fmt.Sprintf("%s of %s", count.Done, count.Total)
		}
	}
	return OneLine(string(doc), most)
}

// CancelRequest writes when the cancellation of a task was requested while it ran, and by whom; "" if it was not.
func CancelRequest(i *Task) string {
	if i.CancelRequested == nil {
		return ""
	}
	const most = 100
	if by := OneLine(i.CancelRequestedBy, most); by != "" {
		return Time(*i.CancelRequested) + " by " + by
	}
	return Time(*i.CancelRequested)
}

// Lease writes until when a task is held; "" if it is not.
func Lease(i *Task) string {
	switch {
	case i.LeaseEnd == nil:
		return ""
	case i.Detached:
		return Time(*i.LeaseEnd) + " (detached: whatever becomes of its agent)"
	}
	return Time(*i.LeaseEnd)
}

// EarlierOutputs returns the attempts of the history whose output is worth showing beside the task's own: it is not empty, and
// not the same.
func EarlierOutputs(i *Task) []store.AttemptInfo {
	var earlier []store.AttemptInfo
	for _, h := range i.History {
		if h.Output != "" && h.Output != i.Output {
			earlier = append(earlier, h)
		}
	}
	return earlier
}
