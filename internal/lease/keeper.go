package lease

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/internal/telemetry"
)

// Keeper holds all leases of an agent. It opens them on the rows that a claim took, writes the session's heartbeats and the
// renewals, stops every attempt if the store has been out of reach for so long that the session is about to expire, and
// stops single attempts whose rows the session has lost.
//
// What it believes about the store is always the pessimistic side. The session lasts TTL from the moment before a heartbeat
// was sent, so it ends here no later than in the store. A row counts as lost only if the store says so: an error or a
// missing reply says nothing.
type Keeper struct {
	store   Store
	remote  Remote
	clock   Clock
	agent   store.Agent // Name, Version and Presence stay; mu is held for the rest
	log     *slog.Logger
	metrics *telemetry.Metrics
	pulse   pulse

	// unleased gets rows that the session holds in the store although the agent has no lease on them: their claim committed
	// after the agent had stopped waiting for its reply. It gets them again with each heartbeat until they are settled.
	unleased func(context.Context, []store.Held)
	pings    func(task.ID, task.Fence) string // the ping URL of an attempt; nil: none
	traces   func(task.ID) string             // the trace context of a row without one; nil: none is known
	lives    func(until time.Duration)        // called whenever the session is extended; nil: never
	ordered  func(store.AgentOrder, string)   // called when an operator wants something else of the session; nil: never
	state    func() store.Condition           // what people want to know of the session; nil: nothing
	halted   func()                           // called after leases may have been stopped before their start; nil: never

	writes  writes
	writing sync.Mutex     // held while renewals are written
	aside   sync.WaitGroup // of batched, and lose
	noting  sync.RWMutex   // held while a ping is noted in memory
	ending  bool           // none is any more: pings go to the store, and are answered from there. noting is held
	asks    chan struct{}  // has an element when a heartbeat is due at once: a stall is in doubt, there is something to declare, or the clock has jumped
	looks   chan struct{}  // has an element when the store is to be asked at once which attempts are to stop
	batched batched        // pings for rows of other sessions
	jumped  atomic.Int64   // jump.noticed, for those who must not wait for mu

	mu        sync.Mutex
	session   task.Session
	open      map[task.ID]*Lease
	early     map[task.ID]store.Cancel // of rows of claims whose replies have not been read yet
	through   int64                    // claims up to this number are resolved: their rows are open, or released
	until     time.Duration            // local time at which the session expires, unless a heartbeat extends it
	noSweep   time.Duration            // local time before which the session runs no sweep
	offset    offset                   // of the store's clock
	calm      time.Duration            // local time since which that clock has not jumped, as far as the session knows
	watched   time.Duration            // local time since which that clock was read often enough to vouch for it
	jump      jump                     // the last jump of that clock
	others    map[task.Session]watched // what is known of other sessions
	draining  bool
	drainedAt time.Duration // local time at which draining began; valid while draining
	done      int64
	minute    recent           // of done
	order     store.AgentOrder // what an operator wants of the session, as far as the agent knows
	longest   time.Duration    // no shorter than the longest stop of a declared policy or an open lease
	declaring *declaring       // what Declare set and the store does not have yet; nil: nothing
	doubted   []*Lease         // that wait for a session heartbeat to report whether pings came elsewhere
	stopper   *time.Timer      // stops leases when presence is about to run out
}

// KeeperOptions are the parts of a Keeper.
type KeeperOptions struct {
	Store    Store
	Clock    Clock
	Agent    store.Agent
	Log      *slog.Logger
	Metrics  *telemetry.Metrics
	Unleased func(context.Context, []store.Held) // must not block; ctx is that of Run; nil: they stay until their lease ends
	// Remote handles pings and completions for rows of other sessions; nil: they are refused.
	Remote Remote
	// PingURL returns the ping URL of an attempt; nil: there is none.
	PingURL func(task.ID, task.Fence) string
	// Trace returns the trace context of a row without one; nil: it has none.
	Trace func(task.ID) string
	// Present is called with the local time at which the session expires, whenever that moves; nil: no call. It must not
	// block.
	Present func(until time.Duration)
	// Ordered is called when an operator wants something else of the session than before, with who that is ("": it was not said);
	// an empty order is none. It must not block; nil: no call.
	Ordered func(o store.AgentOrder, by string)
	// Condition returns what people want to know of the session, for each heartbeat. It must not block; nil: no call.
	Condition func() store.Condition
	// Halted is called when leases may have been stopped before their attempts began, so that those still in the queue can
	// be released. It must not block; nil: no call.
	Halted func()
}

// SettleIn is how long a session that is new, or was expired, runs no sweep.
const SettleIn = 3 * time.Second

// NewKeeper returns a Keeper; Join opens its session.
func NewKeeper(o KeeperOptions) *Keeper {
	k := &Keeper{
		store: o.Store, remote: o.Remote, clock: o.Clock, agent: o.Agent, log: o.Log, metrics: o.Metrics, unleased: o.Unleased,
		pings: o.PingURL, traces: o.Trace, lives: o.Present, ordered: o.Ordered, halted: o.Halted, state: o.Condition, open: make(map[task.ID]*Lease),
		writes: newWrites(), asks: make(chan struct{}, 1), looks: make(chan struct{}, 1),
	}
	k.longest = o.Agent.LongestStop()
	k.pulse.clock, k.pulse.log, k.pulse.every = o.Clock, o.Log, Period(o.Agent.Presence)/4
	return k
}

// Join opens the session and reads the store's clock, so that it detects a jump from then on.
func (k *Keeper) Join(ctx context.Context) error {
	sent := k.clock.Now()
	s, err := k.store.Join(ctx, k.describe())
	if err != nil {
		return fmt.Errorf("open a session: %w", err)
	}
	k.mu.Lock()
	k.session = s
	k.calm = k.clock.Now() // the session is open, even if the heartbeat fails: it must not take the clock for calm
	k.noSweep = k.calm + SettleIn
	k.setUntil(sent + k.agent.Presence)
	k.mu.Unlock()
	if _, err := k.present(ctx, nil); err != nil {
		return fmt.Errorf("open a session: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.calm = k.clock.Now()
	k.noSweep = max(k.noSweep, k.calm+SettleIn)
	return nil
}

// Session returns the number of the session that Join opened.
func (k *Keeper) Session() task.Session {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.session
}

// Open opens leases on the rows of a claim. sent is the local time from before the claim was sent, and every window counts
// from it: so no lease lasts longer here than in the store.
//
// A lease may be stopped when it is opened: a cancellation can be read before the claim's own reply (early), the reply can
// come so late that the session is about to expire, and the store's clock can have jumped after the row was written. An attempt
// on a row that the agent still has from before waits for the end of the earlier one (AwaitEarlier).
func (k *Keeper) Open(claim int64, rows []Row, sent time.Duration) []*Lease {
	leases, again := k.openAll(claim, rows, sent)
	if again > 0 {
		k.metrics.LeasesLost.Add(float64(again))
		k.log.Warn("leases lost: rows were taken away, and claimed again", "attempts", again)
		k.halt()
	}
	return leases
}

// openAll is Open. again is the number of rows on which the agent still had something of an earlier attempt.
func (k *Keeper) openAll(claim int64, rows []Row, sent time.Duration) (leases []*Lease, again int) {
	leases = make([]*Lease, len(rows))
	presence := k.presentUntil
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, r := range rows {
		leases[i] = New(context.Background(), r.Task, r.Policy, k.clock, sent, presence)
		leases[i].warden, leases[i].pings, leases[i].traces = k, k.pings, k.traces
		leases[i].end += r.Extra
		if leases[i].follow(k.open[r.Task.ID]) {
			again++
		}
		k.open[r.Task.ID] = leases[i]
		k.stopEarlier(leases[i].stopLength()) // the row may have been claimed under an earlier declaration
		if c, ok := k.early[r.Task.ID]; ok && c.Fence == r.Task.Fence {
			leases[i].cancelled(c)
			delete(k.early, r.Task.ID)
		}
	}
	k.through = max(k.through, claim)
	var cause *Cause
	switch {
	case !k.fit(): // the reply took so long that the session is about to expire
		reason, _ := k.whyUnfit(k.until, k.stopAhead())
		cause = &Cause{Verdict: task.Drained, Reason: reason}
	case k.overtaken(sent):
		cause = &Cause{Verdict: task.Drained, Reason: "the store's clock jumped while it was claimed"}
	default:
		return leases, again
	}
	for _, l := range leases {
		l.Stop(cause)
	}
	return leases, again
}

// Row is a claimed row with the policy it was claimed under.
type Row struct {
	Task   *task.Task
	Policy *task.Policy
	Extra  time.Duration // how much longer its window is than the policy's
}

// Release forgets a lease whose row has been settled, or was lost. If something is left of an earlier attempt of the row, a
// later one has to wait for that.
func (k *Keeper) Release(l *Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.released { // several may find that it is over
		return
	}
	l.released = true
	if k.open[l.task.ID] == l {
		delete(k.open, l.task.ID)
		if e := l.earlier.unended(); e != nil {
			k.open[l.task.ID] = e
		}
	}
	k.done++
}

// Fit reports whether it makes sense to claim: the session is not draining, and does not expire while new attempts start.
func (k *Keeper) Fit() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.draining && k.fit()
}

// fit reports whether the session lasts beyond the time at which attempts must be stopped. k.mu is held.
func (k *Keeper) fit() bool { return k.stopIn() > 0 }

// MaySweep reports whether the session may reap rows of others: it is older than SettleIn, has not expired, knows the
// store's clock, and has seen no jump of it within one TTL.
func (k *Keeper) MaySweep() bool { return !k.View().Now.IsZero() }

// View returns what a sweep sends along; zero while the session may run no sweep.
func (k *Keeper) View() store.View {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock.Now()
	v := k.clockView(now)
	if !v.Now.IsZero() {
		v.Silent = k.silent(now)
	}
	return v
}

// clockView is View without what the session knows of others. k.mu is held.
func (k *Keeper) clockView(now time.Duration) store.View {
	if now < k.noSweep || now >= k.until {
		return store.View{}
	}
	return store.View{Now: k.offset.at(now), Calm: now - k.calm}
}

// StoreNow returns the time by the store's clock, as well as the session knows it; zero before it has read that clock.
func (k *Keeper) StoreNow() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.offset.at(k.clock.Now())
}

// Drain marks the session as draining: Fit is false from now on.
func (k *Keeper) Drain() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.draining {
		k.draining, k.drainedAt = true, k.clock.Now()
	}
}

// StopAll stops every open lease because the agent stops: each is drained. Detached ones continue. An attempt that had just
// started when draining began is marked as brief (task.Outcome.Brief), however long it ran on: it may have reported its own
// agent to stop.
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
			c.Reason += " " + task.BriefNote
		}
		l.Stop(c)
	}
}

// Held returns the number of open leases.
func (k *Keeper) Held() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.open)
}

// held returns the lease on that row with that fence; nil if the agent has none.
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

// leases returns the open leases. k.mu is held.
func (k *Keeper) leases() []*Lease {
	all := make([]*Lease, 0, len(k.open))
	for _, l := range k.open {
		all = append(all, l)
	}
	return all
}

// presentUntil returns the local time at which the session expires. Leases call it without the Keeper's lock held.
func (k *Keeper) presentUntil() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.until
}
