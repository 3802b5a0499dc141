package check_test

import (
	"cmp"
	"encoding/json"
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
	effects []simEffect
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

// works tells whether it can claim at that time.
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
	at  time.Duration
	row history.EffectRow
}

// never is later than anything that happens.
const never = 1_000_000 * time.Second

// simulate makes a history; rough: with faults that excuse things, although nothing is to be excused.
func simulate(t *rapid.T, rough bool) *sim {
	m := newMaker()
	m.Events = nil
	for name, k := range m.Kinds {
		k.GiveBacks = 2
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
	g.others()
	if rough {
		g.faults()
	}
	slices.SortStableFunc(g.effects, func(a, b simEffect) int { return cmp.Compare(a.at, b.at) })
	for i, e := range g.effects {
		e.row.Serial = int64(i + 1)
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
		g.tell(at, history.Start, who, queue, i.id, 1, 1, "")
		g.tell(free[who], history.End, who, queue, i.id, 1, 1, "succeeded")
	}
}

func (g *sim) tell(at time.Duration, what history.What, who, kind string, id, fence int64, number int, note string) {
	g.Events = append(g.Events, history.Event{
		At: at, What: what, Who: who, Kind: kind, ID: id, Fence: fence, Attempt: number, Note: note,
	})
}

// script is what a row is to live through.
type script struct {
	kind    string
	guarded bool
	who     string        // runs all attempts, where it can; "": whoever
	from    time.Duration // when it is enqueued
	ends    []task.Verdict
	long    bool          // its attempts take long
	cancel  time.Duration // 0: nobody cancels it
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
	}
}

// script draws a life.
func (g *sim) script() script {
	sc := script{
		kind: rapid.SampledFrom([]string{web, proc, plain}).Draw(g.t, "kind"), from: g.between(s(15), s(70)),
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
	return sc
}

// life is one row's way through the store.
type life struct {
	g       *sim
	script  script
	kind    history.Kind
	policy  task.Policy
	row     task.Task
	now     time.Duration
	made    bool // its effect is there
	tried   []history.Tried
	outcome task.Verdict
	reason  string
	result  json.RawMessage
}

// live lets a row live until it ends, and writes down what everybody saw of it.
func (g *sim) live(sc script) {
	g.nextID++
	k := g.Kinds[sc.kind]
	l := &life{
		g: g, script: sc, kind: k, now: sc.from,
		policy: task.Policy{
			Timeout: k.Timeout, Heartbeat: k.Heartbeat, Stop: k.Stop,
			Retry: task.Retry{Limit: 4, Backoff: task.Constant, Min: time.Second, Max: time.Second, On: task.DefaultOn(), GiveBacks: 2},
		},
		row: task.Task{ID: task.ID(g.nextID), State: task.StatePending},
	}
	for i := 0; l.row.State.Live(); i++ {
		end := task.Succeeded // whatever the script says: an end comes
		if i < len(sc.ends) {
			end = sc.ends[i]
		}
		l.now += g.between(s(0.01), s(0.5))
		if l.cancelled(l.now) {
			l.row.State, l.outcome = task.StateCancelled, task.Cancelled
			l.row.Fence++
			break
		}
		l.try(end)
	}
	g.row(int64(l.row.ID), sc.kind, string(l.row.State), int64(l.row.Fence), l.row.Attempt, func(e *enq, r *row) {
		e.Expects.Limit, e.Expects.Guarded, e.At = 5, sc.guarded, sc.from
		r.Outcome, r.Error, r.Result = string(l.outcome), l.reason, l.result
		if sc.cancel > 0 {
			e.Expects.CancelAsked, e.Expects.CancelAt = true, sc.cancel+s(0.05)
		}
	})
	g.Tried = append(g.Tried, l.tried...)
}

// cancelled tells whether a cancellation has come by then.
func (l *life) cancelled(at time.Duration) bool { return l.script.cancel > 0 && l.script.cancel <= at }

// agent is who claims the row now.
func (l *life) agent() *simAgent {
	var able []string
	for _, name := range []string{"a1.1", "a1.2", "a2.1", steady} {
		if l.g.agents[name].works(l.now) {
			if name == l.script.who {
				return l.g.agents[name]
			}
			able = append(able, name)
		}
	}
	return l.g.agents[rapid.SampledFrom(able).Draw(l.g.t, "agent")]
}

// try is one claim and what comes of it.
func (l *life) try(end task.Verdict) {
	g := l.g
	who := l.agent()
	l.row.Fence++
	l.row.Attempt++
	l.row.State = task.StateRunning
	fails, dies := who.fails(l.now)
	if end == task.Undelivered || l.script.who == "" && g.one(20) {
		l.settle(task.Outcome{Verdict: task.Undelivered}, l.row.Fence, end == task.Undelivered)
		return
	}
	began := l.now + g.between(0, s(0.3))
	a := &attempted{life: l, who: who, began: began, fence: int64(l.row.Fence), number: l.row.Attempt, cut: fails}
	if began >= fails {
		l.lost(a, fails, dies)
		return
	}
	a.tell(began, history.Start, "")
	over := a.work(end)
	if a.completed {
		return
	}
	if over >= fails {
		l.lost(a, fails, dies)
		return
	}
	l.now = over + g.between(s(0.01), s(0.1))
	l.settle(task.Outcome{Verdict: end, Error: "as it was to be"}, l.row.Fence, true)
}

// lost is what becomes of a row whose agent was killed or stands still: another judges it.
func (l *life) lost(a *attempted, failed time.Duration, dies bool) {
	swept := failed + l.g.Presence + l.g.between(0, s(1.5))
	if !l.kind.Child && a.began < failed {
		gone := failed + l.g.between(s(0.01), s(0.4))
		if !dies {
			gone = a.who.thaw + l.g.between(s(0.01), s(2))
		}
		l.g.tell(gone, history.Gone, a.who.name, l.kind.Name, int64(l.row.ID), a.fence, a.number, "")
		if l.script.guarded && !a.made {
			l.g.tell(gone+l.g.between(0, s(3)), history.Refused, a.who.name, l.kind.Name, int64(l.row.ID), a.fence, a.number, "")
		}
	}
	if !dies {
		l.g.Said = append(l.g.Said, history.Said{
			At: a.who.thaw + time.Second, Who: a.who.name, ID: int64(l.row.ID), Fence: a.fence, Text: "lease lost: another holds the row",
		})
	}
	l.now = max(l.now, swept)
	ran := l.row.Fence
	l.row.Fence++
	l.settle(task.Outcome{Verdict: task.Lost, Error: "its agent is gone"}, ran, true)
}

// settle ends the hold on the row.
func (l *life) settle(o task.Outcome, ran task.Fence, tell bool) {
	asked := l.cancelled(l.now)
	l.row.CancelAsked = asked
	number := l.row.Attempt
	next := task.Decide(&l.row, &l.policy, o, 0, 0.5)
	if tell && (!next.State.Finished() || number != 1) {
		l.tried = append(l.tried, history.Tried{
			ID: int64(l.row.ID), Attempt: number, Fence: int64(l.row.Fence), RanFence: int64(ran), Phase: "run", Outcome: string(o.Verdict),
		})
	}
	if o.Verdict == task.Succeeded {
		l.result = result(int64(ran))
	}
	l.row.State, l.row.Attempt, l.row.GiveBacks = next.State, next.Attempt, next.GiveBacks
	l.row.Fence++
	l.outcome, l.reason = o.Verdict, next.Reason
	l.now += next.Delay
}

// attempted is one attempt at work.
type attempted struct {
	*life
	who       *simAgent
	began     time.Duration
	fence     int64
	number    int
	cut       time.Duration // from then on nothing is heard of a child, and nothing of a request that its agent would hear
	made      bool
	completed bool
}

// tell writes an event down, unless the attempt's agent has failed by then.
func (a *attempted) tell(at time.Duration, what history.What, note string) {
	if at < a.cut {
		a.g.tell(at, what, a.who.name, a.kind.Name, int64(a.life.row.ID), a.fence, a.number, note)
	}
}

// work tells what the attempt does, until it ends so, and gives the time of that.
func (a *attempted) work(end task.Verdict) (over time.Duration) {
	g := a.g
	last, steps := a.began, rapid.IntRange(0, 3).Draw(g.t, "pings")
	if a.script.long {
		steps += 5
	}
	a.sample(last, last+startLease(a.kind))
	for range steps {
		last += g.between(s(0.2), s(1.4))
		a.tell(last, history.Ping, "")
		a.tell(last+s(0.01), history.Pinged, "200")
		if a.kind.Heartbeat > 0 {
			a.sample(last, last+a.kind.Heartbeat+a.kind.Stop)
		}
		if last-a.began > s(8) {
			break
		}
	}
	if end == task.Stalled {
		return a.stall(last)
	}
	over = last + g.between(s(0.05), s(1))
	if end == task.Drained {
		a.tell(over, a.stopped(), "")
		return over
	}
	if a.script.guarded && end == task.Succeeded && a.effect(over-s(0.04)) {
		return over
	}
	a.tell(over, history.End, string(end))
	return over
}

// startLease is how long the lease of a claim lasts from the start on.
func startLease(k history.Kind) time.Duration {
	if k.Heartbeat == 0 {
		return k.Timeout + k.Stop
	}
	return k.Heartbeat + k.Stop
}

// stopped is how an attempt learns that it is to stop.
func (a *attempted) stopped() history.What {
	if a.kind.Child {
		return history.Signal
	}
	return history.Gone
}

// stall is the end of an attempt that says nothing any more.
func (a *attempted) stall(last time.Duration) time.Duration {
	if a.kind.Heartbeat == 0 {
		last = a.began + a.kind.Timeout
	} else {
		last += a.kind.Heartbeat
	}
	last += a.g.between(0, s(0.6))
	a.tell(last, a.stopped(), "")
	return last
}

// effect makes the task's effect, and completes the row with it or not. It tells whether all is said: the row is
// completed.
func (a *attempted) effect(at time.Duration) bool {
	if at >= a.cut {
		return false
	}
	if !a.life.made {
		a.life.made = true
		a.g.effects = append(a.g.effects, simEffect{at, history.EffectRow{ID: int64(a.life.row.ID), Fence: a.fence, Who: a.who.name}})
	}
	a.made = true
	note := ""
	if a.g.one(4) {
		note = history.NoReply
	}
	a.tell(at+s(0.01), history.Effect, note)
	if a.g.one(2) {
		return false
	}
	a.tell(at+s(0.04), history.End, "succeeded")
	a.completed = true
	a.now = at
	a.settle(task.Outcome{Verdict: task.Succeeded}, a.life.row.Fence, true)
	return true
}

// sample looks how the row stands a little later, where the lease lasts until then.
func (a *attempted) sample(from, until time.Duration) {
	at := from + a.g.between(0, s(0.15))
	if at < a.cut {
		a.g.Samples = append(a.g.Samples, history.LeaseSample{
			At: at, Within: s(0.002), ID: int64(a.life.row.ID), Fence: a.fence, Left: until - at, Present: a.g.Presence,
		})
	}
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

// faults adds some that nobody minds.
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
