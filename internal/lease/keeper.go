package lease

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/internal/telemetry"
)

// Keeper keeps all of an agent's leases: it opens them on what a claim took, says to the store that the session is
// there, stops them when it has not been able to for too long, and notices which are its own no longer.
type Keeper struct {
	store   Store
	remote  Remote
	clock   Clock
	agent   Agent // Name, Version and Presence stay; mu is held for the rest
	log     *slog.Logger
	metrics *telemetry.Metrics

	// strays gets rows that the session holds in the store without the agent's knowing: a claim that committed after
	// its reply was given up. It gets them again with each sign of life until they are settled.
	strays func(context.Context, []Held)
	pings  func(task.ID, task.Fence) string // where a task can ping; nil: nowhere
	traces func(task.ID) string             // the trace context of a row without one; nil: none is known
	lives  func(until time.Duration)        // told whenever presence is prolonged; nil: nobody
	halted func()                           // called after leases may have been stopped before their start; nil: never

	writes  writes
	writing sync.Mutex     // held by whoever writes
	aside   sync.WaitGroup // of batched
	asks    chan struct{}  // has an element when the store is to be asked at once how the session stands
	looks   chan struct{}  // has an element when the store is to be asked at once what is to stop
	batched batched        // pings for what others hold

	mu        sync.Mutex
	session   task.Session
	open      map[task.ID]*Lease
	early     map[task.ID]Cancel // of rows of claims whose replies have not been read yet
	through   int64              // claims up to this number are resolved: their rows are open, or released
	until     time.Duration      // local time at which presence runs out, unless it is written again
	noSweep   time.Duration      // local time before which nothing is swept
	offset    offset             // of the store's clock
	calm      time.Duration      // local time since which that has not jumped, as far as the session can tell
	jump      jump               // the last of the store's clock
	draining  bool
	drainedAt time.Duration // local time at which draining began; valid while draining
	done      int64
	longest   time.Duration // the longest stop of any policy that the session has declared
	declaring *declaring    // what Declare said that the store has not heard of yet; nil: it has
	doubted   []*Lease      // that wait for a sign of life to tell them whether pings came elsewhere
	stopper   *time.Timer   // stops leases when presence is about to run out
}

// KeeperOptions are the parts of a Keeper.
type KeeperOptions struct {
	Store   Store
	Clock   Clock
	Agent   Agent
	Log     *slog.Logger
	Metrics *telemetry.Metrics
	Strays  func(context.Context, []Held) // must not block; ctx is that of Run; nil: strays stay until their lease ends
	// Remote takes in what comes by another way; nil: nothing does.
	Remote Remote
	// PingURL is where a task can ping; nil: nowhere.
	PingURL func(task.ID, task.Fence) string
	// Trace is the trace context of a row without one; nil: it has none.
	Trace func(task.ID) string
	// Present is told the local time at which presence runs out, whenever that moves; nil: nobody. It must not block.
	Present func(until time.Duration)
	// Halted is called when leases may have been stopped before their attempts began: what waits for a slot is to be
	// looked through. It must not block; nil: nothing is called.
	Halted func()
}

// SettleIn is how long a session that is new, or back after an absence, leaves the dead alone and judges nobody.
const SettleIn = 3 * time.Second

// NewKeeper makes a Keeper; Join opens its session.
func NewKeeper(o KeeperOptions) *Keeper {
	k := &Keeper{
		store: o.Store, remote: o.Remote, clock: o.Clock, agent: o.Agent, log: o.Log, metrics: o.Metrics, strays: o.Strays,
		pings: o.PingURL, traces: o.Trace, lives: o.Present, halted: o.Halted, open: make(map[task.ID]*Lease),
		writes: newWrites(), asks: make(chan struct{}, 1), looks: make(chan struct{}, 1),
	}
	k.longest = o.Agent.longestStop()
	return k
}

// Join opens the session, and reads the store's clock: a jump is noticed from then on.
func (k *Keeper) Join(ctx context.Context) error {
	sent := k.clock.Now()
	s, err := k.store.Join(ctx, k.describe())
	if err != nil {
		return fmt.Errorf("open a session: %w", err)
	}
	k.mu.Lock()
	k.session = s
	k.setUntil(sent + k.agent.Presence)
	k.mu.Unlock()
	if _, err := k.present(ctx); err != nil {
		return fmt.Errorf("open a session: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calm = k.clock.Now()
	k.noSweep = k.calm + SettleIn
	return nil
}

// Session is the number that Join got.
func (k *Keeper) Session() task.Session {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.session
}

// Open opens leases on the rows of a claim. sent is the local time from before the claim was sent.
func (k *Keeper) Open(claim int64, rows []Row, sent time.Duration) []*Lease {
	leases := make([]*Lease, len(rows))
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, r := range rows {
		leases[i] = New(context.Background(), r.Task, r.Policy, k.clock, sent, k.presentUntil)
		leases[i].warden = k
		leases[i].end += r.Extra
		if k.pings != nil {
			leases[i].url = func() string { return k.pings(r.Task.ID, r.Task.Fence) }
		}
		if k.traces != nil {
			leases[i].trace = func() string { return k.traces(r.Task.ID) }
		}
		k.open[r.Task.ID] = leases[i]
		if c, ok := k.early[r.Task.ID]; ok && c.Fence == r.Task.Fence {
			leases[i].cancelled(c)
			delete(k.early, r.Task.ID)
		}
	}
	k.through = max(k.through, claim)
	var cause *Cause
	switch {
	case !k.fit(): // the reply took so long that presence is about to run out
		cause = &Cause{Verdict: task.Drained, Reason: "the store was out of reach"}
	case k.overtaken(sent):
		cause = &Cause{Verdict: task.Drained, Reason: "the store's clock jumped while it was claimed"}
	default:
		return leases
	}
	for _, l := range leases {
		l.Stop(cause)
	}
	return leases
}

// Row is a claimed row with the policy it was claimed under.
type Row struct {
	Task   *task.Task
	Policy *task.Policy
	Extra  time.Duration // how much longer than the policy's the window is that it was claimed with
}

// Release forgets a lease whose row has been settled, or is another's.
func (k *Keeper) Release(l *Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.open[l.task.ID] == l {
		delete(k.open, l.task.ID)
	}
	k.done++
}

// Fit reports whether new leases would have a future: the session's presence does not run out while they start.
func (k *Keeper) Fit() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.draining && k.fit()
}

// fit reports whether stopping for want of presence is not due yet. k.mu is held.
func (k *Keeper) fit() bool { return k.until-k.clock.Now() > k.stopAhead() }

// MaySweep reports whether the session may judge others: it has been there for long enough (SettleIn), is present, knows
// the store's clock, and that has not jumped lately.
func (k *Keeper) MaySweep() bool { return !k.View().Now.IsZero() }

// View is what the session goes by now when it judges others; zero while it may judge nobody.
func (k *Keeper) View() View {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock.Now()
	if now < k.noSweep || now >= k.until {
		return View{}
	}
	return View{Now: k.offset.at(now), Calm: now - k.calm}
}

// Drain marks the session as one that claims nothing more.
func (k *Keeper) Drain() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.draining {
		k.draining, k.drainedAt = true, k.clock.Now()
	}
}

// StopAll stops every open lease, because the agent stops: each is drained. What has been detached goes on. An attempt
// that had just started when draining began is drained briefly (task.Outcome.Brief), however long it went on since: it may
// have told its own agent to stop.
func (k *Keeper) StopAll(reason string) {
	k.Drain()
	k.mu.Lock()
	since := k.drainedAt
	k.mu.Unlock()
	for _, l := range k.snapshot() {
		if l.Detached() {
			continue
		}
		c := &Cause{Verdict: task.Drained, Reason: reason}
		if l.beganJustBefore(since) {
			c.Brief = true
			c.Reason += ", which it was told " + task.BriefNote
		}
		l.Stop(c)
	}
}

// Held is how many leases are open.
func (k *Keeper) Held() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.open)
}

// held is the lease on that row with that fence; nil where the agent has none.
func (k *Keeper) held(id task.ID, f task.Fence) *Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l := k.open[id]; l != nil && l.task.Fence == f {
		return l
	}
	return nil
}

func (k *Keeper) snapshot() []*Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.leases()
}

// leases lists those that are open. k.mu is held.
func (k *Keeper) leases() []*Lease {
	all := make([]*Lease, 0, len(k.open))
	for _, l := range k.open {
		all = append(all, l)
	}
	return all
}

// presentUntil is the local time at which presence runs out. Leases ask for it without the Keeper's lock held.
func (k *Keeper) presentUntil() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.until
}
