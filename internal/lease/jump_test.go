package lease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// keepsFirst renews as a store does in which another transaction has the first row locked.
func (p *post) keepsFirst(ctx context.Context, s task.Session, rows []store.Renewal) ([]store.Answer, error) {
	answers, err := p.store.Renew(ctx, s, rows[1:])
	return append([]store.Answer{store.Busy}, answers...), err
}

func TestClockJumpSuspendsSweepingAndWritesLeasesAnew(t *testing.T) {
	for what, jump := range map[string]time.Duration{"forward": time.Hour, "back": -time.Hour} {
		t.Run(what, func(t *testing.T) {
			station(t, func(t *testing.T, p *post) {
				pass(presence)
				require.True(t, p.MaySweep())
				_, ever := p.JumpedAgo()
				require.False(t, ever)
				leases := p.hold(t, 1, 2)
				pass(3 * time.Second)
				p.skew.Store(int64(jump))
				pass(4 * time.Second)
				require.False(t, p.MaySweep())
				ago, ever := p.JumpedAgo() // heartbeats report it
				require.True(t, ever)
				require.Less(t, ago, 4*time.Second)
				left := leases[0].KillIn() + lease.KillMargin
				info, err := p.store.Get(t.Context(), leases[0].Task().ID)
				require.NoError(t, err)
				window := policy.Window(task.Run) - 7*time.Second
				if jump < 0 { // what is too long is cut to what a window can be, once the clock stays as it is
					window = policy.Window(task.Run)
				}
				require.WithinDuration(t, time.Now().Add(jump+window), *info.LeaseEnd, 2*time.Second, "what was left before is left after")
				require.LessOrEqual(t, left, window)
				pass(presence - 4*time.Second)
				require.False(t, p.MaySweep())
				pass(4 * time.Second)
				require.True(t, p.MaySweep())
				for _, l := range leases {
					require.Nil(t, l.Cause())
				}
			})
		})
	}
}

// A session vouches for the store's clock once it has seen no jump of it for its whole TTL, and stops with the first heartbeat
// after a jump, before it knows of it.
func TestASessionVouchesForACalmClock(t *testing.T) {
	for what, jump := range map[string]time.Duration{"forward": time.Hour, "back": -time.Hour, "a little": time.Second} {
		t.Run(what, func(t *testing.T) {
			station(t, func(t *testing.T, p *post) {
				pass(presence - time.Second)
				require.Zero(t, p.store.VouchedAt(p.Session()), "it has just begun")
				for range 2 {
					pass(2*lease.Period(presence) + time.Second)
					now := time.Now().Add(time.Duration(p.skew.Load()))
					require.WithinDuration(t, now, p.store.VouchedAt(p.Session()), lease.Period(presence))
					p.skew.Add(int64(jump))
					pass(lease.Period(presence))
					require.Zero(t, p.store.VouchedAt(p.Session()))
					pass(presence - 2*lease.Period(presence))
					require.Zero(t, p.store.VouchedAt(p.Session()), "less than a TTL ago")
				}
			})
		})
	}
}

// A clock that is not read for longer than usual may jump and return meanwhile: a session does not vouch for it.
func TestASessionVouchesForNoClockThatItDidNotWatch(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		pass(presence + 2*lease.Period(presence))
		require.NotZero(t, p.store.VouchedAt(p.Session()))
		p.cut.Store(true)
		p.skew.Add(-int64(4 * time.Second))
		pass(2 * lease.Period(presence))
		p.skew.Add(int64(4 * time.Second))
		p.cut.Store(false)
		pass(lease.Period(presence))
		require.True(t, p.MaySweep(), "no reading shows a jump")
		require.Zero(t, p.store.VouchedAt(p.Session()))
		pass(presence - 2*lease.Period(presence))
		require.Zero(t, p.store.VouchedAt(p.Session()), "less than a TTL ago")
		pass(3 * lease.Period(presence))
		require.NotZero(t, p.store.VouchedAt(p.Session()))
	})
}

// A detached lease has nothing but its window: after the clock was set back, that must not last for as long as it was set back.
func TestADetachedLeaseIsCutWhenTheClockWasSetBack(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		pass(5 * time.Second)
		l := p.hold(t, 1, 1)[0]
		l.Start()
		l.Detach()
		pass(5 * time.Second)
		p.skew.Store(-int64(time.Hour))
		pass(3 * lease.Period(presence))
		info, err := p.store.Get(t.Context(), l.Task().ID)
		require.NoError(t, err)
		require.True(t, info.Detached)
		require.WithinDuration(t, time.Now().Add(-time.Hour+policy.Window(task.Run)), *info.LeaseEnd, 3*lease.Period(presence))
		l.Close()
		p.Release(l)
	})
}

func TestLeasesAreWrittenAnewUntilThatIsDone(t *testing.T) {
	for _, what := range []string{"no answer", "busy rows"} {
		t.Run(what, func(t *testing.T) {
			station(t, func(t *testing.T, p *post) {
				pass(5 * time.Second)
				leases := p.hold(t, 1, 2)
				f := renews(func(context.Context, task.Session, []store.Renewal) ([]store.Answer, error) {
					return nil, errors.New("out of reach")
				})
				if what == "busy rows" {
					f = p.keepsFirst
				}
				p.renews.Store(&f)
				p.skew.Store(int64(time.Hour))
				pass(4 * time.Second)
				p.renews.Store(nil)
				pass(2 * time.Second)
				for _, l := range leases {
					info, err := p.store.Get(t.Context(), l.Task().ID)
					require.NoError(t, err)
					end := time.Now().Add(time.Hour + l.KillIn() + lease.KillMargin)
					require.WithinDuration(t, end, *info.LeaseEnd, 15*time.Second)
				}
			})
		})
	}
}

func TestDriftIsNoJump(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		pass(presence)
		for i := range 3000 {
			p.skew.Store(int64(i) * int64(200*time.Microsecond))
			pass(2 * time.Second)
			require.True(t, p.MaySweep())
		}
	})
}

func TestSmallStepsAddUpToAJump(t *testing.T) {
	for _, step := range []time.Duration{store.JumpTolerance * 2 / 5, -store.JumpTolerance * 2 / 5} {
		station(t, func(t *testing.T, p *post) {
			pass(presence)
			l := p.hold(t, 1, 1)[0]
			for i := range 2 {
				p.skew.Add(int64(step))
				pass(2 * time.Second)
				require.True(t, p.MaySweep(), "%d steps", i+1)
			}
			p.skew.Add(int64(step))
			pass(2 * time.Second)
			require.False(t, p.MaySweep())
			p.Release(l)
		})
	}
}

// The session knows the store's clock before it claims anything.
func TestAJumpIsNoticedFromTheStart(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		l := p.hold(t, 1, 1)[0]
		p.skew.Store(int64(time.Hour))
		pass(2 * time.Second)
		info, err := p.store.Get(t.Context(), l.Task().ID)
		require.NoError(t, err)
		require.True(t, info.LeaseEnd.After(time.Now().Add(time.Hour)), "it is written anew")
	})
}

// A slow response bounds the store's clock only loosely. The fast ones before and after it still show the jump.
func TestASlowAnswerHidesNoJump(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		pass(presence)
		require.True(t, p.MaySweep())
		p.late.Store(int64(1900 * time.Millisecond))
		p.skew.Store(int64(2 * time.Second))
		pass(4 * time.Second)
		p.late.Store(0)
		pass(2 * time.Second)
		require.False(t, p.MaySweep())
	})
}

// By the store's clock a lease may be over as soon as that clock has jumped, until the lease is written again. An agent
// that cannot write it must have stopped by the time the others sweep again: one presence after the jump at the earliest.
func TestPresenceLastsNoLongerUntilLeasesAreWrittenAnew(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		pass(presence)
		l := p.hold(t, 1, 1)[0]
		jumped := p.clock.Now()
		p.skew.Store(int64(time.Hour))
		f := renews(p.keepsFirst)
		p.renews.Store(&f)
		for l.Cause() == nil {
			pass(100 * time.Millisecond)
			require.LessOrEqual(t, p.clock.Now()+l.KillIn()+lease.KillMargin, jumped+presence)
		}
		require.Equal(t, task.Drained, l.Cause().Verdict)
		require.Positive(t, l.KillIn(), "there is time to stop")
		require.False(t, p.Fit())
		p.Release(l)
		pass(2 * time.Second)
		require.True(t, p.Fit(), "nothing is left to be written anew")
	})
}

// What was left is written anew by a statement that may be late: an end that was confirmed since stays.
func TestWritingAnewTakesNothingAway(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		pass(presence)
		l := p.hold(t, 1, 1)[0]
		l.Start()
		defer l.Close()
		pass(time.Second)
		var late []store.Renewal
		f := renews(func(_ context.Context, _ task.Session, rows []store.Renewal) ([]store.Answer, error) {
			late = rows
			return nil, errors.New("out of reach")
		})
		p.renews.Store(&f)
		p.skew.Store(int64(-time.Hour))
		pass(2 * time.Second)
		require.Len(t, late, 1)
		p.renews.Store(nil)
		pass(2 * time.Second)
		_, err := p.store.Renew(t.Context(), p.Session(), []store.Renewal{
			{ID: late[0].ID, Fence: late[0].Fence, Window: late[0].Window + time.Second},
		})
		require.NoError(t, err)
		before, err := p.store.Get(t.Context(), late[0].ID)
		require.NoError(t, err)
		_, err = p.store.Renew(t.Context(), p.Session(), late)
		require.NoError(t, err)
		after, err := p.store.Get(t.Context(), late[0].ID)
		require.NoError(t, err)
		require.Equal(t, before.LeaseEnd, after.LeaseEnd)
		require.WithinDuration(t, time.Now().Add(-time.Hour), *after.LeaseEnd, policy.Window(task.Run), "an hour was taken off")
	})
}

// A claim may have been written before the jump, and its rows come when all leases have been written anew.
func TestRowsOfAClaimThatAJumpOvertookAreNotStarted(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		pass(presence)
		sent := p.clock.Now()
		p.skew.Store(int64(time.Hour))
		pass(2 * time.Second)
		late := p.Open(1, []lease.Row{{Task: claimed(), Policy: &policy}}, sent)[0]
		require.Equal(t, task.Drained, late.Cause().Verdict)
		late.Close()
		p.Release(late)
		next := p.hold(t, 2, 1)[0]
		require.Nil(t, next.Cause())
	})
}

// What a sweep believes is the time of before the jump until the jump is noticed, and nothing from then on.
func TestViewKnowsNoJumpBeforeItIsNoticed(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		require.Zero(t, p.View().Now, "it is new")
		pass(presence)
		for range 50 {
			pass(100 * time.Millisecond)
			require.WithinDuration(t, time.Now(), p.View().Now, 10*time.Millisecond)
		}
		p.skew.Store(int64(time.Hour))
		for p.MaySweep() {
			require.WithinDuration(t, time.Now(), p.View().Now, 10*time.Millisecond)
			pass(100 * time.Millisecond)
		}
		require.Zero(t, p.View().Now)
		pass(presence)
		require.WithinDuration(t, time.Now().Add(time.Hour), p.View().Now, 10*time.Millisecond)
		require.InDelta(t, presence, p.View().Calm, float64(100*time.Millisecond))
	})
}

func TestViewIsNeverAhead(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		pass(5 * time.Second)
		p.slow.Store(int64(700 * time.Millisecond))
		p.skew.Store(int64(time.Hour)) // so that nothing is known but by slow answers
		pass(presence + 3*time.Second)
		for range 50 {
			pass(100 * time.Millisecond)
			now := time.Now().Add(time.Hour)
			require.False(t, p.View().Now.After(now))
			require.WithinDuration(t, now, p.View().Now, 800*time.Millisecond)
		}
	})
}

// Leases that cannot be written anew after a jump of the clock are counted as renewals.
func TestFailedReanchorIsCounted(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		p.hold(t, 1, 1)
		pass(4 * time.Second)
		failed := 0
		fail := renews(func(context.Context, task.Session, []store.Renewal) ([]store.Answer, error) {
			failed++
			return nil, errors.New("out of reach")
		})
		p.renews.Store(&fail)
		p.skew.Store(int64(5 * time.Second))
		pass(lease.Period(presence))
		require.Positive(t, failed)
		require.Equal(t, failed, int(testutil.ToFloat64(p.errors.WithLabelValues("renew"))))
		require.Zero(t, int(testutil.ToFloat64(p.errors.WithLabelValues("present"))), "that write was taken")
		p.renews.Store(nil)
		pass(lease.Period(presence))
	})
}
