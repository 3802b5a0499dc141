// Package history is what happened in a run under faults, from sources that cannot be wrong about it: the endpoint and the
// children report what they did, the producer what it committed, the nemesis what it broke; the store has the state of each
// row at the end. Package check checks it.
package history

import (
	"encoding/json"
	"time"
)

// What is the kind of an event.
type What string

// The events. Those of attempts carry id, fence and attempt.
const (
	Start   What = "start"   // an attempt began: a request came, a child runs
	Ping    What = "ping"    // it is about to say that it makes progress; Note is a longer window that it asks for, as "10s"
	Pinged  What = "pinged"  // the answer came: Note is the HTTP status
	Effect  What = "effect"  // its guarded transaction has committed; Note NoReply: whether it did is not known
	Refused What = "refused" // its guarded transaction was refused: the row is another's, or has ended
	End     What = "end"     // it is about to end without being stopped; Note is how: a verdict of package task, or Accepted
	Gone    What = "gone"    // the agent closed the connection before the end
	Overlap What = "overlap" // a child found that another attempt's process of the same row is alive: Note is its fence
	Signal  What = "signal"  // a child was asked to stop
	Stopped What = "stopped" // a child stands still, and can report nothing; of no attempt: the nemesis has stopped that process
	Spared  What = "spared"  // a request with several attempts ends badly, and without a line of this one; Note is as that of End
	Slain   What = "slain"   // the nemesis kills that process, which runs attempts
	Dead    What = "dead"    // that process, which ran attempts, is no more; it was seen last at that time

	// The nemesis begins to break something. The first word of Note says what: "agent", "network" (the way to the store),
	// "server" (the store), "clock" (the store's), "endpoint" (it, or the way to it), "worker" (processes that run attempts, which
	// Slain and Stopped name), "processor" (it stood still, and the nemesis did not do that); another word is taken for all of
	// them.
	Fault What = "fault"
	Heal  What = "heal" // it is mended: the same Note. What lasts for a moment only is mended at once

	Up     What = "up"     // an agent's session is there
	Killed What = "killed" // an agent is dead, whatever it died of
	Frozen What = "frozen" // an agent stands still
	Thawed What = "thawed" // and goes on
)

// Notes that mean something.
const (
	Accepted = "accepted" // of End: the answer is a 202, and the task goes on without a connection until another End
	Done     = "done"     // of End, by a check: there is nothing left to do
	CutOff   = "cut"      // of End: without a word; the client only sees the connection end
	NoReply  = "unknown"  // of Effect: whether it has committed is not known
	Relaxed  = "async"    // of Effect: committed with synchronous_commit off, so that a crash may lose it
)

// Event is one line of the log. All processes of a run are on one machine: At is comparable among them.
type Event struct {
	At      time.Duration `json:"at"`            // of the monotonic clock (CLOCK_MONOTONIC), nanoseconds
	What    What          `json:"what"`          //
	Who     string        `json:"who,omitempty"` // agent and incarnation that made the attempt, as "a2.1"; "" for the nemesis
	Kind    string        `json:"kind,omitempty"`
	Phase   string        `json:"phase,omitempty"` // of package task; "": the run
	ID      int64         `json:"id,omitempty"`
	Fence   int64         `json:"fence,omitempty"`
	Attempt int           `json:"attempt,omitempty"`
	PID     int           `json:"pid,omitempty"` // the process, where it is a child
	Note    string        `json:"note,omitempty"`
}

// Commit is what a producer knows of a transaction that inserts.
type Commit string

// What became of it.
const (
	Committed  Commit = "committed"   // and flushed: the server said so, with synchronous_commit on
	RolledBack Commit = "rolled back" // it asked for that itself, or the server refused
	Unknown    Commit = "unknown"     // the reply to its COMMIT never came
	Async      Commit = "async"       // committed with synchronous_commit off: a crash may lose it
)

// Enqueued is one row that a producer inserted, or tried to. Key names it: ids are the store's to give, and unknown
// where the reply was lost.
type Enqueued struct {
	Key      string  `json:"key"`
	Kind     string  `json:"kind"`            // its type
	Under    string  `json:"under,omitempty"` // the type that it was inserted under, which no agent declares; "": Kind
	ID       int64   `json:"id,omitempty"`
	Commit   Commit  `json:"commit"`
	Cohort   string  `json:"cohort,omitempty"`    // rows of one transaction have the same
	Batch    string  `json:"batch,omitempty"`     // the name of its batch; "": it is of none
	Lock     string  `json:"lock,omitempty"`      // "": it has none
	Sequence string  `json:"sequence,omitempty"`  // "": it has none
	Tenant   string  `json:"tenant,omitempty"`    // "": it has none
	After    []int64 `json:"after,omitempty"`     // rows that it waits for
	AfterAny bool    `json:"after_any,omitempty"` // it runs however they end
	At       time.Duration
	// CommittedAt is when the reply to its COMMIT came; 0: none did, or when was not recorded.
	CommittedAt time.Duration `json:"committed_at,omitempty"`
	Expects     Expects       `json:"expects"`

	Priority int           `json:"priority,omitempty"`
	RunAt    time.Duration `json:"run_at,omitempty"` // how long after the beginning of its transaction it is due
}

// Expects is what a row was made for: how it can end.
type Expects struct {
	// States that it may end in; empty: any that is finished.
	States []string `json:"states,omitempty"`
	// Limit is how many attempts may count, the first one included.
	Limit int `json:"limit"`
	// Guarded: each attempt makes an effect in one transaction with hold or complete, once for its task. The effect is rolled back
	// in the same way by rollbacks.
	Guarded bool `json:"guarded,omitempty"`
	// Child: attempts are processes.
	Child bool `json:"child,omitempty"`
	// CancelRequested: its cancellation was requested, at a time.
	CancelRequested bool `json:"cancel_requested,omitempty"`
	// CancelAt is when the store's answer to that came; 0: none did, or when was not recorded.
	CancelAt time.Duration `json:"cancel_at,omitempty"`
}

// Row is a row as the store has it in the end.
type Row struct {
	ID          int64
	Key         string
	Type        string
	State       string
	Attempt     int
	MaxAttempts int // its own, 0: the type's
	Deferrals   int
	Fence       int64
	Outcome     string
	Error       string
	Result      json.RawMessage // {"id": n, "fence": n}: the attempt that made it
	EverStarted bool
	Round       int
	Batch       int64 // 0: of none
	Live        bool  // in the hot table
	Archived    int   // how often it is in the archive
	Policy      int64 // the hash of that of its last attempt; 0: there was none
	Started     *time.Time
	Finished    *time.Time
}

// Tried is one line of the store's own history of attempts.
type Tried struct {
	ID       int64
	Attempt  int   // its number
	Fence    int64 // of the settlement
	RanFence int64 // of the attempt
	Phase    string
	Outcome  string
	Error    string
	Session  int64
	Policy   int64 // the hash of the one that the attempt began with
}

// EffectRow is one line of the application's own table of effects.
type EffectRow struct {
	Serial    int64 // in the order in which they were inserted
	ID        int64
	Fence     int64
	Phase     string // "rollback": it rolls back another; "": it is made
	RollsBack int64  // the serial of that other one; 0: there was nothing to undo
	Who       string
}

// LimitSample is how many rows of a type ran at one moment, by one snapshot of the store.
type LimitSample struct {
	At      time.Duration
	Kind    string
	Running int
	Waiting bool // more rows of it were due
}

// TenantSample is how many rows of a tenant of a type ran at one moment, by one snapshot of the store.
type TenantSample struct {
	At      time.Duration
	Kind    string
	Tenant  string
	Running int
}

// LeaseSample is how a running row stood at one moment, by one snapshot of the store.
type LeaseSample struct {
	At      time.Duration // monotonic clock, between the question and the answer
	Within  time.Duration // how long the question took
	ID      int64
	Fence   int64
	Left    time.Duration // lease_until - now(), of the store's clock
	Present time.Duration // present_until - now() of its session
}

// Said is one warning of an agent's log that claims something about a row.
type Said struct {
	At    time.Duration
	Who   string
	Text  string // the message
	ID    int64
	Fence int64
}

// Kind is what the checker allows for a type of row.
type Kind struct {
	Name      string
	Child     bool
	Worker    bool          // children that run one attempt after another
	Many      bool          // webhooks whose requests have several attempts
	Heartbeat time.Duration // 0: none
	Stop      time.Duration // what may pass between the end of its window and its lease's end
	Timeout   time.Duration
	Ordered   bool   // one at a time on each agent, claimed in order
	Chunk     bool   // its rows are chunks of a plan, which Leasehold inserts
	Follow    bool   // several of its rows have one key, one after another
	Blocks    bool   // a failure blocks its sequence, until an operator resolves it
	Finish    bool   // its rows are finish tasks, which Leasehold inserts
	Guard     string // how its effects are made: Held, Completed; "": they are not guarded

	Check    time.Duration // how long a check may take that is asked before each run; 0: there is none
	Rollback *Kind         // what attempts of its rollback are allowed; nil: it has none
	Limit    int           // how many attempts of a rollback may count

	Most int // how many run at once at the most, on all agents; 0: no bound
	Each int // the same of each tenant

	Backoff   time.Duration // the longest delay before it is tried again; 0: not known
	Deferrals int           // how often in a row being asked to come later is free; 0: as often as by default, < 0: never
}

// How effects are guarded.
const (
	Held      = "held"      // in a transaction with hold
	Completed = "completed" // in a transaction with complete
)

// History is all of a run.
type History struct {
	Seed     uint64
	Presence time.Duration
	// Slack is how late things may be that nothing is promised of: how long the network may hold a statement or a ping,
	// and how long this machine keeps a process waiting. The checker takes half a second where it is less.
	Slack    time.Duration
	Kinds    map[string]Kind
	Events   []Event // in the order of At
	Enqueued []Enqueued
	Rows     []Row
	Tried    []Tried
	Effects  []EffectRow
	Samples  []LeaseSample
	Limits   []LimitSample
	Tenants  []TenantSample
	Said     []Said
	// Crashes are the times at which the server died without a chance to flush.
	Crashes []time.Duration

	// Deaf are the agents, by name, to which no notifications come: a pooler is in between.
	Deaf []string

	Schedules []Schedule
	Leases    Leases
	Chunks    Chunks

	Followed   []Followed // in the order of At
	FollowRows []FollowRow

	Moves      []Move      // in the order of Serial; none: they were not recorded
	LimitMoves []LimitMove // in the order of Serial, which is that of the rows' moves
	TypeMoves  []TypeMove  // the same
	Ops        []Op
	OrphanOps  []OrphanOp
	Of         Batches

	Graves  []Grave // in the order in which they came
	Mourned bool    // all types have on_failed
}

// Grave is a row that was inserted for a task that has failed (on_failed).
type Grave struct {
	ID    int64 // of the task
	State string
}
