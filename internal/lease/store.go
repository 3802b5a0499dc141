package lease

import (
	"context"
	"encoding/json"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// Answer is what a store says of one row of a Renew or a Settle.
type Answer uint8

// The answers. Only Busy may be asked again, and it is never to be treated as Lost.
const (
	Lost    Answer = iota // another holds the row, or it is gone: stop the work, drop the outcome
	Applied               // done
	Ended                 // a repeat of what is already so
	Busy                  // somebody's transaction keeps the row: try again
	Unaware               // a cancellation was asked for that the decision did not know of: decide again
)

func (a Answer) String() string {
	return [...]string{Lost: "lost", Applied: "applied", Ended: "ended", Busy: "busy", Unaware: "unaware"}[a]
}

// Store is what leases need of the store. Every call may be repeated: a reply that is lost costs nothing but the
// question. A context that ends leaves it unknown whether the call took effect.
type Store interface {
	// Join opens a session: the row of this start of an agent, present from now on for a.Presence, and stores the
	// agent's policies. It fails with *store.SchemaError where the schema is not the binary's.
	Join(ctx context.Context, a Agent) (task.Session, error)
	// Present says that the session is there and will be for presence, by the store's clock, and returns what the
	// store knows of it. A session whose row is gone (it ended long ago) is written anew under its number.
	Present(ctx context.Context, p Presence) (Standing, error)
	// Renew moves lease ends, one answer a row in the order of rows. It never answers Ended.
	Renew(ctx context.Context, s task.Session, rows []Renewal) ([]Answer, error)
	// Cancels lists what the session holds, in the run phase, that is to stop: rows whose cancellation was asked for, and
	// rows of batches that are being cancelled or rolled back, marked already or not. It writes nothing.
	Cancels(ctx context.Context, s task.Session) ([]Cancel, error)
	// Leave ends the session's presence at once; what it still holds is up for sweeping, what it detached is not.
	Leave(ctx context.Context, s task.Session) error
}

// Remote is what pings and completions need of the store that come by another way than the session that holds the row.
// Every call may be repeated.
type Remote interface {
	// Secret is the store's own key for ping URLs, the same for all agents, 32 bytes at least.
	Secret(ctx context.Context) ([]byte, error)
	// TakePings takes in pings by id and fence alone, one answer a row in the order of rows; an (id, fence) stands in it
	// once. Windows and what counts follow the policy that the row was claimed under.
	TakePings(ctx context.Context, rows []RemotePing) ([]PingReply, error)
	// Complete ends a run as succeeded with that result (nil: none), a rollback as rolled back, whoever holds it: Applied,
	// Ended where the same fence has completed it before, Lost or Busy.
	Complete(ctx context.Context, id task.ID, f task.Fence, result json.RawMessage) (Answer, error)
	// Completed tells which of the rows have been completed by the fence that is named, by Complete or by SQL, in the
	// order of rows.
	Completed(ctx context.Context, rows []Held) ([]bool, error)
}

// Agent describes a session for those who look.
type Agent struct {
	Name     string
	Region   string // "" for none
	Version  string
	Config   string // hash of the configuration
	Workers  int
	Types    []string // row types it claims, aliases included
	Presence time.Duration
	Policies map[task.PolicyHash]NamedPolicy
}

// NamedPolicy is a policy with the type it stands for.
type NamedPolicy struct {
	Type   string
	Policy task.Policy
}

// Presence is one sign of life of a session.
type Presence struct {
	Session  task.Session
	Agent    Agent // to write the session's row anew where it is gone, and for what changes with a reload
	Draining bool
	Running  int   // attempts now
	Done     int64 // attempts ended since the start
}

// View is what a session goes by when it judges others.
type View struct {
	Now time.Time // the store's clock as the session knows it, never ahead of it; zero: it may judge nobody
	// Calm is for how long the store's clock has not jumped, as far as the session can tell. One whose presence is longer
	// may be alive, although it is absent by that clock.
	Calm time.Duration
}

// Standing is a session as the store sees it.
type Standing struct {
	Now  time.Time // the store's clock
	Held []Held    // every row that the session holds
}

// Held is a row that a session holds in the store.
type Held struct {
	ID       task.ID
	Fence    task.Fence
	Claim    int64 // number of the claim that took it
	Detached bool
	// CancelAsked: somebody wants the task cancelled; CancelReason says who or why, "" where that was not said.
	CancelAsked  bool
	CancelReason string
	// Pinged: pings came in by another way than this session since the row was claimed, and the next one is due in
	// PingDue by the store's clock; negative: it is late.
	Pinged  bool
	PingDue time.Duration
	Left    time.Duration // until the window ends, by the store's clock
	// Marks are those of the row (task.MarksOf) where Pinged; nil: it has none.
	Marks json.RawMessage
}

// Cancel is a row that a session holds and that is to stop.
type Cancel struct {
	ID    task.ID
	Fence task.Fence
	Claim int64 // number of the claim that took it
	// Asked: the row itself is marked, so that an attempt which runs is to stop; Reason says who asked, "" where that was
	// not said. Otherwise its batch starts nothing any more, and the row is marked, or cancelled where it waits, in a moment.
	Asked  bool
	Reason string
}

// Renewal asks for a lease that ends Window after a moment that was Age ago, by the store's clock when it writes.
type Renewal struct {
	ID     task.ID
	Fence  task.Fence
	Age    time.Duration // how long ago the progress was
	Window time.Duration // heartbeat + stop, or what is left of the attempt if that is less
	// Exact sets the end to just that; otherwise an end that is already later stays,
	Exact bool
	// and where Most is above 0, is no further ahead than Most when it is written, or than what is asked for.
	Most time.Duration
	// Detach takes the lease off the session: from now on it depends on its window alone, not on presence.
	Detach bool
	Notes  // written with it, whatever becomes of the end
	// Marks are what the task has reported by way of its session, where its type requires progress: the row's are merged
	// with them, so that pings by other ways have to go beyond. nil: nothing to write.
	Marks *task.Marks
}

// Bounds are where the renewal puts the end, from now on when it is written: not before least, not after most.
func (r *Renewal) Bounds() (least, most time.Duration) {
	least = r.Window - r.Age
	switch {
	case r.Exact:
		return least, least
	case r.Most > 0:
		return least, max(least, r.Most)
	}
	return least, unbounded
}

// unbounded is longer than any lease, and short enough to be added to a time.
const unbounded = 100 * 365 * 24 * time.Hour
