package activity

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// read returns what has been counted since the last call, by type.
func read(c *Counters) map[string]store.ActivityCounts {
	all := map[string]store.ActivityCounts{}
	c.each(func(typ string, n *store.ActivityCounts) { all[typ] = *n })
	return all
}

func TestCountersCount(t *testing.T) {
	c := NewCounters()
	require.Empty(t, read(c))
	a := c.Of("a")
	require.Same(t, a, c.Of("a"))
	a.Started(-time.Second)
	a.Started(time.Millisecond)
	a.Started(time.Millisecond + 1)
	a.Started(90 * time.Minute)
	a.Ended(task.Succeeded)
	a.Ended(task.Drained)
	a.Ended("unknown")
	c.Of("b").Ended(task.Lost)
	got := read(c)
	require.Len(t, got, 2)
	n := got["a"]
	require.Equal(t, int64(4), n.Started())
	require.Equal(t, []int64{2, 1}, n.Latency[:2])
	require.Equal(t, int64(1), n.Latency[len(n.Latency)-1])
	require.Equal(t, int64(2), n.Ended())
	require.Equal(t, int64(1), n.Of(task.Drained))
	require.Empty(t, read(c), "it was read")
	a.Ended(task.Succeeded)
	n = read(c)["a"]
	require.Equal(t, int64(1), n.Ended())
}

func TestCountersOfManyTypes(t *testing.T) {
	c := NewCounters()
	for i := range store.ActivityTypes + 10 {
		c.Of(fmt.Sprint(i)).Ended(task.Succeeded)
	}
	got := read(c)
	require.Len(t, got, store.ActivityTypes+1)
	n := got[""]
	require.Equal(t, int64(10), n.Ended())
}

func TestCountersForget(t *testing.T) {
	c := NewCounters()
	a := c.Of("a")
	a.Ended(task.Succeeded)
	c.Forget("a")
	c.Forget("none")
	require.Len(t, read(c), 1, "what was counted before")
	require.Same(t, a, c.Of("a"), "it was declared again")
	require.Empty(t, read(c))
	require.Same(t, a, c.Of("a"))
	c.Forget("a")
	require.Empty(t, read(c))
	require.NotSame(t, a, c.Of("a"))
}

func TestCountersAtOnce(t *testing.T) {
	c := NewCounters()
	const attempts, runners = 2000, 4
	var wg sync.WaitGroup
	for range runners {
		wg.Go(func() {
			for i := range attempts {
				typ := c.Of(fmt.Sprint(i % 7))
				typ.Started(time.Duration(i) * time.Millisecond)
				typ.Ended(task.Verdicts()[i%len(task.Verdicts())])
			}
		})
	}
	var sum store.ActivityCounts
	add := func() { c.each(func(_ string, n *store.ActivityCounts) { sum.Add(n) }) }
	over := make(chan struct{})
	go func() { wg.Wait(); close(over) }()
	for running := true; running; {
		select {
		case <-over:
			running = false
		default:
		}
		add()
	}
	require.Equal(t, int64(attempts*runners), sum.Started())
	require.Equal(t, int64(attempts*runners), sum.Ended())
}

// BenchmarkAttempt is what an attempt pays.
func BenchmarkAttempt(b *testing.B) {
	typ := NewCounters().Of("a")
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			typ.Started(30 * time.Millisecond)
			typ.Ended(task.TimedOut)
		}
	})
}
