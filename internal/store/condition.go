package store

import (
	"encoding/json"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// Bounds of a Condition: entries of each list, and characters of an error.
const (
	MostConditions      = 50
	mostConditionErrors = 300
)

// Condition is what keeps a session from starting tasks, and what its attempts are at, as far as only the session knows. It comes with each
// heartbeat, so it is about two seconds old, and its durations end there (AgentInfo.SeenAt).
type Condition struct {
	// Breakers are those that are open.
	Breakers []OpenBreaker `json:"breakers,omitempty"`
	// Full are the types all of whose own slots are in use (workers of the task block).
	Full []FullType `json:"full,omitempty"`
	// Checks are the running tasks whose check is being asked, before the attempt itself.
	Checks []task.ID `json:"checks,omitempty"`
	// Processes are what the processes of running tasks do that have not pinged for a while; Linux only.
	Processes []RunningProcess `json:"processes,omitempty"`
	// Chunks are the plans that the session plans and whose planning has to wait now, by name.
	Chunks []WaitingPlan `json:"chunks,omitempty"`
	// Stuck is for how long the agent's loop has not turned, in milliseconds; 0: it turns.
	Stuck int64 `json:"stuck_ms,omitempty"`
	// Starved is for how long tasks have been due and slots free without a task that could be claimed, in milliseconds; 0: not for long.
	Starved int64 `json:"starved_ms,omitempty"`
	// Jumped is how long ago the session detected a jump of the store's clock, in milliseconds; 0: it detected none within JumpReported.
	Jumped int64 `json:"clock_jumped_ms,omitempty"`
}

// JumpReported is for how long a session reports a jump of the store's clock.
const JumpReported = time.Hour

// RunningProcess is what the process of a running task and its descendants did at the heartbeat.
type RunningProcess struct {
	Task      task.ID      `json:"task"`
	State     ProcessState `json:"state"`
	Processes int          `json:"processes"`
	// CPU is how many milliseconds of CPU time they have used in Over milliseconds: since the task's last ping, or shortly after.
	CPU  int64 `json:"cpu_ms"`
	Over int64 `json:"over_ms"`
}

// ProcessState is what processes do.
type ProcessState string

// States of processes; those of package processes.
const (
	ProcessDisk     ProcessState = "disk"     // one waits for a disk or another device
	ProcessRunning  ProcessState = "running"  // one computes, or could
	ProcessStopped  ProcessState = "stopped"  // by a signal or a debugger
	ProcessSleeping ProcessState = "sleeping" // all wait for something
	ProcessEnded    ProcessState = "ended"    // all have ended
)

// WaitingPlan is a plan of chunks whose planning has to wait.
type WaitingPlan struct {
	Plan string `json:"plan"`
	Why  string `json:"why"` // the throttle of the plan that holds
}

// OpenBreaker is a breaker that holds attempts back from a target that is out of reach.
type OpenBreaker struct {
	Types   []string   `json:"types"`           // the row types: the type's name, and its aliases
	Phase   task.Phase `json:"phase"`           // run, rollback or check
	OpenFor int64      `json:"open_for_ms"`     // milliseconds, until the heartbeat
	Error   string     `json:"error,omitempty"` // of the last attempt that found the target out of reach
	// RetryIn is how many milliseconds after the heartbeat the target is tried again, with one task; 0: at once, or it is being tried.
	RetryIn int64 `json:"retry_in_ms,omitempty"`
}

// FullType is a type of which as many attempts run as the agent has workers for it.
type FullType struct {
	Types   []string `json:"types"` // the row types: the type's name, and its aliases
	Workers int      `json:"workers"`
}

// Since returns when the breaker opened, by the store's clock, of a session whose last heartbeat came at seen.
func (b *OpenBreaker) Since(seen time.Time) time.Time {
	return seen.Add(-time.Duration(b.OpenFor) * time.Millisecond)
}

// Text returns the condition as JSON for a store, each list and each error cut to its bound; "" where there is nothing to say.
func (c Condition) Text() string {
	if len(c.Breakers)+len(c.Full)+len(c.Checks)+len(c.Processes)+len(c.Chunks) == 0 && c.Stuck == 0 && c.Starved == 0 && c.Jumped == 0 {
		return ""
	}
	c.Breakers = append([]OpenBreaker(nil), c.Breakers[:min(len(c.Breakers), MostConditions)]...)
	for i := range c.Breakers {
		c.Breakers[i].Error = cutCondition(c.Breakers[i].Error)
	}
	c.Full = c.Full[:min(len(c.Full), MostConditions)]
	c.Checks = c.Checks[:min(len(c.Checks), MostConditions)]
	c.Processes = c.Processes[:min(len(c.Processes), MostConditions)]
	c.Chunks = append([]WaitingPlan(nil), c.Chunks[:min(len(c.Chunks), MostConditions)]...)
	for i := range c.Chunks {
		c.Chunks[i].Why = cutCondition(c.Chunks[i].Why)
	}
	body, _ := json.Marshal(c) // of texts and numbers
	return string(body)
}

// cutCondition bounds a text.
func cutCondition(s string) string {
	if r := []rune(s); len(r) > mostConditionErrors {
		return string(r[:mostConditionErrors-1]) + "…"
	}
	return s
}

// ReadCondition reads what Text has written. What cannot be read, as of an agent of another version, is left out.
func ReadCondition(text string) *Condition {
	var c Condition
	if text == "" || json.Unmarshal([]byte(text), &c) != nil {
		return nil
	}
	return &c
}
