package poll_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/exec"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/poll"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// declarations are those of the rig with other types.
func (r *rig) declarations(types ...*task.Type) poll.Declarations {
	d := r.opts.Declarations
	d.Types = types
	return d
}

// patient is type a with another timeout and another backoff.
func patient() *task.Type {
	t := declare("a", 0)
	t.Policy.Timeout, t.Policy.Retry.Min = time.Minute, 30*time.Second
	return t
}

// What is replaced holds for the next claim, and not for what runs: it keeps policy, target and backoff.
func TestReplacedDeclarationsHoldForTheNextClaim(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		var mu sync.Mutex
		seen := map[task.ID]*task.Type{}
		release := make(chan struct{})
		r := newRig(t, store, doing(func(l *lease.Lease, typ *task.Type) task.Outcome {
			mu.Lock()
			seen[l.Task().ID] = typ
			mu.Unlock()
			<-release
			return task.Outcome{Verdict: task.Failed, Error: "because"}
		}))
		before, after1 := r.opts.Types[0], patient()
		old, b := r.insert(1)[0], r.insert(1, of("b"))[0]
		orphan := r.insert(1, of("c"))[0]
		after(100 * time.Millisecond)

		c := declare("c", 0)
		r.engine.Replace(r.declarations(after1, c))
		after(100 * time.Millisecond)
		young := r.insert(1)[0]
		gone := r.insert(1, of("b"))[0]
		after(2 * time.Second)
		mu.Lock()
		require.Equal(t, map[task.ID]*task.Type{old: before, b: r.opts.Types[1], young: after1, orphan: c}, seen)
		mu.Unlock()
		require.Equal(t, task.StatePending, r.get(gone).State, "its type is declared no more")

		close(release)
		after(100 * time.Millisecond)
		for id, least := range map[task.ID]time.Duration{old: 0, young: 20 * time.Second} {
			in := time.Until(r.get(id).RunAt)
			require.GreaterOrEqual(t, in, least, "task %d", id)
			require.LessOrEqual(t, in, least+20*time.Second, "task %d", id)
		}
		require.Equal(t, task.StateRetryPending, r.get(b).State, "it was settled by its own policy")
		r.drain()
	})
}

// eras makes declarations of which each part says which generation it belongs to.
func eras(n int) poll.Declarations {
	d := poll.Declarations{
		Workers: 4, Poll: time.Second, Drain: 20 * time.Second,
		Region: fmt.Sprintf("region %d", n), Config: fmt.Sprintf("config %d", n),
	}
	for _, name := range []string{"a", "b"} {
		t := declare(name, 0)
		t.Policy.Timeout = time.Minute + time.Duration(n)*time.Second
		t.Policy.Deadline = time.Hour + time.Duration(n)*time.Second
		t.Rollback, t.Target = nil, &task.Webhook{Method: d.Config}
		if n%2 == 1 {
			t.Aliases = []string{"x" + name}
		}
		d.Types = append(d.Types, t)
	}
	return d
}

// watched looks at the claims of an engine whose declarations are eras.
type watched struct {
	*wire
	check func(ctx context.Context, c store.Claim)
}

func (w watched) Claim(ctx context.Context, c store.Claim) ([]task.Task, error) {
	w.check(ctx, c)
	return w.wire.Claim(ctx, c)
}

// However often declarations are replaced, each claim is of one generation, whose policies the store has; and each
// attempt has policy, target and deadline of the generation that its row was claimed under. No reply that is lost and
// read back later changes that.
func TestNothingIsOfTwoGenerations(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		generation := func(timeout time.Duration) int { return int((timeout - time.Minute) / time.Second) }
		var mu sync.Mutex
		claims, ran := map[int]int{}, map[int]int{}
		check := func(ctx context.Context, c store.Claim) {
			var n int
			_, err := fmt.Sscanf(c.Region, "region %d", &n)
			assert.NoError(t, err)
			mu.Lock()
			claims[n]++
			mu.Unlock()
			d := eras(n)
			types := map[string]*task.Type{}
			for _, typ := range d.Types {
				for _, name := range typ.Names() {
					types[name] = typ
				}
			}
			for _, w := range c.Wants {
				typ := types[w.Type]
				if !assert.NotNil(t, typ, "%s in generation %d", w.Type, n) {
					continue
				}
				assert.Equal(t, typ.Policy.Hash(typ.Name), w.Policy)
				assert.GreaterOrEqual(t, w.Window, typ.Policy.Window(w.Phase))
				assert.Equal(t, typ.Policy.Deadline, w.Deadline)
				stored, err := db.Policies(ctx, []task.PolicyHash{w.Policy})
				assert.NoError(t, err)
				assert.Len(t, stored, 1, "the reaper must find the policy of a row that was claimed")
			}
		}
		r := newRig(t, db, func(r *rig) {
			r.opts.Declarations = eras(0)
			r.opts.Store = watched{r.wire, check}
			r.deeds.do = func(l *lease.Lease, typ *task.Type) task.Outcome {
				n := generation(typ.Policy.Timeout)
				mu.Lock()
				ran[n]++
				mu.Unlock()
				row := l.Task()
				assert.Equal(t, typ.Policy.Timeout, l.Policy().Timeout)
				assert.Equal(t, typ.Policy.Hash(typ.Name), row.Policy)
				assert.Equal(t, &task.Webhook{Method: fmt.Sprintf("config %d", n)}, typ.Target)
				assert.LessOrEqual(t, row.Deadline.Sub(row.RunAt), typ.Policy.Deadline, "that of its first claim")
				return takes(30*time.Millisecond)(l, typ)
			}
		})
		lost := 0
		r.wire.setHook(func(op string) fault {
			switch {
			case op == "claim":
				if lost++; lost%5 == 0 {
					return lostReply
				}
			case op == "claimed" && lost%2 == 0:
				lost++
				return lostCall
			}
			return none
		})
		var ids []task.ID
		for n := range 40 {
			ids = append(ids, r.insert(3)...)
			ids = append(ids, r.insert(3, of("b"))...)
			if n > 0 {
				r.engine.Replace(eras(n))
			}
			after(time.Duration(n%7) * 150 * time.Millisecond)
		}
		r.wire.setHook(nil)
		after(30 * time.Second)
		r.all(ids, task.StateSucceeded, 1)
		r.drain()
		require.Greater(t, len(claims), 10, "generations that claimed: %v", claims)
		require.Greater(t, len(ran), 5, "generations that ran: %v", ran)
	})
}

// Until the store knows of the new declarations, the old ones hold, all of them.
func TestOldDeclarationsHoldWhileTheStoreDoesNotKnowTheNew(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store)
		after(100 * time.Millisecond)
		r.wire.setHook(func(op string) fault {
			if op == "present" {
				return lostCall
			}
			return none
		})
		r.engine.Replace(r.declarations(declare("c", 0)))
		after(100 * time.Millisecond)
		old, young := r.insert(1)[0], r.insert(1, of("c"))[0]
		after(3 * time.Second)
		require.Equal(t, task.StateSucceeded, r.get(old).State)
		require.Equal(t, task.StatePending, r.get(young).State)
		r.engine.Replace(r.declarations(declare("d", 0), declare("c", 0))) // the last one counts
		r.wire.setHook(nil)
		after(3 * time.Second)
		require.Equal(t, task.StateSucceeded, r.get(young).State)
		old = r.insert(1)[0]
		young = r.insert(1, of("d"))[0]
		after(3 * time.Second)
		require.Equal(t, task.StatePending, r.get(old).State)
		require.Equal(t, task.StateSucceeded, r.get(young).State)
		r.drain()
	})
}

// runs is how many attempts of a type run; "" for all.
func (d *deeds) runs(typ string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.running[typ]
}

// What runs counts in the slots of its type, also when that was not declared for a while; and there are as many slots as
// are declared last.
func TestSlotsSurviveAReplacement(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store, doing(takes(10*time.Second)))
		both := func(workers int) {
			d := r.declarations(declare("a", 0), declare("b", 2))
			d.Workers = workers
			r.engine.Replace(d)
			after(time.Second)
		}
		b := r.insert(6, of("b"))
		after(100 * time.Millisecond)
		require.Equal(t, 2, r.deeds.runs("b"))
		both(4)
		after(2 * time.Second)
		require.Equal(t, 2, r.deeds.runs("b"), "the same two")
		r.engine.Replace(r.declarations(declare("a", 0)))
		after(2 * time.Second)
		both(4)
		after(2 * time.Second)
		require.Equal(t, 2, r.deeds.runs("b"), "still")
		require.Len(t, r.deeds.started(), 2)
		both(1)
		after(5 * time.Second)
		require.Equal(t, 1, r.deeds.runs(""), "two have ended, and one took their place")
		both(3)
		after(100 * time.Millisecond)
		require.Equal(t, 2, r.deeds.runs(""), "a slot is kept for the other type")
		a := r.insert(2)
		after(100 * time.Millisecond)
		require.Equal(t, 3, r.deeds.runs(""))
		require.Equal(t, 2, r.deeds.runs("b"))
		require.InDelta(t, 3, testutil.ToFloat64(r.opts.Metrics.Workers), 0)
		after(time.Minute)
		r.all(append(a, b...), task.StateSucceeded, 1)
		require.Equal(t, 2, r.deeds.most["b"])
		r.drain()
	})
}

// An agent that only looked begins to claim, and one that claimed only looks.
func TestAnObserverBecomesAWorkerAndBack(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		r := newRig(t, store, func(r *rig) { r.opts.Workers = 0 })
		ids := r.insert(2)
		after(5 * time.Second)
		r.all(ids, task.StatePending, 0)
		d := r.opts.Declarations
		d.Workers = 2
		r.engine.Replace(d)
		after(time.Second)
		r.all(ids, task.StateSucceeded, 1)
		d.Workers = 0
		r.engine.Replace(d)
		after(time.Second)
		ids = r.insert(2)
		after(5 * time.Second)
		r.all(ids, task.StatePending, 0)
		require.NoError(t, r.engine.Health())
		r.drain()
	})
}

// A breaker that is open stays so, and counters count on.
func TestBreakersAndMetricsSurviveAReplacement(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		breakers := exec.NewBreakers(nil, func() float64 { return 0 })
		r := newRig(t, store, func(r *rig) { r.opts.Gate = breakers }, doing(func(l *lease.Lease, typ *task.Type) task.Outcome {
			if !breakers.Begin(typ.Name, l.Phase(), l.Task().ID) {
				return task.Outcome{Verdict: task.Drained, NeverStarted: true}
			}
			return task.Outcome{Verdict: task.Undelivered, NeverStarted: true}
		}))
		r.insert(1)
		after(100 * time.Second) // trials come every 30 s by now
		ended := r.attempts(task.Run, task.Undelivered)
		require.Greater(t, ended, 3.0)
		n, wait := breakers.Room("a", task.Run)
		for n != 0 || wait < 10*time.Second { // until shortly after a trial
			after(time.Second)
			n, wait = breakers.Room("a", task.Run)
		}
		ended = r.attempts(task.Run, task.Undelivered)
		starts := len(r.deeds.started())
		for range 3 {
			r.engine.Replace(r.declarations(patient(), declare("c", 0)))
			after(time.Second)
		}
		require.Len(t, r.deeds.started(), starts, "it is open as before")
		require.InDelta(t, ended, r.attempts(task.Run, task.Undelivered), 0)
		after(wait)
		require.InDelta(t, ended+1, r.attempts(task.Run, task.Undelivered), 0, "the same counter")
		r.drain()
	})
}

// Rows that were claimed ahead and have not started are released, and run under the new declarations, at no cost.
func TestWhatWasClaimedAheadIsClaimedAnew(t *testing.T) {
	bubble(t, func(t *testing.T, store *model.Store) {
		pace := make(chan struct{})
		var mu sync.Mutex
		under := map[time.Duration]int{}
		r := newRig(t, store, func(r *rig) { r.opts.Workers = 1 }, doing(func(l *lease.Lease, typ *task.Type) task.Outcome {
			mu.Lock()
			under[typ.Policy.Timeout]++
			quick := under[20*time.Second] < 200
			mu.Unlock()
			if !quick {
				<-pace
			}
			return takes(time.Millisecond)(l, typ)
		}))
		ids := r.insert(300)
		for r.deeds.runs("") == 0 || len(r.deeds.started()) < 200 {
			after(5 * time.Millisecond)
		}
		synctest.Wait()
		require.Greater(t, r.engine.Held(), 1, "rows wait for the slot")
		r.engine.Replace(r.declarations(patient()))
		after(50 * time.Millisecond)
		close(pace)
		after(10 * time.Second)
		r.all(ids, task.StateSucceeded, 1)
		require.Equal(t, map[time.Duration]int{20 * time.Second: 200, time.Minute: 100}, under)
		for _, id := range ids {
			info, err := store.Get(t.Context(), id)
			require.NoError(t, err)
			require.Equal(t, 1, info.Attempt)
		}
		r.drain()
	})
}
