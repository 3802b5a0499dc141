package poll

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/task"
)

// floor is slots with types whose targets get many tasks in one request, and the rows that are due of each.
type floor struct {
	*slots
	now     time.Duration
	next    task.ID
	waiting map[task.ID]bool // claimed, and not over
	runs    []job
}

func newFloor(t *rapid.T) *floor {
	f := &floor{waiting: map[task.ID]bool{}}
	var types []*task.Type
	for i := range rapid.IntRange(1, 4).Draw(t, "types") {
		typ := &task.Type{Name: fmt.Sprint(i), Workers: rapid.IntRange(0, 3).Draw(t, "cap"), Target: &task.Webhook{}}
		webhook := func() *task.Webhook {
			if rapid.IntRange(0, 3).Draw(t, "plain") == 0 {
				return &task.Webhook{}
			}
			return &task.Webhook{Batch: &task.Batch{
				Max: rapid.IntRange(1, 20).Draw(t, "max"), Wait: time.Duration(rapid.IntRange(0, 250).Draw(t, "wait")) * time.Millisecond,
			}}
		}
		typ.Target = webhook()
		if rapid.Bool().Draw(t, "rollback") {
			typ.Rollback = webhook()
		}
		types = append(types, typ)
	}
	f.slots = slotsOf(rapid.IntRange(1, 8).Draw(t, "workers"), types, lease.ClockFunc(func() time.Duration { return f.now }))
	return f
}

// startAll starts what may start, and wants each request to be of one kind.
func (f *floor) startAll(t *rapid.T) {
	for j := f.slots.next(); j.first != nil; j = f.slots.next() {
		f.run(t, j)
	}
}

func (f *floor) run(t *rapid.T, j job) {
	f.runs = append(f.runs, j)
	if len(j.more) == 0 {
		return
	}
	b := j.first.declared.batch(j.first.phase())
	require.NotNil(t, b, "its target gets one at a time")
	most := j.first.lease.Task().SharesWith(b.Max)
	require.LessOrEqual(t, j.rows(), most)
	bytes := elementSize(j.first.lease.Task())
	for _, a := range j.more {
		require.Same(t, j.first.lane, a.lane)
		require.Equal(t, j.first.phase(), a.phase())
		require.Equal(t, most, a.lease.Task().SharesWith(b.Max), "rows that may have fewer others go apart")
		bytes += elementSize(a.lease.Task())
	}
	require.Equal(t, bytes, j.bytes)
	require.LessOrEqual(t, bytes, task.MaxBatchBytes)
	require.LessOrEqual(t, f.inMany, manyBytes+task.MaxBatchBytes)
}

// claim is a turn of the engine's loop, with as many due rows as it asks for, or fewer.
func (f *floor) claim(t *rapid.T) {
	asks := f.wants(time.Millisecond, maxClaim, func(*lane, task.Phase) int { return -1 })
	total := 0
	for _, a := range asks {
		total += a.n
		require.Positive(t, a.n)
	}
	require.LessOrEqual(t, total, maxClaim)
	for _, a := range asks {
		due := rapid.IntRange(0, 2*a.n).Draw(t, "due")
		f.setExhausted(a.source, due < a.n)
		var claimed []*attempt
		for range min(due, a.n) {
			f.next++
			row := &task.Task{ID: f.next, Type: a.source.name, State: task.StateRunning, Payload: json.RawMessage(`{}`)}
			if a.source.phase == task.Rollback {
				row.State = task.StateRollbackRunning
			}
			switch rapid.IntRange(0, 9).Draw(t, "history") {
			case 0:
				row.Deferrals, row.Previous = rapid.IntRange(1, 6).Draw(t, "deferrals"), &task.Previous{Outcome: task.Drained}
			case 1:
				row.Payload = make(json.RawMessage, rapid.IntRange(0, 3<<20).Draw(t, "size"))
			}
			f.waiting[row.ID] = true
			l := lease.New(t.Context(), row, &task.Policy{}, f.clock, 0, nil)
			claimed = append(claimed, &attempt{lease: l, declared: a.lane.declared, got: f.now})
		}
		f.push(claimed)
	}
	f.startAll(t)
}

// check counts what is queued and running, each row once, and wants none to wait for others longer than it may.
func (f *floor) check(t *rapid.T) {
	seen := map[task.ID]bool{}
	note := func(a *attempt) {
		id := a.lease.Task().ID
		require.False(t, seen[id], "row %d is there twice", id)
		seen[id] = true
	}
	rows, queued := 0, 0
	for i := range f.runs {
		j := &f.runs[i]
		note(j.first)
		for _, a := range j.more {
			note(a)
		}
		rows += j.rows()
	}
	for _, l := range f.lanes {
		for _, a := range l.queue {
			note(a)
			queued++
			b := l.batch(a.phase())
			if f.may(l) && (b == nil || l.running == 0 || f.now-a.got >= b.Wait) {
				require.Fail(t, "a row waits that could go", "lane %s, %d run, got %v ago", l.typ.Name, l.running, f.now-a.got)
			}
		}
	}
	require.Equal(t, f.waiting, seen)
	require.Equal(t, queued, f.queued)
	require.Equal(t, len(f.runs), f.running)
	require.LessOrEqual(t, f.running, f.workers)
	require.Equal(t, rows+queued, f.held())
}

func TestRequestsAreGathered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := newFloor(t)
		t.Repeat(map[string]func(*rapid.T){
			"claim": func(t *rapid.T) { f.claim(t) },
			"news":  func(*rapid.T) { f.forgetExhausted() },
			"time": func(t *rapid.T) {
				f.now += time.Duration(rapid.IntRange(1, 300).Draw(t, "ms")) * time.Millisecond
				f.startAll(t) // as the alarm does
			},
			"end": func(t *rapid.T) {
				if len(f.runs) == 0 {
					t.Skip("nothing runs")
				}
				i := rapid.IntRange(0, len(f.runs)-1).Draw(t, "which")
				j := f.runs[i]
				f.runs = append(f.runs[:i], f.runs[i+1:]...)
				delete(f.waiting, j.first.lease.Task().ID)
				for _, a := range j.more {
					delete(f.waiting, a.lease.Task().ID)
					f.beyond.Add(-1)
				}
				end := rapid.SampledFrom([]ending{untried, ended, hung}).Draw(t, "ending")
				if next := f.doneMany(j.first.lane, end, j.rows(), j.bytes, f.now); next.first != nil {
					f.run(t, next)
				}
				f.startAll(t)
			},
			"": func(t *rapid.T) { f.check(t) },
		})
	})
}
