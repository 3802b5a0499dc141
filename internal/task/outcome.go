package task

import (
	"encoding/json"
	"slices"
	"time"
)

// Verdict is how an attempt ended, in one word.
type Verdict string

// The verdicts. The last four give the attempt back: it does not count.
const (
	Succeeded Verdict = "succeeded"
	Failed    Verdict = "failed"    // may be retried
	Rejected  Verdict = "rejected"  // must not be retried
	Stalled   Verdict = "stalled"   // no progress within its window
	TimedOut  Verdict = "timed_out" // ran into its timeout
	Lost      Verdict = "lost"      // its lease ran out, its session is gone
	Cancelled Verdict = "cancelled" // stopped because somebody asked for it

	Deferred    Verdict = "deferred"    // the target asked to come later
	Superseded  Verdict = "superseded"  // the target knows a newer attempt
	Undelivered Verdict = "undelivered" // never reached the target, or could not start
	Drained     Verdict = "drained"     // stopped by the agent for reasons of its own
)

// Verdicts lists every verdict.
func Verdicts() []Verdict {
	return []Verdict{
		Succeeded, Failed, Rejected, Stalled, TimedOut, Lost, Cancelled,
		Deferred, Superseded, Undelivered, Drained,
	}
}

// GivesBack reports whether an attempt with that verdict is released and need not count.
func (v Verdict) GivesBack() bool {
	switch v {
	case Deferred, Superseded, Undelivered, Drained:
		return true
	}
	return false
}

// Known reports whether v is one of Verdicts.
func (v Verdict) Known() bool { return slices.Contains(Verdicts(), v) }

// Moments is how soon after an attempt's start its end is suspicious (Outcome.Brief).
const Moments = time.Second

// BriefNote says in the error of a brief outcome that it was one.
const BriefNote = "within moments of the attempt's start"

// Limits on what is kept of an attempt.
const (
	MaxResult     = 64 << 10 // bytes of JSON
	MaxError      = 4 << 10  // bytes; longer errors are cut
	MaxOutputPart = 16 << 10 // bytes of a subprocess's output kept from each end
)

// Outcome is what an executor has to say about an attempt that is over.
type Outcome struct {
	Verdict Verdict
	Error   string          // why, for people; "" on success
	Result  json.RawMessage // at most MaxResult bytes; nil: none
	Output  string          // head and tail of what a subprocess printed
	Note    string          // something worth showing beside a result, as "result not kept: 80 KiB"

	// RetryAfter is what the target asked for with Deferred; 0: nothing, use the backoff.
	RetryAfter time.Duration
	// EndUnknown: the far side may still be at work (a request whose answer never came). The task is due again no
	// earlier than its lease's end.
	EndUnknown bool
	// Unavailable: the target said that it is not there at all (503); counts towards the breaker, as Undelivered does.
	Unavailable bool
	// Brief, of Drained alone: within Moments of its start the attempt was killed for no reason that the agent knows, or the
	// agent was told to stop. That may be the attempt's own doing, so it is released only as often in a row as Deferred is.
	Brief bool
	// NeverStarted: nothing of the task was started, so there is nothing to undo.
	NeverStarted bool
	// InCheck: this is what the check before the attempt came to. Its target was not asked, so it is NeverStarted, too.
	InCheck bool

	// Accepted: the target has taken the task and goes on without a connection (202): this is no end, and the rest of
	// the outcome says nothing.
	Accepted bool
	// Stuck is closed once a process that could not be killed is gone; nil: there is none. Until then its slot is not
	// given to another task.
	Stuck <-chan struct{}
}
