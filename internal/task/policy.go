package task

import (
	"slices"
	"time"
)

// Policy is what a type's declaration sets for retries, delays and giving up. It is stored as JSON under its PolicyHash, so
// that any agent can reap any row; durations are nanoseconds there.
type Policy struct {
	Timeout   time.Duration `json:"timeout"`             // upper bound of one attempt; > 0
	Heartbeat time.Duration `json:"heartbeat,omitempty"` // the longest time between two pings; 0: no pings are due
	// MaxHeartbeat is the longest window that a ping may ask for.
	MaxHeartbeat time.Duration `json:"max_heartbeat,omitempty"`
	// RequireProgress: a ping counts only if it advances (Marks.Advance).
	RequireProgress bool            `json:"require_progress,omitempty"`
	Async           bool            `json:"async,omitempty"`    // a 202 detaches the lease
	Stop            time.Duration   `json:"stop"`               // from the start of stopping to the lease's end (StopLength); the check's, where longer
	Check           time.Duration   `json:"check,omitempty"`    // the check's timeout; 0: no check
	Deadline        time.Duration   `json:"deadline,omitempty"` // from due to done, all attempts; 0: none
	Retry           Retry           `json:"retry"`
	Rollback        *RollbackPolicy `json:"rollback,omitempty"` // nil: the type cannot be rolled back
	// OnFailed is the type of the row that the store inserts for each task that has failed for good; "": none.
	OnFailed string `json:"on_failed,omitempty"`
}

// RollbackPolicy is the policy of the rollback phase.
type RollbackPolicy struct {
	Timeout   time.Duration `json:"timeout"`
	Heartbeat time.Duration `json:"heartbeat,omitempty"`
	// As in Policy.
	MaxHeartbeat    time.Duration `json:"max_heartbeat,omitempty"`
	RequireProgress bool          `json:"require_progress,omitempty"`
	Async           bool          `json:"async,omitempty"`
	Stop            time.Duration `json:"stop"`
	Retry           Retry         `json:"retry"` // On is ignored: all but Rejected is retried
}

// Retry is how often and when a task is retried.
type Retry struct {
	Limit   int           `json:"limit"`   // attempts after the first; >= 0
	Backoff Backoff       `json:"backoff"` // how Min grows
	Min     time.Duration `json:"min"`     // the delay before the second attempt
	Max     time.Duration `json:"max"`     // the longest delay
	On      []Verdict     `json:"on"`      // what is retried
	// After has the delays of endings that do not follow Backoff, each however often it comes in a row.
	After        map[Verdict]time.Duration `json:"after,omitempty"`
	MaxDeferrals int                       `json:"max_deferrals"` // how often in a row Deferred or Superseded do not count
}

// Backoff is how the delay between attempts grows.
type Backoff string

// The kinds of backoff.
const (
	Exponential Backoff = "exponential" // Min, 2 Min, 4 Min, … up to Max
	Constant    Backoff = "constant"    // always Min
)

// Defaults of a declaration that leaves them out.
const (
	DefaultTimeout      = 20 * time.Second
	DefaultCheck        = 5 * time.Second // the check's timeout
	DefaultGrace        = 5 * time.Second
	DefaultRetryLimit   = 2
	DefaultRetryMin     = time.Second
	DefaultRetryMax     = 5 * time.Minute
	DefaultMaxDeferrals = 100
)

// Lengths that no declaration changes (docs/architecture.md, Outcomes).
const (
	StopMargin = 2 * time.Second // beside the grace: for the kill, and for the settlement to arrive
	StartWait  = time.Second     // how long a claimed task may wait inside the agent for its start
)

// DefaultOn returns the verdicts that are retried by default.
func DefaultOn() []Verdict { return []Verdict{Failed, Stalled, TimedOut, Lost} }

// StopLength returns how long stopping an attempt may take, for a target with that grace.
func StopLength(grace time.Duration) time.Duration { return grace + StopMargin }

// Window returns the length of the lease that a claim for the phase sets: the wait inside the agent, the check, the heartbeat
// (or the timeout) and the stop.
func (p *Policy) Window(phase Phase) time.Duration {
	timeout, heartbeat, stop := p.Lengths(phase)
	if heartbeat == 0 {
		heartbeat = timeout
	}
	return p.untilStart(phase) + heartbeat + stop
}

// AttemptLength returns how long after its claim an attempt of the phase must be over: the wait inside the agent, the check and
// the timeout. No ping moves a window beyond that.
func (p *Policy) AttemptLength(phase Phase) time.Duration {
	timeout, _, _ := p.Lengths(phase)
	return p.untilStart(phase) + timeout
}

// untilStart returns how long after its claim a phase may start: after the wait inside the agent, and the check before a run.
func (p *Policy) untilStart(phase Phase) time.Duration {
	if phase == Rollback {
		return StartWait
	}
	return StartWait + p.Check
}

// PingWindow returns the time from a ping that counts until the next one is due; 0: none is due. asked is the window that the
// ping asks for (0: none): a longer one than the heartbeat, up to MaxHeartbeat, and never a shorter one.
func (p *Policy) PingWindow(phase Phase, asked time.Duration) time.Duration {
	_, heartbeat, _ := p.Lengths(phase)
	if heartbeat == 0 {
		return 0
	}
	longest, _, _ := p.Liveness(phase)
	return max(heartbeat, min(asked, longest))
}

// Lengths returns timeout, heartbeat (0: none) and stop of a phase. The rollback of a policy without one has the lengths of its
// run. A check has a timeout only, and the rest of the window is for its attempt.
func (p *Policy) Lengths(phase Phase) (timeout, heartbeat, stop time.Duration) {
	if phase == Check {
		return p.Check, 0, p.Stop
	}
	if phase == Rollback && p.Rollback != nil {
		return p.Rollback.Timeout, p.Rollback.Heartbeat, p.Rollback.Stop
	}
	return p.Timeout, p.Heartbeat, p.Stop
}

// LongestStop returns the longest time that stopping an attempt of any phase may take.
func (p *Policy) LongestStop() (longest time.Duration) {
	for _, phase := range []Phase{Run, Rollback} { // a check has the run's
		_, _, stop := p.Lengths(phase)
		longest = max(longest, stop)
	}
	return longest
}

// Liveness returns the rules for pings of a phase: the longest window that they may ask for, whether only progress counts, and
// whether a 202 detaches the lease. A check has none of these.
func (p *Policy) Liveness(phase Phase) (longest time.Duration, progress, async bool) {
	if phase == Check {
		return 0, false, false
	}
	if phase == Rollback && p.Rollback != nil {
		return p.Rollback.MaxHeartbeat, p.Rollback.RequireProgress, p.Rollback.Async
	}
	return p.MaxHeartbeat, p.RequireProgress, p.Async
}

// retries returns the retry rules of a phase.
func (p *Policy) retries(phase Phase) Retry {
	if phase == Rollback && p.Rollback != nil {
		return p.Rollback.Retry
	}
	return p.Retry
}

// MaxAttempts returns how many attempts of a phase count before the task fails for good: the row's own limit for the run phase
// if it has one (own > 0), else the policy's.
func (p *Policy) MaxAttempts(phase Phase, own int) int {
	if phase != Rollback && own > 0 {
		return own
	}
	return p.retries(phase).Limit + 1
}

// Retries reports whether an attempt with that verdict is retried.
func (r Retry) Retries(v Verdict) bool { return slices.Contains(r.On, v) }
