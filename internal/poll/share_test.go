package poll

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// allowances is share with scratch space of its own.
func allowances(slots int, keep bool, demands ...demand) []int {
	allow := make([]int, len(demands))
	share(slots, keep, demands, make([]float64, len(demands)), allow)
	return allow
}

func TestShare(t *testing.T) {
	due := func(most int) demand { return demand{most: most, room: -1, due: true} }
	idle := func(load float64) demand { return demand{most: 32, room: -1, load: load} }
	hangs := func(load float64) demand { return demand{most: 32, held: 3, room: -1, due: true, load: load, stuck: 1} }
	for _, c := range []struct {
		what    string
		slots   int
		keep    bool
		demands []demand
		allow   []int
	}{
		{"alone", 32, true, []demand{due(32)}, []int{32}},
		{"others are idle", 32, true, []demand{due(32), idle(0), idle(0)}, []int{31, 31, 31}},
		{"two", 32, false, []demand{due(32), due(32), idle(0)}, []int{16, 16, 16}},
		{"one of them is capped", 32, false, []demand{due(32), due(4)}, []int{28, 4}},
		{"its breaker is open", 32, true, []demand{due(32), {most: 32, due: true}}, []int{31, 31}},
		{"its breaker lets one through", 32, true, []demand{due(32), {most: 32, due: true, room: 1}}, []int{30, 30}},
		{"others were busy lately", 32, true, []demand{due(32), idle(4), idle(2)}, []int{22, 22, 22}},
		{"all were busy lately", 30, true, []demand{due(30), idle(15), idle(15)}, []int{10, 10, 10}},
		{"it hangs", 32, true, []demand{hangs(3), due(32), idle(0), idle(0)}, []int{8, 23, 23, 23}},
		{"all hang", 30, false, []demand{hangs(3), hangs(3), hangs(3)}, []int{10, 10, 10}},
		{"only it has rows", 32, true, []demand{hangs(3), idle(0), idle(0), idle(0)}, []int{8, 23, 23, 23}},
		{"fewer slots than types", 2, true, []demand{due(2), due(2), due(2), due(2)}, []int{1, 1, 1, 1}},
		{"fewer slots, and one has had more", 2, true, []demand{{most: 2, room: -1, due: true, load: .6}, due(2), due(2), due(2)}, []int{0, 1, 1, 1}},
		{"fewer slots, and it hangs", 2, true, []demand{{most: 2, room: -1, due: true, stuck: 1, load: .3}, due(2), due(2), due(2)}, []int{0, 1, 1, 1}},
		{"it has waited", 2, true, []demand{{most: 2, room: -1, due: true, stuck: 1, load: .2}, due(2), due(2), due(2)}, []int{1, 1, 1, 1}},
		{"one slot", 1, true, []demand{due(1), idle(0)}, []int{1, 1}},
	} {
		require.Equal(t, c.allow, allowances(c.slots, c.keep, c.demands...), c.what)
	}
}

func drawDemand(t *rapid.T, slots int) demand {
	d := demand{
		most: rapid.IntRange(1, slots).Draw(t, "most"),
		due:  rapid.Bool().Draw(t, "due"), room: rapid.SampledFrom([]int{-1, -1, -1, 0, 1}).Draw(t, "room"),
		stuck: rapid.SampledFrom([]float64{0, 0, 0, 0.4, 0.8, 1}).Draw(t, "stuck"),
	}
	d.held = rapid.IntRange(0, d.most).Draw(t, "held")
	d.load = rapid.Float64Range(0, float64(d.most)).Draw(t, "load")
	return d
}

// fill is the model: it gives slots away in small parts, each to the lane that has the least of those that claim more.
func fill(total float64, claims []float64) (given []float64) {
	const part = 1.0 / 64
	given = make([]float64, len(claims))
	for ; total >= part; total -= part {
		least := -1
		for i := range claims {
			if given[i]+part <= claims[i]+1e-9 && (least < 0 || given[i] < given[least]) {
				least = i
			}
		}
		if least < 0 {
			break
		}
		given[least] += part
	}
	return given
}

func TestLevelIsMaxMinFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		claims := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) float64 {
			return float64(rapid.IntRange(0, 512).Draw(t, "claim")) / 64
		}), 1, 8).Draw(t, "claims")
		total := float64(rapid.IntRange(0, 40).Draw(t, "total"))
		l, spare := level(total, claims)
		sum := 0.0
		for i, given := range fill(total, claims) {
			require.InDelta(t, given, min(claims[i], l), 1.0/32)
			sum += min(claims[i], l)
		}
		require.InDelta(t, total, sum+spare, 1e-6)
		require.Equal(t, math.IsInf(l, 1), sum+1e-9 >= totalOf(claims) && spare >= 0 && !anyAbove(claims, l))
	})
}

func anyStuck(demands []demand) bool {
	return slices.ContainsFunc(demands, func(d demand) bool { return d.stuck > mostly })
}

func totalOf(claims []float64) (sum float64) {
	for _, c := range claims {
		sum += c
	}
	return sum
}

func anyAbove(claims []float64, l float64) bool {
	return slices.ContainsFunc(claims, func(c float64) bool { return c > l })
}

func TestSharesAreFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.IntRange(1, 40).Draw(t, "slots")
		demands := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) demand { return drawDemand(t, slots) }), 1, 8).Draw(t, "demands")
		keep := rapid.Bool().Draw(t, "keep")
		allow := allowances(slots, keep, demands...)
		sum, others, due, turns := 0, 0.0, 0, 0
		for i, d := range demands {
			require.LessOrEqual(t, allow[i], d.most)
			require.GreaterOrEqual(t, allow[i], min(slots/len(demands), d.most), "its own share, in any case")
			if d.due {
				due++
			}
			if allow[i] > 0 {
				turns++
			} else {
				require.Greater(t, d.load, 0.0)
				require.Less(t, slots, len(demands))
			}
			for j, other := range demands {
				if d.stuck <= mostly && other.stuck <= mostly && d.due && other.due && d.room < 0 && allow[i] < d.most && allow[i] > 0 {
					require.GreaterOrEqual(t, allow[i], allow[j], "none has more while one that needs more has less")
				}
			}
			if d.due && d.room < 0 && d.stuck <= mostly {
				sum += allow[i]
			} else if d.due {
				others += float64(d.most)
			} else {
				others += min(max(headroom*d.load, float64(d.held+1)), float64(d.most))
			}
		}
		if !anyStuck(demands) {
			require.GreaterOrEqual(t, turns, min(slots, due), "while some wait for their turn, the others can use all slots")
		}
		capped := true
		for i, d := range demands {
			capped = capped && (!d.due || d.room >= 0 || d.stuck > mostly || allow[i] == d.most)
		}
		if !capped && slots >= len(demands) {
			require.GreaterOrEqual(t, float64(sum)+others+1, float64(slots), "what no other needs is lent")
		}
		more := rapid.IntRange(0, len(demands)-1).Draw(t, "more")
		demands[more].due, demands[more].room = true, -1
		for i, n := range allowances(slots, keep, demands...) {
			if i != more && demands[i].due && demands[i].room < 0 {
				require.LessOrEqual(t, n, allow[i], "that another needs more gives none more")
			}
		}
	})
}

// desk drives slots as the engine does, with a store that has so many due rows of each lane.
type desk struct {
	*slots
	backlog map[*lane]int
	runs    []*attempt
}

func newDesk(t *rapid.T) *desk {
	d := &desk{backlog: map[*lane]int{}}
	var types []*task.Type
	for i := range rapid.IntRange(1, 6).Draw(t, "types") {
		types = append(types, &task.Type{Name: fmt.Sprint(i), Workers: rapid.IntRange(0, 3).Draw(t, "cap")})
	}
	clock := lease.ClockFunc(func() time.Duration { return 0 }) // rates stay 0: nothing is claimed ahead
	d.slots = slotsOf(rapid.IntRange(1, 8).Draw(t, "workers"), types, clock)
	return d
}

func (d *desk) startAll(t *rapid.T) {
	for j := d.next(); j.first != nil; j = d.next() {
		d.run(t, j.first)
	}
}

// run notes that an attempt runs. The last slot is for lanes of which nothing runs, as long as there is one.
func (d *desk) run(t *rapid.T, a *attempt) {
	if d.running == d.workers && d.without > 0 {
		require.Equal(t, 1, a.lane.running, "lane %s took the last slot", a.lane.typ.Name)
	}
	d.runs = append(d.runs, a)
}

// claim is a turn of the engine's loop. It reports whether there was anything to ask for.
func (d *desk) claim(t *rapid.T) bool {
	asks := d.wants(0, maxClaim, func(*lane, task.Phase) int { return -1 })
	d.startAll(t)
	for _, a := range asks {
		n := min(a.n, d.backlog[a.lane])
		d.backlog[a.lane] -= n
		d.setExhausted(a.source, n < a.n)
		for range n {
			l := lease.New(t.Context(), &task.Task{Type: a.source.name}, &task.Policy{}, d.clock, 0, nil)
			d.push([]*attempt{{lease: l, declared: a.lane.declared}})
		}
	}
	d.startAll(t)
	return len(asks) > 0
}

func TestSlotsKeepAPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := newDesk(t)
		now := time.Duration(0)
		t.Repeat(map[string]func(*rapid.T){
			"rows": func(t *rapid.T) {
				d.backlog[rapid.SampledFrom(d.lanes).Draw(t, "lane")] += rapid.IntRange(1, 20).Draw(t, "n")
				d.forgetExhausted()
			},
			"time": func(t *rapid.T) {
				by := time.Duration(rapid.IntRange(1, 20_000).Draw(t, "ms")) * time.Millisecond
				now += by
				d.measure(now, by)
			},
			"end": func(t *rapid.T) {
				if len(d.runs) == 0 {
					t.Skip("nothing runs")
				}
				i := rapid.IntRange(0, len(d.runs)-1).Draw(t, "which")
				a := d.runs[i]
				d.runs = append(d.runs[:i], d.runs[i+1:]...)
				if next := d.done(a.lane, rapid.SampledFrom([]ending{untried, ended, hung}).Draw(t, "ending"), now).first; next != nil {
					d.run(t, next)
				}
			},
			"claim": func(t *rapid.T) { d.claim(t) },
			"":      func(t *rapid.T) { d.check(t) },
		})
		// With nothing ending, the loop comes to rest, and then every slot is used that may be.
		for turns := 0; d.claim(t); turns++ {
			require.Less(t, turns, 100)
		}
		d.forgetExhausted()
		for turns := 0; d.claim(t); turns++ {
			require.Less(t, turns, 100)
		}
		d.check(t)
		for _, l := range d.lanes {
			if d.backlog[l] > 0 {
				require.False(t, d.may(l), "lane %s has due rows, and a slot that it may use", l.typ.Name)
			}
		}
	})
}

// check compares what the slots count with what runs, and that no row waits that may start or was claimed to wait.
func (d *desk) check(t *rapid.T) {
	running, without := map[*lane]int{}, 0
	for _, a := range d.runs {
		running[a.lane]++
	}
	for _, l := range d.lanes {
		require.Equal(t, running[l], l.running)
		require.LessOrEqual(t, l.running, l.workers)
		if l.running == 0 {
			without++
		}
		require.Empty(t, l.queue, "what is claimed starts at once: nothing is claimed ahead")
	}
	require.Equal(t, without, d.without)
	require.Equal(t, len(d.runs), d.running)
	require.LessOrEqual(t, d.running, d.workers)
}
