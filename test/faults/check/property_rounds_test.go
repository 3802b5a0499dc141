package check_test

import (
	"slices"

	"github.com/leasehold/leasehold/test/faults/check"
	"github.com/leasehold/leasehold/test/faults/history"
)

// move picks a move.
func (sp *spoiler) move(pass func(*history.Move) bool) *history.Move {
	return pick(sp.T, sp.Moves, pass)
}

// rolledBack picks an effect that rolls back another.
func (sp *spoiler) rolledBack() *history.EffectRow {
	return pick(sp.T, sp.Effects, func(e *history.EffectRow) bool { return e.RollsBack != 0 })
}

func spoiltRounds() []way {
	return []way{
		{"a rollback happens twice", check.RolledBackOnce, func(sp *spoiler) bool {
			e := *sp.rolledBack()
			i := slices.Index(sp.Effects, e)
			sp.Effects = slices.Insert(sp.Effects, i, e)
			return true
		}},
		{"a rollback is lost", check.RolledBackOnce, func(sp *spoiler) bool {
			e := *pick(sp.T, sp.Effects, func(e *history.EffectRow) bool {
				return e.RollsBack != 0 && sp.rolledBackWith(e)
			})
			sp.Effects = slices.DeleteFunc(sp.Effects, func(o history.EffectRow) bool { return o == e })
			return true
		}},
		{"what was started is left failed", check.RolledBackOnce, func(sp *spoiler) bool {
			sp.move(func(m *history.Move) bool { return m.State == "rolled_back" }).State = "failed"
			return true
		}},
		{"a rollback comes while the lease runs", check.RollbackAfterEnd, func(sp *spoiler) bool {
			sample := pick(sp.T, sp.Samples, func(l *history.LeaseSample) bool {
				events := sp.of(l.ID, history.Start, history.Gone, history.End)
				i := slices.IndexFunc(events, func(e *history.Event) bool {
					return e.Fence == l.Fence && e.What == history.Gone && e.Who == steady && e.Phase == ""
				})
				return i >= 0 && i+1 < len(events) && events[i+1].Phase == "rollback" && sp.lastSample(l)
			})
			sample.Left += s(60)
			sp.Events = slices.DeleteFunc(sp.Events, func(e history.Event) bool { // one may have made it shorter since
				return e.What == history.Ping && e.ID == sample.ID && e.Fence == sample.Fence
			})
			return true
		}},
		{"a retry with attempts counted", check.FreshBudget, func(sp *spoiler) bool {
			sp.again().Attempt = 1
			return true
		}},
		{"a retry in another round", check.FreshBudget, func(sp *spoiler) bool {
			m := sp.again()
			id, round := m.ID, m.Round
			for i := range sp.Moves {
				if sp.Moves[i].ID == id && sp.Moves[i].Round >= round {
					sp.Moves[i].Round++
				}
			}
			return true
		}},
		{"a retry without a request", check.FreshBudget, func(sp *spoiler) bool {
			m := sp.again()
			sp.Ops = slices.DeleteFunc(sp.Ops, func(o history.Op) bool { return o.ID == m.ID })
			return true
		}},
	}
}

// rolledBackWith reports whether a rollback ended well with this effect.
func (sp *spoiler) rolledBackWith(e *history.EffectRow) bool {
	return slices.ContainsFunc(sp.Moves, func(m history.Move) bool {
		return m.ID == e.ID && m.Fence == e.Fence+1 && m.State == "rolled_back"
	})
}

// lastSample reports whether a lease was not looked at again after that.
func (sp *spoiler) lastSample(l *history.LeaseSample) bool {
	last := l
	for i := range sp.Samples {
		if o := &sp.Samples[i]; o.ID == l.ID && o.Fence == l.Fence {
			last = o
		}
	}
	return last == l
}

// again picks the move by which a row was retried.
func (sp *spoiler) again() *history.Move {
	return sp.move(func(m *history.Move) bool {
		first := slices.IndexFunc(sp.Moves, func(o history.Move) bool { return o.ID == m.ID && o.Round == m.Round })
		return m.Round > 0 && &sp.Moves[first] == m
	})
}

func spoiltBatches() []way {
	every := func(*history.Finish) bool { return true }
	return []way{
		{"a batch has no finish task", check.BatchEnds, func(sp *spoiler) bool {
			gone := *pick(sp.T, sp.Of.Finishes, every)
			sp.Of.Finishes = slices.DeleteFunc(sp.Of.Finishes, func(f history.Finish) bool { return f == gone })
			return true
		}},
		{"a batch has two finish tasks", check.BatchEnds, func(sp *spoiler) bool {
			sp.Of.Finishes = append(sp.Of.Finishes, *pick(sp.T, sp.Of.Finishes, every))
			return true
		}},
		{"a finish task has other counts", check.BatchEnds, func(sp *spoiler) bool {
			pick(sp.T, sp.Of.Finishes, every).Counts.Failed++
			return true
		}},
		{"a batch does not end", check.BatchEnds, func(sp *spoiler) bool {
			pick(sp.T, sp.Of.Ended, func(*history.Batch) bool { return true }).Ended = false
			return true
		}},
		{"a batch ends before its rows", check.BatchEnds, func(sp *spoiler) bool {
			m := pick(sp.T, sp.Of.Moves, func(m *history.BatchMove) bool { return m.Ended && m.ID == 2 })
			first := slices.IndexFunc(sp.Of.Moves, func(o history.BatchMove) bool { return o.ID == 2 })
			m.Serial = sp.Of.Moves[first].Serial + 2
			return true
		}},
		{"a row starts once its batch is cancelled", check.CancelHolds, func(sp *spoiler) bool {
			m := sp.move(func(m *history.Move) bool { return m.Batch == 2 && m.State == "running" })
			sample := pick(sp.T, sp.Of.Samples, func(b *history.BatchSample) bool { return b.ID == 2 && b.Stopping })
			sample.Fences = map[int64]int64{m.ID: m.Fence - 1}
			sp.Crashes = nil
			return true
		}},
		{"a counter is wrong", check.CountersEqualRows, func(sp *spoiler) bool {
			pick(sp.T, sp.Of.Samples, func(*history.BatchSample) bool { return true }).View.Live++
			return true
		}},
		{"a row of a batch is not rolled back", check.BatchRollbackComplete, func(sp *spoiler) bool {
			m := sp.move(func(m *history.Move) bool { return m.Batch == 2 && m.State == "rolled_back" })
			m.State = "succeeded"
			return true
		}},
	}
}
