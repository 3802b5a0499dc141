// Package poll is an agent's main loop. It decides how many tasks to claim, when, and of which types; it starts the claimed
// rows, collects outcomes and settles them together, and sweeps: it reaps rows whose leases or sessions have expired.
//
// The loop itself (Engine.loop) is one goroutine, so claims never overlap. Attempts, settlements, the sweep and notifications
// have goroutines of their own. Slots hold what runs and what was claimed ahead; the settler holds what is not settled yet.
package poll

import (
	"context"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Store is what the loop needs of the store. Each call handles many rows in one round trip and may be repeated.
type Store interface {
	// Claim takes at most Want.N due rows for each want, in the order of priority (higher first), due time and id,
	// for the session, and returns them in that order, want by want. When it returns, the claim is committed. Rows
	// that another claim has locked are skipped. After an error it is unknown which rows it took: Claimed returns them. A row
	// that no agent can run is claimed without its documents, and with the reason (Unfit).
	Claim(ctx context.Context, c store.Claim) ([]task.Task, error)
	// Claimed reads back what the claim of that number took and the session still holds.
	Claimed(ctx context.Context, s task.Session, number int64) ([]task.Task, error)
	// NextDue returns the time until the next row is due that one of the wants could claim; ok is false if none waits. For a
	// row that is due already it returns 0.
	NextDue(ctx context.Context, c store.Claim) (in time.Duration, ok bool, err error)
	// Settle applies transitions where id, fence and session still match, one answer a row in the order of rows. A
	// finished row moves to the archive with its outcome; any other row is released with its fence raised. No text and no
	// JSON of a task is refused: what a store cannot keep as it is, it keeps in another form. Once it has returned without an
	// error, it does not read rows any more.
	Settle(ctx context.Context, s task.Session, rows []store.Settlement) ([]store.Answer, error)
	// Exchange settles ends as Settle does, and claims as Claim does, in one transaction where the store can: what is claimed takes the places
	// that the ends leave in limits, with no other claim in between. It claims of types with a limit only, and may take fewer rows than there are and
	// than there is room for: a short answer says nothing. After an error it is unknown what became of either.
	Exchange(ctx context.Context, c store.Claim, ends []store.Settlement) ([]task.Task, []store.Answer, error)
	// Sweep claims at most limit rows whose lease or session has expired, to reap them: their fence rises, the session holds
	// them for reapFor, and they keep their state and attempt count. view is called once, as late as possible. Sweep takes no
	// row if the store's clock is further from view's Now than store.JumpTolerance, or if the session has itself expired: the
	// clock may have jumped. It spares rows of another session whose TTL is longer than view's Calm, and of one that has
	// expired, has not left, and is not Silent in view or has written another heartbeat since.
	Sweep(ctx context.Context, s task.Session, limit int, reapFor time.Duration, view func() store.View) ([]store.Reaped, error)
	// Holders returns what the session sees of the sessions that hold rows. It only reads.
	Holders(ctx context.Context, s task.Session) (store.Holders, error)
	// Stats counts what waits and runs.
	Stats(ctx context.Context) (store.Stats, error)
	// Spill lets agents of any region claim rows of other regions than the given one, at most store.SpillMost, that wait and have been due for
	// too long, and returns how many. Their tasks keep their region. Rows of which it is not known whether they may start are left,
	// as those that wait for a lock. It may be repeated until it finds less.
	Spill(ctx context.Context, region string, types []store.Spill) (int, error)
	// Left returns what others may have left to do, and which types are paused: no rows of these are to be claimed. It only reads.
	Left(ctx context.Context) (store.Left, error)
	// Policies reads stored policies; an unknown hash is missing from the result.
	Policies(ctx context.Context, hashes []task.PolicyHash) (map[task.PolicyHash]task.Policy, error)
	// Idle sets whether the session wants to be notified of inserts. Producers pay for notifications only while at least one
	// live session does.
	Idle(ctx context.Context, s task.Session, idle bool) error
	// Listen calls wake whenever there is news, until ctx ends; it returns nil then. wake must not block. It is also called
	// once listening has begun, and after every gap, with all that may have been missed. A store that cannot notify only
	// waits for ctx. Lost connections are opened again.
	Listen(ctx context.Context, wake func(store.News)) error
	// Promote lets locks go that rows have left, those of at most so many notes: it lets the first rows that wait for them be
	// claimed. A claim gives a lock to one row and holds the others back; where a row leaves its lock, a note says so.
	Promote(ctx context.Context, most int) (store.Promoted, error)
	// Unblock makes one step of the work on rows that wait for others (after), of about so many rows and ids: it frees rows that wait no
	// more, or cancels them where one that they name did not succeed. It may be repeated until it has nothing left to do.
	Unblock(ctx context.Context, most int) (store.Unblocked, error)
	// Predecessors reads what a run gets to know of the tasks that its own has waited for: as they are now, the first ones by id, within
	// the bounds of task.After. Those that are past their retention have no state.
	Predecessors(ctx context.Context, id task.ID) (task.After, error)
}

// Adopter is a store that lets an agent settle an attempt that reports its own end, whichever session started it.
type Adopter interface {
	// Adopt claims the row that is held with that fence and is detached, or held by the session itself, as Sweep claims
	// expired ones: Applied, and reaped is the row; Busy if another session holds it; Ended if an attempt with that fence has
	// ended as failed or rejected before; else Lost or Busy.
	Adopt(ctx context.Context, s task.Session, id task.ID, f task.Fence, reapFor time.Duration) (reaped *store.Reaped, a store.Answer, err error)
}
