package poll_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// sent is a request as the test's target sees it.
type sent struct {
	at    time.Time
	ids   []task.ID
	phase task.Phase
}

// target takes requests with one task or several, in which handle ends each of them.
type target struct {
	mu     sync.Mutex
	all    []sent
	now    int // requests under way
	most   int
	handle func(ls []*lease.Lease, ended func(i int, o task.Outcome))
}

func (d *target) request(ls []*lease.Lease, ended func(int, task.Outcome)) {
	d.mu.Lock()
	s := sent{at: time.Now(), phase: ls[0].Phase()}
	for _, l := range ls {
		l.Start()
		s.ids = append(s.ids, l.Task().ID)
	}
	d.all = append(d.all, s)
	d.now++
	d.most = max(d.most, d.now)
	d.mu.Unlock()
	d.handle(ls, ended)
	d.mu.Lock()
	d.now--
	d.mu.Unlock()
}

// requests lists what has come.
func (d *target) requests() []sent {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.all)
}

// sizes lists how many tasks the requests had.
func (d *target) sizes() (n []int) {
	for _, s := range d.requests() {
		n = append(n, len(s.ids))
	}
	return n
}

// takesAll succeeds for all tasks of a request after that time.
func takesAll(d time.Duration) func([]*lease.Lease, func(int, task.Outcome)) {
	return func(ls []*lease.Lease, ended func(int, task.Outcome)) {
		var all sync.WaitGroup
		for i, l := range ls {
			all.Go(func() { ended(i, takes(d)(l, nil)) })
		}
		all.Wait()
	}
}

// batching has the engine declare one type whose target takes requests with several tasks.
func batching(d *target, b task.Batch) func(*rig) {
	return func(r *rig) {
		alone(r)
		r.opts.Types[0].Target = &task.Webhook{Batch: &b}
		r.deeds.doMany = d.request
		r.deeds.do = func(l *lease.Lease, _ *task.Type) (o task.Outcome) {
			d.request([]*lease.Lease{l}, func(_ int, end task.Outcome) { o = end })
			return o
		}
	}
}

// succeeded asserts that rows have succeeded at their first attempt.
func (r *rig) succeeded(ids []task.ID) {
	r.t.Helper()
	for _, id := range ids {
		require.Equal(r.t, task.StateSucceeded, r.get(id).State, "task %d", id)
		require.Equal(r.t, 1, r.get(id).Attempt, "task %d", id)
	}
}

const held = 10 * time.Millisecond // the wait of most tests

// A lone row on an idle agent is sent at once. One that comes while it is under way waits for others, but for no longer than the
// type's wait, and for no longer than the other request.
func TestARowWaitsForOthersOnlyWhileARequestIsUnderWay(t *testing.T) {
	for name, c := range map[string]struct {
		takes time.Duration // a request
		want  time.Duration // from the second row's insert to its start
	}{
		"a long one":  {time.Second, held},
		"a short one": {held/2 + time.Millisecond, held / 2},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, db *model.Store) {
				d := &target{handle: takesAll(c.takes)}
				r := newRig(t, db, batching(d, task.Batch{Max: 100, Wait: held}))
				after(2 * time.Second)
				began := time.Now()
				first := r.insert(1)
				after(time.Millisecond)
				require.Equal(t, began, d.requests()[0].at, "at once")
				second := r.insert(1)
				after(time.Millisecond)
				third := r.insert(1)
				after(3 * time.Second)
				require.Len(t, d.requests(), 2)
				require.Equal(t, began.Add(time.Millisecond+c.want), d.requests()[1].at)
				require.Equal(t, append(second, third...), d.requests()[1].ids)
				r.succeeded(append(append(first, second...), third...))
				r.drain()
			})
		})
	}
}

// A full request waits for nothing, and requests take one slot each.
func TestRequestsAreFilledAndTakeASlotEach(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		const takes = task.StartWait * 9 / 10 // what is claimed ahead of it stays
		d := &target{handle: takesAll(takes)}
		r := newRig(t, db, batching(d, task.Batch{Max: 10, Wait: 250 * time.Millisecond}), func(r *rig) { r.opts.Workers = 3 })
		began := time.Now()
		ids := r.insert(95)
		after(10 * time.Second)
		r.succeeded(ids)
		require.Equal(t, 3, d.most, "slots in use")
		sizes := d.sizes()
		require.Equal(t, []int{10, 10, 10, 10, 10, 10, 10, 10, 10, 5}, sizes)
		for i, s := range d.requests()[:9] {
			require.Equal(t, began.Add(time.Duration(i/3)*takes), s.at, "request %d", i)
		}
		r.drain()
	})
}

// A row is settled when it has ended, while its request goes on.
func TestRowsSettleWhileTheirRequestIsUnderWay(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		d := &target{}
		d.handle = func(ls []*lease.Lease, ended func(int, task.Outcome)) {
			ended(1, task.Outcome{Verdict: task.Succeeded})
			after(5 * time.Second)
			ended(0, task.Outcome{Verdict: task.Succeeded})
		}
		r := newRig(t, db, batching(d, task.Batch{Max: 10, Wait: held}))
		ids := r.insert(2)
		after(time.Second)
		require.Equal(t, task.StateRunning, r.get(ids[0]).State)
		require.Equal(t, task.StateSucceeded, r.get(ids[1]).State)
		after(6 * time.Second)
		require.Equal(t, task.StateSucceeded, r.get(ids[0]).State)
		r.drain()
	})
}

// breaks has each request fail that has one of these tasks: all of it, and it is unknown whether it went on.
func breaks(unknown bool, poison ...task.ID) func([]*lease.Lease, func(int, task.Outcome)) {
	return func(ls []*lease.Lease, ended func(int, task.Outcome)) {
		o := task.Outcome{Verdict: task.Succeeded}
		if slices.ContainsFunc(ls, func(l *lease.Lease) bool { return slices.Contains(poison, l.Task().ID) }) {
			o = task.Outcome{Verdict: task.Failed, EndUnknown: unknown, Error: "boom"}
			if len(ls) > 1 {
				o.Verdict, o.Shared = task.Drained, true
			}
		}
		for i := range ls {
			ended(i, o)
		}
	}
}

// One task that breaks each request that it is in costs the others no attempt: they are sent in smaller and smaller requests, until it
// is alone.
func TestAPoisonRowAmongAHundredCostsTheOthersNoAttempt(t *testing.T) {
	for name, unknown := range map[string]bool{"the end is known": false, "the end is unknown": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, db *model.Store) {
				d := &target{}
				r := newRig(t, db, batching(d, task.Batch{Max: 100, Wait: held}))
				r.engine.Drain() // the test wants the ids first
				<-r.over
				ids := r.insert(100)
				poison := ids[37]
				d.handle = breaks(unknown, poison)
				r = newRig(t, db, batching(d, task.Batch{Max: 100, Wait: held}))
				after(10 * time.Minute)
				for _, id := range ids {
					info := r.get(id)
					if id == poison {
						require.Equal(t, task.StateFailed, info.State)
						require.Equal(t, 3, info.Attempt)
						continue
					}
					require.Equal(t, task.StateSucceeded, info.State, "task %d", id)
					require.Equal(t, 1, info.Attempt, "task %d", id)
				}
				sizes := d.sizes()
				require.Equal(t, 100, sizes[0])
				require.Less(t, len(sizes), 2*7+3+7, "halves, and the poison three times alone: %v", sizes)
				alone := 0
				for _, s := range d.requests() {
					if slices.Contains(s.ids, poison) && len(s.ids) == 1 {
						alone++
					}
				}
				require.Equal(t, 3, alone, "each of its attempts is in a request of its own: %v", sizes)
				r.drain()
			})
		})
	}
}

// A task that has failed alone keeps others out of its next request, too, though they are due at the same time.
func TestATaskThatHasFailedAloneGoesAloneAgain(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		d := &target{}
		d.handle = func(ls []*lease.Lease, ended func(int, task.Outcome)) {
			if ls[0].Task().ID == 2 {
				after(2 * time.Second)
			}
			breaks(false, 1)(ls, ended)
		}
		r := newRig(t, db, batching(d, task.Batch{Max: 10}), func(r *rig) { r.opts.Workers = 1 })
		r.insert(1)
		after(100 * time.Millisecond)
		r.insert(1) // it takes the only slot until after the retry of the first is due
		after(100 * time.Millisecond)
		r.insert(5)
		after(time.Minute)
		require.Equal(t, task.StateFailed, r.get(1).State)
		require.Equal(t, 3, r.get(1).Attempt)
		for _, s := range d.requests() {
			require.True(t, len(s.ids) == 1 || !slices.Contains(s.ids, 1), "%v", d.sizes())
		}
		require.Contains(t, d.sizes(), 5)
		r.drain()
	})
}

// Several agents, each with no memory of what the others have seen, find it as well: the rows say how often they were in a request
// that failed.
func TestPoisonIsFoundByManyAgents(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		d := &target{}
		r := newRig(t, db, batching(d, task.Batch{Max: 100, Wait: held}))
		r.drain()
		ids := r.insert(300)
		d.handle = breaks(true, ids[7], ids[150], ids[151])
		for {
			r = newRig(t, db, batching(d, task.Batch{Max: 100, Wait: held}), func(r *rig) { r.opts.Workers = 2 })
			after(30 * time.Second)
			r.drain()
			if !slices.ContainsFunc(ids, func(id task.ID) bool { return !r.get(id).State.Finished() }) {
				break
			}
		}
		for i, id := range ids {
			info := r.get(id)
			if i == 7 || i == 150 || i == 151 {
				require.Equal(t, task.StateFailed, info.State)
				continue
			}
			require.Equal(t, task.StateSucceeded, info.State)
			require.Equal(t, 1, info.Attempt, "task %d", id)
		}
	})
}

// While a breaker lets one attempt through, a request has one task.
func TestTheTrialOfABreakerIsOneRow(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		d := &target{handle: takesAll(time.Second)}
		g := &gate{n: 1, wait: 100 * time.Millisecond}
		r := newRig(t, db, batching(d, task.Batch{Max: 10, Wait: held}), func(r *rig) {
			g.busy = func() int {
				d.mu.Lock()
				defer d.mu.Unlock()
				return d.now
			}
			r.opts.Gate = g
		})
		ids := r.insert(30)
		after(3500 * time.Millisecond)
		require.Equal(t, 1, d.most)
		require.Equal(t, []int{1, 1, 1}, d.sizes()[:3])
		g.set(-1)
		after(10 * time.Second)
		r.succeeded(ids)
		r.drain()
	})
}

// Runs and rollbacks never share a request.
func TestPhasesDoNotShareRequests(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		d := &target{}
		d.handle = func(ls []*lease.Lease, ended func(int, task.Outcome)) {
			for i, l := range ls {
				o := task.Outcome{Verdict: task.Succeeded}
				if l.Phase() == task.Run && l.Task().ID%2 == 0 {
					o = task.Outcome{Verdict: task.Rejected}
				}
				ended(i, o)
			}
		}
		r := newRig(t, db, batching(d, task.Batch{Max: 10, Wait: held}), func(r *rig) {
			r.opts.Types[0].Rollback = &task.Webhook{Batch: &task.Batch{Max: 5}}
			r.opts.Types[0].Policy.Rollback = &task.RollbackPolicy{Timeout: 20 * time.Second, Stop: 7 * time.Second, Retry: task.Retry{Limit: 2, Min: time.Second, Max: time.Second}}
		})
		ids := r.insert(60)
		after(20 * time.Second)
		for _, id := range ids {
			want := task.StateSucceeded
			if id%2 == 0 {
				want = task.StateRolledBack
			}
			require.Equal(t, want, r.get(id).State)
		}
		undone := 0
		for _, s := range d.requests() {
			if s.phase == task.Rollback {
				undone += len(s.ids)
				require.LessOrEqual(t, len(s.ids), 5)
			}
		}
		require.Equal(t, 30, undone)
		r.drain()
	})
}

// Draining stops a request that does not end in time: its rows are released, and those that have ended are settled.
func TestDrainInTheMiddleOfARequest(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		d := &target{}
		d.handle = func(ls []*lease.Lease, ended func(int, task.Outcome)) {
			ended(0, task.Outcome{Verdict: task.Succeeded})
			var all sync.WaitGroup
			for i, l := range ls[1:] {
				all.Go(func() { ended(i+1, takes(time.Hour)(l, nil)) })
			}
			all.Wait()
		}
		r := newRig(t, db, batching(d, task.Batch{Max: 10, Wait: held}), func(r *rig) { r.opts.Types[0].Policy.Timeout = time.Minute })
		ids := r.insert(5)
		after(2 * time.Second)
		r.drain()
		require.Equal(t, task.StateSucceeded, r.get(ids[0]).State)
		for _, id := range ids[1:] {
			require.Equal(t, task.StatePending, r.get(id).State)
			require.Zero(t, r.get(id).Attempt)
		}
	})
}

// Rows whose tasks may not start any more are left out of their request.
func TestARequestLeavesOutWhatMustNotStart(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		d := &target{}
		d.handle = func(_ []*lease.Lease, ended func(int, task.Outcome)) { // it does not heed its lease
			after(5 * time.Second)
			ended(0, task.Outcome{Verdict: task.Succeeded})
		}
		r := newRig(t, db, batching(d, task.Batch{Max: 10, Wait: 250 * time.Millisecond}), func(r *rig) { r.opts.Types[0].Policy.Deadline = 100 * time.Millisecond })
		r.insert(1)
		after(time.Millisecond)
		late := r.insert(2)
		after(time.Second)
		require.Equal(t, task.StateFailed, r.get(late[0]).State)
		require.Contains(t, r.get(late[1]).Error, "its deadline had passed before it could start")
		require.Equal(t, []int{1}, d.sizes())
		r.drain()
	})
}

// A row whose earlier attempt is still at work here goes into no request before that has ended, and keeps no other row back.
func TestARequestDoesNotWaitForAnEarlierAttempt(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		d := &target{}
		over := make(chan struct{})
		d.handle = func(ls []*lease.Lease, ended func(int, task.Outcome)) {
			for i, l := range ls {
				if l.Task().ID == 1 && l.Task().Fence == 1 {
					<-over
				}
				ended(i, task.Outcome{Verdict: task.Succeeded})
			}
		}
		r := newRig(t, db, batching(d, task.Batch{Max: 10}))
		id := r.insert(1)[0]
		require.EqualValues(t, 1, id)
		after(4100 * time.Millisecond)
		r.steal()
		others := r.insert(3) // which are claimed with it
		after(500 * time.Millisecond)
		for _, other := range others {
			require.Equal(t, task.StateSucceeded, r.get(other).State)
		}
		require.Equal(t, task.StateRunning, r.get(id).State)
		require.Len(t, d.requests(), 2, "the row was claimed again, and has not started")
		close(over)
		after(10 * time.Second)
		require.Equal(t, task.StateSucceeded, r.get(id).State)
		require.Equal(t, []int{1, 3, 1}, d.sizes())
		r.drain()
	})
}
