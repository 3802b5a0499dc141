package check_test

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/faults/history"
)

// sim makes histories as an ideal product would: rows live their lives one by one, on agents that are killed and stand
// still by a plan; what becomes of a row is task.Decide's word, as in the product.
type sim struct {
	*maker
	t       *rapid.T
	agents  map[string]*simAgent
	effects []*simEffect
	nextID  int64
}

// steady is the agent that nothing befalls.
const steady = "a3.1"

// simAgent is one start of an agent: it is there from up to down, and stands still from still to thaw, if at all.
type simAgent struct {
	name        string
	up, down    time.Duration
	still, thaw time.Duration
}

// works reports whether it can claim at that time.
func (a *simAgent) works(at time.Duration) bool {
	return at >= a.up && at < a.down && (at < a.still || at > a.thaw+s(3))
}

// fails is when it will next be of no use, from that time on.
func (a *simAgent) fails(at time.Duration) (when time.Duration, dies bool) {
	if a.still > at && a.still < a.down {
		return a.still, false
	}
	return a.down, true
}

type simEffect struct {
	at        time.Duration
	row       history.EffectRow
	rollsBack *simEffect // nil: nothing
}

// never is later than anything that happens.
const never = 1_000_000 * time.Second

// simulate makes a history; rough: with faults that excuse things, although nothing is to be excused.
func simulate(t *rapid.T, rough bool) *sim {
	m := newMaker()
	m.Events = nil
	for name, k := range m.Kinds {
		k.Deferrals = 2
		m.Kinds[name] = k
	}
	g := &sim{maker: m, t: t, agents: map[string]*simAgent{}}
	g.plan()
	g.cohort()
	for _, script := range scripts() {
		g.live(script)
	}
	for range rapid.IntRange(0, 30).Draw(t, "more rows") {
		g.live(g.script())
	}
	g.groups()
	g.others()
	if rough {
		g.faults()
	}
	slices.SortStableFunc(g.effects, func(a, b *simEffect) int { return cmp.Compare(a.at, b.at) })
	for i, e := range g.effects {
		e.row.Serial = int64(i + 1)
		if e.rollsBack != nil {
			e.row.RollsBack = e.rollsBack.row.Serial
		}
		m.Effects = append(m.Effects, e.row)
	}
	return g
}

// between draws a time, of milliseconds.
func (g *sim) between(from, to time.Duration) time.Duration {
	return time.Duration(rapid.Int64Range(from.Milliseconds(), to.Milliseconds()).Draw(g.t, "ms")) * time.Millisecond
}

func (g *sim) one(n int) bool { return rapid.IntRange(1, n).Draw(g.t, "one of") == 1 }

// plan says what befalls the agents: a1 is killed and comes back, a2 stands still for longer than its presence.
func (g *sim) plan() {
	killed := g.between(s(40), s(45))
	frozen := g.between(s(40), s(60))
	for _, a := range []*simAgent{
		{name: "a1.1", down: killed, still: never, thaw: never},
		{name: "a1.2", up: killed + g.between(s(1), s(20)), down: never, still: never, thaw: never},
		{name: "a2.1", down: never, still: frozen, thaw: frozen + g.between(s(12), s(30))},
		{name: steady, down: never, still: never, thaw: never},
	} {
		g.agents[a.name] = a
		g.agentEvent(a.up, history.Up, a.name)
		if a.down < never {
			g.agentEvent(a.down, history.Killed, a.name)
		}
		if a.still < never {
			g.agentEvent(a.still, history.Frozen, a.name)
			g.agentEvent(a.thaw, history.Thawed, a.name)
		}
	}
}

func (g *sim) agentEvent(at time.Duration, what history.What, who string) {
	g.Events = append(g.Events, history.Event{At: at, What: what, Who: who})
}

// cohort has two agents run the rows of one transaction, one at a time each, in order.
func (g *sim) cohort() {
	type item struct {
		id       int64
		priority int
		in       time.Duration
	}
	var items []item
	for range rapid.IntRange(9, 14).Draw(g.t, "cohort") {
		g.nextID++
		items = append(items, item{g.nextID, rapid.IntRange(-1, 1).Draw(g.t, "priority"), -g.between(0, s(2))})
	}
	slices.SortFunc(items, func(a, b item) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.in, b.in), cmp.Compare(a.id, b.id))
	})
	free := map[string]time.Duration{"a1.1": s(5), steady: s(5)}
	for _, i := range items {
		who := steady
		if free["a1.1"] < free[steady] {
			who = "a1.1"
		}
		g.row(i.id, queue, "succeeded", 2, 1, func(e *enq, r *row) { e.Priority, e.RunAt, e.Cohort = i.priority, i.in, "queue" })
		at := free[who] + g.between(s(0.01), s(0.2))
		free[who] = at + g.between(s(0.1), s(0.5))
		g.report(at, history.Start, who, queue, i.id, 1, 1, "")
		g.report(free[who], history.End, who, queue, i.id, 1, 1, "succeeded")
	}
}

func (g *sim) report(at time.Duration, what history.What, who, kind string, id, fence int64, number int, note string) {
	g.Events = append(g.Events, history.Event{
		At: at, What: what, Who: who, Kind: kind, ID: id, Fence: fence, Attempt: number, Note: note,
	})
}

// script is what a row is to live through.
type script struct {
	kind     string
	guarded  bool
	who      string        // runs all attempts, where it can; "": any agent
	from     time.Duration // when it is enqueued
	ends     []task.Verdict
	long     bool           // its attempts take long
	cancel   time.Duration  // 0: it is not cancelled
	rollBack []task.Verdict // what attempts to roll it back end with
	ops      []string       // what an operator asks for once it has ended, one after the other
	batch    int64
}

// scripts are lives that every history has, so that there is something to spoil.
func scripts() []script {
	const yes, no = task.Succeeded, task.Failed
	return []script{
		{kind: plain, who: steady, from: s(20), ends: []task.Verdict{no, yes}},
		{kind: proc, who: steady, from: s(21), ends: []task.Verdict{no, task.Drained, no, yes}},
		{kind: web, who: steady, from: s(22), guarded: true, ends: []task.Verdict{yes}},
		{kind: plain, who: steady, from: s(23), ends: []task.Verdict{no, no, no, no, no}},
		{kind: plain, who: "a1.1", from: s(37), ends: []task.Verdict{task.Stalled, yes}}, // it is killed meanwhile
		{kind: web, who: steady, from: s(24), ends: []task.Verdict{task.Stalled, yes}},
		{kind: proc, who: steady, from: s(25), ends: []task.Verdict{task.Stalled, yes}},
		{kind: plain, who: steady, from: s(26), ends: []task.Verdict{task.Deferred, task.Deferred, task.Deferred, yes}},
		{kind: plain, who: steady, from: s(27), cancel: s(27), ends: nil},
		{kind: web, who: steady, from: s(28), ends: []task.Verdict{yes}},
		{kind: web, who: "a2.1", from: s(38), long: true, guarded: true, ends: []task.Verdict{yes, yes}},
		{kind: book, who: steady, from: s(29), guarded: true, ends: []task.Verdict{yes}, rollBack: []task.Verdict{no, yes}, ops: []string{"rollback"}},
		{kind: paid, who: steady, from: s(30), guarded: true, ends: []task.Verdict{no, yes}, rollBack: []task.Verdict{yes}, ops: []string{"rollback", "retry"}},
		{kind: built, who: steady, from: s(31), ends: []task.Verdict{no, task.Rejected}, rollBack: []task.Verdict{yes}},
		{kind: book, who: steady, from: s(32), ends: []task.Verdict{task.Stalled, task.Rejected}, rollBack: []task.Verdict{yes}},
		{kind: web, who: steady, from: s(33), ends: []task.Verdict{no, no, no, no, no, yes}, ops: []string{"retry"}},
		{kind: book, who: steady, from: s(34), guarded: true, long: true, ends: []task.Verdict{task.Stalled, yes}, cancel: s(36), rollBack: []task.Verdict{yes}},
	}
}

// script draws a life.
func (g *sim) script() script {
	sc := script{
		kind: rapid.SampledFrom([]string{web, proc, plain, book, paid, built}).Draw(g.t, "kind"), from: g.between(s(15), s(70)),
		guarded: g.one(3), long: g.one(3),
	}
	for range rapid.IntRange(0, 6).Draw(g.t, "attempts") {
		sc.ends = append(sc.ends, rapid.SampledFrom([]task.Verdict{
			task.Succeeded, task.Failed, task.Failed, task.Deferred, task.Drained, task.Undelivered, task.Stalled, task.Rejected,
		}).Draw(g.t, "end"))
	}
	if g.one(4) {
		sc.cancel = sc.from + g.between(0, s(10))
	}
	for range rapid.IntRange(0, 3).Draw(g.t, "undoings") {
		sc.rollBack = append(sc.rollBack, rapid.SampledFrom([]task.Verdict{
			task.Succeeded, task.Failed, task.Deferred, task.Drained, task.Stalled, task.Rejected,
		}).Draw(g.t, "end of rollback"))
	}
	for range rapid.IntRange(0, 2).Draw(g.t, "requests") {
		if sc.cancel > 0 {
			break // it would come whenever it comes
		}
		sc.ops = append(sc.ops, rapid.SampledFrom([]string{"retry", "rollback"}).Draw(g.t, "request"))
	}
	return sc
}

// others adds what was enqueued and is not there, and is not to be.
func (g *sim) others() {
	for i := range rapid.IntRange(1, 5).Draw(g.t, "others") {
		e := enq{Key: fmt.Sprintf("other%d", i), Kind: web, At: g.between(s(1), s(60))}
		switch rapid.IntRange(0, 2).Draw(g.t, "commit") {
		case 0:
			e.Commit, e.ID = history.RolledBack, 1_000_000+int64(i)
		case 1:
			e.Commit = history.Unknown
		case 2:
			e.Commit = history.Async
			g.Crashes = append(g.Crashes, e.At+g.between(0, time.Second))
		}
		g.Enqueued = append(g.Enqueued, e)
	}
}

// faults adds some that break no invariant.
func (g *sim) faults() {
	for i := range rapid.IntRange(0, 10).Draw(g.t, "faults") {
		from := g.between(0, s(90))
		note := rapid.SampledFrom([]string{
			"agent disk full", "network cut", "server restarted", "clock ahead", "endpoint slow", "moon is full",
		}).Draw(g.t, "fault") + fmt.Sprint(" ", i)
		g.Events = append(g.Events, history.Event{At: from, What: history.Fault, Note: note})
		if !g.one(5) {
			g.Events = append(g.Events, history.Event{At: from + g.between(0, s(20)), What: history.Heal, Note: note})
		}
	}
}
