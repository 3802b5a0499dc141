package storetest

import (
	"context"
	"errors"
	"flag"
	"maps"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// The machine's time. Whatever happens, happens at a whole number of steps after the beginning and a little: the
// time that the test itself takes on a store with a real clock. Every length that decides about anything ends half a
// step away from that, so that the little never decides; and compared are times in halves of a step.
const (
	step = time.Hour
	half = step / 2
	// tick passes before each action, so that what happens later has a later time on a store that counts in
	// milliseconds too: rows that become due one after the other are claimed in that order.
	tick = 3 * time.Millisecond

	retained  = 7 * day
	muchLater = 30 * day // a store may remove whole days only
)

// A Theme is what histories are about.
type Theme string

// The themes. Tasks are in all of them.
const (
	AboutTasks     Theme = "tasks" // and named leases
	AboutSchedules Theme = "schedules"
	AboutChunks    Theme = "chunks"
	AboutLimits    Theme = "limits"
)

// histories is how many of each theme RunMachine tries, unless -rapid.checks was given: a number, so that a busy machine tries no
// fewer.
func histories() map[Theme]int {
	return map[Theme]int{AboutTasks: 20, AboutSchedules: 8, AboutChunks: 6, AboutLimits: 10}
}

// fullLength is set where tests are to take the time that they can use: then rapid's own number of histories, 100, is tried.
const fullLength = "LEASEHOLD_TEST_FULL"

// RunMachine makes random histories of calls on a store and on the model, and compares what they answer and all that
// is to be seen of them after every step. Each history has a store of its own from open, which cleans up with the
// t.Cleanup it is given. It tries as many as histories says; where -rapid.checks is given, just so many of each theme.
func RunMachine(t *testing.T, open func(t testing.TB) Harness) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	all := checks.Value.String() != checks.DefValue || os.Getenv(fullLength) != ""
	for about, n := range histories() {
		t.Run(string(about), func(t *testing.T) {
			if all {
				n = 0
			}
			runMachine(t, about, open, n)
		})
	}
}

// MachineFails is RunMachine, of one theme, on a store that it must find to be wrong: it returns how it did, "" where it did not. It
// is not for parallel tests, as it sets flags while it runs. The limit is far above what the rarest mistake needs (1,000
// histories on average), since it costs time only where nothing is found.
func MachineFails(t *testing.T, about Theme, open func(t testing.TB) Harness) string {
	t.Helper()
	setFlag(t, "rapid.checks", "20000")
	setFlag(t, "rapid.shrinktime", "0s")
	setFlag(t, "rapid.nofailfile", "true")
	return expect(t, func(t testing.TB) { runMachine(t, about, open, 0) })
}

// runMachine tries so many histories at most; 0: as many as rapid does.
func runMachine(t testing.TB, about Theme, open func(t testing.TB) Harness, most int) {
	t.Helper()
	tried, failing := 0, false
	rapid.Check(t, func(rt *rapid.T) {
		if tried++; most > 0 && !failing && tried > most {
			return
		}
		defer func() { failing = failing || rt.Failed() }() // from then on rapid looks for a shorter history that fails
		s := &scope{TB: t, rt: rt}
		m := &machine{t: s, about: about, real: open(s), ideal: NewOnModel(), everStarted: map[int]bool{}, letters: map[int]pair[task.ID]{}}
		m.schedules = scheduled{versions: map[string]pair[version]{}, slots: map[int][2]string{}}
		m.chunks.versions = map[string]pair[version]{}
		m.ideal.NumbersOnly = !m.real.ComparesJSON()
		m.join("first")
		switch about {
		case AboutSchedules:
			m.writeSchedule(rt)
		case AboutChunks:
			m.firstPass(rt)
		}
		rt.Repeat(m.actions())
	})
}

// actions are those of the history's theme.
func (m *machine) actions() map[string]func(*rapid.T) {
	all := map[string]func(*rapid.T){
		"":         m.compare,
		"claim":    m.claim,
		"claim 2":  m.claim, // it is what most else needs
		"settle":   m.settle,
		"settle 2": m.settle,
		"sweep":    m.sweep,
		"present":  m.present,
		"leave":    m.leave,
		"join": func(t *rapid.T) {
			m.join(rapid.SampledFrom([]string{"further", observer}).Draw(t, "name"))
		},
		"advance": m.advance,
		"promote": m.promote,
		"spill":   m.spill,
		"resolve": m.resolveSequence,
		"orphans": m.orphans,
		"unblock": m.unblock,
	}
	switch m.about {
	case AboutSchedules:
		maps.Copy(all, m.scheduleActions())
		return all
	case AboutChunks:
		maps.Copy(all, m.chunkActions())
		maps.Copy(all, m.bulkActions())
		return all
	}
	maps.Copy(all, map[string]func(*rapid.T){
		"insert":   m.insert,
		"enqueue":  m.enqueue,
		"claimed":  m.claimed,
		"next due": m.nextDue,
		"renew":    m.renew,
		"repeat":   m.repeat,
	})
	if m.about == AboutLimits {
		maps.Copy(all, m.limitActions())
	}
	maps.Copy(all, m.liveActions())
	maps.Copy(all, m.operateActions())
	maps.Copy(all, m.bulkActions())
	maps.Copy(all, m.namedActions())
	return all
}

// setFlag sets a flag until the test is over, unless it was set by hand.
func setFlag(t *testing.T, name, value string) {
	t.Helper()
	f := flag.Lookup(name)
	if f.Value.String() != f.DefValue {
		return
	}
	require.NoError(t, f.Value.Set(value))
	t.Cleanup(func() { require.NoError(t, f.Value.Set(f.DefValue)) })
}

// scope is the testing.TB of one history: what it reports goes to rapid, which may try a shorter one.
type scope struct {
	testing.TB
	rt *rapid.T
}

func (s *scope) Helper()                   {}
func (s *scope) Cleanup(f func())          { s.rt.Cleanup(f) }
func (s *scope) Context() context.Context  { return s.rt.Context() }
func (s *scope) Failed() bool              { return s.rt.Failed() }
func (s *scope) Fail()                     { s.rt.Fail() }
func (s *scope) FailNow()                  { s.rt.FailNow() }
func (s *scope) Log(a ...any)              { s.rt.Log(a...) }
func (s *scope) Logf(f string, a ...any)   { s.rt.Logf(f, a...) }
func (s *scope) Error(a ...any)            { s.rt.Error(a...) }
func (s *scope) Errorf(f string, a ...any) { s.rt.Errorf(f, a...) }
func (s *scope) Fatal(a ...any)            { s.rt.Fatal(a...) }
func (s *scope) Fatalf(f string, a ...any) { s.rt.Fatalf(f, a...) }

// machine is one history. The two stores give their own numbers to tasks and sessions; the index in tasks and sessions
// relates them.
type machine struct {
	t     *scope
	about Theme
	real  Harness
	ideal *OnModel

	tasks       []pair[task.ID]
	sessions    []*session
	holds       []hold // every hold that there ever was
	sent        []sent // every settlement that there ever was
	everStarted map[int]bool
	letters     map[int]pair[task.ID] // of rows of on_failed: the task that has failed
	open        []*openHold
	compared    int   // how often
	locks       *bool // whether the store has locks on rows; nil: not known yet
	granted     []granted
	heldLeases  []*heldLease
	changed     bool // an action has been about named leases
	explains    int  // tasks that were explained
	realBulks   *realBulks
	bulkIDs     int64 // how many bulk changes there were

	schedules scheduled
	chunks    chunked
}

// pair is a thing's number in the two stores.
type pair[N ~int64] struct{ real, ideal N }

type session struct {
	pair[task.Session]
	name   string
	claims int64
	limits []store.TypeLimit // that it declares
}

// hold is a row as a session once held it.
type hold struct {
	row     int // in tasks
	session int // in sessions
	fence   task.Fence
	ran     task.Fence // of the attempt
	attempt int
	phase   task.Phase
}

// place finds a number among pairs; -1 where it is not there.
func place[N ~int64](pairs []pair[N], side func(pair[N]) N, n N) int {
	return slices.IndexFunc(pairs, func(p pair[N]) bool { return side(p) == n })
}

func onReal[N ~int64](p pair[N]) N  { return p.real }
func onIdeal[N ~int64](p pair[N]) N { return p.ideal }

func (m *machine) sessionPairs() []pair[task.Session] {
	pairs := make([]pair[task.Session], len(m.sessions))
	for i, s := range m.sessions {
		pairs[i] = s.pair
	}
	return pairs
}

// compare asserts that the two stores look the same: every task in the list, the history of those that the last
// action was about, the counts, and the named leases.
func (m *machine) compare(*rapid.T) {
	ctx := m.t.Context()
	all := store.TaskFilter{Limit: 1000}
	got, err := m.real.List(ctx, all)
	require.NoError(m.t, err)
	want, err := m.ideal.List(ctx, all)
	require.NoError(m.t, err)
	m.findLetter(want, got)
	require.Equal(m.t, m.views(want, onIdeal, onIdeal), m.views(got, onReal, onReal), "the list of tasks")
	m.compareLocks(got)
	m.compareSequences(got)

	for row := range m.everStarted {
		got, reason := m.real.Get(ctx, m.tasks[row].real)
		want, reasonWant := m.ideal.Get(ctx, m.tasks[row].ideal)
		if errors.Is(reasonWant, store.ErrNoTask) {
			require.ErrorIs(m.t, reason, store.ErrNoTask, "task %d is past its retention", row)
			continue
		}
		require.NoError(m.t, reasonWant)
		require.NoError(m.t, reason)
		require.Equal(m.t, m.whole(want, onIdeal, onIdeal), m.whole(got, onReal, onReal), "task %d", row)
	}
	m.everStarted = map[int]bool{}

	m.compareWindows(want)
	gotStats, err := m.real.Stats(ctx)
	require.NoError(m.t, err)
	wantStats, err := m.ideal.Stats(ctx)
	require.NoError(m.t, err)
	require.Equal(m.t, counts(wantStats), counts(gotStats), "the counts")
	switch m.about {
	case AboutTasks:
		m.compareLeases()
	case AboutSchedules:
		m.compareSchedules()
	case AboutChunks:
		m.compareChunks()
	}
}

// compareWindows reads one list in windows, another one each time, and counts what there is with bounds.
func (m *machine) compareWindows(all []store.TaskInfo) {
	types := map[string]bool{}
	for i := range all {
		types[all[i].Type] = true
	}
	lists := searches(slices.Sorted(maps.Keys(types)))
	m.compared++
	requireWindows(m.t, m.t.Context(), m.real, lists[m.compared%len(lists)], 1+m.compared%3)
	requireCounts(m.t, m.t.Context(), m.real)
}

// begin lets a tick pass.
func (m *machine) begin() context.Context {
	m.pass(tick)
	return m.t.Context()
}

func (m *machine) pass(d time.Duration) {
	m.real.Advance(m.t, d)
	m.ideal.Advance(m.t, d)
}

func (m *machine) advance(t *rapid.T) {
	m.pass(time.Duration(rapid.IntRange(1, 6).Draw(t, "steps")) * step)
}

// muchLater lets so much time pass that all that has finished is past its retention, and has it removed. How much that is a store may
// only estimate.
func (m *machine) muchLater(*rapid.T) {
	ctx := m.begin()
	m.pass(muchLater)
	for _, h := range []Harness{m.ideal, m.real} {
		for range 3 { // it takes bounded steps
			_, err := h.Maintain(ctx, retained)
			require.NoError(m.t, err)
		}
	}
}
