package check_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/faults/check"
	"github.com/leasehold/leasehold/test/faults/history"
)

// The agents and kinds of the histories here.
const (
	a1, a2   = "a1.1", "a2.1"
	web      = "web"      // a webhook with a heartbeat
	proc     = "proc"     // a command with a heartbeat
	plain    = "plain"    // a webhook without
	chain    = "chain"    // the same, and a failure blocks its sequence
	queue    = "queue"    // a command, one at a time
	book     = "book"     // a webhook whose effect is held, and rolled back so
	paid     = "paid"     // a webhook whose effect completes its task, and its rollback the rollback's end; a check is asked first
	built    = "built"    // a command that is rolled back
	finishes = "finishes" // finish tasks of batches
)

// s is a length in seconds.
func s(seconds float64) time.Duration { return time.Duration(seconds * float64(time.Second)) }

// maker makes a history by hand. Times are seconds.
type maker struct {
	history.History
}

func newMaker() *maker {
	m := &maker{history.History{Presence: s(10), Kinds: map[string]history.Kind{}}}
	for _, k := range []history.Kind{
		{Name: web, Heartbeat: s(2), Stop: s(3), Timeout: s(20), Backoff: s(4)},
		{Name: proc, Child: true, Heartbeat: s(2), Stop: s(3), Timeout: s(20), Backoff: s(4)},
		{Name: plain, Stop: s(3), Timeout: s(10)},
		{Name: chain, Stop: s(3), Timeout: s(10), Blocks: true},
		{Name: queue, Child: true, Stop: s(3), Timeout: s(10), Ordered: true},
		{Name: book, Heartbeat: s(2), Stop: s(3), Timeout: s(20), Backoff: s(4), Guard: history.Held},
		{Name: paid, Heartbeat: s(2), Stop: s(3), Timeout: s(20), Backoff: s(4), Guard: history.Completed, Check: s(1)},
		{Name: built, Child: true, Heartbeat: s(2), Stop: s(3), Timeout: s(20), Backoff: s(4)},
		{Name: finishes, Stop: s(3), Timeout: s(10), Finish: true},
	} {
		if k.Name == book || k.Name == paid || k.Name == built {
			k.Rollback = &history.Kind{Name: k.Name, Child: k.Child, Heartbeat: s(2), Stop: s(3), Timeout: s(8), Backoff: s(4), Limit: 2}
		}
		m.Kinds[k.Name] = k
	}
	m.agent(0, history.Up, a1)
	m.agent(0, history.Up, a2)
	return m
}

// agent adds an event of an agent's life.
func (m *maker) agent(at float64, what history.What, who string) {
	m.Events = append(m.Events, history.Event{At: s(at), What: what, Who: who})
}

// broken adds a fault; to 0: it is not mended.
func (m *maker) broken(from, to float64, note string) {
	m.Events = append(m.Events, history.Event{At: s(from), What: history.Fault, Note: note})
	if to > 0 {
		m.Events = append(m.Events, history.Event{At: s(to), What: history.Heal, Note: note})
	}
}

// row adds a committed row with its key "k<id>" that has ended, as state and with that fence; more changes that.
func (m *maker) row(id int64, kind, state string, fence int64, attempt int, more ...func(*history.Enqueued, *history.Row)) {
	key := fmt.Sprintf("k%d", id)
	e := history.Enqueued{
		Key: key, Kind: kind, ID: id, Commit: history.Committed, Cohort: "all", At: s(0.1),
		Expects: history.Expects{Limit: 3, Child: m.Kinds[kind].Child},
	}
	r := history.Row{ID: id, Key: key, Type: kind, State: state, Attempt: attempt, Fence: fence, Outcome: state, Archived: 1}
	for _, f := range more {
		f(&e, &r)
	}
	m.Enqueued, m.Rows = append(m.Enqueued, e), append(m.Rows, r)
}

// on is an attempt that events are added of.
type on struct {
	m      *maker
	kind   string
	who    string
	id     int64
	fence  int64
	number int
	phase  string
}

// try adds the start of an attempt.
func (m *maker) try(at float64, who string, id, fence int64, number int) on {
	return m.tryPhase(at, who, id, fence, number, "")
}

// report adds an event of the attempt.
func (a on) report(at float64, what history.What, note ...string) on {
	e := history.Event{At: s(at), What: what, Who: a.who, Kind: a.kind, ID: a.id, Fence: a.fence, Attempt: a.number, Phase: a.phase}
	if len(note) > 0 {
		e.Note = note[0]
	}
	a.m.Events = append(a.m.Events, e)
	return a
}

// end adds the attempt's own end.
func (a on) end(at float64, how string) on { return a.report(at, history.End, how) }

// settled adds a line of the store's history: the attempt's own settlement, or a reaper's where how is lost.
func (m *maker) settled(id, ranFence int64, number int, how string) {
	fence := ranFence
	if how == "lost" {
		fence++
	}
	m.Tried = append(m.Tried, history.Tried{ID: id, Attempt: number, Fence: fence, RanFence: ranFence, Phase: "run", Outcome: how})
}

// effect adds an effect.
func (m *maker) effect(id, fence int64) {
	m.Effects = append(m.Effects, history.EffectRow{Serial: int64(len(m.Effects) + 1), ID: id, Fence: fence})
}

// sample adds how a row stood.
func (m *maker) sample(at float64, id, fence int64, left float64) {
	m.Samples = append(m.Samples, history.LeaseSample{At: s(at), ID: id, Fence: fence, Left: s(left)})
}

// result is a row's, made by that fence.
func result(fence int64) json.RawMessage { return fmt.Appendf(nil, `{"fence": %d}`, fence) }

// made is the history as it would be read.
func (m *maker) made() *history.History {
	slices.SortStableFunc(m.Events, func(a, b history.Event) int { return int(a.At - b.At) })
	return &m.History
}

// once adds a row that succeeds at its first try, from at to one second later.
func (m *maker) once(at float64, who string, id int64, kind string) {
	m.row(id, kind, "succeeded", 2, 1)
	m.try(at, who, id, 1, 1).end(at+1, "succeeded")
}

// scene is a history by hand, and what is wrong with it; "": nothing.
type scene struct {
	name    string
	wrong   check.Name
	perform func(m *maker)
}

func perform(t *testing.T, scenes []scene) {
	t.Helper()
	for _, c := range scenes {
		t.Run(c.name, func(t *testing.T) {
			m := newMaker()
			c.perform(m)
			h := m.made()
			got := check.Check(h)
			if c.wrong == "" {
				require.Empty(t, got)
				return
			}
			require.NotEmpty(t, got)
			for _, v := range got {
				require.Equal(t, c.wrong, v.Invariant, "%s", v)
				require.NotEmpty(t, v.What)
				require.Contains(t, check.Trace(h, v), string(c.wrong))
			}
			require.Equal(t, got, check.Check(h), "twice the same")
		})
	}
}

func TestNames(t *testing.T) {
	names := check.Names()
	require.Len(t, names, 50)
	slices.Sort(names)
	require.Len(t, slices.Compact(names), 50)
}
