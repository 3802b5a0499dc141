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
	clock   Clock
	agent   Agent
	log     *slog.Logger
	metrics *telemetry.Metrics

	// strays gets rows that the session holds in the store without the agent's knowing: a claim that committed after
	// its reply was given up. It gets them again with each sign of life until they are settled.
	strays func(context.Context, []Held)

	mu       sync.Mutex
	session  task.Session
	open     map[task.ID]*Lease
	through  int64         // claims up to this number are resolved: their rows are open, or given back
	until    time.Duration // local time at which presence runs out, unless it is written again
	noSweep  time.Duration // local time before which nothing is swept
	offset   offset        // of the store's clock
	moved    bool          // the store's clock has jumped, and what is left of the leases is not written anew yet
	draining bool
	done     int64
	stopper  *time.Timer // stops leases when presence is about to run out
}

// KeeperOptions are the parts of a Keeper.
type KeeperOptions struct {
	Store   Store
	Clock   Clock
	Agent   Agent
	Log     *slog.Logger
	Metrics *telemetry.Metrics
	Strays  func(context.Context, []Held) // must not block; ctx is that of Run; nil: strays stay until their lease ends
}

// SettleIn is how long a session that is new, or back after an absence, leaves the dead alone and judges nobody.
const SettleIn = 3 * time.Second

// NewKeeper makes a Keeper; Join opens its session.
func NewKeeper(o KeeperOptions) *Keeper {
	return &Keeper{
		store: o.Store, clock: o.Clock, agent: o.Agent, log: o.Log, metrics: o.Metrics, strays: o.Strays,
		open: make(map[task.ID]*Lease),
	}
}

// Join opens the session.
func (k *Keeper) Join(ctx context.Context) error {
	sent := k.clock.Now()
	s, err := k.store.Join(ctx, k.agent)
	if err != nil {
		return fmt.Errorf("open a session: %w", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.session = s
	k.noSweep = sent + SettleIn
	k.prolong(sent)
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
		leases[i].end += r.Extra
		k.open[r.Task.ID] = leases[i]
	}
	k.through = max(k.through, claim)
	if !k.fit() { // the reply took so long that presence is about to run out
		for _, l := range leases {
			l.Stop(&Cause{Verdict: task.Drained, Reason: "the store was out of reach"})
		}
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

// Fit tells whether new leases would have a future: the session's presence does not run out while they start.
func (k *Keeper) Fit() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.draining && k.fit()
}

// fit tells whether stopping for want of presence is not due yet. k.mu is held.
func (k *Keeper) fit() bool { return k.until-k.clock.Now() > k.stopAhead() }

// MaySweep tells whether the session may judge others: it has been there for SettleIn, is present, and the store's
// clock has not jumped lately.
func (k *Keeper) MaySweep() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock.Now()
	return now >= k.noSweep && now < k.until
}

// Drain marks the session as one that claims nothing more.
func (k *Keeper) Drain() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.draining = true
}

// StopAll stops every open lease for the cause.
func (k *Keeper) StopAll(c *Cause) {
	for _, l := range k.snapshot() {
		l.Stop(c)
	}
}

// Held is how many leases are open.
func (k *Keeper) Held() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.open)
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
