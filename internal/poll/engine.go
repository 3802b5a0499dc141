package poll

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasehold/leasehold/internal/activity"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/internal/telemetry"
)

// Executor runs one attempt to its end. It stops when the lease's context ends.
type Executor interface {
	Run(l *lease.Lease, t *task.Type) task.Outcome
	// RunMany runs several attempts of one type and phase in one request, for a target with a task.Batch. It calls ended once for each,
	// with its place in ls, as soon as it has ended, from any goroutine and from several at once. It returns when all have
	// ended and nothing of the request is left.
	RunMany(ls []*lease.Lease, t *task.Type, ended func(i int, o task.Outcome))
}

// Gate limits how many attempts of a type may start, for targets that may be out of reach.
type Gate interface {
	// Room returns how many more attempts may start; negative: no bound; 0: none until wait is over.
	Room(typ string, phase task.Phase) (n int, wait time.Duration)
	// Done reports the end of an attempt.
	Done(typ string, phase task.Phase, id task.ID, o task.Outcome)
	// Release takes back room that was given and not used.
	Release(typ string, phase task.Phase, id task.ID)
}

// Options are the parts and the settings of an Engine.
type Options struct {
	Declarations // to begin with
	Store        Store
	Agent        store.Agent // of the keeper that the engine makes; what it declares is filled in
	Leases       lease.Store
	Executor     Executor
	Gate         Gate // nil: always open
	Clock        lease.Clock
	// Remote and Adopter take in what tasks report by another way than their attempt; nil: nothing is.
	Remote  lease.Remote
	Adopter Adopter
	// Chunks splits chunks of big tables that stall or time out; nil: they are retried as they are.
	Chunks Splitter
	// PingURL returns the ping URL of an attempt; nil: there is none. It is called only after Secret got the store's key for
	// ping URLs.
	PingURL func(task.ID, task.Fence) string
	Secret  func([]byte) error // nil: no call
	// Trace returns the trace context of a row without one; nil: each attempt starts a trace. It is called only after Secret,
	// too.
	Trace   func(task.ID) string
	Tracing *Tracing // nil: no spans are made
	// Present is called with the local time at which the session expires, whenever that moves; nil: no call.
	Present func(until time.Duration)
	// Joined is called once, when the session is open. It must not block; nil: no call.
	Joined func()
	// Ordered is called when an operator has the agent drain, and by whom; "": it was not said. It must not block; nil: no call.
	Ordered func(by string)
	// Draining is called once, when nothing more is started. It must not block; nil: no call.
	Draining func()
	// Batch is called when there may be work for batches: tasks of batches were settled, or an operation may have been
	// requested. It must not block; nil: no call.
	Batch func()
	// Changes is called, now and then, while there are operations or changes of many tasks that have not ended. It must not block; nil: no call.
	Changes func()
	// Removed is called when a type of earlier declarations is declared no more and nothing of it runs, a moment after that. It must
	// not block; nil: no call.
	Removed func(typ string)
	// Condition returns what the executor knows of itself that people want to know; types are named as declared. It must not block;
	// nil: nothing.
	Condition func() store.Condition
	// Ended is called with the outcome of each attempt and the transition of its row; took is negative if nothing was
	// started. It must not block for long; nil: no call.
	Ended func(row *task.Task, out task.Outcome, next task.Transition, took time.Duration)
	// Activity counts attempts where the metrics do; nil: counters of its own.
	Activity *activity.Counters
	Log      *slog.Logger
	Metrics  *telemetry.Metrics
}

// Limits of one engine.
const (
	callTimeout  = 15 * time.Second     // one call to the store; its own statement timeout comes first
	maxClaim     = 2000                 // rows of one claim
	maxAhead     = 2 * maxClaim         // rows held beyond the free slots
	maxSettle    = 2000                 // rows of one settlement
	gatherBelow  = 200                  // rows of a settlement that is small: the next one waits for more outcomes
	gatherFor    = 5 * time.Millisecond // upper bound of that wait
	maxUnsettled = 10_000               // outcomes in memory; claiming stops there
	maxBytes     = 32 << 20             // of payloads claimed ahead, and of outcomes in memory; claiming stops there
	claimBytes   = 8 << 20              // of one claim's documents, and one row more
	maxSweep     = 500                  // rows reaped at once
	reapFor      = 10 * time.Second     // how long the session holds a row that it reaps
	lastCall     = time.Second          // how long a claim or a sweep may still take once nothing more is claimed
	lastTry      = 2 * time.Second      // how long reading back the last claim may take
	settleFor    = 7 * time.Second      // how long shutdown waits for the last settlements
	leaveFor     = 3 * time.Second      // and for closing the session
)

// Engine is the main loop of one agent: it claims due tasks, runs them, settles their outcomes, and reaps expired rows.
type Engine struct {
	o      Options
	log    *slog.Logger
	keeper *lease.Keeper
	slots  *slots
	settle *settler
	wake   *wake
	locks  *promoter
	after  *unblocker
	left   *finder
	paused *pauser
	catch  *catchUp

	current atomic.Pointer[generation] // replaced by the loop, between two turns
	next    atomic.Pointer[generation] // to be the current one; nil: none

	number   int64         // of the last claim
	unread   *unread       // a claim whose reply never came
	latency  ewma          // of claims, seconds
	extra    time.Duration // of the next claim's windows
	size     *stride       // of claims
	memory   *memory
	backoff  backoff // after failed claims
	policies policies
	former   former
	active   active

	workers   sync.WaitGroup // attempts
	aside     sync.WaitGroup // releases of unleased rows
	splits    sync.WaitGroup // of reaped rows
	splitting sync.Mutex     // held while they are split
	turned    atomic.Int64   // local time of the loop's last turn
	pulse     atomic.Int64   // turned, when Pulse was called last
	asking    atomic.Bool    // the loop waits for the store, or to ask it again
	starving  atomic.Int64   // local time since which there are due rows and none can be claimed; 0: not the case
	joined    atomic.Bool
	cordoned  atomic.Bool // an operator has it claim nothing
	claiming  atomic.Bool // a claim has been sent and not answered
	drainOnce sync.Once
	draining  chan struct{}
	ending    chan struct{} // closed once nothing more is claimed
}

// New returns an engine; Run runs it.
func New(o Options) *Engine {
	if o.Gate == nil {
		o.Gate = open{}
	}
	if o.Clock == nil {
		o.Clock = lease.BootClock()
	}
	if o.Batch == nil {
		o.Batch = func() {}
	}
	if o.Changes == nil {
		o.Changes = func() {}
	}
	if o.Activity == nil {
		o.Activity = activity.NewCounters()
	}
	e := &Engine{o: o, log: o.Log, draining: make(chan struct{}), ending: make(chan struct{})}
	e.policies.known = make(map[task.PolicyHash]*task.Policy)
	g := newGeneration(o.Declarations)
	e.paused = newPauser(e)
	e.catch = newCatchUp(e)
	e.use(g)
	e.keeper = lease.NewKeeper(lease.KeeperOptions{
		Store: o.Leases, Clock: o.Clock, Agent: g.describe(o.Agent), Log: o.Log, Metrics: o.Metrics, Unleased: e.unleased,
		Remote: o.Remote, PingURL: o.PingURL, Trace: o.Trace, Present: o.Present, Halted: func() { e.slots.halt() }, Ordered: e.ordered,
		Condition: e.condition,
	})
	e.slots = newSlots(g, o.Clock)
	e.slots.start = e.start
	e.size, e.memory = newStride(maxClaim), newMemory()
	e.settle = newSettler(e)
	e.wake = newWake()
	e.locks = newPromoter(e)
	e.after = newUnblocker(e)
	e.left = newFinder(e)
	e.turned.Store(int64(o.Clock.Now()))
	e.pulse.Store(-1) // no time
	return e
}

// Drain makes the engine claim nothing more, let running attempts finish within Declarations.Drain, release the rest, and
// then Run return. It may be called at any time, and more than once.
func (e *Engine) Drain() {
	e.drainOnce.Do(func() { close(e.draining) })
}

// Run joins and works until Drain or the end of ctx. ctx is the hard stop: it stops running attempts at once, with
// their grace. Either way nothing runs any more when it returns, outcomes are settled or another agent will reap their rows,
// and the session is closed; a store that does not answer delays that by less than 15 s. Its error is that of joining.
func (e *Engine) Run(ctx context.Context) error {
	// Store calls outlive the hard stop, because the outcomes of the stopped attempts are still to be settled.
	calls, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	if err := e.join(ctx); err != nil || !e.joined.Load() {
		return err
	}
	var actors sync.WaitGroup
	work, stopWork := context.WithCancel(calls)
	for _, f := range []func(context.Context){
		e.keeper.Run, e.settle.run, e.locks.run, e.after.run, e.left.run, e.catch.run, e.spill, e.wake.listenTo(e),
	} {
		actors.Go(func() { f(work) })
	}
	e.work(ctx, calls)
	e.settle.flush(settleFor)
	last, cancelLast := context.WithTimeout(calls, lastTry)
	e.keeper.Flush(last) // for detached attempts, which continue
	cancelLast()
	stopWork()
	actors.Wait()
	e.aside.Wait()
	leave, cancelLeave := context.WithTimeout(calls, leaveFor)
	defer cancelLeave()
	if err := e.keeper.Leave(leave); err != nil {
		e.log.Warn("the session could not be closed; it ends when its presence expires", "err", err)
	}
	return nil
}

// join opens the session, and tries again while the store is out of reach. It gives up when ctx ends, if only an operator can make
// the store usable (store.NeedsOperator), and on Drain, then without an error.
func (e *Engine) join(ctx context.Context) error {
	for {
		call, cancel := context.WithTimeout(ctx, callTimeout)
		err := e.open(call)
		cancel()
		if err == nil {
			e.joined.Store(true)
			if e.o.Joined != nil {
				e.o.Joined()
			}
			e.o.Metrics.Outage.Worked(e.log, "join")
			g := e.declarations()
			e.log.Info("agent ready", "session", e.keeper.Session(), "agent", e.o.Agent.Name, "types", len(g.types), "workers", g.Workers)
			return nil
		}
		// Only joining gives up. Once the session has joined every error may pass: a password may rotate, and a failover may
		// lead to a server that is not ready yet.
		if store.NeedsOperator(err) || ctx.Err() != nil {
			return err
		}
		if e.Draining() {
			return nil
		}
		e.o.Metrics.StoreErrors.WithLabelValues("join").Inc()
		e.o.Metrics.Outage.Failed(e.log, "join", err)
		pause(ctx, e.draining, e.backoff.next())
	}
}

// open opens the session, once, and reads the store's key for ping URLs.
func (e *Engine) open(ctx context.Context) error {
	if e.keeper.Session() == 0 {
		if err := e.keeper.Join(ctx); err != nil {
			return err
		}
	}
	if err := e.left.look(ctx); err != nil { // before the first claim: a type may be paused
		return fmt.Errorf("look for what others have left: %w", err)
	}
	if e.o.Secret == nil {
		return nil
	}
	secret, err := e.o.Remote.Secret(ctx)
	if err != nil {
		return fmt.Errorf("read the key for ping URLs: %w", err)
	}
	return e.o.Secret(secret)
}

// work claims, runs and sweeps until Drain or the end of hard. It returns when every attempt is over, and releases the rows that
// have not started.
func (e *Engine) work(hard, calls context.Context) {
	stopped, stopClaims := context.WithCancel(hard)
	defer stopClaims()
	// Once draining begins, a claim or a sweep in flight is cut short. A claim that was cut is read back once.
	asks, dropAsks := context.WithCancel(calls)
	defer dropAsks()
	over := make(chan struct{})
	var ending, sweeps sync.WaitGroup
	ending.Go(func() { e.windDown(hard, stopClaims, dropAsks, over) })
	sweeps.Go(func() { e.sweepLoop(stopped, asks) })
	e.loop(stopped, asks)
	if e.unread != nil {
		last, cancel := context.WithTimeout(calls, lastTry)
		e.readBack(stopped, last)
		cancel()
	}
	sweeps.Wait()
	for _, a := range e.slots.close() {
		e.releaseUnstarted(a, "draining")
	}
	e.workers.Wait() // each attempt ends when it is stopped
	close(over)
	ending.Wait()
}

// windDown waits for Drain or the end of hard, and ends the work then, whatever the store does: nothing more starts,
// and what runs may finish within Declarations.Drain and is stopped after that, or at once where hard has ended. It returns
// when all attempts are stopped or over.
func (e *Engine) windDown(hard context.Context, stopClaims, dropAsks func(), over <-chan struct{}) {
	select {
	case <-e.draining:
	case <-hard.Done():
	}
	close(e.ending)
	e.slots.shut()
	e.keeper.Drain()
	if e.o.Draining != nil {
		e.o.Draining()
	}
	stopClaims()
	defer time.AfterFunc(lastCall, dropAsks).Stop()
	drain := e.declarations().Drain
	if n := e.slots.active(); n > 0 {
		e.log.Info("draining", "running", n, "for", drain)
	}
	timer := time.NewTimer(drain)
	defer timer.Stop()
	select {
	case <-over:
		return
	case <-timer.C:
	case <-hard.Done():
	}
	if n := e.slots.active(); n > 0 {
		e.log.Warn("stopping the running attempts; their rows are released", "running", n)
	}
	e.keeper.StopAll("the agent was stopped")
	<-over // dropAsks may be yet to come
}

// open is the gate that is always open.
type open struct{}

func (open) Room(string, task.Phase) (int, time.Duration)   { return -1, 0 }
func (open) Done(string, task.Phase, task.ID, task.Outcome) {}
func (open) Release(string, task.Phase, task.ID)            {}
