package check

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/faults/history"
)

// index is a history in the form in which the invariants ask for it.
type index struct {
	h       *history.History
	slack   time.Duration
	begin   time.Duration // of the first event
	end     time.Duration // of the last event
	records []*record     // by id
	byID    map[int64]*record
	byKey   map[string]*history.Row
	byEntry []*record // of Enqueued[i]; nil: the store has no such row
	agents  map[string]*agent
	weather weather
	hurt    map[int][]*history.Event // what happened to processes, by their ids
	batches batches
}

// record is all that is known of one task.
type record struct {
	id       int64
	row      *history.Row      // as the store has it; nil: it has none
	again    bool              // the store was found to have several rows with this id
	enqueued *history.Enqueued // nil: no producer reported its insert
	attempts []*attempt        // by fence
	checks   []*attempt        // the checks before attempts, by the fence of the attempt
	tried    []*history.Tried  // by fence
	effects  []*history.EffectRow
	moves    []*history.Move // by serial
	ops      []*history.Op   // in the order in which they were asked for

	stretches []*stretch // at least one
}

// attempt is all that one attempt reported.
type attempt struct {
	id, fence int64
	phase     task.Phase
	number    int // 0: not said
	pid       int // of its process; 0: not said
	who       string
	kind      history.Kind
	child     bool
	start     *history.Event // the first; nil: none is known
	starts    int
	events    []*history.Event     // all, in the order of time
	sample    *history.LeaseSample // the one that was looked at last
}

func newIndex(h *history.History) *index {
	x := &index{
		h: h, slack: max(h.Slack, leastSlack), byID: make(map[int64]*record), byKey: make(map[string]*history.Row),
		byEntry: make([]*record, len(h.Enqueued)), agents: make(map[string]*agent),
		hurt: make(map[int][]*history.Event),
	}
	if n := len(h.Events); n > 0 {
		x.begin, x.end = h.Events[0].At, h.Events[n-1].At
	}
	x.addRows()
	for i := range h.Events {
		switch e := &h.Events[i]; {
		case e.ID != 0:
			x.addEvent(e)
		case e.PID != 0:
			x.hurt[e.PID] = append(x.hurt[e.PID], e)
		}
	}
	x.addMoves()
	for i := range h.Tried {
		s := x.record(h.Tried[i].ID)
		s.tried = append(s.tried, &h.Tried[i])
	}
	for i := range h.Effects {
		s := x.record(h.Effects[i].ID)
		s.effects = append(s.effects, &h.Effects[i])
	}
	for _, s := range x.byID {
		slices.SortStableFunc(s.attempts, func(a, b *attempt) int { return cmp.Compare(a.fence, b.fence) })
		slices.SortStableFunc(s.checks, func(a, b *attempt) int { return cmp.Compare(a.fence, b.fence) })
		slices.SortStableFunc(s.tried, func(a, b *history.Tried) int { return cmp.Compare(a.Fence, b.Fence) })
		slices.SortStableFunc(s.effects, func(a, b *history.EffectRow) int { return cmp.Compare(a.Serial, b.Serial) })
		s.readStretches(s.finished())
	}
	for _, id := range slices.Sorted(maps.Keys(x.byID)) {
		x.records = append(x.records, x.byID[id])
	}
	x.readAgents()
	x.weather = readWeather(h.Events)
	x.batches = readBatches(x)
	return x
}

// addRows takes in what was enqueued and what the store has.
func (x *index) addRows() {
	for i := range x.h.Rows {
		r := &x.h.Rows[i]
		s := x.record(r.ID)
		s.again = s.row != nil
		s.row = r
		if r.Key != "" {
			x.byKey[r.Key] = r
		}
	}
	for i := range x.h.Enqueued {
		e := &x.h.Enqueued[i]
		r := x.byKey[e.Key] // and not by its id: that of a row which a crash forgot may be another's
		if r == nil {
			continue
		}
		s := x.byID[r.ID]
		x.byEntry[i] = s
		if e.Commit != history.RolledBack {
			s.enqueued = e
		}
	}
}

// addMoves takes in what was written down of rows' ways, and what operators asked for.
func (x *index) addMoves() {
	for i := range x.h.Moves {
		s := x.record(x.h.Moves[i].ID)
		s.moves = append(s.moves, &x.h.Moves[i])
	}
	for i := range x.h.Ops {
		if o := &x.h.Ops[i]; o.ID != 0 {
			s := x.record(o.ID)
			s.ops = append(s.ops, o)
		}
	}
}

// record finds or makes a task's.
func (x *index) record(id int64) *record {
	s := x.byID[id]
	if s == nil {
		s = &record{id: id}
		x.byID[id] = s
	}
	return s
}

func (x *index) addEvent(e *history.Event) {
	s := x.record(e.ID)
	phase := cmp.Or(task.Phase(e.Phase), task.Run)
	all := &s.attempts
	if phase == task.Check {
		all = &s.checks
	}
	a := attemptOf(*all, e.Fence)
	if a == nil {
		a = &attempt{id: e.ID, fence: e.Fence, phase: phase, kind: x.kindOf(s, e.Kind, phase)}
		a.child = a.kind.Child || s.enqueued != nil && s.enqueued.Expects.Child
		*all = append(*all, a)
	}
	if e.What == history.Start {
		a.starts++
		if a.start == nil {
			a.start = e
		}
	}
	a.who, a.number, a.pid = cmp.Or(a.who, e.Who), cmp.Or(a.number, e.Attempt), cmp.Or(a.pid, e.PID)
	a.events = append(a.events, e)
}

// kindOf is what an attempt of a phase is allowed.
func (x *index) kindOf(s *record, kind string, phase task.Phase) history.Kind {
	if kind == "" && s.row != nil {
		kind = s.row.Type
	}
	k := x.h.Kinds[kind]
	switch {
	case phase == task.Rollback && k.Rollback != nil:
		return *k.Rollback
	case phase == task.Check:
		return history.Kind{Name: k.Name, Child: k.Child, Timeout: k.Check, Stop: k.Stop}
	}
	return k
}

// attempt finds the one with that fence; nil where nothing is known of one.
func (s *record) attempt(fence int64) *attempt { return attemptOf(s.attempts, fence) }

// check finds what was asked before the attempt with that fence; nil where nothing is known of it.
func (s *record) check(fence int64) *attempt { return attemptOf(s.checks, fence) }

// attemptOf finds the one with that fence. The latest is asked for mostly.
func attemptOf(all []*attempt, fence int64) *attempt {
	for _, a := range slices.Backward(all) {
		if a.fence == fence {
			return a
		}
	}
	return nil
}

// started reports whether an attempt with that fence ever began.
func (s *record) started(fence int64) bool {
	a := s.attempt(fence)
	return a != nil && a.start != nil
}

// last is the time of the last that is known of the task, the history's end where nothing is.
func (x *index) last(s *record) time.Duration {
	var last time.Duration
	for _, a := range s.attempts {
		last = max(last, a.lastSeen())
	}
	if last == 0 {
		return x.end
	}
	return last
}

// finished reports whether the row has ended, as the store says.
func (s *record) finished() bool {
	return s.row != nil && s.row.Archived > 0 && !s.row.Live && task.State(s.row.State).Finished()
}

// guarded reports whether the task's attempts make an effect once for it.
func (s *record) guarded() bool { return s.enqueued != nil && s.enqueued.Expects.Guarded }

// requested reports whether this was requested for the task, or for its batch, before that time.
func (x *index) requested(s *record, verb string, before time.Duration) bool {
	wanted := func(o *history.Op) bool { return o.Verb == verb && o.Requested <= before }
	return slices.ContainsFunc(s.ops, wanted) || slices.ContainsFunc(x.batches.ops[s.batch()], wanted)
}

// batch is the task's; 0: it is of none.
func (s *record) batch() int64 {
	if s.row == nil {
		return 0
	}
	return s.row.Batch
}

// first is the attempt's first event of one of the kinds; nil: it has none.
func (a *attempt) first(kinds ...history.What) *history.Event {
	for _, e := range a.events {
		if slices.Contains(kinds, e.What) {
			return e
		}
	}
	return nil
}

// lastSeen is the time of the attempt's last event.
func (a *attempt) lastSeen() time.Duration { return a.events[len(a.events)-1].At }

// detached reports whether the attempt was accepted with a 202.
func (a *attempt) detached() bool {
	return slices.ContainsFunc(a.events, func(e *history.Event) bool {
		return e.What == history.End && e.Note == history.Accepted
	})
}

// wentWell reports whether the attempt ended as succeeded, by its own word; nil never did.
func (a *attempt) wentWell() bool {
	return a != nil && slices.ContainsFunc(a.events, func(e *history.Event) bool {
		return e.What == history.End && (e.Note == string(task.Succeeded) || e.Note == history.Done)
	})
}
