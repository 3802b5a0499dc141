package lease_test

import (
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// What a session declares anew is known to its caller once the store has it: at once, or when the store is back.
func TestDeclare(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		declare := func(timeout time.Duration) (h task.PolicyHash, stored *atomic.Int64) {
			other := policy
			other.Timeout = timeout
			h, stored = other.Hash("a"), &atomic.Int64{}
			p.Declare(store.Agent{
				Name: "another", Presence: time.Hour, Config: "c",
				Policies: map[task.PolicyHash]store.NamedPolicy{h: {Type: "a", Policy: other}},
			}, func() { stored.Add(1) })
			return h, stored
		}
		known := func(h task.PolicyHash) bool {
			found, err := p.store.Policies(t.Context(), []task.PolicyHash{h})
			require.NoError(t, err)
			return len(found) > 0
		}
		h, stored := declare(time.Hour)
		pass(time.Millisecond)
		require.EqualValues(t, 1, stored.Load())
		require.True(t, known(h))

		p.cut.Store(true)
		h, stored = declare(2 * time.Hour)
		pass(5 * time.Second)
		require.Zero(t, stored.Load())
		require.False(t, known(h))
		later, storedLater := declare(3 * time.Hour)
		p.cut.Store(false)
		pass(5 * time.Second)
		require.Zero(t, stored.Load(), "it was declared anew before")
		require.False(t, known(h))
		require.EqualValues(t, 1, storedLater.Load())
		require.True(t, known(later))
		pass(time.Minute)
		require.EqualValues(t, 1, storedLater.Load(), "once")
	})
}

// declare has the session declare a policy with that stop, and returns how often the store has taken it.
func (p *post) declare(config string, stop time.Duration) (stored *atomic.Int64) {
	other := policy
	other.Stop = stop
	stored = new(atomic.Int64)
	p.Declare(store.Agent{
		Config: config, Policies: map[task.PolicyHash]store.NamedPolicy{other.Hash("a"): {Type: "a", Policy: other}},
	}, func() { stored.Add(1) })
	return stored
}

// fitAfter reports whether the session claims after the store has been out of reach for d, and lets it recover.
func (p *post) fitAfter(d time.Duration) bool {
	pass(5 * time.Second)
	p.cut.Store(true)
	pass(d)
	fit := p.Fit()
	p.cut.Store(false)
	pass(5 * time.Second)
	return fit
}

// A session stops its attempts early enough for the longest stop of what it declares and of what runs, and no earlier.
func TestTheLongestStopIsThatOfDeclaredPoliciesAndAttempts(t *testing.T) {
	const patient, outage = 10 * time.Second, 5500 * time.Millisecond
	station(t, func(t *testing.T, p *post) {
		require.True(t, p.fitAfter(outage))
		p.cut.Store(true)
		superseded := p.declare("patient", patient)
		pass(time.Second)
		stored := p.declare("hasty", policy.Stop)
		p.cut.Store(false)
		pass(5 * time.Second)
		require.Zero(t, superseded.Load())
		require.EqualValues(t, 1, stored.Load())
		require.True(t, p.fitAfter(outage), "it was never in force")

		stored = p.declare("patient", patient)
		pass(time.Millisecond)
		require.EqualValues(t, 1, stored.Load())
		require.False(t, p.fitAfter(outage))

		patiently := policy
		patiently.Stop = patient
		l := p.holdBy(t, 1, 1, &patiently)[0]
		p.declare("hasty", policy.Stop)
		require.False(t, p.fitAfter(outage), "an attempt of the declaration before still runs")
		p.Release(l)
		require.True(t, p.fitAfter(outage))
		l = p.holdBy(t, 2, 1, &patiently)[0] // of a claim that was in flight
		p.cut.Store(true)
		pass(6 * time.Second)
		require.False(t, p.Fit())
		require.Error(t, l.Context().Err(), "it is stopped in time")
		p.cut.Store(false)
		p.Release(l)
	})
}

// A declaration that the store refuses, or does not answer, costs the session nothing.
func TestADeclarationThatIsRefusedLeavesTheSessionAlone(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		l := p.hold(t, 1, 1)[0]
		var tries atomic.Int64
		refuse := func(a store.Agent) error {
			switch a.Config {
			case "bad":
				tries.Add(1)
				return errors.New("invalid byte sequence")
			case "hangs":
				tries.Add(1)
				timer := time.NewTimer(1900 * time.Millisecond)
				<-timer.C
				return errors.New("canceled on lock timeout")
			}
			return nil
		}
		p.refuses.Store(&refuse)
		for _, config := range []string{"bad", "hangs"} {
			tries.Store(0)
			stored := p.declare(config, policy.Stop)
			for range 600 {
				pass(time.Second)
				require.True(t, p.Fit())
				require.NoError(t, l.Context().Err())
			}
			require.Zero(t, stored.Load())
			require.InDelta(t, 14, tries.Load(), 3, "about each minute")
			better := p.declare("better", policy.Stop)
			pass(time.Second)
			require.EqualValues(t, 1, better.Load(), "another is not kept waiting")
		}
		stored := p.declare("bad", policy.Stop)
		pass(10 * time.Minute)
		p.refuses.Store(nil)
		pass(time.Minute + 2*time.Second)
		require.EqualValues(t, 1, stored.Load(), "what is refused is tried again")
		pass(10 * time.Minute)
		require.EqualValues(t, 1, stored.Load())
	})
}

// Renewals that are written while a session is declared anew read nothing that the declaration changes.
func TestDeclareBesideRenewals(t *testing.T) {
	station(t, func(t *testing.T, p *post) {
		leases := p.hold(t, 1, 20)
		for i := range 200 {
			go func() {
				for j, l := range leases {
					<-time.After(time.Duration(j) * time.Millisecond)
					l.Ping(store.Ping{Progress: fmt.Appendf(nil, "0.%d", i+1)})
				}
			}()
			p.declare(strconv.Itoa(i), time.Second)
			pass(400 * time.Millisecond)
		}
	})
}
