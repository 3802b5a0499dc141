// Package poll is the loop: how many tasks to claim, when, and of what. It claims, starts what it claimed, gathers
// outcomes and settles them, and sweeps what the dead left behind.
package poll

import (
	"cmp"
	"context"
	"time"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// Store is what the loop needs of the store. Each call takes many rows in one round trip and may be repeated.
type Store interface {
	// Claim takes at most Want.N due rows for each want, in the order of priority (higher first), due time and id,
	// for the session, and returns them in that order, want by want. When it returns, the claim is committed. Rows
	// that another claim has locked are passed over. After an error it is unknown what was taken: Claimed tells. A row that
	// no agent can run is claimed without its documents, and says why (Unfit).
	Claim(ctx context.Context, c Claim) ([]task.Task, error)
	// Claimed reads back what the claim of that number took and the session still holds.
	Claimed(ctx context.Context, s task.Session, number int64) ([]task.Task, error)
	// NextDue tells how long it is until the next row is due that one of the wants could claim; ok is false where
	// none waits. A row that is due already gives 0.
	NextDue(ctx context.Context, c Claim) (in time.Duration, ok bool, err error)
	// Settle applies transitions where id, fence and session still match, one answer a row in the order of rows. A
	// finished row moves to the archive with its outcome; a row that goes on is released with its fence raised. No text
	// and no JSON that a task said is refused: what a store cannot keep as it is, it keeps in another form.
	Settle(ctx context.Context, s task.Session, rows []Settlement) ([]lease.Answer, error)
	// Sweep claims for judgement at most limit rows whose lease has ended, or whose session is not present: their fence
	// rises, they belong to the session for judge, and keep their state and attempt count. view is asked once, as late as
	// can be. Where the store's clock is further from its Now than lease.JumpTolerance, or the session is not present
	// itself, none is taken: it may be the clock that has moved. Nor is one that is held by another session whose presence
	// lasts longer than its Calm.
	Sweep(ctx context.Context, s task.Session, limit int, judge time.Duration, view func() lease.View) ([]Swept, error)
	// Policies reads stored policies; a hash that is not there is missing from the answer.
	Policies(ctx context.Context, hashes []task.PolicyHash) (map[task.PolicyHash]task.Policy, error)
	// Idle says whether the session wants to be notified of inserts. Producers pay for notifications only while some
	// present session does.
	Idle(ctx context.Context, s task.Session, idle bool) error
	// Listen calls wake whenever there is news, until ctx ends; it returns nil then. wake must not block. It is called
	// once listening has begun, too, and after every gap, with all that may have been missed. A store that cannot notify
	// just waits for ctx; connections that are lost are opened again.
	Listen(ctx context.Context, wake func(News)) error
}

// Adopter is a store in which one attempt that reports its own end can be judged, whoever holds it.
type Adopter interface {
	// Adopt claims for judgement the row that is held with that fence and is detached, or held by the session itself, as
	// Sweep does with rows of the dead: Applied, and swept tells the row; Busy where another session holds it; Ended where
	// an attempt with that fence has been judged as failed or rejected before; else Lost or Busy.
	Adopt(ctx context.Context, s task.Session, id task.ID, f task.Fence, judge time.Duration) (swept *Swept, a lease.Answer, err error)
}

// News is what Listen tells: a set of Due and Asked.
type News uint8

// The kinds of news. A store that cannot tell them apart says both.
const (
	Due   News = 1 << iota // there may be something new to claim
	Asked                  // a row that somebody holds may have been asked to stop
)

// Claim asks for rows.
type Claim struct {
	Session task.Session
	Number  int64  // rises with each claim of the session
	Region  string // rows of this region are claimed, and rows of none; "": rows of none only
	Wants   []Want // a (Type, Phase) stands in it once
	// Bytes bounds what one claim hands out: no further row once those before come to so many bytes, of documents as far as
	// the store can tell their length without reading them. Of runs and of rollbacks each. 0: no bound.
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
	Deadline time.Duration // from due to done; stamped on a row at its first claim; 0: none
}

// Settlement is the end of one hold on one row.
type Settlement struct {
	ID    task.ID
	Fence task.Fence
	Next  task.Transition

	// What the history tells of the attempt.
	Phase    task.Phase
	Attempt  int        // its number within the phase
	RanFence task.Fence // the fence the task was given; below Fence where a sweep came between
	Outcome  task.Outcome
	Started  time.Duration // how long ago it started; < 0: it never did
	// Silent keeps the attempt out of the history: a claimed row that was given back before anything was tried.
	Silent bool
	// CancelKnown: whoever decided knew whether a cancellation was asked for. A row that would wait again although one
	// was asked for and this is false stays as it is, and the answer is lease.Unaware.
	CancelKnown bool
	// Notes are what the task said that no renewal has brought to the store.
	Notes lease.Notes
}

// Tells is what the row itself says of the attempt from now on: its verdict, and why, for people. A row that waits
// keeps the target's own words, for the next attempt to read; a finished one says what was decided. keep: nothing was
// tried, so what the row says of the attempt before stays.
func (s *Settlement) Tells() (v task.Verdict, why string, keep bool) {
	if s.Next.State.Finished() {
		return s.Outcome.Verdict, cmp.Or(s.Next.Reason, s.Outcome.Error, s.Outcome.Note), false
	}
	return s.Outcome.Verdict, cmp.Or(s.Outcome.Error, s.Next.Reason), s.Silent
}

// InHistory reports whether the settlement writes a row of the history (table attempt). A silent one does not, nor does a
// run that succeeded at its first try: of that one the archived row alone says everything, exactly, and a store adds its
// row to the history when the task is revived.
func (s *Settlement) InHistory() bool {
	firstTry := s.Phase == task.Run && s.Attempt == 1 && s.Next.Attempt == 1 && s.RanFence == s.Fence &&
		s.Outcome.Verdict == task.Succeeded && s.Next.State == task.StateSucceeded
	_, why, _ := s.Tells()
	return !s.Silent && !(firstTry && why == s.Outcome.Error && why == "")
}

// Swept is a row whose hold has ended without an outcome.
type Swept struct {
	task.Task               // with the fence of the judgement
	RanFence  task.Fence    // the fence of the hold that ended
	Present   bool          // its session is still there, so the lease itself ran out
	Detached  bool          // it depended on its window alone
	Left      time.Duration // until the task's own deadline, by the store's clock; meaningless without one
}
