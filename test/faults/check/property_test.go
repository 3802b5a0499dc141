package check_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/leasehold/leasehold/test/faults/check"
	"github.com/leasehold/leasehold/test/faults/history"
)

// TestRightIsClean: whatever happens to agents, a history of a product that is right is clean.
func TestRightIsClean(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := simulate(t, rapid.Bool().Draw(t, "rough")).made()
		for _, v := range check.Check(h) {
			t.Fatalf("%s", check.Trace(h, v))
		}
	})
}

// TestSpoiltIsFound: each way to spoil such a history is found, by name.
func TestSpoiltIsFound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := simulate(t, false).made()
		third := rapid.IntRange(0, 2).Draw(t, "third") // all of them in every history take their time
		for i, sp := range spoilers() {
			if i%3 != third {
				continue
			}
			bad := clone(h)
			if !sp.spoil(&spoiler{T: t, History: bad}) {
				t.Fatalf("%s: there is nothing to spoil", sp.name)
			}
			slices.SortStableFunc(bad.Events, func(a, b history.Event) int { return int(a.At - b.At) })
			got := check.Check(bad)
			place := slices.IndexFunc(got, func(v check.Violation) bool { return v.Invariant == sp.finds })
			if place < 0 {
				t.Fatalf("%s: %s is not among %v", sp.name, sp.finds, got)
			}
			require.NotEmpty(t, check.Trace(bad, got[place]))
		}
	})
}

func clone(h *history.History) *history.History {
	c := *h
	c.Events, c.Enqueued, c.Rows = slices.Clone(h.Events), slices.Clone(h.Enqueued), slices.Clone(h.Rows)
	c.Tried, c.Effects, c.Samples = slices.Clone(h.Tried), slices.Clone(h.Effects), slices.Clone(h.Samples)
	c.Said, c.Crashes = slices.Clone(h.Said), slices.Clone(h.Crashes)
	c.Moves, c.Ops = slices.Clone(h.Moves), slices.Clone(h.Ops)
	c.Of.Made, c.Of.Ended, c.Of.Moves = slices.Clone(h.Of.Made), slices.Clone(h.Of.Ended), slices.Clone(h.Of.Moves)
	c.Of.Finishes, c.Of.Samples = slices.Clone(h.Of.Finishes), slices.Clone(h.Of.Samples)
	return &c
}

// spoiler picks something of a history and spoils it.
type spoiler struct {
	*rapid.T
	*history.History
}

// pick draws one of those that pass; nil: none does.
func pick[E any](t *rapid.T, all []E, pass func(*E) bool) *E {
	var places []int
	for i := range all {
		if pass(&all[i]) {
			places = append(places, i)
		}
	}
	if len(places) == 0 {
		return nil
	}
	return &all[rapid.SampledFrom(places).Draw(t, "which")]
}

// of lists a row's events.
func (sp *spoiler) of(id int64, what ...history.What) (all []*history.Event) {
	for i := range sp.Events {
		if e := &sp.Events[i]; e.ID == id && (len(what) == 0 || slices.Contains(what, e.What)) {
			all = append(all, e)
		}
	}
	return all
}

// enqueued is a row's enqueue.
func (sp *spoiler) enqueued(id int64) *enq {
	for i := range sp.Enqueued {
		if sp.Enqueued[i].ID == id {
			return &sp.Enqueued[i]
		}
	}
	return nil
}

// event picks an event of a row that row would pick.
func (sp *spoiler) event(pass func(*history.Event) bool) *history.Event {
	return pick(sp.T, sp.Events, func(e *history.Event) bool {
		return e.ID != 0 && e.Kind != finishes && e.Phase == "" && !sp.several(e.ID) && pass(e)
	})
}

// starts lists a row's starts, and reports whether there are several and the last is on the agent that nothing befalls.
func (sp *spoiler) starts(id int64) (all []*history.Event, several bool) {
	all = slices.DeleteFunc(sp.of(id, history.Start), func(e *history.Event) bool { return e.Phase == "check" })
	return all, len(all) > 1 && all[len(all)-1].Who == steady && all[len(all)-2].Who == steady
}

// row picks a row that a producer enqueued and that has one round and one phase: others have spoilers of their own.
func (sp *spoiler) row(pass func(*row) bool) *row {
	return pick(sp.T, sp.Rows, func(r *row) bool { return r.Batch == 0 && r.Type != finishes && !sp.several(r.ID) && pass(r) })
}

// several reports whether a row was retried or rolled back.
func (sp *spoiler) several(id int64) bool {
	return slices.ContainsFunc(sp.Moves, func(m history.Move) bool {
		return m.ID == id && (m.Round > 0 || m.State == "rollback_pending")
	})
}

func (sp *spoiler) kindOf(r *row) history.Kind { return sp.Kinds[r.Type] }

// effects reports whether a row has an effect.
func (sp *spoiler) effects(id int64) bool {
	return slices.ContainsFunc(sp.Effects, func(e history.EffectRow) bool { return e.ID == id })
}

// drop removes events.
func (sp *spoiler) drop(gone func(*history.Event) bool) {
	sp.Events = slices.DeleteFunc(sp.Events, func(e history.Event) bool { return gone(&e) })
}

// way is one way to spoil a history.
type way struct {
	name  string
	finds check.Name
	spoil func(*spoiler) bool // false: it found nothing to spoil
}

func spoilers() []way {
	return slices.Concat(spoiltRows(), spoiltAttempts(), spoiltSettlements(), spoiltTimes(), spoiltRounds(), spoiltBatches())
}

func spoiltRows() []way {
	every := func(*row) bool { return true }
	succeeded := func(r *row) bool { return r.State == "succeeded" }
	return []way{
		{"a row is gone", check.CommittedEnds, func(sp *spoiler) bool {
			id := sp.row(every).ID
			sp.Rows = slices.DeleteFunc(sp.Rows, func(r row) bool { return r.ID == id })
			return true
		}},
		{"a row stands twice in the archive", check.CommittedEnds, func(sp *spoiler) bool {
			sp.row(every).Archived = 2
			return true
		}},
		{"a row is still live", check.CommittedEnds, func(sp *spoiler) bool {
			r := sp.row(every)
			r.Live, r.Archived, r.State = true, 0, "running"
			return true
		}},
		{"a row was rolled back", check.RolledBackNeverRuns, func(sp *spoiler) bool {
			sp.enqueued(sp.row(every).ID).Commit = history.RolledBack
			return true
		}},
		{"no cancellation was requested", check.CancelledStays, func(sp *spoiler) bool {
			e := sp.enqueued(sp.row(func(r *row) bool { return r.State == "cancelled" }).ID)
			e.Expects.CancelRequested, e.Expects.CancelAt = false, 0
			return true
		}},
		{"it was cancelled long before it started", check.CancelledStays, func(sp *spoiler) bool {
			r := sp.row(func(r *row) bool {
				e := sp.of(r.ID, history.Start)
				return len(e) > 0 && e[0].Who == steady && e[0].At > s(6)
			})
			sp.enqueued(r.ID).Expects.CancelAt = sp.of(r.ID, history.Start)[0].At - s(5)
			sp.Crashes = nil
			return true
		}},
		{"two of a queue start the other way round", check.OrderKept, func(sp *spoiler) bool {
			var ids []int64
			for _, e := range sp.Events {
				if e.What == history.Start && e.Kind == queue && e.Who == steady {
					ids = append(ids, e.ID)
				}
			}
			i := rapid.IntRange(0, len(ids)-2).Draw(sp.T, "place")
			a, b := sp.of(ids[i]), sp.of(ids[i+1])
			for n := range a {
				a[n].At, b[n].At = b[n].At, a[n].At
			}
			return true
		}},
		{"an agent says that a winner lost", check.LossIsTrue, func(sp *spoiler) bool {
			r := sp.row(succeeded)
			sp.Said = append(sp.Said, history.Said{
				At: s(90), ID: r.ID, Fence: r.Fence - 1, Text: "outcome refused: another has taken the row",
			})
			return true
		}},
	}
}

func spoiltAttempts() []way {
	return []way{
		{"an attempt starts twice", check.FencesRise, func(sp *spoiler) bool {
			e := *sp.event(func(e *history.Event) bool { return e.What == history.Start })
			e.At += s(0.05)
			sp.Events = append(sp.Events, e)
			return true
		}},
		{"fences fall", check.FencesRise, func(sp *spoiler) bool {
			r := sp.row(func(r *row) bool { _, several := sp.starts(r.ID); return several })
			all, _ := sp.starts(r.ID)
			low, high := all[len(all)-2].Fence, all[len(all)-1].Fence
			for _, e := range sp.of(r.ID) {
				switch e.Fence {
				case low:
					e.Fence = high
				case high:
					e.Fence = low
				}
			}
			return true
		}},
		{"an attempt above the last fence", check.FencesRise, func(sp *spoiler) bool {
			e := *sp.event(func(e *history.Event) bool { return e.What == history.Start })
			e.At, e.Fence, e.Attempt = s(95), e.Fence+100, 0
			sp.Events = append(sp.Events, e)
			return true
		}},
		{"a child finds another alive", check.OneChildAtATime, func(sp *spoiler) bool {
			e := *sp.event(func(e *history.Event) bool { return e.What == history.Start && e.Kind == proc })
			e.What, e.Note = history.Overlap, "1"
			sp.Events = append(sp.Events, e)
			return true
		}},
		{"a child outlives the next one's start", check.OneChildAtATime, func(sp *spoiler) bool {
			r := sp.row(func(r *row) bool {
				return sp.kindOf(r).Child && len(sp.of(r.ID, history.Start)) > 1 && len(sp.of(r.ID, history.End)) == len(sp.of(r.ID, history.Start))
			})
			if r == nil {
				return sp.outlive()
			}
			ends, starts := sp.of(r.ID, history.End), sp.of(r.ID, history.Start)
			ends[0].At = starts[1].At + s(0.001)
			return true
		}},
		{"a request is open when the next one comes", check.OneRequestAtATime, func(sp *spoiler) bool {
			r := sp.row(func(r *row) bool { _, several := sp.starts(r.ID); return several && !sp.kindOf(r).Child })
			starts, _ := sp.starts(r.ID)
			for _, e := range sp.of(r.ID, history.End, history.Gone) {
				if e.Fence == starts[len(starts)-2].Fence {
					e.At = starts[len(starts)-1].At + s(0.4)
					return true
				}
			}
			return false
		}},
		{"a lease lasts too long", check.LeaseFollowsPing, func(sp *spoiler) bool {
			sample := pick(sp.T, sp.Samples, func(l *history.LeaseSample) bool {
				return !sp.several(l.ID) && slices.ContainsFunc(sp.of(l.ID, history.Start), func(e *history.Event) bool {
					return e.Fence == l.Fence && e.Who == steady
				})
			})
			sample.Left += s(10)
			return true
		}},
		{"a stalled one is stopped too late", check.HungIsCaught, func(sp *spoiler) bool {
			e := sp.event(func(e *history.Event) bool {
				return (e.What == history.Gone || e.What == history.Signal) && e.Who == steady && e.Kind != queue
			})
			e.At += s(12)
			return true
		}},
		{"the dead hold a row", check.DeadComesBack, func(sp *spoiler) bool {
			killed := pick(sp.T, sp.Events, func(e *history.Event) bool { return e.What == history.Killed })
			start := sp.event(func(e *history.Event) bool {
				return e.What == history.Start && e.Who == killed.Who && e.Kind != queue && !sp.enqueued(e.ID).Expects.Guarded
			})
			sp.Samples = append(sp.Samples, history.LeaseSample{At: killed.At + s(16), ID: start.ID, Fence: start.Fence, Left: -s(5)})
			return true
		}},
	}
}

// outlive has the first attempt of a child report something once the second has begun.
func (sp *spoiler) outlive() bool {
	r := sp.row(func(r *row) bool { return sp.kindOf(r).Child && len(sp.of(r.ID, history.Start)) > 1 })
	starts := sp.of(r.ID, history.Start)
	e := *starts[0]
	e.What, e.At = history.Refused, starts[1].At+s(0.001)
	sp.drop(func(o *history.Event) bool { return o.ID == e.ID && o.Fence == e.Fence && o.What == history.End })
	sp.Events = append(sp.Events, e)
	return true
}

func spoiltSettlements() []way {
	return []way{
		{"a result of another attempt", check.NoStaleSettlement, func(sp *spoiler) bool {
			r := sp.row(func(r *row) bool { return r.State == "succeeded" && r.Fence > 2 })
			r.Result = result(r.Fence - 3)
			return true
		}},
		{"a winner that never said so", check.NoStaleSettlement, func(sp *spoiler) bool {
			r := sp.row(func(r *row) bool { return r.State == "succeeded" && !sp.effects(r.ID) })
			sp.drop(func(e *history.Event) bool { return e.ID == r.ID && e.Fence == r.Fence-1 && e.What == history.End })
			return true
		}},
		{"an attempt is settled twice", check.NoStaleSettlement, func(sp *spoiler) bool {
			sp.Tried = append(sp.Tried, *pick(sp.T, sp.Tried, func(*history.Tried) bool { return true }))
			return true
		}},
		{"an effect happens twice", check.GuardedEffectOnce, func(sp *spoiler) bool {
			e := *pick(sp.T, sp.Effects, func(e *history.EffectRow) bool { return !sp.several(e.ID) })
			e.Serial = 1000
			sp.Effects = append(sp.Effects, e)
			return true
		}},
		{"an effect is lost", check.GuardedEffectOnce, func(sp *spoiler) bool {
			e := *pick(sp.T, sp.Effects, func(e *history.EffectRow) bool {
				return !sp.several(e.ID) && slices.ContainsFunc(sp.Rows, func(r row) bool { return r.ID == e.ID && r.State == "succeeded" })
			})
			sp.Effects = slices.DeleteFunc(sp.Effects, func(o history.EffectRow) bool { return o.ID == e.ID })
			return true
		}},
		{"a row counts one more", check.AttemptsWithinLimit, func(sp *spoiler) bool {
			r := sp.row(func(r *row) bool { return r.State == "succeeded" && r.Fence == 2 })
			r.Attempt++
			return true
		}},
		{"fewer attempts are allowed", check.AttemptsWithinLimit, func(sp *spoiler) bool {
			r := sp.row(func(r *row) bool { return r.Attempt > 1 })
			sp.enqueued(r.ID).Expects.Limit = r.Attempt - 1
			return true
		}},
		{"more attempts are allowed", check.AttemptsWithinLimit, func(sp *spoiler) bool {
			r := sp.row(func(r *row) bool { return r.State == "failed" && r.Attempt == 5 && r.Outcome != "rejected" })
			sp.enqueued(r.ID).Expects.Limit++
			return true
		}},
		{"what was released counts", check.ReleasedAreFree, func(sp *spoiler) bool {
			t := pick(sp.T, sp.Tried, func(t *history.Tried) bool {
				return !sp.several(t.ID) && t.Outcome == "drained" && slices.ContainsFunc(sp.Tried, func(o history.Tried) bool {
					return o.ID == t.ID && o.Fence > t.Fence
				})
			})
			for i := range sp.Tried {
				if o := &sp.Tried[i]; o.ID == t.ID && o.Fence > t.Fence {
					o.Attempt++
				}
			}
			return true
		}},
	}
}

func spoiltTimes() []way {
	return []way{
		{"a child says nothing for long, and goes on", check.HungIsCaught, func(sp *spoiler) bool {
			r := sp.row(func(r *row) bool {
				e := sp.of(r.ID)
				return r.Type == proc && len(e) > 0 && e[0].Who == steady
			})
			first := *sp.of(r.ID, history.Start)[0]
			for _, e := range sp.of(r.ID) {
				if e.What != history.Start || e.Fence != first.Fence {
					e.At += 10 * time.Second
				}
			}
			return true
		}},
	}
}
