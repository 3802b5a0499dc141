package ops

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// How many entries of a task's past are shown: runs of attempts that ended alike are one.
const (
	mostPast      = 6
	mostPastBrief = 2
)

// Summary is a task's life so far in one line, oldest first: "claimed 1.2 ms, running, succeeded". It depends on the task
// alone. Attempts that ended alike are counted: however many there are, the line stays short.
func Summary(i *Task) string {
	var parts []string
	earlier := before(i)
	parts = append(parts, past(earlier, mostPast)...)
	if i.ClaimedAt != nil && len(earlier) == 0 {
		parts = append(parts, "claimed "+Duration(claimLatency(i)))
	}
	return strings.Join(append(parts, standing(i, len(earlier) > 0)...), ", ")
}

// Now is Summary with the present in front and the past shortened: "attempt 3 running 40%; before: failed 2 times (exit code
// 1)". A task without a past has the same line.
func Now(i *Task) string {
	earlier := before(i)
	if len(earlier) == 0 {
		return Summary(i)
	}
	now := strings.Join(standing(i, true), ", ")
	if i.State == task.StateSucceeded {
		now = fmt.Sprintf("attempt %d succeeded%s", i.Attempt, because(i.Error))
	}
	return now + "; before: " + strings.Join(past(earlier, mostPastBrief), ", ")
}

// Lock returns the lock of a task, and whether the task waits for it; "" for none.
func Lock(i *Task, most int) string {
	name := OneLine(i.Lock, most)
	if i.Held == task.HoldLock {
		name += " (waits for it)"
	}
	return name
}

// Region returns the region of a task, and whether agents of others may take it; "" for none.
func Region(i *Task, most int) string {
	name := OneLine(i.Region, most)
	if i.Spilled {
		name += " (others may take it: it has waited too long)"
	}
	return name
}

// Sequence returns the sequence of a task, and whether the task waits for its turn; "" for none.
func Sequence(i *Task, most int) string {
	name := OneLine(i.Sequence, most)
	if i.Held == task.HoldSequence {
		name += " (waits for its turn)"
	}
	return name
}

// before is the history of what came before the present: the attempt that ended the task is not among it.
func before(i *Task) []Attempt {
	earlier := History(i)
	if n := len(earlier); n > 0 && i.State.Finished() && earlier[n-1].State == i.State && i.ClaimedAt != nil &&
		!earlier[n-1].EndedAt.Before(*i.ClaimedAt) { // and not that of an earlier round
		earlier = earlier[:n-1]
	}
	return earlier
}

// past is how attempts ended, at most so many entries, and what was left out before them.
func past(attempts []Attempt, most int) []string {
	var parts []string
	for len(attempts) > 0 {
		first, n := attempts[0], 1
		for n < len(attempts) && attempts[n].Phase == first.Phase && attempts[n].Outcome == first.Outcome {
			n++
		}
		parts = append(parts, endedAlike(attempts[:n]))
		attempts = attempts[n:]
	}
	if left := len(parts) - most; left > 1 {
		return append([]string{fmt.Sprintf("%d changes earlier", left)}, parts[left:]...)
	}
	return parts
}

// endedAlike is how one attempt ended, or how several in a row did, with the reason of the last.
func endedAlike(attempts []Attempt) string {
	last := attempts[len(attempts)-1]
	if len(attempts) == 1 {
		return ended(last)
	}
	phase := ""
	if last.Phase == task.Rollback {
		phase = "rollback "
	}
	return fmt.Sprintf("%s%s %d times%s", phase, last.Outcome, len(attempts), because(last.Error))
}

// ended returns how one attempt of several ended.
func ended(a Attempt) string {
	phase := "attempt"
	if a.Phase == task.Rollback {
		phase = "rollback"
	}
	reason := a.Error
	if !a.Counts {
		reason = strings.TrimSuffix("does not count: "+reason, ": ")
	}
	return fmt.Sprintf("%s %d %s%s", phase, a.Attempt, a.Outcome, because(reason))
}

// standing returns what a task does now.
func standing(i *Task, again bool) []string {
	running := "running"
	if i.State.Phase() == task.Rollback {
		running = "rolling back"
	} else if again {
		running = fmt.Sprintf("attempt %d running", i.Attempt)
	}
	switch {
	case i.State.Waiting():
		if i.RunAt.After(i.CreatedAt) {
			return []string{"waiting, due " + Time(i.RunAt)}
		}
		return []string{"waiting"}
	case i.State.Running():
		return []string{running + progress(i) + because(i.Message)}
	case i.State == task.StateSucceeded:
		return []string{running, "succeeded" + because(i.Error)} // as where a result was too large to keep
	case i.State == task.StateRolledBack && again:
		return []string{string(i.State)} // the error is that of its run, which is in the past
	case i.ClaimedAt != nil && i.EverStarted && !again && i.State.Phase() == task.Run:
		return []string{running, string(i.State) + because(i.Error)}
	}
	return []string{string(i.State) + because(i.Error)}
}

// progress is what the task has said of how far it is: " 40%", " at page 40", or nothing.
func progress(i *Task) string {
	var share float64
	var count struct{ Done, Total float64 }
	var position string
	switch {
	case i.Progress == nil:
		return ""
	case json.Unmarshal(i.Progress, &share) == nil:
	case json.Unmarshal(i.Progress, &position) == nil:
		const most = 60
		return " at " + OneLine(position, most)
	case json.Unmarshal(i.Progress, &count) == nil && count.Total > 0:
		share = count.Done / count.Total
	default:
		return ""
	}
	return " " + Percent(share)
}

// claimLatency is how long the task was due before it was claimed.
func claimLatency(i *Task) time.Duration {
	due := i.RunAt
	if i.CreatedAt.After(due) {
		due = i.CreatedAt
	}
	return max(i.ClaimedAt.Sub(due), 0)
}

func because(reason string) string {
	if reason == "" {
		return ""
	}
	const most = 120
	return " (" + OneLine(reason, most) + ")"
}
