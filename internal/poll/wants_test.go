package poll

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// slotsOf makes slots of an engine that declares the types.
func slotsOf(workers int, types []*task.Type, clock lease.Clock) *slots {
	d := Declarations{Workers: workers, Types: types}
	return newSlots(newGeneration(d), clock)
}

func TestDivide(t *testing.T) {
	for _, c := range []struct {
		needs []int
		total int
		want  []int
	}{
		{[]int{2, 1}, 1, []int{1, 0}},
		{[]int{1, 2}, 1, []int{1, 0}},
		{[]int{5, 5, 5}, 2, []int{1, 1, 0}},
		{[]int{1, 100}, 20, []int{1, 19}},
		{[]int{100, 1, 100}, 21, []int{10, 1, 10}},
		{[]int{3, 3}, 100, []int{3, 3}},
		{[]int{3, 3}, 0, []int{0, 0}},
		{[]int{3, 3}, -4, []int{0, 0}},
		{nil, 10, nil},
	} {
		require.Equal(t, c.want, shares(c.needs, c.total), "%v of %v", c.total, c.needs)
	}
}

func TestDivideGivesAllItCan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		needs := rapid.SliceOfN(rapid.IntRange(1, 50), 1, 8).Draw(t, "needs")
		total := rapid.IntRange(0, 300).Draw(t, "total")
		given, sum, need := shares(needs, total), 0, 0
		for i := range needs {
			require.LessOrEqual(t, given[i], needs[i])
			sum += given[i]
			need += needs[i]
			for j := range needs {
				if given[i] < needs[i] {
					require.LessOrEqual(t, given[j], given[i]+1, "who gets less than it needs gets no less than any other, but for the rest")
				}
			}
		}
		require.Equal(t, min(total, need), sum)
	})
}

// What a lane needs is shared by its runs and its rollbacks; a phase whose target is in doubt gets its trial, and no more.
func TestPhasesShareWhatTheirLaneNeeds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ := &task.Type{Name: "a", Aliases: []string{"b"}, Rollback: &task.Webhook{}}
		clock := lease.ClockFunc(func() time.Duration { return 0 })
		s := slotsOf(rapid.IntRange(1, 20).Draw(t, "workers"), []*task.Type{typ}, clock)
		l := s.lanes[0]
		l.running = rapid.IntRange(0, s.workers-1).Draw(t, "running")
		s.running, s.without, l.turn = l.running, 1-min(l.running, 1), rapid.IntRange(0, 4).Draw(t, "turn")
		room := map[task.Phase]int{
			task.Run: rapid.IntRange(-1, 2).Draw(t, "runs"), task.Rollback: rapid.IntRange(-1, 2).Draw(t, "rollbacks"),
		}
		requested, most := map[task.Phase]int{}, map[task.Phase]int{}
		for _, a := range s.wants(0, maxClaim, func(_ *lane, p task.Phase) int { return room[p] }) {
			require.Positive(t, a.n)
			requested[a.source.phase] += a.n
		}
		free := s.workers - s.running
		for phase, n := range room {
			most[phase] = free
			if n >= 0 {
				most[phase] = min(n, free)
			}
			require.LessOrEqual(t, requested[phase], most[phase])
		}
		require.LessOrEqual(t, requested[task.Run]+requested[task.Rollback], free)
		if room[task.Run] < 0 && room[task.Rollback] < 0 {
			require.Equal(t, free, requested[task.Run]+requested[task.Rollback], "all that is free")
			require.InDelta(t, requested[task.Run], requested[task.Rollback], 2, "alike")
		}
		require.Equal(t, most[task.Run]+most[task.Rollback] > 0, requested[task.Run]+requested[task.Rollback] > 0, "something, where something may be")
	})
}

func TestAheadIsBoundedInBytes(t *testing.T) {
	var types []*task.Type
	for _, name := range []string{"a", "b", "c", "d"} {
		types = append(types, &task.Type{Name: name})
	}
	now := time.Duration(0)
	s := slotsOf(8, types, lease.ClockFunc(func() time.Duration { return now }))
	s.running, s.without = 8, 3 // of one type; all others could take every slot
	s.lanes[0].running = 8
	for _, c := range []struct {
		size float64 // bytes of a row
		most int     // rows ahead
	}{
		{100, maxClaim},
		{64 << 10, 256},
		{1 << 20, 16},
		{1 << 30, 1},
	} {
		now += time.Second
		for _, l := range s.lanes {
			l.rate, l.ended = ewma{weight: 1}, 1_000_000
		}
		s.size = ewma{value: c.size, warm: true}
		n := 0
		for _, a := range s.wants(time.Second, maxClaim, func(*lane, task.Phase) int { return -1 }) {
			n += a.n
		}
		require.Equal(t, c.most, n, "rows of %v bytes", c.size)
	}
}

// What is held ahead lasts for some claims, within bounds.
func TestAheadLastsForSomeClaims(t *testing.T) {
	now := time.Duration(0)
	s := slotsOf(8, []*task.Type{{Name: "a"}}, lease.ClockFunc(func() time.Duration { return now }))
	l := s.lanes[0]
	for _, c := range []struct {
		ended   int // in a second
		latency time.Duration
		ahead   int
	}{
		{0, time.Second, 0},
		{10_000, 10 * time.Millisecond, 500}, // aheadFor
		{10_000, 20 * time.Millisecond, 600}, // aheadClaims
		{10_000, time.Second, 2500},          // aheadMax
		{60_000, 20 * time.Millisecond, 3600},
		{1_000_000, 20 * time.Millisecond, maxAhead},
	} {
		now += time.Second
		l.rate, l.ended = ewma{weight: 1}, c.ended
		s.plan(c.latency)
		require.Equal(t, c.ahead, l.ahead, "%v", c)
	}
}

// shares is divide by position.
func shares(needs []int, total int) []int {
	var asks []ask
	at := map[*source]int{}
	for i, n := range needs {
		src := &source{}
		at[src] = i
		asks = append(asks, ask{source: src, n: n})
	}
	var out []int
	if needs != nil {
		out = make([]int, len(needs))
	}
	for _, a := range divide(asks, total) {
		out[at[a.source]] = a.n
	}
	return out
}

// A replacement empties the queues, keeps what runs, and lets nothing more start while more runs than is declared now.
func TestReplaceSlots(t *testing.T) {
	clock := lease.ClockFunc(func() time.Duration { return 0 })
	a, b := &task.Type{Name: "a"}, &task.Type{Name: "b"}
	declare := func(workers int, types ...*task.Type) *generation {
		return newGeneration(Declarations{Workers: workers, Types: types})
	}
	first := declare(3, a, b)
	s := newSlots(first, clock)
	fill := func(g *generation, names ...string) {
		for _, name := range names {
			l := lease.New(t.Context(), &task.Task{Type: name}, &task.Policy{}, clock, 0, nil)
			s.push([]*attempt{{lease: l, declared: g.byName[name]}})
		}
	}
	fill(first, "a", "a", "a", "b", "b")
	running := []*attempt{s.next().first, s.next().first, s.next().first}
	require.Nil(t, s.next().first, "all slots are taken")
	require.Equal(t, "b", running[1].declared.typ.Name, "types take turns")

	second := declare(2, a, b)
	back := s.replace(second)
	require.Len(t, back, 2)
	require.Equal(t, 3, s.held(), "nothing is queued")
	require.Equal(t, 3, s.active())
	fill(second, "b")
	require.Nil(t, s.done(running[1].lane, ended, 0).first, "its slot is there no more")
	next := s.done(running[0].lane, ended, 0).first
	require.NotNil(t, next)
	require.Same(t, second.types[1], next.declared)
	require.Same(t, running[1].lane, next.lane, "it is the same lane")

	require.Empty(t, s.replace(declare(2, a)))
	require.Contains(t, s.of, "b", "something of it runs")
	require.Nil(t, s.done(next.lane, ended, 0).first)
	require.Nil(t, s.done(running[2].lane, ended, 0).first)
	require.Zero(t, s.held())
	require.Empty(t, s.replace(declare(2)))
	require.Empty(t, s.of)
	require.Empty(t, s.wants(0, maxClaim, func(*lane, task.Phase) int { return -1 }))
}

// TestSlotsOfAWorker has a type use no more slots than it has processes: a row that waited for one in a slot would be released.
func TestSlotsOfAWorker(t *testing.T) {
	few := &task.Type{Name: "few", Workers: 32, Target: &task.Command{Worker: &task.Worker{Processes: 2}}}
	s := slotsOf(32, []*task.Type{few, {Name: "other", Workers: 32, Target: &task.Webhook{}}}, lease.BootClock())
	require.Equal(t, 2, s.lanes[0].workers)
	require.Equal(t, 32, s.lanes[1].workers)
}

// Tenants that may have room are told to the store once, by the next claim that is made.
func TestTenantsWithRoomAreToldToTheNextClaim(t *testing.T) {
	clock := lease.ClockFunc(func() time.Duration { return 0 })
	s := slotsOf(4, []*task.Type{{Name: "a", Limit: 2}}, clock)
	s.madeRoom(map[string][]string{"a": {"x", "y"}})
	all := func(*lane, task.Phase) int { return -1 }
	first := s.wants(0, 100, all)
	require.NotEmpty(t, first)
	require.Equal(t, []string{"x", "y"}, first[0].want.Freed)
	s.notAsked(first)
	require.Equal(t, []string{"x", "y"}, s.wants(0, 100, all)[0].want.Freed)
	require.Empty(t, s.wants(0, 100, all)[0].want.Freed)
}
