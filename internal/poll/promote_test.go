package poll_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest/model"
)

func lock(name string) func(*store.EnqueueRequest) {
	return func(r *store.EnqueueRequest) { r.Lock = name }
}

// Rows of a lock follow each other at once, beside others that have none, and nothing is unhealthy about those that wait.
func TestRowsOfALockFollowEachOther(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		r := newRig(t, db, alone, func(r *rig) { r.deeds.do = takes(10 * time.Second) })
		after(time.Second)
		locked, free := r.insert(3, lock("x")), r.insert(1)
		after(5 * time.Second)
		require.Equal(t, 2, r.deeds.now("a"), "one of the lock, and the one without")
		require.NoError(t, r.engine.Health())
		after(27 * time.Second)
		r.all(locked, task.StateSucceeded, 1)
		r.all(free, task.StateSucceeded, 1)
		starts := r.deeds.started()
		require.WithinDuration(t, starts[0].at, starts[len(starts)-1].at, 20*time.Second+100*time.Millisecond)
		r.drain()
	})
}

// Rows that wait for their lock take no places of their type's limit: the places are used by others as long as there are any.
func TestWhatWaitsForALockTakesNoPlace(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		r := newRig(t, db, alone, limit(2), doing(takes(10*time.Second)))
		after(time.Second)
		began := time.Now()
		locked, free := r.insert(6, lock("x")), r.insert(6)
		unused := 0 // samples in which a place is, though there is a row for it
		for range 1200 {
			now := r.deeds.now("a")
			require.LessOrEqual(t, now, 2, "after %s", time.Since(began))
			require.NoError(t, r.engine.Health())
			if now < 2 && r.started(free) < len(free) {
				unused++
			}
			after(100 * time.Millisecond)
		}
		require.Less(t, unused, 20, "of about 300, as each row that ends is followed by the next one a moment later")
		r.all(locked, task.StateSucceeded, 1)
		r.all(free, task.StateSucceeded, 1)
		r.drain()
	})
}

// started returns how many of the rows have been started.
func (r *rig) started(ids []task.ID) (n int) {
	for _, s := range r.deeds.started() {
		if slices.Contains(ids, s.id) {
			n++
		}
	}
	return n
}

// A promotion that fails is repeated, and what another has left behind is found.
func TestPromotionsGoOn(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		r := newRig(t, db, alone, doing(takes(10*time.Second)))
		ids := r.insert(2, lock("x"))
		after(5 * time.Second)
		failures := 3
		r.wire.setHook(func(op string) fault {
			switch {
			case op == "claim" && failures == 3, op == "look":
				return lostCall
			case op == "claim":
				return hung
			case op == "promote" && failures > 0:
				failures--
				return []fault{lostReply, lostCall, lostCall}[failures]
			}
			return none
		})
		after(7 * time.Second)
		require.Zero(t, failures)
		require.True(t, db.LocksArePassedOn())
		r.wire.setHook(nil)
		after(40 * time.Second)
		r.all(ids, task.StateSucceeded, 1)

		r.deeds.do = func(l *lease.Lease, _ *task.Type) task.Outcome { // it completes its own row, and says nothing
			app := db.Begin()
			require.NoError(t, app.Complete(t.Context(), l.Task().ID, l.Task().Fence, nil))
			require.NoError(t, app.Commit(t.Context()))
			<-l.Context().Done()
			return l.Cause().Outcome()
		}
		ids = r.insert(2, lock("x"))
		after(30 * time.Second)
		r.all(ids, task.StateSucceeded, 1)
		r.drain()
	})
}

// Rows follow each other by the session's claims, which pass locks on, and no promotion is needed: not even where the replies of such claims are
// lost, or there is nothing else that a claim would be made for.
func TestClaimsPassLocksOn(t *testing.T) {
	for name, of := range map[string]func(*store.EnqueueRequest){
		"locks":     lock("x"),
		"sequences": func(r *store.EnqueueRequest) { r.Sequence = "x" },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, db *model.Store) {
				r := newRig(t, db, alone, doing(takes(10*time.Second)))
				claims := 0
				r.wire.setHook(func(op string) fault {
					switch op {
					case "promote":
						return lostCall
					case "claim":
						if claims++; claims%5 == 3 {
							return lostReply
						}
					}
					return none
				})
				ids := r.insert(5, of)
				after(55 * time.Second)
				r.all(ids, task.StateSucceeded, 1)
				r.drain()
			})
		})
	}
}

// Where a session claims nothing it leaves no lock to itself: the promoter passes it on in moments.
func TestWithoutClaimsLocksArePassedOn(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		r := newRig(t, db, alone, func(r *rig) { r.deeds.do = takes(10 * time.Second) })
		after(time.Second)
		r.insert(2, lock("x"))
		after(5 * time.Second)
		promotions := 0
		r.wire.setHook(func(op string) fault {
			if op == "claim" {
				return lostCall
			}
			if op == "promote" {
				promotions++
			}
			return none
		})
		after(5*time.Second + 100*time.Millisecond)
		require.True(t, db.LocksArePassedOn())
		require.Positive(t, promotions)
		r.wire.setHook(nil)
		r.drain()
	})
}
