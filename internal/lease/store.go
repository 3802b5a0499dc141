package lease

import (
	"context"
	"encoding/json"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// Answer is the store's answer for one row of a Renew or a Settle.
type Answer uint8

// The answers. A row that is Busy is asked for again, and never treated as Lost.
const (
	Lost    Answer = iota // another attempt holds the row, or it is over: stop the work, drop the outcome
	Applied               // done
	Ended                 // a repeat of what is already so
	Busy                  // another transaction has locked the row: try again
	Unaware               // a cancellation was requested that the decision did not know of: decide again
)

func (a Answer) String() string {
	return [...]string{Lost: "lost", Applied: "applied", Ended: "ended", Busy: "busy", Unaware: "unaware"}[a]
}

// Store is what leases need of the store. Every call may be repeated, so a lost reply costs only a repetition. When ctx ends
// first, it is unknown whether the call took effect.
type Store interface {
	// Join opens a session, which expires after a.Presence unless Present extends it, and stores the agent's policies. It
	// fails with *store.SchemaError if the schema is not the binary's.
	Join(ctx context.Context, a Agent) (task.Session, error)
	// Present writes a heartbeat: the session expires p.Agent.Presence from now, by the store's clock. It returns what the
	// store knows of the session. A session whose row was removed (it ended long ago) is written again under its number.
	Present(ctx context.Context, p Presence) (Standing, error)
	// Renew moves lease ends, one answer a row in the order of rows. It never answers Ended.
	Renew(ctx context.Context, s task.Session, rows []Renewal) ([]Answer, error)
	// Cancels lists the rows that the session holds in the run phase and that are to stop: rows whose cancellation was
	// requested, and rows of batches that are being cancelled or rolled back, marked already or not. It writes nothing.
	Cancels(ctx context.Context, s task.Session) ([]Cancel, error)
	// Leave ends the session at once. Rows that it still holds can be reaped from then on; detached ones cannot.
	Leave(ctx context.Context, s task.Session) error
}

// Remote is what the store offers for pings and completions that reach another session than the one that holds the row.
// Every call may be repeated.
type Remote interface {
	// Secret is the store's own key for ping URLs, the same for all agents, 32 bytes at least.
	Secret(ctx context.Context) ([]byte, error)
	// TakePings applies pings by id and fence alone, and returns one reply for each row, in order; each (id, fence) occurs
	// once. The policy that the row was claimed under decides about windows, and which pings count.
	TakePings(ctx context.Context, rows []RemotePing) ([]PingReply, error)
	// Complete ends a run as succeeded with that result (nil: none), or a rollback as rolled back, whichever session holds
	// it: Applied, Ended if the same fence has completed it before, Lost or Busy.
	Complete(ctx context.Context, id task.ID, f task.Fence, result json.RawMessage) (Answer, error)
	// Completed reports, for each row in order, whether the given fence has completed it, by Complete or by SQL.
	Completed(ctx context.Context, rows []Held) ([]bool, error)
}

// Agent describes a session.
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

// NamedPolicy is a policy with the type that declares it.
type NamedPolicy struct {
	Type   string
	Policy task.Policy
}

// Presence is one heartbeat of a session.
type Presence struct {
	Session  task.Session
	Agent    Agent // for a session whose row was removed, and for what changes with a reload
	Draining bool
	Running  int   // attempts now
	Done     int64 // attempts ended since the start
}

// View is what a session knows of the store's clock when it sweeps.
type View struct {
	Now time.Time // the session's estimate of the store's clock, never ahead of it; zero: the session may run no sweep
	// Calm is for how long the store's clock has not jumped, as far as the session knows. A session with a longer TTL may be
	// alive, although it has expired by that clock.
	Calm time.Duration
}

// Standing is what the store knows of a session.
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
	// CancelAsked: a cancellation was requested; CancelReason says by whom or why, "" if that was not given.
	CancelAsked  bool
	CancelReason string
	// Pinged: pings have arrived elsewhere than at this session since the row was claimed, and the next one is due in
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
	// Asked: the row itself is marked, so a running attempt is to stop; Reason says who requested it, "" if that was not
	// given. Otherwise only the batch is marked: nothing of it may start, and the row is marked, or cancelled if it waits, in
	// a moment.
	Asked  bool
	Reason string
}

// Renewal asks for a lease that ends Window after the moment that was Age ago, by the store's clock when it writes.
type Renewal struct {
	ID     task.ID
	Fence  task.Fence
	Age    time.Duration // how long ago the progress was
	Window time.Duration // heartbeat + stop, or what is left of the attempt if that is less
	// Exact sets the end to just that. Otherwise an end that is already later stays,
	Exact bool
	// but where Most is above 0 it is cut to the longer of Most and what is asked for, from when it is written.
	Most time.Duration
	// Detach detaches the lease from the session: from now on it depends on its window alone.
	Detach bool
	Notes  // written with it, whether the end moves or not
	// Marks are the positions that the task has reported through its session, if its type requires progress. They are merged
	// with the row's, so that pings through other agents have to advance beyond them. nil: nothing to write.
	Marks *task.Marks
}

// Bounds returns the bounds of the lease's end, from the moment when it is written: not before least, not after most.
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
