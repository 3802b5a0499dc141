// Package model is the store written to be read: everything in memory under one mutex, each call in the plainest
// words that do it. It is the specification that the real stores are compared with, and a store for tests that are
// about something else. Nothing of it is quick or lasting.
package model

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Store implements lease.Store, lease.Remote, poll.Store, poll.Adopter, ops.Store, ops.Operator, ops.Batches,
// batch.Store, work.Store, schedule.Store and chunk.Store. Make it with New.
type Store struct {
	// Fail, where it is set, is called at each of Failpoints; its error ends the call there, as a crash would. It is
	// not to be changed while calls are under way.
	Fail func(point string) error

	// NumbersOnly: pings by an Application's SQL cannot compare texts and checkpoints. It is not to be changed while
	// calls are under way.
	NumbersOnly bool

	clock func() time.Time

	mu                sync.Mutex
	lastTask          task.ID
	lastSession       task.Session
	lastBatch         task.BatchID
	lastLease         task.Fence
	live              map[task.ID]*Row // the hot table
	archive           map[task.ID]*Row
	follow            map[[2]string]*Row    // followers, by type and key
	attempts          map[task.ID][]Attempt // the history, oldest first
	agents            map[task.Session]*Agent
	policies          map[task.PolicyHash]store.NamedPolicy
	kept              map[task.ID]int // rows that transactions of applications keep where they are, and how many do
	listeners         map[*func(store.News)]struct{}
	batches           map[task.BatchID]*Batch
	operations        []*Operation      // oldest first; those that are over stay
	bulks             []*Bulk           // by id, from 1
	lastBulk          int64             // the bulk change that was carried on last; 0: the next turn is the oldest's
	pauses            []store.TypePause // by type
	audit             []Audit
	redactions        map[string][]string // what the configuration masks that was loaded last, by row type
	activity          map[activityKey]store.ActivityCounts
	named             map[string]*NamedLease
	schedules         map[string]*Schedule
	declarations      []*declared      // by number, from 1
	blocks            []*declaredBlock // likewise
	plans             map[string]*ChunkPlan
	chunkDeclarations []*declaredChunk              // by number, from 1
	limitDeclarations []*declaredLimit              // by number, from 1
	limits            map[string]store.LimitInForce // by row type
	places            []place                       // of attempts that may still be at work
	buckets           map[string]store.Bucket       // of limits with a rate, by name
	tenantBuckets     map[tenantOf]store.Bucket
	chunks            map[task.ID]*Chunk
	tenantTurns       map[lane]turnAt
	preferred         map[task.ID]bool
	holders           map[string]task.ID // of locks: a row that runs, or has ended and was not followed yet
	lockNotes         []lockNote         // oldest first
	turns             turns
	revivedNotes      []revivedNote
	cancelling        map[task.ID]bool // tasks on account of which others have ever been cancelled
}

// Row is a task as it is stored.
type Row struct {
	ID              task.ID
	Type            string
	State           task.State
	Priority        int
	Region          string
	Spilled         bool      // its region is no longer asked for
	FirstDue        time.Time // of a row that is retried: when it was due before; zero: RunAt
	Key             string
	RunAt           time.Time
	Payload         json.RawMessage
	Labels          json.RawMessage // nil: none
	Traceparent     string
	CreatedBy       string
	MaxAttempts     int
	CreatedAt       time.Time
	Batch           task.BatchID    // 0: none
	RollbackPayload json.RawMessage // what its rollback is given instead of the payload; nil: none
	Lock            string          // rows with the same one never run at once; "": none
	Sequence        string          // rows of the type with the same one run one after another; "": none
	Tenant          string          // whose turns it takes; "": none
	Held            task.Hold       // what it waits for, so that no claim looks at it
	After           []task.ID       // that have to end before it starts
	AfterIf         string          // how they have to
	CancelledFor    task.ID         // that did not succeed; 0: it was not cancelled for that
	FailedTask      task.ID         // for which it was inserted (on_failed); its own: its own failure has its row; 0: neither

	Attempt     int
	Deferrals   int
	EverStarted bool
	Fence       task.Fence
	Session     task.Session // the last holder, also once it no longer holds the row, which the state shows
	Ran         task.Session // of a row that is being reaped: the session that its attempt ran in
	Claim       int64        // 0 where no claim holds it
	Policy      task.PolicyHash
	LeaseEnd    time.Time // zero where no session holds it, and nothing of an earlier hold may be at work
	ClaimedAt   time.Time // zero where no session holds it
	Deadline    time.Time // zero: none, or never claimed
	Outcome     task.Verdict
	Error       string
	Result      json.RawMessage // of the run, in the rollback too
	Cause       task.Verdict    // how its forward life ended, of a row that is or was rolled back
	Round       int             // how often an operator has retried it

	// What the task said of itself; it stays until there is something new, also from attempt to attempt.
	Progress   json.RawMessage
	Message    string
	Checkpoint json.RawMessage

	Marks json.RawMessage // what the attempt with the fence in it has reported, where it has to advance; nil: nothing

	CancelRequested   time.Time // zero: not requested while it ran, or no longer requested
	CancelRequestedBy string
	Detached          bool      // the hold depends on its window alone
	PingDue           time.Time // zero, or when the next ping is due that comes by another way than the holder's session

	// Of finished rows only.
	FinishedAt time.Time
	StartedAt  time.Time // of the last attempt; zero: it never started
	Output     string

	first *Attempt // a success at the first try, which is not in the history yet; nil: none
}

// Attempt is one row of the history.
type Attempt struct {
	store.AttemptInfo            // its Fence is the one that the task saw
	Settled           task.Fence // the fence of the settlement; above it where a sweep came between
}

// Agent is a session.
type Agent struct {
	Name         string
	Region       string
	Version      string
	Config       string
	Types        []string
	Redact       map[string][]string // members that its configuration masks, by row type
	Workers      int                 // 0: an observer
	Running      int
	Done, Minute int64
	Draining     bool
	Order        store.AgentOrder // what an operator wants of it
	OrderedBy    string
	StartedAt    time.Time
	SeenAt       time.Time
	PresentUntil time.Time
	CalmAt       time.Time // the last heartbeat, if the session vouched for the clock; zero: it did not
	Idle         bool
}

// New makes an empty store whose clock is the function. It reads the clock once a call.
func New(clock func() time.Time) *Store {
	return &Store{
		clock:      clock,
		live:       map[task.ID]*Row{},
		archive:    map[task.ID]*Row{},
		cancelling: map[task.ID]bool{},
		follow:     map[[2]string]*Row{},
		attempts:   map[task.ID][]Attempt{},
		agents:     map[task.Session]*Agent{},
		redactions: map[string][]string{},
		activity:   map[activityKey]store.ActivityCounts{},
		policies:   map[task.PolicyHash]store.NamedPolicy{},
		kept:       map[task.ID]int{},
		listeners:  map[*func(store.News)]struct{}{},
		batches:    map[task.BatchID]*Batch{},
		named:      map[string]*NamedLease{},
		schedules:  map[string]*Schedule{},
		plans:      map[string]*ChunkPlan{},
		chunks:     map[task.ID]*Chunk{},
		limits:     map[string]store.LimitInForce{},
		buckets:    map[string]store.Bucket{}, tenantBuckets: map[tenantOf]store.Bucket{},
		holders:     map[string]task.ID{},
		turns:       newTurns(),
		tenantTurns: map[lane]turnAt{},
	}
}

// begin is the start of every call: from here to s.mu.Unlock the store is the caller's alone.
func (s *Store) begin(ctx context.Context) (now time.Time, err error) {
	if err := ctx.Err(); err != nil {
		return time.Time{}, err
	}
	s.mu.Lock()
	return s.clock().UTC().Truncate(time.Microsecond), nil
}

// Keep is what an application's own transaction does to a live row that it holds: until release is called no session can
// claim, settle or sweep it. Its lease can be renewed.
func (s *Store) Keep(id task.ID) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept[id]++
	return sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.kept[id]--
	})
}

// present reports whether the session is there. One that was seen in the future was seen before the clock was set back.
func (s *Store) present(session task.Session, now time.Time) bool {
	a := s.agents[session]
	return a != nil && now.Before(a.PresentUntil) && !a.SeenAt.After(now.Add(time.Second))
}

// holds reports whether the session holds the row with that fence.
func (r *Row) holds(session task.Session, fence task.Fence) bool {
	return r != nil && r.State.Running() && r.Fence == fence && r.Session == session
}

// rows lists live rows that match, by id.
func (s *Store) rows(match func(*Row) bool) []*Row {
	var out []*Row
	for _, r := range s.live {
		if match(r) {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *Row) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// inOrder sorts rows as they are claimed: priority, then due time, then id.
func inOrder(rows []*Row) {
	slices.SortFunc(rows, func(a, b *Row) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.RunAt.Compare(b.RunAt), cmp.Compare(a.ID, b.ID))
	})
}

// task is the row as an attempt sees it. Of a request to cancel it learns by its session's presence.
func (r *Row) task() task.Task {
	t := task.Task{
		ID: r.ID, Type: r.Type, State: r.State, Fence: r.Fence,
		Attempt: r.Attempt, MaxAttempts: r.MaxAttempts, Deferrals: r.Deferrals, EverStarted: r.EverStarted,
		Payload: r.Payload, Result: r.Result, Labels: r.Labels, Key: r.Key, Region: r.Region, Spilled: r.Spilled, Priority: r.Priority,
		Traceparent: r.Traceparent, CreatedBy: r.CreatedBy, Checkpoint: r.Checkpoint,
		Policy: r.Policy, CreatedAt: r.CreatedAt, RunAt: r.RunAt, ClaimedAt: r.ClaimedAt, LeaseEnd: r.LeaseEnd,
		Deadline: r.Deadline, Batch: r.Batch, Lock: r.Lock, Sequence: r.Sequence, Tenant: r.Tenant, Round: r.Round, RollbackPayload: r.RollbackPayload, Cause: r.Cause,
		HasAfter: len(r.After) > 0,
	}
	if r.Outcome != "" {
		t.Previous = &task.Previous{Outcome: r.Outcome, Error: r.Error}
	}
	return t
}
