package task

import "time"

// Transition is what becomes of a row: what the store is to write if the lease still matches.
type Transition struct {
	State State // the next one; never a running one
	// Delay is when a waiting row is due, counted from the settlement by the store's clock.
	Delay time.Duration
	// AfterLease: due no earlier than the lease's end, however short Delay is.
	AfterLease bool

	Attempt   int  // attempts that count from now on
	GiveBacks int  // give-backs in a row from now on
	Touched   bool // the row was ever started
	Reason    string // why, for people: "" or as "attempt 3 of 3 failed: …"
}

// Decide says what the end of an attempt means for its row. It is a pure function: left is what remains until the
// task's own deadline (negative once it has passed; ignored where the task has none), jitter is a random number in
// [0, 1).
//
// The rules are those of docs/architecture.md.
func Decide(t *Task, p *Policy, o Outcome, left time.Duration, jitter float64) Transition {
	panic("TODO")
}
