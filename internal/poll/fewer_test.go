package poll_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/storetest/model"
)

// An agent that is left without workers claims nothing ahead for those that it had.
func TestABusyAgentBecomesAnObserver(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		r := newRig(t, db, doing(takes(time.Millisecond)))
		r.insert(20000)
		after(700 * time.Millisecond)
		require.Greater(t, len(r.deeds.started()), 100, "it has a rate")
		d := r.opts.Declarations
		d.Workers = 0
		r.engine.Replace(d)
		for testutil.ToFloat64(r.opts.Metrics.Workers) != 0 {
			after(time.Millisecond)
		}
		after(10 * time.Millisecond) // what runs ends
		claims := r.wire.count("claim")
		for range 100 {
			require.Zero(t, r.engine.Held())
			after(20 * time.Millisecond)
		}
		require.Equal(t, claims, r.wire.count("claim"))
		r.drain()
	})
}

// Rows that an agent with workers could not claim do not make it unhealthy once it has none.
func TestAnObserverDoesNotStarve(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		r := newRig(t, db)
		after(2 * time.Second)
		release := db.Keep(1)
		r.insert(1)
		after(3 * time.Second)
		d := r.opts.Declarations
		d.Workers = 0
		r.engine.Replace(d)
		after(2 * time.Second)
		release()
		after(time.Hour)
		require.NoError(t, r.engine.Health())
		r.drain()
	})
}

// A session whose first heartbeat gets lost is as new as any other: it runs no sweep for SettleIn.
func TestAHalfOpenSessionIsNew(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		heartbeats, began, first := 0, time.Now(), time.Duration(0)
		r := newRig(t, db, func(r *rig) {
			r.wire.hook = func(op string) fault {
				switch {
				case op == "present":
					if heartbeats++; heartbeats == 1 {
						return lostCall
					}
				case op == "sweep" && first == 0:
					first = time.Since(began)
				}
				return none
			}
		})
		r.orphan() // there is something to be swept
		after(10 * time.Second)
		require.GreaterOrEqual(t, first, 3*time.Second)
		r.drain()
	})
}
