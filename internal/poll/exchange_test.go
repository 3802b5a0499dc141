package poll_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// A place that an attempt leaves is taken in the call that settles it, by the agent that ran it, however slow ordinary claims are.
func TestAPlaceIsTakenByTheCallThatSettles(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		r := newRig(t, db, alone, limit(2), doing(takes(5*time.Millisecond)))
		r.insert(2000)
		after(time.Second)
		r.wire.setSlow("exchange", time.Millisecond)
		began, settled, claims := len(r.deeds.started()), r.wire.count("settle"), r.wire.count("claim")
		after(2 * time.Second)
		require.Greater(t, len(r.deeds.started())-began, 550, "of 666 that two places run in this time")
		require.Less(t, r.wire.count("settle")-settled, 60)
		require.Less(t, r.wire.count("claim")-claims, 60)
		r.drain()
	})
}

// Nor are places left to claims where it is not the limit that rows wait for, but the agent's slots. A claim may come first there.
func TestAPlaceIsTakenWhereAllSlotsAreInUse(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		r := newRig(t, db, alone, limit(10), doing(takes(5*time.Millisecond)), func(r *rig) { r.opts.Workers = 2 })
		r.insert(2000)
		after(3 * time.Second)
		require.Greater(t, r.wire.count("exchange"), 100)
		r.drain()
	})
}

// wanting is a store that says of each exchange that another agent wants a place.
type wanting struct{ *wire }

func (w wanting) Exchange(ctx context.Context, c store.Claim, ends []store.Settlement) ([]task.Task, []store.Answer, error) {
	tasks, answers, err := w.wire.Exchange(ctx, c, ends)
	for typ, room := range c.Limited {
		room.Wanted = true
		c.Limited[typ] = room
	}
	return tasks, answers, err
}

// Agents that have no place get one now and then where others use theirs again and again.
func TestPlacesAreLeftToAgentsThatHaveNone(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		want := func(r *rig) { r.opts.Store = wanting{r.wire} }
		agents := []*rig{newRig(t, db, want, limit(1), doing(takes(5*time.Millisecond))), newRig(t, db, want, limit(1), doing(takes(5*time.Millisecond)))}
		agents[0].insert(2000)
		after(5 * time.Second)
		of := []int{len(agents[0].deeds.started()), len(agents[1].deeds.started())}
		require.Greater(t, min(of[0], of[1]), 50, of)
		require.Greater(t, of[0]+of[1], 650, "of 1000: little is lost by it")
		for _, r := range agents {
			r.drain()
		}
	})
}

// leaving is a store that tells another agent at once of each place that an exchange leaves.
type leaving struct {
	wanting
	left []time.Time
	to   *hearing
}

func (l *leaving) Exchange(ctx context.Context, c store.Claim, ends []store.Settlement) ([]task.Task, []store.Answer, error) {
	tasks, answers, err := l.wanting.Exchange(ctx, c, ends)
	if len(c.Leaves) > 0 {
		l.left = append(l.left, time.Now())
		l.to.wake(store.PlaceNews)
	}
	return tasks, answers, err
}

// hearing is a store whose news a test can make up.
type hearing struct {
	*wire
	wake func(store.News)
}

func (h *hearing) Listen(ctx context.Context, wake func(store.News)) error {
	h.wake = wake
	return h.wire.Listen(ctx, wake)
}

// told is a store that tells of a place while it answers a claim that has found none, some times.
type told struct {
	hearing
	begun atomic.Bool
	at    []time.Time
}

func (s *told) Claim(ctx context.Context, c store.Claim) ([]task.Task, error) {
	rows, err := s.hearing.Claim(ctx, c)
	if s.begun.Load() && err == nil && len(rows) == 0 && len(s.at) < 5 {
		s.at = append(s.at, time.Now())
		s.wake(store.PlaceNews)
	}
	return rows, err
}

// Who is told of a place while it asks for one asks again at once.
func TestAPlaceThatIsLeftMeanwhileIsAskedFor(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		busy := newRig(t, db, limit(1), doing(takes(time.Hour)))
		busy.insert(10)
		after(time.Second)
		s := &told{}
		starved := newRig(t, db, limit(1), func(r *rig) {
			s.wire = r.wire
			r.opts.Store = s
		})
		after(time.Second)
		s.begun.Store(true)
		after(5 * time.Second)
		require.Len(t, s.at, 5)
		require.WithinDuration(t, s.at[1], s.at[len(s.at)-1], time.Microsecond, "it is not asked for after a pause")
		starved.drain()
		busy.drain()
	})
}

// Who wants a place has it as soon as one is left, however rarely it asks.
func TestAPlaceThatIsLeftIsTakenAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		last, first := &hearing{}, &leaving{}
		first.to = last
		busy := newRig(t, db, limit(1), doing(takes(5*time.Millisecond)), func(r *rig) {
			first.wanting = wanting{r.wire}
			r.opts.Store = first
		})
		busy.insert(2000)
		after(100 * time.Millisecond)
		starved := newRig(t, db, limit(1), doing(takes(5*time.Millisecond)), func(r *rig) {
			last.wire = r.wire
			r.opts.Store = last
		})
		after(time.Second)
		require.Len(t, first.left, 1, "who has got it keeps it")
		require.WithinDuration(t, first.left[0], starved.deeds.started()[0].at, time.Microsecond)
		busy.drain()
		starved.drain()
	})
}

// An outcome is settled soon, although the loop that would exchange it waits for the store.
func TestAnOutcomeWaitsForNoExchangeForLong(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		r := newRig(t, db, limit(1), doing(slowly(300*time.Millisecond)))
		ids := r.insert(10)
		after(time.Second)
		r.wire.setHook(func(op string) fault {
			if op == "claim" || op == "exchange" {
				return hung
			}
			return none
		})
		r.insert(1, of("b")) // to be claimed
		after(time.Second)
		done := 0
		for _, id := range ids {
			if r.get(id).State == task.StateSucceeded {
				done++
			}
		}
		require.Equal(t, len(r.deeds.started()), done, "all that have started, and ended meanwhile")
		r.wire.setHook(nil)
		after(time.Minute)
		r.all(ids, task.StateSucceeded, 1)
		r.drain()
	})
}

// Whatever is lost on the way to the store, and whatever may still be at work after its end, no more run than the limit says, and all of
// it is done once.
func TestALimitHoldsWhereRepliesAreLost(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		random := rand.New(rand.NewPCG(1, 2))
		var mu sync.Mutex
		chance := func() int {
			mu.Lock()
			defer mu.Unlock()
			return random.IntN(1000)
		}
		ends := func(l *lease.Lease, typ *task.Type) task.Outcome {
			out := takes(time.Duration(1+chance()/100)*time.Millisecond)(l, typ)
			if chance() < 2 {
				return task.Outcome{Verdict: task.TimedOut, Error: "it took too long", EndUnknown: true}
			}
			return out
		}
		var agents []*rig
		for range 3 {
			r := newRig(t, db, limit(7), doing(ends))
			r.wire.setHook(func(op string) fault {
				if op != "claim" && op != "claimed" && op != "settle" && op != "exchange" {
					return none
				}
				switch n := chance(); {
				case n < 10:
					return lostCall
				case n < 40:
					return lostReply
				}
				return none
			})
			agents = append(agents, r)
		}
		agents[0].insert(3000)
		most, exchanged := 0, 0
		for range 3000 {
			after(time.Millisecond)
			n := 0
			for _, r := range agents {
				n += r.deeds.now("a")
			}
			require.LessOrEqual(t, n, 7)
			most = max(most, n)
		}
		require.GreaterOrEqual(t, most, 6)
		for _, r := range agents {
			exchanged += r.wire.count("exchange")
			r.wire.setHook(nil)
			r.drain()
		}
		require.Greater(t, exchanged, 300)
	})
}
