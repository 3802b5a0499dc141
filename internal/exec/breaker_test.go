package exec

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

var (
	undelivered = task.Outcome{Verdict: task.Undelivered, NeverStarted: true}
	unavailable = task.Outcome{Verdict: task.Deferred, Unavailable: true}
	succeeded   = task.Outcome{Verdict: task.Succeeded}
)

// steady makes breakers without jitter.
func steady() *Breakers { return NewBreakers(nil, func() float64 { return 0 }) }

func room(b *Breakers) int {
	n, _ := b.Room("a", task.Run)
	return n
}

func TestBreakerOpensAndCloses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := steady()
		require.Equal(t, -1, room(b))
		require.True(t, b.Begin("a", task.Run, 1))
		b.Done("a", task.Run, 1, undelivered)
		n, wait := b.Room("a", task.Run)
		require.Zero(t, n)
		require.Equal(t, 500*time.Millisecond, wait)
		require.False(t, b.Begin("a", task.Run, 2))

		for _, other := range []func() (int, time.Duration){
			func() (int, time.Duration) { return b.Room("b", task.Run) },
			func() (int, time.Duration) { return b.Room("a", task.Rollback) },
		} {
			n, _ := other()
			require.Equal(t, -1, n, "another type, another phase")
		}

		time.Sleep(wait)
		require.Equal(t, 1, room(b))
		require.Equal(t, 1, room(b), "asking changes nothing")
		require.True(t, b.Begin("a", task.Run, 2))
		require.False(t, b.Begin("a", task.Run, 3), "exactly one")
		n, wait = b.Room("a", task.Run)
		require.Zero(t, n)
		require.Positive(t, wait)
		b.Done("a", task.Run, 2, succeeded)
		require.Equal(t, rampFirst, room(b))
		require.True(t, b.Begin("a", task.Run, 3))
	})
}

func TestBreakerPausesGrow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := steady()
		b.Begin("a", task.Run, 1)
		b.Done("a", task.Run, 1, undelivered)
		for i, want := range []time.Duration{
			500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second,
			30 * time.Second, 30 * time.Second,
		} {
			_, wait := b.Room("a", task.Run)
			require.Equal(t, want, wait)
			time.Sleep(wait)
			id := task.ID(10 + i)
			require.True(t, b.Begin("a", task.Run, id))
			b.Done("a", task.Run, id, undelivered)
			b.Done("a", task.Run, id, undelivered) // a repeat does not make it longer
		}
		_, wait := b.Room("a", task.Run)
		time.Sleep(wait)
		b.Begin("a", task.Run, 90)
		b.Done("a", task.Run, 90, succeeded)
		b.Begin("a", task.Run, 91)
		b.Done("a", task.Run, 91, undelivered)
		_, wait = b.Room("a", task.Run)
		require.Equal(t, 500*time.Millisecond, wait, "and begin anew")
	})
}

func TestBreakerJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBreakers(nil, func() float64 { return 0.999999 })
		b.Done("a", task.Run, 1, undelivered)
		_, wait := b.Room("a", task.Run)
		require.InDelta(t, 0.25, wait.Seconds(), 0.001)
	})
}

func TestBreakerOnUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := steady()
		for range 20 {
			b.Done("a", task.Run, 1, unavailable)
		}
		require.Equal(t, -1, room(b), "one row is not five")
		for id := range task.ID(3) {
			b.Done("a", task.Run, 2+id, unavailable)
		}
		b.Done("a", task.Run, 99, succeeded)
		for id := range task.ID(4) {
			b.Done("a", task.Run, 2+id, unavailable)
		}
		require.Equal(t, -1, room(b), "a success between them")
		b.Done("a", task.Run, 7, task.Outcome{Verdict: task.Failed})
		b.Done("a", task.Run, 8, unavailable)
		require.Equal(t, 0, room(b))
		time.Sleep(time.Second)
		b.Begin("a", task.Run, 9)
		b.Done("a", task.Run, 9, unavailable)
		_, wait := b.Room("a", task.Run)
		require.Equal(t, time.Second, wait, "one is enough for a trial")
	})
}

// What ends while the breaker is open, and began before, says nothing: a server that shuts down finishes what it has.
func TestBreakerCountsTrialsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := steady()
		for id := range task.ID(8) {
			require.True(t, b.Begin("a", task.Run, id))
		}
		b.Done("a", task.Run, 0, undelivered)
		b.Done("a", task.Run, 1, succeeded)
		b.Done("a", task.Run, 2, undelivered)
		n, wait := b.Room("a", task.Run)
		require.Zero(t, n)
		require.Equal(t, 500*time.Millisecond, wait)
		time.Sleep(wait)
		b.Done("a", task.Run, 3, succeeded)
		require.Equal(t, 1, room(b))
		b.Begin("a", task.Run, 20)
		b.Done("a", task.Run, 4, undelivered)
		b.Done("a", task.Run, 20, task.Outcome{Verdict: task.Rejected})
		require.Equal(t, rampFirst, room(b))
	})
}

func TestBreakerTrialOutcomes(t *testing.T) {
	for name, c := range map[string]struct {
		outcome task.Outcome
		room    int
	}{
		"succeeded":                {succeeded, rampFirst},
		"failed":                   {task.Outcome{Verdict: task.Failed}, rampFirst},
		"failed, end unknown":      {task.Outcome{Verdict: task.Failed, EndUnknown: true}, rampFirst},
		"rejected":                 {task.Outcome{Verdict: task.Rejected}, rampFirst},
		"deferred":                 {task.Outcome{Verdict: task.Deferred}, rampFirst},
		"superseded":               {task.Outcome{Verdict: task.Superseded}, rampFirst},
		"timed out":                {task.Outcome{Verdict: task.TimedOut, EndUnknown: true}, rampFirst},
		"undelivered":              {undelivered, 0},
		"unavailable":              {unavailable, 0},
		"drained":                  {task.Outcome{Verdict: task.Drained, EndUnknown: true}, 1},
		"cancelled":                {task.Outcome{Verdict: task.Cancelled}, 1},
		"lost":                     {task.Outcome{Verdict: task.Lost}, 1},
		"rejected before it began": {task.Outcome{Verdict: task.Rejected, NeverStarted: true}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := steady()
				b.Done("a", task.Run, 1, undelivered)
				time.Sleep(time.Second)
				require.True(t, b.Begin("a", task.Run, 2))
				b.Done("a", task.Run, 2, c.outcome)
				require.Equal(t, c.room, room(b))
			})
		})
	}
}

func TestBreakerIsNotWedged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := steady()
		b.Done("a", task.Run, 1, undelivered)
		time.Sleep(time.Second)
		require.True(t, b.Begin("a", task.Run, 2))
		b.Release("a", task.Run, 3)
		require.Equal(t, 0, room(b), "not the trial")
		b.Release("a", task.Run, 2)
		require.Equal(t, 1, room(b), "the trial was released")

		require.True(t, b.Begin("a", task.Run, 4))
		asked := time.Now()
		for n, wait := b.Room("a", task.Run); n == 0; n, wait = b.Room("a", task.Run) {
			require.Positive(t, wait)
			require.LessOrEqual(t, wait, lookAgain)
			time.Sleep(wait)
		}
		require.Equal(t, trialBound, time.Since(asked), "the trial never reported")
		require.True(t, b.Begin("a", task.Run, 5))
		b.Done("a", task.Run, 4, succeeded)
		require.Equal(t, rampFirst-1, room(b), "it was a trial all the same")
	})
}

func TestBreakerReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := steady()
		b.Begin("a", task.Run, 1)
		b.Reached("a", task.Run, 1)
		b.Done("a", task.Run, 1, undelivered)
		b.Reached("a", task.Run, 9)
		require.Equal(t, 0, room(b), "not the trial")
		time.Sleep(time.Second)
		require.True(t, b.Begin("a", task.Run, 2))
		b.Reached("a", task.Run, 2)
		require.Equal(t, rampFirst-1, room(b), "a command that runs has started, however long it takes")
	})
}

func TestBreakerGauge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "open"}, []string{"type", "phase"})
		b := NewBreakers(open, nil)
		b.Done("a", task.Run, 1, succeeded)
		g := open.WithLabelValues("a", "run")
		require.Zero(t, testutil.ToFloat64(g))
		b.Done("a", task.Run, 1, undelivered)
		require.InDelta(t, 1, testutil.ToFloat64(g), 0)
		time.Sleep(time.Second)
		b.Begin("a", task.Run, 1)
		b.Done("a", task.Run, 1, succeeded)
		require.Zero(t, testutil.ToFloat64(g))
	})
}

// An open breaker never lets two trials through at once within their bound, and always lets one through in the end.
func TestBreakerProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(*testing.T) {
			b := NewBreakers(nil, rand.New(rand.NewPCG(1, 2)).Float64)
			b.Done("a", task.Run, 1, undelivered)
			next, running := task.ID(2), make(map[task.ID]time.Time)
			outcomes := []task.Outcome{undelivered, unavailable, {Verdict: task.Drained}, {Verdict: task.Cancelled}}
			for range rapid.IntRange(1, 60).Draw(rt, "steps") {
				switch rapid.IntRange(0, 2).Draw(rt, "step") {
				case 0:
					time.Sleep(time.Duration(rapid.IntRange(0, 20_000).Draw(rt, "ms")) * time.Millisecond)
				case 1:
					n := room(b)
					if b.Begin("a", task.Run, next) != (n == 1) {
						rt.Fatalf("Room said %d and Begin did otherwise", n)
					}
					if n == 1 {
						for _, since := range running {
							if time.Since(since) < trialBound {
								rt.Fatalf("two trials at once")
							}
						}
						running[next] = time.Now()
					}
					next++
				case 2:
					for id := range running {
						b.Done("a", task.Run, id, rapid.SampledFrom(outcomes).Draw(rt, "outcome"))
						delete(running, id)
						break
					}
				}
			}
			time.Sleep(longestPause + trialBound)
			if room(b) != 1 {
				rt.Fatalf("wedged")
			}
		})
	})
}

func TestBreakersConcurrently(t *testing.T) {
	b := NewBreakers(nil, nil)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 500 {
				id := task.ID(i*1000 + j)
				b.Room("a", task.Run)
				if b.Begin("a", task.Run, id) {
					b.Reached("a", task.Run, id)
					b.Done("a", task.Run, id, []task.Outcome{undelivered, unavailable, succeeded}[j%3])
				} else {
					b.Release("a", task.Run, id)
				}
			}
		})
	}
	wg.Wait()
}

func TestOpenBreakers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := steady()
		require.Empty(t, b.Open())
		refused := undelivered
		refused.Error = "connection refused"
		b.Begin("b", task.Run, 1)
		b.Done("b", task.Run, 1, refused)
		time.Sleep(2 * time.Second)
		b.Begin("a", task.Check, 2)
		b.Done("a", task.Check, 2, refused)
		b.Begin("c", task.Run, 3)
		b.Done("c", task.Run, 3, succeeded)
		require.Equal(t, []store.OpenBreaker{
			{Types: []string{"a"}, Phase: task.Check, Error: "connection refused", RetryIn: 500},
			{Types: []string{"b"}, Phase: task.Run, OpenFor: 2000, Error: "connection refused"},
		}, b.Open())
		b.Begin("b", task.Run, 4)
		b.Done("b", task.Run, 4, succeeded)
		require.Len(t, b.Open(), 1)
	})
}
