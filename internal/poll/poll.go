package poll

import (
	"context"
	"time"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// unread is a claim whose reply never came. It may have taken rows, so it is read back before the next one is sent: the
// session would otherwise hold rows that no attempt runs, until their leases expire.
type unread struct {
	number int64
	under  *generation
	sent   time.Duration
	extra  time.Duration // of its windows
}

// loop claims until stopped ends. calls bounds its calls to the store. A claim whose reply did not come may be left in
// e.unread.
func (e *Engine) loop(stopped, calls context.Context) {
	idle := idleness{e: e}
	for stopped.Err() == nil {
		e.turned.Store(int64(e.o.Clock.Now()))
		if e.unread != nil && !e.readBack(stopped, calls) {
			continue
		}
		if e.adopt() {
			idle.looked, idle.misses = false, 0
		}
		e.forget()
		if e.cordoned.Load() {
			e.rests(stopped, calls, &idle)
			continue
		}
		idle.look()
		e.returnQueued()
		if in := e.memory.turn(e.o.Clock.Now()); in > 0 {
			e.wake.by(e.o.Clock.Now() + in)
		}
		if e.exchange(calls); e.unread != nil {
			e.waitToAsk(stopped)
			continue
		}
		asks, pass := e.asks()
		e.start() //nolint:contextcheck // a share may have grown; attempts outlive the turn
		if len(asks) == 0 || !e.keeper.Fit() {
			e.slots.notAsked(asks)
			e.locks.leave(pass)
			idle.rest(stopped, calls)
			continue
		}
		got := e.claim(calls, asks, pass)
		if e.unread != nil {
			e.waitToAsk(stopped)
			continue
		}
		e.backoff.reset()
		if pass == nil || !pass.Only || pass.Promoted.Rows > 0 {
			idle.claimed(calls, got)
		}
	}
}

// asks returns what to claim now, and how locks and turns are to be passed on by that: not at all, if no rows of this session have left any.
// Rows of types of which nothing was due may be passed some.
func (e *Engine) asks() ([]ask, *store.Pass) {
	latency, most := time.Duration(e.latency.value*float64(time.Second)), min(e.settle.room(), e.size.rows)
	asks := e.slots.wants(latency, most, e.room)
	if !e.locks.noted.Swap(false) {
		return asks, nil
	}
	only := len(asks) == 0
	e.slots.notAsked(asks)
	e.slots.forgetExhausted()
	return e.slots.wants(latency, most, e.room), &store.Pass{Most: promoteMost, Only: only}
}

// reply is what a claim brought.
type reply struct {
	rows int  // that it took
	free int  // of these, rows of types without a limit
	full bool // there may be more
	held bool // limits hold all that was asked for
}

// claim sends one claim and starts the rows that can start. After an error it is unknown whether the claim committed, so it stays in
// e.unread and no row of it starts.
func (e *Engine) claim(calls context.Context, asks []ask, pass *store.Pass) (got reply) {
	r := e.newClaim(asks)
	r.claim.Pass = pass
	var tasks []task.Task
	e.claiming.Store(true)
	defer e.claiming.Store(false)
	err := e.ask(calls, "claim", func(ctx context.Context) (err error) {
		tasks, err = e.o.Store.Claim(ctx, r.claim)
		return err
	})
	if pass != nil {
		e.locks.passed(pass.Promoted, err)
	}
	if err != nil {
		e.failed(r)
		return reply{}
	}
	e.read(r, tasks) //nolint:contextcheck // leases outlive the call that claimed them
	each, rooms := countEach(asks, tasks), r.claim.Limited
	limited, short := limits(asks, rooms, tasks)
	for i, a := range asks {
		e.slots.setExhausted(a.source, !*r.cut && !short[i] && each[i] < a.n)
	}
	got = reply{rows: len(tasks), full: *r.cut || len(tasks) == r.rows}
	got.held, got.free = e.slots.noteLimits(asks, each, rooms, limited, short, e.o.Clock.Now())
	return got
}

// readBack asks which rows the unread claim took. It returns false, after a pause, if the store did not answer.
func (e *Engine) readBack(stopped, calls context.Context) bool {
	u := *e.unread
	var tasks []task.Task
	err := e.ask(calls, "claimed", func(ctx context.Context) (err error) {
		tasks, err = e.o.Store.Claimed(ctx, e.keeper.Session(), u.number)
		return err
	})
	if err != nil {
		e.waitToAsk(stopped)
		return false
	}
	e.unread = nil
	e.take(u.under, u.number, tasks, u.sent, u.extra) //nolint:contextcheck // as above
	return true
}

// extraWindow returns how much longer than in the policies the windows of the next claim are, if the last claim took so long.
// A lease counts from before its claim is sent: on a slow store it would be too late to start by the time that the reply is
// read, each time again.
func extraWindow(took time.Duration) time.Duration {
	if took < task.StartWait/2 {
		return 0
	}
	return min(2*took, callTimeout)
}

// take opens leases on what a claim took under a generation and queues the rows for the free slots.
func (e *Engine) take(g *generation, number int64, tasks []task.Task, sent, extra time.Duration) {
	now := e.o.Clock.Now()
	tasks = inTurns(tasks, func(t *task.Task) int { return g.byName[t.Type].typ.Weights[t.Tenant] })
	rows := make([]lease.Row, len(tasks))
	for i := range tasks {
		row := tasks[i] // of its own: an attempt that takes long must not keep the documents of all rows that were claimed with it
		rows[i] = lease.Row{Task: &row, Policy: &g.byName[row.Type].typ.Policy, Extra: extra}
	}
	attempts := make([]*attempt, len(tasks))
	for i, l := range e.keeper.Open(number, rows, sent) {
		attempts[i] = &attempt{lease: l, declared: g.byName[tasks[i].Type], got: now}
	}
	if e.o.Tracing != nil {
		e.traceClaim(attempts, sent)
	}
	e.o.Metrics.Claims.Add(float64(len(tasks)))
	e.active.taken.Add(int64(len(tasks)))
	bytes := 0
	for i := range tasks {
		bytes += documents(&tasks[i])
	}
	e.memory.claimed(bytes, now)
	e.slots.push(attempts)
	e.active.asked.Store(false)
	e.start()
}

// documents returns the size of a row's documents, in bytes.
func documents(t *task.Task) int {
	return len(t.Payload) + len(t.RollbackPayload) + len(t.Result) + len(t.Checkpoint)
}

// returnQueued releases the queued rows that must not start any more, and wakes the loop before the next one must be released.
func (e *Engine) returnQueued() {
	now := e.o.Clock.Now()
	back, next := e.slots.takeBack(now, func(l *lane, phase task.Phase) bool { return e.room(l, phase) == 0 })
	for _, a := range back {
		e.releaseUnstarted(a, "it could not start in time")
	}
	if e.slots.held() > e.slots.active() {
		e.wake.by(now + next)
	}
}

// room returns how many more attempts of a lane's phase the breakers of its target and of its check let start: none, where it is paused.
func (e *Engine) room(l *lane, phase task.Phase) int {
	if e.paused.has(l.typ) {
		return 0 // the loop is woken when the type is resumed
	}
	n, wait := e.o.Gate.Room(l.typ.Name, phase)
	if phase == task.Run && l.typ.Check != nil {
		if m, longer := e.o.Gate.Room(l.typ.Name, task.Check); m >= 0 && (n < 0 || m <= n) {
			n, wait = m, max(wait, longer)
		}
	}
	if n == 0 {
		e.wake.by(e.o.Clock.Now() + wait)
	}
	return n
}

// ask is call for the loop itself. The loop makes no turn meanwhile, which health checks must not take for a hang.
func (e *Engine) ask(calls context.Context, op string, f func(context.Context) error) error {
	e.turned.Store(int64(e.o.Clock.Now()))
	e.asking.Store(true)
	defer e.asking.Store(false)
	return e.call(calls, op, f)
}

// waitToAsk has the loop wait before it asks the store again, longer each time.
func (e *Engine) waitToAsk(stopped context.Context) {
	e.turned.Store(int64(e.o.Clock.Now()))
	e.asking.Store(true)
	defer e.asking.Store(false)
	pause(stopped, nil, e.backoff.next())
}

// call makes one bounded, measured call to the store. Metrics.Outage logs failures, so that an outage is few lines.
func (e *Engine) call(calls context.Context, op string, f func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(calls, callTimeout)
	defer cancel()
	start := e.o.Clock.Now()
	err := f(ctx)
	e.o.Metrics.StoreDuration.WithLabelValues(op).Observe((e.o.Clock.Now() - start).Seconds())
	switch {
	case err == nil:
		e.o.Metrics.Outage.Worked(e.log, op)
	case calls.Err() != nil: // interrupted, not failed
	default:
		e.o.Metrics.StoreErrors.WithLabelValues(op).Inc()
		e.o.Metrics.Outage.Failed(e.log, op, err)
	}
	return err
}
