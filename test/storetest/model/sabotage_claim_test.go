package model_test

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/test/storetest"
	"github.com/leasehold/leasehold/test/storetest/model"
)

// wrongClaim is a model whose Claim is another function.
type wrongClaim struct {
	*storetest.OnModel
	claim claimFunc
}

type claimFunc = func(ctx context.Context, m *storetest.OnModel, c store.Claim) ([]task.Task, error)

func (w wrongClaim) Claim(ctx context.Context, c store.Claim) ([]task.Task, error) {
	return w.claim(ctx, w.OnModel, c)
}

func claimed(f claimFunc) wrong {
	return func(m *storetest.OnModel) storetest.Harness { return wrongClaim{m, f} }
}

// blurred is a claim that sees its rows changed by blur. They are put right again after it, by restore.
func blurred(blur func(r *model.Row), restore func(was model.Row, r *model.Row)) wrong {
	return claimed(func(ctx context.Context, m *storetest.OnModel, c store.Claim) ([]task.Task, error) {
		was := map[task.ID]model.Row{}
		m.Each(func(r *model.Row) { was[r.ID] = *r; blur(r) })
		rows, err := m.Claim(ctx, c)
		m.Each(func(r *model.Row) { restore(was[r.ID], r) })
		return rows, err
	})
}

func claimSabotages() []sabotage {
	return []sabotage{
		{"claims one too many", claimed(func(ctx context.Context, m *storetest.OnModel, c store.Claim) ([]task.Task, error) {
			c.Wants = slices.Clone(c.Wants)
			for i := range c.Wants {
				c.Wants[i].N++
			}
			return m.Claim(ctx, c)
		}), "claim/never more than wanted"},
		{"forgets priority", blurred(
			func(r *model.Row) { r.Priority = 0 },
			func(was model.Row, r *model.Row) { r.Priority = was.Priority },
		), "claim/priority, then due time, then id"},
		{"takes future rows", blurred(
			func(r *model.Row) { r.RunAt = time.Time{} },
			func(was model.Row, r *model.Row) { r.RunAt = was.RunAt },
		), "claim/future rows stay"},
		{"takes rows of other regions", blurred(
			func(r *model.Row) { r.Region = "" },
			func(was model.Row, r *model.Row) { r.Region = was.Region },
		), "claim/regions"},
		{"takes rows of other types", blurred(
			func(r *model.Row) { r.Type = "suite.work" },
			func(was model.Row, r *model.Row) { r.Type = was.Type },
		), "claim/other types stay"},
		{"stamps the deadline anew", blurred(
			func(r *model.Row) { r.Deadline = time.Time{} },
			func(model.Row, *model.Row) {},
		), "claimed/the deadline is stamped once"},
		{"mixes up the phases", claimed(func(
			ctx context.Context, m *storetest.OnModel, c store.Claim,
		) ([]task.Task, error) {
			for _, w := range c.Wants {
				w.Phase = map[task.Phase]task.Phase{task.Run: task.Rollback, task.Rollback: task.Run}[w.Phase]
				c.Wants = append(slices.Clone(c.Wants), w)
			}
			return m.Claim(ctx, c)
		}), "claim/rows to roll back"},
		{"returns rows in another order", claimed(func(
			ctx context.Context, m *storetest.OnModel, c store.Claim,
		) ([]task.Task, error) {
			rows, err := m.Claim(ctx, c)
			slices.Reverse(rows)
			return rows, err
		}), "claim/several wants in one claim"},
		{"counts no attempt", claimed(func(ctx context.Context, m *storetest.OnModel, c store.Claim) ([]task.Task, error) {
			rows, err := m.Claim(ctx, c)
			m.Each(func(r *model.Row) {
				for _, taken := range rows {
					if taken.ID == r.ID {
						r.Attempt--
					}
				}
			})
			return rows, err
		}), "claimed/what a claim writes"},
	}
}

func readSabotages() []sabotage {
	return []sabotage{
		{"hands a row out twice", handsOutTwice, "concurrent/each row is claimed once"},
		{"reads nothing back", readsBack(func(context.Context, *storetest.OnModel, task.Session, int64) ([]task.Task, error) {
			return nil, nil
		}), "claimed/a lost reply is read back"},
		{"reads any claim of the number back",
			readsBack(func(ctx context.Context, m *storetest.OnModel, _ task.Session, n int64) (all []task.Task, err error) {
				for session := range task.Session(10) {
					rows, err := m.Claimed(ctx, session, n)
					if err != nil {
						return nil, err
					}
					all = append(all, rows...)
				}
				return all, nil
			}), "claimed/claims of two sessions are distinguished"},
		{"finds the next row of any region", anyNextDue, "claimed/when the next row is due, by want"},
	}
}

func handsOutTwice(m *storetest.OnModel) storetest.Harness {
	var n atomic.Int64
	return wrongClaim{m, func(ctx context.Context, m *storetest.OnModel, c store.Claim) ([]task.Task, error) {
		rows, err := m.Claim(ctx, c)
		if n.Add(1) == 5 && len(rows) > 0 {
			m.Each(func(r *model.Row) {
				if r.ID == rows[0].ID {
					r.State = task.StatePending
				}
			})
		}
		return rows, err
	}}
}

// wrongClaimed is a model whose Claimed is another function.
type wrongClaimed struct {
	*storetest.OnModel
	claimed claimedFunc
}

type claimedFunc = func(ctx context.Context, m *storetest.OnModel, s task.Session, n int64) ([]task.Task, error)

func (w wrongClaimed) Claimed(ctx context.Context, s task.Session, n int64) ([]task.Task, error) {
	return w.claimed(ctx, w.OnModel, s, n)
}

func readsBack(f claimedFunc) wrong {
	return func(m *storetest.OnModel) storetest.Harness { return wrongClaimed{m, f} }
}

// wrongNextDue looks at rows of any region.
type wrongNextDue struct{ *storetest.OnModel }

func anyNextDue(m *storetest.OnModel) storetest.Harness { return wrongNextDue{m} }

func (w wrongNextDue) NextDue(ctx context.Context, c store.Claim) (time.Duration, bool, error) {
	w.Each(func(r *model.Row) { r.Region = "" })
	return w.OnModel.NextDue(ctx, c)
}
