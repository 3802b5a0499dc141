// Package poll is an agent's main loop. It decides how many tasks to claim, when, and of which types; it starts the claimed
// rows, collects outcomes and settles them together, and sweeps: it reaps rows whose leases or sessions have expired.
//
// The loop itself (Engine.loop) is one goroutine, so claims never overlap. Attempts, settlements, the sweep and notifications
// have goroutines of their own. Slots hold what runs and what was claimed ahead; the settler holds what is not settled yet.
package poll

import (
	"cmp"
	"context"
	"time"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// Store is what the loop needs of the store. Each call handles many rows in one round trip and may be repeated.
type Store interface {
	// Claim takes at most Want.N due rows for each want, in the order of priority (higher first), due time and id,
	// for the session, and returns them in that order, want by want. When it returns, the claim is committed. Rows
	// that another claim has locked are skipped. After an error it is unknown which rows it took: Claimed returns them. A row
	// that no agent can run is claimed without its documents, and with the reason (Unfit).
	Claim(ctx context.Context, c Claim) ([]task.Task, error)
	// Claimed reads back what the claim of that number took and the session still holds.
	Claimed(ctx context.Context, s task.Session, number int64) ([]task.Task, error)
	// NextDue returns the time until the next row is due that one of the wants could claim; ok is false if none waits. For a
	// row that is due already it returns 0.
	NextDue(ctx context.Context, c Claim) (in time.Duration, ok bool, err error)
	// Settle applies transitions where id, fence and session still match, one answer a row in the order of rows. A
	// finished row moves to the archive with its outcome; any other row is released with its fence raised. No text and no
	// JSON of a task is refused: what a store cannot keep as it is, it keeps in another form.
	Settle(ctx context.Context, s task.Session, rows []Settlement) ([]lease.Answer, error)
	// Sweep claims at most limit rows whose lease or session has expired, to reap them: their fence rises, the session holds
	// them for judge, and they keep their state and attempt count. view is called once, as late as possible. Sweep takes no
	// row if the store's clock is further from view's Now than lease.JumpTolerance, or if the session has itself expired: the
	// clock may have jumped. It spares rows of another session whose TTL is longer than view's Calm.
	Sweep(ctx context.Context, s task.Session, limit int, judge time.Duration, view func() lease.View) ([]Swept, error)
	// Policies reads stored policies; an unknown hash is missing from the result.
	Policies(ctx context.Context, hashes []task.PolicyHash) (map[task.PolicyHash]task.Policy, error)
	// Idle sets whether the session wants to be notified of inserts. Producers pay for notifications only while at least one
	// live session does.
	Idle(ctx context.Context, s task.Session, idle bool) error
	// Listen calls wake whenever there is news, until ctx ends; it returns nil then. wake must not block. It is also called
	// once listening has begun, and after every gap, with all that may have been missed. A store that cannot notify only
	// waits for ctx. Lost connections are opened again.
	Listen(ctx context.Context, wake func(News)) error
}

// Adopter is a store that lets an agent settle an attempt that reports its own end, whichever session started it.
type Adopter interface {
	// Adopt claims the row that is held with that fence and is detached, or held by the session itself, as Sweep claims
	// expired ones: Applied, and swept is the row; Busy if another session holds it; Ended if an attempt with that fence has
	// ended as failed or rejected before; else Lost or Busy.
	Adopt(ctx context.Context, s task.Session, id task.ID, f task.Fence, judge time.Duration) (swept *Swept, a lease.Answer, err error)
}

// News is what Listen reports: a set of Due and Asked.
type News uint8

// The kinds of news. A store that cannot distinguish them reports both.
const (
	Due   News = 1 << iota // there may be something new to claim
	Asked                  // a cancellation of a row that a session holds may have been requested
)

// Claim asks for rows.
type Claim struct {
	Session task.Session
	Number  int64  // rises with each claim of the session
	Region  string // rows of this region are claimed, and rows of none; "": rows of none only
	Wants   []Want // each (Type, Phase) occurs once
	// Bytes bounds the documents of one claim: no further row once those before have so many bytes, as far as the store knows
	// their length without reading them. The bound is for runs and for rollbacks separately. 0: no bound.
	Bytes int64
	// Cut, unless it is nil, is set where Bytes kept rows from being taken: wants that came back short may have more.
	Cut *bool
}

// Want is how many rows of one row type and phase are wanted, and how they are to be held.
type Want struct {
	Type     string
	Phase    task.Phase // task.Run or task.Rollback
	N        int        // > 0
	Window   time.Duration
	Policy   task.PolicyHash
	Deadline time.Duration // from due to done; set on a row at its first claim; 0: none
}

// Settlement is the end of one hold on one row.
type Settlement struct {
	ID    task.ID
	Fence task.Fence
	Next  task.Transition

	// What the history records of the attempt.
	Phase    task.Phase
	Attempt  int        // its number within the phase
	RanFence task.Fence // the fence the task was given; below Fence if the row was reaped
	Outcome  task.Outcome
	Started  time.Duration // how long ago it started; < 0: it never did
	// Silent keeps the attempt out of the history: the row was released before anything was tried.
	Silent bool
	// CancelKnown: the decision took a requested cancellation into account. If it is false, a cancellation was requested and
	// the row would wait again, then the row stays as it is, and the answer is lease.Unaware.
	CancelKnown bool
	// Notes are the task's reports that no renewal has written.
	Notes lease.Notes
}

// Tells returns what the row itself records of the attempt from now on: its verdict, and a human-readable reason. A waiting
// row keeps the target's own words, for the next attempt to read; a finished one has the reason of the decision. keep: nothing
// was tried, so what the row records of the attempt before stays.
func (s *Settlement) Tells() (v task.Verdict, why string, keep bool) {
	if s.Next.State.Finished() {
		return s.Outcome.Verdict, cmp.Or(s.Next.Reason, s.Outcome.Error, s.Outcome.Note), false
	}
	return s.Outcome.Verdict, cmp.Or(s.Outcome.Error, s.Next.Reason), s.Silent
}

// InHistory reports whether the settlement writes a row of the history (table attempt). A silent one does not, nor does a
// run that succeeded at its first try: the archived row contains everything about it, and a store adds its row to the history
// when the task is revived.
func (s *Settlement) InHistory() bool {
	firstTry := s.Phase == task.Run && s.Attempt == 1 && s.Next.Attempt == 1 && s.RanFence == s.Fence &&
		s.Outcome.Verdict == task.Succeeded && s.Next.State == task.StateSucceeded
	_, why, _ := s.Tells()
	return !s.Silent && !(firstTry && why == s.Outcome.Error && why == "")
}

// Swept is a row whose lease or session has expired without an outcome.
type Swept struct {
	task.Task               // with the fence under which it is reaped
	RanFence  task.Fence    // the fence of the attempt
	Present   bool          // its session has not expired, so the lease itself has
	Detached  bool          // it depended on its window alone
	Left      time.Duration // until the task's own deadline, by the store's clock; meaningless without one
}
