package lease_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/internal/telemetry"
	"github.com/leasehold/leasehold/test/storetest/model"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const presence = 15 * time.Second

// calm is the view of a session that has been there for long.
func calm() store.View { return store.View{Now: time.Now(), Calm: time.Hour} }

// post is a keeper at a store whose clock can be moved and whose line can be cut.
type post struct {
	*lease.Keeper
	store    *model.Store
	skew     atomic.Int64
	cut      atomic.Bool
	slow     atomic.Int64 // how long a session heartbeat takes to the store,
	late     atomic.Int64 // and its reply from there
	clock    lease.Clock
	unleased [][]store.Held
	lost     prometheus.Counter
	errors   *prometheus.CounterVec

	shown    atomic.Int64                                // session heartbeats
	looks    atomic.Int64                                // for cancellations
	cancels  atomic.Pointer[[]store.Cancel]              // in place of the store's, where it is set
	standing atomic.Pointer[func(*store.HeartbeatReply)] // changes what the store says
	renews   atomic.Pointer[renews]                      // in place of the store's, where it is set
	refuses  atomic.Pointer[func(store.Agent) error]     // heartbeats of such agents
}

type renews func(context.Context, task.Session, []store.Renewal) ([]store.Answer, error)

func (p *post) Join(ctx context.Context, a store.Agent) (task.Session, error) {
	return p.store.Join(ctx, a)
}

func (p *post) Present(ctx context.Context, q store.Heartbeat) (store.HeartbeatReply, error) {
	if p.cut.Load() {
		return store.HeartbeatReply{}, errors.New("out of reach")
	}
	on := func(way *atomic.Int64) {
		if d := way.Load(); d > 0 {
			timer := time.NewTimer(time.Duration(d))
			<-timer.C
		}
	}
	on(&p.slow)
	if refuse := p.refuses.Load(); refuse != nil {
		if err := (*refuse)(q.Agent); err != nil {
			return store.HeartbeatReply{}, err
		}
	}
	st, err := p.store.Present(ctx, q)
	p.shown.Add(1)
	if change := p.standing.Load(); change != nil {
		(*change)(&st)
	}
	on(&p.late)
	return st, err
}

// Cancels are the store's, or those that the test sets.
func (p *post) Cancels(ctx context.Context, s task.Session) ([]store.Cancel, error) {
	p.looks.Add(1)
	if p.cut.Load() {
		return nil, errors.New("out of reach")
	}
	if list := p.cancels.Load(); list != nil {
		return *list, nil
	}
	return p.store.Cancels(ctx, s)
}

func (p *post) Renew(ctx context.Context, s task.Session, rows []store.Renewal) ([]store.Answer, error) {
	if f := p.renews.Load(); f != nil {
		return (*f)(ctx, s, rows)
	}
	return p.store.Renew(ctx, s, rows)
}

func (p *post) Leave(ctx context.Context, s task.Session) error {
	if p.cut.Load() {
		return errors.New("out of reach")
	}
	return p.store.Leave(ctx, s)
}

// station runs f with a keeper that has joined and runs.
func station(t *testing.T, f func(t *testing.T, p *post)) {
	synctest.Test(t, func(t *testing.T) {
		p := &post{clock: lease.RunClock()}
		p.store = model.New(func() time.Time { return time.Now().Add(time.Duration(p.skew.Load())) })
		metrics := telemetry.NewMetrics(prometheus.NewRegistry())
		p.lost, p.errors = metrics.LeasesLost, metrics.StoreErrors
		p.Keeper = lease.NewKeeper(lease.KeeperOptions{
			Store: p, Clock: p.clock, Log: slog.New(slog.DiscardHandler), Metrics: metrics,
			Agent: store.Agent{
				Workers: 1,
				Name:    "post", Presence: presence,
				Policies: map[task.PolicyHash]store.NamedPolicy{policy.Hash("a"): {Type: "a", Policy: policy}},
			},
			Unleased: func(_ context.Context, h []store.Held) { p.unleased = append(p.unleased, h) },
		})
		require.NoError(t, p.Keeper.Join(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			defer close(over)
			p.Run(ctx)
		}()
		f(t, p)
		cancel()
		<-over
		require.NoError(t, p.Keeper.Leave(context.Background()))
	})
}

// hold claims n rows and opens leases on them.
func (p *post) hold(t *testing.T, number int64, n int) []*lease.Lease {
	t.Helper()
	return p.holdBy(t, number, n, &policy)
}

// holdBy is hold under a policy.
func (p *post) holdBy(t *testing.T, number int64, n int, policy *task.Policy) []*lease.Lease {
	t.Helper()
	for range n {
		_, err := p.store.Insert(t.Context(), store.EnqueueRequest{Type: "a"})
		require.NoError(t, err)
	}
	sent := p.clock.Now()
	got, err := p.store.Claim(t.Context(), store.Claim{Session: p.Session(), Number: number, Wants: []store.Want{
		{Type: "a", Phase: task.Run, N: n, Window: policy.Window(task.Run), Policy: policy.Hash("a")},
	}})
	require.NoError(t, err)
	require.Len(t, got, n)
	rows := make([]lease.Row, n)
	for i := range got {
		rows[i] = lease.Row{Task: &got[i], Policy: policy}
	}
	return p.Open(number, rows, sent)
}

func TestSessionStaysPresent(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		pass(10 * time.Minute)
		require.True(t, p.Fit())
		stats, err := p.store.Stats(t.Context())
		require.NoError(t, err)
		require.Equal(t, 1, stats.AgentsPresent)
	})
}

// Every session heartbeat that does not reach the store is counted, and nothing else is.
func TestFailedHeartbeatsAreCounted(t *testing.T) {
	failed := func(p *post, op string) int { return int(testutil.ToFloat64(p.errors.WithLabelValues(op))) }
	station(t, func(t *testing.T, p *post) {
		pass(time.Minute)
		require.Zero(t, testutil.CollectAndCount(p.errors), "nothing has failed")
		p.cut.Store(true)
		pass(5 * lease.Period(presence))
		n := failed(p, "present")
		require.GreaterOrEqual(t, n, 5)
		require.LessOrEqual(t, n, 15, "they are repeated, ever less often")
		require.Error(t, p.Keeper.Leave(t.Context()))
		require.Equal(t, 1, failed(p, "leave"))
		p.cut.Store(false)
		pass(time.Minute)
		require.Equal(t, n, failed(p, "present"))
	})
}

func TestNewSessionSweepsNothingAtFirst(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		pass(lease.SettleIn - time.Millisecond)
		require.False(t, p.MaySweep())
		pass(time.Millisecond)
		require.True(t, p.MaySweep())
		require.Equal(t, lease.SettleIn, p.View().Calm, "who is alive for longer than that is spared")
	})
}

func TestOutOfReach(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		leases := p.hold(t, 1, 3)
		pass(4 * time.Second) // a session heartbeat has just been written
		p.cut.Store(true)
		pass(presence - policy.Stop - time.Millisecond)
		require.True(t, p.Fit())
		require.Nil(t, leases[0].Cause())
		pass(time.Millisecond)
		require.False(t, p.Fit(), "nothing new is begun")
		for _, l := range leases {
			require.Equal(t, task.Drained, l.Cause().Verdict)
			require.Equal(t, policy.Stop-lease.KillMargin, l.KillIn(), "and there is time to stop")
		}
		late := p.hold(t, 2, 1)
		require.NotNil(t, late[0].Cause(), "a claim whose reply comes now is not started")
		pass(policy.Stop)
		require.False(t, p.MaySweep(), "an absent agent reaps nothing")
		p.cut.Store(false)
		pass(2 * time.Second)
		require.True(t, p.Fit())
		require.False(t, p.MaySweep(), "nor who has just come back: others may be about to")
		pass(lease.SettleIn)
		require.True(t, p.MaySweep())
	})
}

func TestLongStopDoesNotStopAnAgentThatReachesItsStore(t *testing.T) {
	longStop(t, func(t *testing.T, p *post, k *lease.Keeper, l *lease.Lease) {
		pass(1999 * time.Millisecond)
		require.True(t, k.Fit())
		require.Nil(t, l.Cause())
	})
}

// Nor does one heartbeat that fails: the next one does not wait until it would be too late.
func TestAFailedHeartbeatIsRepeatedSoon(t *testing.T) {
	longStop(t, func(t *testing.T, p *post, k *lease.Keeper, l *lease.Lease) {
		period := lease.Period(presence)
		pass(period - time.Millisecond)
		for range 5 { // each regular one meets a store that is out of reach for a moment
			p.cut.Store(true)
			pass(period / 4)
			p.cut.Store(false)
			pass(3 * period / 4)
		}
		require.Nil(t, l.Cause())
		require.True(t, k.Fit())
	})
}

// longStop runs f with an agent that has a lease whose stop takes longer than presence.
func longStop(t *testing.T, f func(t *testing.T, p *post, k *lease.Keeper, l *lease.Lease)) {
	station(t, func(t *testing.T, p *post) {
		policy := policy
		policy.Stop = time.Minute
		k := lease.NewKeeper(lease.KeeperOptions{
			Store: p, Clock: p.clock, Log: slog.New(slog.DiscardHandler), Metrics: telemetry.NewMetrics(prometheus.NewRegistry()),
			Agent: store.Agent{
				Workers: 1,
				Name:    "long", Presence: presence,
				Policies: map[task.PolicyHash]store.NamedPolicy{policy.Hash("a"): {Type: "a", Policy: policy}},
			},
		})
		require.NoError(t, k.Join(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		over := make(chan struct{})
		go func() {
			defer close(over)
			k.Run(ctx)
		}()
		_, err := p.store.Insert(t.Context(), store.EnqueueRequest{Type: "a"})
		require.NoError(t, err)
		sent := p.clock.Now()
		rows, err := p.store.Claim(t.Context(), store.Claim{Session: k.Session(), Number: 1, Wants: []store.Want{
			{Type: "a", Phase: task.Run, N: 1, Window: policy.Window(task.Run), Policy: policy.Hash("a")},
		}})
		require.NoError(t, err)
		f(t, p, k, k.Open(1, []lease.Row{{Task: &rows[0], Policy: &policy}}, sent)[0])
		cancel()
		<-over
	})
}

// A claim that is opened while a session heartbeat is written is not taken for one that came too late.
func TestOpenedMeanwhileIsNotUnleased(t *testing.T) {
	db := model.New(time.Now)
	k := lease.NewKeeper(lease.KeeperOptions{
		Store: db, Clock: lease.RunClock(), Log: slog.New(slog.DiscardHandler),
		Metrics: telemetry.NewMetrics(prometheus.NewRegistry()), Agent: store.Agent{Name: "post", Presence: presence},
	})
	require.NoError(t, k.Join(t.Context()))
	p := &post{Keeper: k, store: db, clock: lease.RunClock()}
	var done atomic.Bool
	signed := make(chan struct{})
	go func() {
		defer close(signed)
		for !done.Load() {
			unleased, err := k.Sign(context.WithoutCancel(t.Context()))
			if err != nil || len(unleased) > 0 {
				t.Errorf("unleased rows: %v, error: %v", unleased, err)
			}
		}
	}()
	for n := range 3000 {
		l := p.hold(t, int64(n+1), 1)[0]
		l.Close()
		answers, err := db.Settle(t.Context(), k.Session(), []store.Settlement{{
			ID: l.Task().ID, Fence: l.Task().Fence, Phase: task.Run, Attempt: 1,
			Next: task.Transition{State: task.StateSucceeded, Attempt: 1},
		}})
		require.NoError(t, err)
		require.Equal(t, store.Applied, answers[0])
		k.Release(l)
	}
	done.Store(true)
	<-signed
}

func TestTakenRowStopsItsLease(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		leases := p.hold(t, 1, 2)
		leases[1].Close() // over, and its settlement's answer is still out
		require.NoError(t, p.store.Leave(t.Context(), p.Session()))
		other, err := p.store.Join(t.Context(), store.Agent{Name: "other", Presence: time.Hour})
		require.NoError(t, err)
		reaped, err := p.store.Sweep(t.Context(), other, 10, time.Minute, calm)
		require.NoError(t, err)
		require.Len(t, reaped, 2)
		pass(2 * time.Second)
		require.Equal(t, task.Lost, leases[0].Cause().Verdict)
		require.Nil(t, leases[1].Cause())
		require.InDelta(t, 1, testutil.ToFloat64(p.lost), 0, "the answer to the other's settlement says what became of it")
	})
}

func TestPresenceCountsFromBeforeItWasWritten(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		long := policy
		long.Timeout = time.Hour
		row := claimed(func(r *task.Task) { r.LeaseEnd = r.ClaimedAt.Add(long.Window(task.Run)) })
		l := p.Open(1, []lease.Row{{Task: row, Policy: &long}}, p.clock.Now())[0]
		l.Close() // the store knows nothing of it
		p.late.Store(int64(1500 * time.Millisecond))
		for range 60 {
			pass(100 * time.Millisecond)
			stats, err := p.store.Stats(t.Context())
			require.NoError(t, err)
			require.Equal(t, 1, stats.AgentsPresent)
			require.LessOrEqual(t, l.KillIn()+lease.KillMargin, time.Until(p.store.PresentUntil(p.Session())))
		}
		p.late.Store(0)
		pass(4 * time.Second)
	})
}

func TestReleasedLeaseLeavesTheNextOnItsRow(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		first := p.Open(1, []lease.Row{{Task: claimed(), Policy: &policy}}, p.clock.Now())[0]
		first.Close()
		next := p.Open(2, []lease.Row{{Task: claimed(func(r *task.Task) { r.Fence = 3 }), Policy: &policy}}, p.clock.Now())[0]
		next.Close()
		p.Release(first) // its settlement's answer came late
		require.Equal(t, 1, p.Held())
		p.Release(next)
		require.Zero(t, p.Held())
	})
}

func TestReapedRowsAreNotUnleased(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		dead, err := p.store.Join(t.Context(), store.Agent{Name: "dead", Presence: time.Hour})
		require.NoError(t, err)
		_, err = p.store.Insert(t.Context(), store.EnqueueRequest{Type: "a"})
		require.NoError(t, err)
		_, err = p.store.Claim(t.Context(), store.Claim{Session: dead, Number: 1, Wants: []store.Want{
			{Type: "a", Phase: task.Run, N: 1, Window: time.Hour, Policy: policy.Hash("a")},
		}})
		require.NoError(t, err)
		require.NoError(t, p.store.Leave(t.Context(), dead))
		reaped, err := p.store.Sweep(t.Context(), p.Session(), 10, time.Hour, calm)
		require.NoError(t, err)
		require.Len(t, reaped, 1)
		unleased, err := p.Sign(t.Context())
		require.NoError(t, err)
		require.Empty(t, unleased)
	})
}

func TestUnleasedAreReported(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		p.hold(t, 5, 1)
		mine := p.hold(t, 6, 1)
		p.Release(mine[0]) // as if claim 6 had come back empty: the row is unknown to the agent now
		pass(2 * time.Second)
		require.Len(t, p.unleased, 1)
		require.Len(t, p.unleased[0], 1)
		h := p.unleased[0][0]
		require.Equal(t, store.Held{ID: mine[0].Task().ID, Fence: 1, Claim: 6, Left: h.Left}, h)

		// A row of a claim that is not resolved yet is not unleased.
		_, err := p.store.Insert(t.Context(), store.EnqueueRequest{Type: "a"})
		require.NoError(t, err)
		_, err = p.store.Claim(t.Context(), store.Claim{Session: p.Session(), Number: 7, Wants: []store.Want{
			{Type: "a", Phase: task.Run, N: 1, Window: time.Minute, Policy: policy.Hash("a")},
		}})
		require.NoError(t, err)
		pass(2 * time.Second)
		require.Len(t, p.unleased, 2)
		require.Len(t, p.unleased[1], 1)
	})
}
