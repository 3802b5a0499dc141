package store

import (
	"encoding/json"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// LongestStop returns the longest time that a policy takes to stop an attempt.
func (a *Agent) LongestStop() (longest time.Duration) {
	for _, p := range a.Policies {
		longest = max(longest, p.Policy.LongestStop())
	}
	return longest
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
	// Limits are those of the types that the session declares. They are in force, or a newer declaration of the name is, once the
	// session has joined or a heartbeat has been accepted.
	Limits []TypeLimit
	// Sequences are what the session declares of the sequences of row types. They come into force as limits do.
	Sequences []TypeSequence
	// Redact are the members that the session's configuration masks where documents are shown, by row type: of types that have any.
	// They are masked once the session has joined or a heartbeat has been accepted.
	Redact map[string][]string
}

// RedactText returns Redact as a JSON object, the same for the same members.
func (a *Agent) RedactText() string {
	if len(a.Redact) == 0 {
		return "{}"
	}
	text, _ := json.Marshal(a.Redact) // of texts, in the order of the types
	return string(text)
}

// NamedPolicy is a policy with the type that declares it.
type NamedPolicy struct {
	Type   string
	Policy task.Policy
}

// Heartbeat is one heartbeat of a session.
type Heartbeat struct {
	Session  task.Session
	Agent    Agent // for a session whose row was removed, and for what changes with a reload
	Draining bool
	Running  int   // attempts now
	Done     int64 // attempts ended since the start
	Minute   int64 // of these, those of the last minute
	// Condition is what people want to know of the session.
	Condition Condition
	// Order is what the last reply said, for a session whose row was removed.
	Order AgentOrder
	// View returns what the session knows of the store's clock, at the moment at which the store asks; Silent is not used. A
	// session that has seen no jump for its whole TTL vouches for the time of the heartbeat, and named leases that had expired
	// by then may be taken. nil: it vouches for nothing.
	View func() View
}

// Sees returns what the session knows of the store's clock; zero: nothing.
func (p *Heartbeat) Sees() View {
	if p.View == nil {
		return View{}
	}
	return p.View()
}

// Vouches reports whether a session with that TTL vouches for the store's clock, which shows now: the session's view agrees with
// it, and the session has seen no jump for its whole TTL.
func (v View) Vouches(now time.Time, ttl time.Duration) bool {
	return !v.Now.IsZero() && now.Sub(v.Now).Abs() <= JumpTolerance && v.Calm >= ttl
}

// CalmAt is Calm where the view agrees with the store's clock, which shows now; else 0.
func (v View) CalmAt(now time.Time) time.Duration {
	if v.Now.IsZero() || now.Sub(v.Now).Abs() > JumpTolerance {
		return 0
	}
	return v.Calm
}

// JumpTolerance is how far store time and monotonic time may move apart before it counts as a jump of the store's clock, and
// how far a sweep's view of that clock may be from the clock itself. Both errors may add up.
const JumpTolerance = 500 * time.Millisecond

// View is what a session knows when it sweeps: of the store's clock, and of other sessions.
type View struct {
	Now time.Time // the session's estimate of the store's clock, never ahead of it; zero: the session may run no sweep
	// Calm is for how long the store's clock has not jumped, as far as the session knows. A lease of a session with a longer
	// TTL may be open, although it has expired by that clock.
	Calm time.Duration
	// Silent are the heartbeats of sessions that have written no other one for their whole TTL, measured by this session's own
	// clock. Any other session may be alive, although it has expired by the store's clock: that can jump twice unseen.
	Silent []Sighting
}

// Sighting is the last heartbeat that one session has seen of another.
type Sighting struct {
	Session  task.Session
	SeenAt   time.Time     // when it was written, by the store's clock; it tells one heartbeat from the next
	Presence time.Duration // the session's TTL
}

// Holders is what a session sees of the sessions that hold rows.
type Holders struct {
	Others []Sighting // all but itself and those that have left
	// Expired reports whether a lease or a session has expired by the store's clock, so that a sweep may find something.
	Expired bool
}

// HeartbeatReply is what the store knows of a session.
type HeartbeatReply struct {
	Now  time.Time // the store's clock
	Held []Held    // every row that the session holds
	// Order is what an operator wants of the session: Cordon, Drain, or ""; OrderedBy who that is, "" where it was not said.
	Order     AgentOrder
	OrderedBy string
}

// Held is a row that a session holds in the store.
type Held struct {
	ID       task.ID
	Fence    task.Fence
	Claim    int64 // number of the claim that took it
	Detached bool
	// CancelRequested: a cancellation was requested; CancelReason says by whom or why, "" if that was not given.
	CancelRequested bool
	CancelReason    string
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
	// Requested: the row itself is marked, so a running attempt is to stop; Reason says who requested it, "" if that was not
	// given. Otherwise only the batch is marked: nothing of it may start, and the row is marked, or cancelled if it waits, in
	// a moment.
	Requested bool
	Reason    string
}
