package poll_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest/model"
)

const healthy = "abcdefghi"

// beside is an agent whose type "hung" hangs from some time on, beside nine others that take so long.
type beside struct {
	*rig
	hangs chan struct{} // closed when "hung" begins to hang; before, it takes as long as the others
}

func newBeside(t *testing.T, db *model.Store, workers int, takesFor time.Duration, change ...func(*rig)) *beside {
	b := &beside{hangs: make(chan struct{})}
	b.rig = newRig(t, db, func(r *rig) {
		r.opts.Types = []*task.Type{declare("hung", 0)}
		for name := range strings.SplitSeq(healthy, "") {
			r.opts.Types = append(r.opts.Types, declare(name, 0))
		}
		r.opts.Workers = workers
		r.deeds.do = func(l *lease.Lease, typ *task.Type) task.Outcome {
			select {
			case <-b.hangs:
				if typ.Name == "hung" {
					return takes(time.Hour)(l, typ)
				}
			default:
			}
			return takes(takesFor)(l, typ)
		}
		for _, c := range change {
			c(r)
		}
	})
	return b
}

// healthyStarts returns how many attempts of healthy types have begun.
func (b *beside) healthyStarts() (n int) {
	b.deeds.mu.Lock()
	defer b.deeds.mu.Unlock()
	for name, starts := range b.deeds.of {
		if strings.Contains(healthy, name) {
			n += starts
		}
	}
	return n
}

func (b *beside) insertAll(n int) {
	for name := range strings.SplitSeq(healthy, "") {
		b.insert(n, of(name))
	}
}

// end ends the engine without waiting for what hangs.
func (b *beside) end() {
	b.cancel()
	<-b.over
}

// One type whose target hangs leaves nine healthy ones at least 80% of the rate that they have without it.
func TestAHungTypeLeavesTheOthersTheirRate(t *testing.T) {
	for _, workers := range []int{4, sized(8, 32)} {
		var rates []int
		for _, hung := range []int{0, 500} {
			bubble(t, func(t *testing.T, db *model.Store) {
				b := newBeside(t, db, workers, 250*time.Millisecond)
				close(b.hangs)
				b.insertAll(workers * 4 * 60 / 9 * 11 / 10)
				b.insert(hung, of("hung"))
				after(60 * time.Second)
				rates = append(rates, b.healthyStarts())
				b.end()
			})
		}
		t.Logf("%d workers: %d attempts without the hung type, %d beside it", workers, rates[0], rates[1])
		require.GreaterOrEqual(t, float64(rates[1]), 0.8*float64(rates[0]), "%d workers", workers)
	}
}

// The same where the others come and go, and use half of the slots on average: a slot that is free for a moment is not lent to a
// type whose target begins to hang.
func TestAHungTypeDoesNotCollectSlots(t *testing.T) {
	const workers, each = 16, 50 * time.Millisecond
	bubble(t, func(t *testing.T, db *model.Store) {
		b := newBeside(t, db, workers, each)
		b.insert(4000, of("hung"))
		inserted := 0
		insert := func(seconds int) {
			for range seconds * 5 { // 5 times a second 36 rows, 50 ms each: half of the slots
				b.insertAll(4)
				inserted += 4 * len(healthy)
				after(200 * time.Millisecond)
			}
		}
		insert(15)
		close(b.hangs)
		before := b.healthyStarts()
		require.GreaterOrEqual(t, float64(before), 0.9*float64(inserted))
		inserted = 0
		insert(15) // less than the timeout: nothing of the hung type has ended
		got := b.healthyStarts() - before
		t.Logf("%d of %d rows started while the target hung", got, inserted)
		require.GreaterOrEqual(t, float64(got), 0.8*float64(inserted))
		b.end()
	})
}

// A place is kept for a type of which nothing runs, even if another one has had all the agent to itself.
func TestAPlaceIsKept(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		b := newBeside(t, db, 8, time.Millisecond)
		close(b.hangs)
		b.insert(1000, of("hung"))
		after(5 * time.Second)
		require.Equal(t, 7, b.deeds.most["hung"], "all others are lent")
		late := b.insert(200)
		after(3 * time.Second)
		b.all(late, task.StateSucceeded, 1)
		b.end()
	})
}

// A type whose attempts mostly time out is lent nothing, until its target has recovered.
func TestAHungTypeIsLentLess(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		b := newBeside(t, db, 32, time.Second)
		hold := b.deeds.do
		hang := true
		b.deeds.mu.Lock()
		b.deeds.do = func(l *lease.Lease, typ *task.Type) task.Outcome {
			b.deeds.mu.Lock()
			hangs := hang
			b.deeds.mu.Unlock()
			if hangs {
				return takes(time.Hour)(l, typ)
			}
			return hold(l, typ)
		}
		b.deeds.mu.Unlock()
		b.insert(1500, of("hung"))
		after(30 * time.Second) // the first ones have timed out
		require.LessOrEqual(t, b.deeds.now("hung"), 4, "hardly more than a tenth of the slots")
		b.deeds.mu.Lock()
		hang = false
		b.deeds.mu.Unlock()
		after(25*time.Second + 500*time.Millisecond) // in the middle of attempts
		require.Equal(t, 31, b.deeds.now("hung"))
		b.end()
	})
}

// While a type has used up its share, the inserts of more of its rows do not keep the store busy.
func TestRowsOfAHungTypeAreNotLookedForAllTheTime(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		b := newBeside(t, db, 32, time.Millisecond)
		close(b.hangs)
		b.insert(100, of("hung"))
		after(30 * time.Second) // the first ones have timed out
		require.LessOrEqual(t, b.deeds.now("hung"), 4)
		before := b.wire.count("claim")
		for range 2000 {
			b.insert(1, of("hung"))
			after(time.Millisecond)
		}
		require.Less(t, b.wire.count("claim")-before, 2000/20+30)
		late := b.insert(1)
		after(100 * time.Millisecond)
		b.all(late, task.StateSucceeded, 1)
		b.end()
	})
}

// What others have used is lent once they have been idle for a while, though nothing ends and nothing wakes the loop.
func TestAShareGrowsAsOthersAreIdle(t *testing.T) {
	bubble(t, func(t *testing.T, db *model.Store) {
		b := newBeside(t, db, 16, 200*time.Millisecond, func(r *rig) { r.opts.Poll = time.Hour })
		for range 50 {
			b.insertAll(1)
			after(200 * time.Millisecond)
		}
		close(b.hangs)
		b.insert(100, of("hung"))
		after(500 * time.Millisecond)
		first := b.deeds.now("hung")
		require.Less(t, first, 12)
		after(15 * time.Second)
		require.Greater(t, b.deeds.now("hung"), first+2)
		b.end()
	})
}
