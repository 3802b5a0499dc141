package poll_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/poll"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/internal/telemetry"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// wire is the way to a store, on which calls and replies can be lost.
type wire struct {
	*model.Store
	mu   sync.Mutex
	hook func(op string) fault
	slow func(op string) time.Duration // how long a call is on its way there
	ops  map[string]int
	deaf bool // no notifications
}

// fault is what happens to one call.
type fault int

const (
	none fault = iota
	lostCall
	lostReply
	hung // it ends with the caller's patience
)

var errCut = errors.New("the connection is gone")

func cut[T any](ctx context.Context, w *wire, op string, call func() (T, error)) (T, error) {
	w.mu.Lock()
	w.ops[op]++
	f := none
	if w.hook != nil {
		f = w.hook(op)
	}
	var way time.Duration
	if w.slow != nil {
		way = w.slow(op)
	}
	w.mu.Unlock()
	var zero T
	if way > 0 && !wait(ctx, way) {
		return zero, ctx.Err()
	}
	switch f {
	case lostCall:
		return zero, errCut
	case hung:
		<-ctx.Done()
		return zero, ctx.Err()
	case lostReply:
		if _, err := call(); err != nil {
			return zero, err
		}
		return zero, errCut
	}
	return call()
}

func (w *wire) count(op string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ops[op]
}

// setSlow has the calls of an operation take so long.
func (w *wire) setSlow(op string, d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.slow = func(o string) time.Duration {
		if o == op {
			return d
		}
		return 0
	}
}

func (w *wire) setHook(h func(op string) fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.hook = h
}

func (w *wire) Join(ctx context.Context, a store.Agent) (task.Session, error) {
	return cut(ctx, w, "join", func() (task.Session, error) { return w.Store.Join(ctx, a) })
}

func (w *wire) Present(ctx context.Context, p store.Heartbeat) (store.HeartbeatReply, error) {
	return cut(ctx, w, "present", func() (store.HeartbeatReply, error) { return w.Store.Present(ctx, p) })
}

func (w *wire) Claim(ctx context.Context, c store.Claim) ([]task.Task, error) {
	return cut(ctx, w, "claim", func() ([]task.Task, error) {
		rows, err := w.Store.Claim(ctx, c)
		for i := range rows { // what an agent gets from a database is its own
			rows[i].Payload = bytes.Clone(rows[i].Payload)
		}
		return rows, err
	})
}

func (w *wire) Exchange(ctx context.Context, c store.Claim, ends []store.Settlement) (tasks []task.Task, answers []store.Answer, err error) {
	tasks, err = cut(ctx, w, "exchange", func() (_ []task.Task, err error) {
		tasks, answers, err = w.Store.Exchange(ctx, c, ends)
		return tasks, err
	})
	return tasks, answers, err
}

func (w *wire) Claimed(ctx context.Context, s task.Session, n int64) ([]task.Task, error) {
	return cut(ctx, w, "claimed", func() ([]task.Task, error) { return w.Store.Claimed(ctx, s, n) })
}

func (w *wire) Settle(ctx context.Context, s task.Session, rows []store.Settlement) ([]store.Answer, error) {
	return cut(ctx, w, "settle", func() ([]store.Answer, error) { return w.Store.Settle(ctx, s, rows) })
}

func (w *wire) Holders(ctx context.Context, s task.Session) (store.Holders, error) {
	return cut(ctx, w, "holders", func() (store.Holders, error) { return w.Store.Holders(ctx, s) })
}

func (w *wire) Sweep(
	ctx context.Context, s task.Session, limit int, reapFor time.Duration, view func() store.View,
) ([]store.Reaped, error) {
	return cut(ctx, w, "sweep", func() ([]store.Reaped, error) { return w.Store.Sweep(ctx, s, limit, reapFor, view) })
}

func (w *wire) NextDue(ctx context.Context, c store.Claim) (time.Duration, bool, error) {
	var ok bool
	in, err := cut(ctx, w, "next_due", func() (in time.Duration, err error) {
		in, ok, err = w.Store.NextDue(ctx, c)
		return in, err
	})
	return in, ok, err
}

func (w *wire) Idle(ctx context.Context, s task.Session, idle bool) error {
	_, err := cut(ctx, w, "idle", func() (struct{}, error) { return struct{}{}, w.Store.Idle(ctx, s, idle) })
	return err
}

func (w *wire) Renew(ctx context.Context, s task.Session, rows []store.Renewal) ([]store.Answer, error) {
	return cut(ctx, w, "renew", func() ([]store.Answer, error) { return w.Store.Renew(ctx, s, rows) })
}

func (w *wire) Leave(ctx context.Context, s task.Session) error {
	_, err := cut(ctx, w, "leave", func() (struct{}, error) { return struct{}{}, w.Store.Leave(ctx, s) })
	return err
}

func (w *wire) Unblock(ctx context.Context, most int) (store.Unblocked, error) {
	return cut(ctx, w, "unblock", func() (store.Unblocked, error) { return w.Store.Unblock(ctx, most) })
}

func (w *wire) Predecessors(ctx context.Context, id task.ID) (task.After, error) {
	return cut(ctx, w, "predecessors", func() (task.After, error) { return w.Store.Predecessors(ctx, id) })
}

func (w *wire) Promote(ctx context.Context, most int) (store.Promoted, error) {
	return cut(ctx, w, "promote", func() (store.Promoted, error) { return w.Store.Promote(ctx, most) })
}

func (w *wire) Spill(ctx context.Context, region string, types []store.Spill) (int, error) {
	return cut(ctx, w, "spill", func() (int, error) { return w.Store.Spill(ctx, region, types) })
}

func (w *wire) Left(ctx context.Context) (store.Left, error) {
	return cut(ctx, w, "look", func() (store.Left, error) { return w.Store.Left(ctx) })
}

func (w *wire) Stats(ctx context.Context) (store.Stats, error) {
	return cut(ctx, w, "stats", func() (store.Stats, error) { return w.Store.Stats(ctx) })
}

func (w *wire) Listen(ctx context.Context, wake func(store.News)) error {
	if w.deaf {
		<-ctx.Done()
		return nil
	}
	return w.Store.Listen(ctx, wake)
}

// deeds records what an executor was asked to do.
type deeds struct {
	mu      sync.Mutex
	starts  []start
	of      map[string]int // starts of each type
	running map[string]int
	most    map[string]int
	do      func(l *lease.Lease, t *task.Type) task.Outcome

	requests []request
	doMany   func(ls []*lease.Lease, ended func(i int, o task.Outcome))
}

type start struct {
	id    task.ID
	fence task.Fence
	at    time.Time
}

func (d *deeds) Run(l *lease.Lease, t *task.Type) task.Outcome {
	l.Start()
	d.mu.Lock()
	d.starts = append(d.starts, start{l.Task().ID, l.Task().Fence, time.Now()})
	d.of[t.Name]++
	for _, k := range []string{t.Name, ""} {
		d.running[k]++
		d.most[k] = max(d.most[k], d.running[k])
	}
	do := d.do
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.running[t.Name]--
		d.running[""]--
	}()
	return do(l, t)
}

// RunMany runs the attempts at once, each as Run does, unless the test says otherwise.
func (d *deeds) RunMany(ls []*lease.Lease, t *task.Type, ended func(i int, o task.Outcome)) {
	d.mu.Lock()
	d.requests = append(d.requests, request{of: rows(ls), at: time.Now()})
	doMany := d.doMany
	d.mu.Unlock()
	if doMany != nil {
		doMany(ls, ended)
		return
	}
	var all sync.WaitGroup
	for i, l := range ls {
		all.Go(func() { ended(i, d.Run(l, t)) })
	}
	all.Wait()
}

func rows(ls []*lease.Lease) (ids []task.ID) {
	for _, l := range ls {
		ids = append(ids, l.Task().ID)
	}
	return ids
}

// request is one call of RunMany.
type request struct {
	of []task.ID
	at time.Time
}

func (d *deeds) started() []start {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]start(nil), d.starts...)
}

// now returns how many attempts of a type run.
func (d *deeds) now(typ string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.running[typ]
}

func succeed(*lease.Lease, *task.Type) task.Outcome { return task.Outcome{Verdict: task.Succeeded} }

// takes succeeds after d, or ends with the lease's cause. It sets no timer that is due at once: those of a bubble that are waited for on several
// processors run there, in one context of the race detector, which crashes (Go 1.26, runtime.timer.maybeRunChan).
func takes(d time.Duration) func(*lease.Lease, *task.Type) task.Outcome {
	if d == 0 {
		return succeed
	}
	return func(l *lease.Lease, _ *task.Type) task.Outcome {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return task.Outcome{Verdict: task.Succeeded}
		case <-l.Context().Done():
			return l.Cause().Outcome()
		}
	}
}

// rig is one agent's engine on a store, in a bubble of virtual time.
type rig struct {
	t      *testing.T
	store  *model.Store
	wire   *wire
	deeds  *deeds
	engine *poll.Engine
	opts   poll.Options
	cancel context.CancelFunc
	over   chan struct{}
}

func declare(name string, workers int) *task.Type {
	return &task.Type{Name: name, Workers: workers, Policy: task.Policy{
		Timeout: 20 * time.Second, Stop: task.StopLength(task.DefaultGrace),
		Retry: task.Retry{
			Limit: 2, Backoff: task.Exponential, Min: time.Second, Max: time.Minute,
			On: task.DefaultOn(), MaxDeferrals: 100,
		},
	}}
}

func newRig(t *testing.T, db *model.Store, change ...func(*rig)) *rig {
	r := &rig{
		t: t, store: db, wire: &wire{Store: db, ops: map[string]int{}}, over: make(chan struct{}),
		deeds: &deeds{of: map[string]int{}, running: map[string]int{}, most: map[string]int{}, do: succeed},
	}
	r.opts = poll.Options{
		Store: r.wire, Leases: r.wire, Executor: r.deeds,
		Agent: store.Agent{Name: "rig", Presence: 15 * time.Second},
		Declarations: poll.Declarations{
			Types: []*task.Type{declare("a", 0), declare("b", 2)}, Workers: 4, Poll: time.Second, Drain: 20 * time.Second,
		},
		Clock: lease.RunClock(),
		Log:   slog.New(slog.DiscardHandler), Metrics: telemetry.NewMetrics(prometheus.NewRegistry()),
	}
	for _, c := range change {
		c(r)
	}
	r.engine = poll.New(r.opts)
	ctx, cancel := context.WithCancel(t.Context())
	r.cancel = cancel
	go func() {
		defer close(r.over)
		if err := r.engine.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	}()
	return r
}

// alone has the engine declare one type only, which gets every slot.
func alone(r *rig) { r.opts.Types = r.opts.Types[:1] }

// drain ends the engine in good order.
func (r *rig) drain() {
	r.engine.Drain()
	<-r.over
	r.cancel()
}

func (r *rig) insert(n int, change ...func(*store.EnqueueRequest)) []task.ID {
	r.t.Helper()
	rows := make([]store.EnqueueRequest, n)
	for i := range rows {
		rows[i].Type = "a"
		for _, c := range change {
			c(&rows[i])
		}
	}
	ids, err := r.store.Insert(r.t.Context(), rows...)
	require.NoError(r.t, err)
	return ids
}

func (r *rig) get(id task.ID) *store.TaskInfo {
	r.t.Helper()
	info, err := r.store.Get(r.t.Context(), id)
	require.NoError(r.t, err)
	return info
}

// all asserts the state of each row, and that each was started so often.
func (r *rig) all(ids []task.ID, state task.State, starts int) {
	r.t.Helper()
	count := map[task.ID]int{}
	for _, s := range r.deeds.started() {
		count[s.id]++
	}
	for _, id := range ids {
		require.Equal(r.t, state, r.get(id).State, "task %d", id)
		require.Equal(r.t, starts, count[id], "starts of task %d", id)
	}
}

// bubble runs f in virtual time on a fresh store.
func bubble(t *testing.T, f func(t *testing.T, store *model.Store)) {
	synctest.Test(t, func(t *testing.T) { f(t, model.New(time.Now)) })
}

// wait waits for d; false: ctx ended first.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// after lets d of virtual time pass and everything come to rest.
func after(d time.Duration) {
	timer := time.NewTimer(d)
	<-timer.C
	synctest.Wait()
}

func of(typ string) func(*store.EnqueueRequest) {
	return func(r *store.EnqueueRequest) { r.Type = typ }
}

func in(d time.Duration) func(*store.EnqueueRequest) {
	return func(r *store.EnqueueRequest) { r.In = d }
}
