package lease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

func TestASessionIsSilentOnceItWasSeenSoForItsTTL(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		pass(lease.SettleIn)
		seen := time.Now()
		beat := func(session task.Session, at time.Time, ttl time.Duration) store.Sighting {
			return store.Sighting{Session: session, SeenAt: at, Presence: ttl}
		}
		silent := func() (list []task.Session) {
			for _, s := range p.View().Silent {
				list = append(list, s.Session)
			}
			return list
		}
		short, long := beat(2, seen, 3*time.Second), beat(3, seen, 6*time.Second)
		p.Watch([]store.Sighting{short, long})
		pass(3*time.Second - time.Millisecond)
		require.Empty(t, silent())
		pass(time.Millisecond)
		require.Equal(t, []store.Sighting{short}, p.View().Silent)

		p.Watch([]store.Sighting{short, beat(3, seen.Add(time.Microsecond), 6*time.Second)})
		pass(4 * time.Second)
		require.Equal(t, []task.Session{2}, silent(), "the other one has written a heartbeat")
		short.SeenAt = seen.Add(-time.Hour) // the store's clock was set back: another heartbeat all the same
		p.Watch([]store.Sighting{short, beat(3, seen.Add(time.Microsecond), 6*time.Second)})
		pass(2 * time.Second)
		require.Equal(t, []task.Session{3}, silent())
		p.Watch(nil)
		require.Empty(t, silent(), "they are forgotten with their rows")
	})
}

// What was written between two jumps is too short afterwards. The session has read no clock in between.
func TestALeaseThatIsTooShortInTheStoreIsWrittenAnew(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		pass(5 * time.Second)
		p.skew.Store(-int64(5 * time.Second))
		l := p.hold(t, 1, 1)[0]
		p.skew.Store(0)
		end := func() time.Duration {
			info, err := p.store.Get(t.Context(), l.Task().ID)
			require.NoError(t, err)
			return time.Until(*info.LeaseEnd)
		}
		require.Less(t, end(), l.EndsIn()-4*time.Second)
		pass(lease.Period(presence))
		require.True(t, p.MaySweep(), "no jump was noticed")
		require.InDelta(t, l.EndsIn(), end(), float64(time.Second))
		require.Nil(t, l.Cause())

		writes := 0
		count := renews(func(context.Context, task.Session, []store.Renewal) ([]store.Answer, error) {
			writes++
			return nil, nil
		})
		p.renews.Store(&count)
		pass(time.Second)
		require.Zero(t, writes, "it is right now")
	})
}

// The first ping makes a lease shorter than its claim did. If the reply to that renewal is lost, the lease is shorter in the store
// than in memory, and rightly so.
func TestALeaseThatWasShortenedIsNotMadeLonger(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		pass(lease.Period(presence) - 100*time.Millisecond)
		l := p.grab(t, 1, lively)
		l.Start()
		defer l.Close()
		lost := renews(func(ctx context.Context, s task.Session, rows []store.Renewal) ([]store.Answer, error) {
			_, _ = p.store.Renew(ctx, s, rows)
			return nil, errors.New("the reply is lost")
		})
		p.renews.Store(&lost)
		l.Ping(store.Ping{})
		pinged := time.Now()
		for range 80 {
			pass(100 * time.Millisecond)
			info, err := p.store.Get(t.Context(), l.Task().ID)
			require.NoError(t, err)
			if time.Since(pinged) > 5*time.Second { // it has been written by then
				require.False(t, info.LeaseEnd.After(pinged.Add(lively.Heartbeat+lively.Stop)), "after %s", time.Since(pinged))
			}
		}
		p.Release(l)
	})
}

// A session that reads the clock between two jumps writes its leases anew at once, too short again. It looks again soon.
func TestAJumpThatIsUndoneIsNoticedSoon(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		pass(5 * time.Second)
		l := p.hold(t, 1, 1)[0]
		shown := p.shown.Load()
		p.skew.Store(-int64(5 * time.Second))
		for p.shown.Load() == shown {
			pass(time.Millisecond)
		}
		pass(100 * time.Millisecond)
		p.skew.Store(0)
		pass(lease.Period(presence)/4 + time.Millisecond)
		info, err := p.store.Get(t.Context(), l.Task().ID)
		require.NoError(t, err)
		require.InDelta(t, l.EndsIn(), time.Until(*info.LeaseEnd), float64(time.Second))
		require.Nil(t, l.Cause())
		shown = p.shown.Load()
		pass(time.Minute)
		require.Less(t, p.shown.Load()-shown, int64(time.Minute/lease.Period(presence))+8, "heartbeats are regular again")
	})
}
