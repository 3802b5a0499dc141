package task

import (
	"encoding/json"
	"time"
)

// Verdict is how an attempt ended, in one word.
type Verdict string

// The verdicts. After the last four the row is released: the attempt does not count, deferrals up to a limit.
const (
	Succeeded Verdict = "succeeded"
	Failed    Verdict = "failed"    // may be retried
	Rejected  Verdict = "rejected"  // must not be retried
	Stalled   Verdict = "stalled"   // no progress within its window
	TimedOut  Verdict = "timed_out" // ran longer than its timeout
	Lost      Verdict = "lost"      // its lease or its session expired
	Cancelled Verdict = "cancelled" // stopped by a cancellation

	Deferred    Verdict = "deferred"    // the target asked to run it later
	Superseded  Verdict = "superseded"  // the target knows a newer attempt
	Undelivered Verdict = "undelivered" // never reached the target, or could not start
	Drained     Verdict = "drained"     // stopped by the agent for its own reasons
)

// Verdicts lists every verdict.
func Verdicts() []Verdict {
	return []Verdict{
		Succeeded, Failed, Rejected, Stalled, TimedOut, Lost, Cancelled,
		Deferred, Superseded, Undelivered, Drained,
	}
}

// Releases reports whether an attempt with that verdict is released and need not count.
func (v Verdict) Releases() bool {
	switch v {
	case Deferred, Superseded, Undelivered, Drained:
		return true
	}
	return false
}

// Moments is how soon after an attempt's start its end is suspicious (Outcome.Brief).
const Moments = time.Second

// BriefNote is what the error of a brief outcome says about that.
const BriefNote = "within moments of the attempt's start"

// Limits on what is kept of an attempt.
const (
	MaxResult     = 64 << 10 // bytes of JSON
	MaxError      = 4 << 10  // bytes; longer errors are cut
	MaxOutputPart = 16 << 10 // bytes of a subprocess's output kept from each end
)

// Split is how a chunk of a big table is split in two.
type Split struct {
	At   string // the key that the first half ends with, strictly inside the chunk's range: text as the table's database makes it
	Rows [2]int // of each half, about; >= 1
}

// Outcome is what an executor reports about an attempt that is over.
type Outcome struct {
	Verdict Verdict
	Error   string          // human-readable; "" on success
	Result  json.RawMessage // at most MaxResult bytes; nil: none
	Output  string          // head and tail of what a subprocess printed
	Note    string          // something worth showing beside a result, as "result not kept: 80 KiB"

	// RetryAfter is what the target asked for with Deferred; 0: nothing, use the backoff.
	RetryAfter time.Duration
	// EndUnknown: the target may still be at work (a request whose response never came). The task is due again no
	// earlier than its lease's end.
	EndUnknown bool
	// Unavailable: the target answered that it is unavailable (503); counts towards the breaker, as Undelivered does.
	Unavailable bool
	// Brief, of Drained alone: within Moments of its start the attempt was killed for no reason that the agent knows, or the
	// agent was asked to stop. That may be the attempt's own doing, so it is released only as often in a row as Deferred is.
	Brief bool
	// Shared, of Drained alone: a request with several tasks failed as a whole, and which of them is to blame is unknown. It
	// uses no attempt, and the next request with this task has fewer (Task.SharesWith).
	Shared bool
	// NeverStarted: nothing of the task was started, so there is nothing to roll back.
	NeverStarted bool
	// InCheck: the attempt ended in its check. Its target was not called, so it is NeverStarted, too.
	InCheck bool

	// Split is how the task is to be split, of a chunk that Stalled or TimedOut, not for the first time; nil: it is not.
	Split *Split

	// Accepted: the target has accepted the task and continues without a connection (202). The attempt has not ended, and
	// the rest of the outcome has no meaning.
	Accepted bool
	// Stuck is closed once a process that could not be killed is gone; nil: there is none. Until then its slot is not
	// given to another task.
	Stuck <-chan struct{}
}
