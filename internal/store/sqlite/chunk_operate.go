package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// ListChunks returns chunk plans by name. It does not wait for writers.
func (s *Store) ListChunks(ctx context.Context, f store.ChunkFilter) (list []store.ChunkInfo, err error) {
	err = s.view(ctx, "list chunk plans", func(t *snapshot) error {
		now := s.now()
		list = nil
		err := t.query(func(r *sql.Rows) error {
			i := store.ChunkInfo{Now: now}
			var target, follow int64
			var source, names string
			sp := &i.Spec
			err := r.Scan(&sp.Name, &sp.Task, &sp.Table, &sp.Key, &sp.Size.Start, &sp.Size.Min, &sp.Size.Max, &target, &sp.Ahead, &follow,
				&source, timeOf{&i.CreatedAt}, timeOf{&i.PausedAt}, textOf[string]{&i.PausedBy}, truthOf{&i.Over}, &i.Pass, &i.Size,
				textOf[string]{&i.Holder}, truthOf{&i.Planning}, &i.Chunks, &i.Rows, truthOf{&i.Stopped}, &names)
			sp.Size.Target, sp.Follow = microseconds(target), microseconds(follow)
			err = errors.Join(err, json.Unmarshal([]byte(source), &i.Source), json.Unmarshal([]byte(names), &i.DeclaredBy))
			if len(i.DeclaredBy) == 0 {
				i.DeclaredBy = nil
			}
			list = append(list, i)
			return err
		}, t.sql.ListChunkPlans, arg("now", stamp(now)), arg("from", f.From), arg("name", f.Name), arg("limit", store.PageSize(f.Limit)))
		for n := range list {
			if err == nil {
				err = t.countChunks(&list[n])
			}
		}
		return err
	})
	return list, err
}

// countChunks counts the live and the failed chunks of a plan.
func (t *snapshot) countChunks(i *store.ChunkInfo) error {
	look := &store.ChunkLook{Spec: i.Spec, Plan: store.ChunkPlan{Pass: math.MaxInt32 - 1}}
	if err := t.obstacles(look, math.MaxInt32-1); err != nil {
		return err
	}
	for _, o := range look.Obstacles {
		switch {
		case o.State == store.ChunkLive:
			i.Live++
		case o.Failures >= store.ChunkHeldAfter:
			i.Held++
			i.Failed++
		default:
			i.Failed++
		}
	}
	return t.row([]any{&i.LiveOfPass}, t.sql.LiveOfPass, arg("name", i.Spec.Name), arg("pass", i.Pass))
}

// ListChunkPasses returns the passes of a plan, the newest first.
func (s *Store) ListChunkPasses(ctx context.Context, name string, limit int) (list []store.ChunkPassInfo, err error) {
	err = s.view(ctx, "list passes", func(t *snapshot) error {
		list = nil
		return t.query(func(r *sql.Rows) error {
			var p store.ChunkPassInfo
			var cost int64
			var earlier string
			err := r.Scan(&p.Pass, truthOf{&p.Whole}, keyOf{&p.From}, keyOf{&p.Through}, &p.Ranges, &p.Chunks, &p.Rows, &cost,
				numberOf[task.BatchID]{&p.Batch}, &earlier, timeOf{&p.Began}, timeOf{&p.Sealed})
			p.Cost = microseconds(cost)
			if err = errors.Join(err, json.Unmarshal([]byte(earlier), &p.Earlier)); len(p.Earlier) == 0 {
				p.Earlier = nil
			}
			list = append(list, p)
			return err
		}, t.sql.ListChunkPasses, arg("name", name), arg("limit", store.PageSize(limit)))
	})
	return list, err
}

// FailedChunks returns ranges that have failed, in their order.
func (s *Store) FailedChunks(ctx context.Context, name string, limit int) (list []store.ChunkObstacle, err error) {
	err = s.view(ctx, "list failed chunks", func(t *snapshot) error {
		list = nil
		look := &store.ChunkLook{Spec: store.ChunkSpec{Name: name}, Plan: store.ChunkPlan{Pass: math.MaxInt32 - 1}}
		err := t.obstacles(look, limit)
		for _, o := range look.Obstacles {
			if o.State == store.ChunkFailed {
				list = append(list, o)
			}
		}
		return err
	})
	return list, err
}

// planChange is a change of a plan by an operator, in its transaction.
type planChange struct {
	*tx
	name, by string
	paused   bool
	pass     int // the newest
}

func (s *Store) changePlan(ctx context.Context, verb, name, by string, do func(*planChange) error) error {
	return s.change(ctx, verb+" chunk plan", func(t *tx) error {
		c := &planChange{tx: t, name: name, by: by}
		err := t.row([]any{truthOf{&c.paused}, &c.pass}, t.sql.PlanStanding, arg("name", name))
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("%q: %w", name, store.ErrNoChunkPlan)
		}
		if err != nil {
			return err
		}
		return orRefused(do(c))
	})
}

// note executes a statement about the plan, and notes the verb.
func (c *planChange) note(change *sqltext.Query, verb, answer string, more ...sqltext.Arg) error {
	if _, err := c.exec(change, append([]sqltext.Arg{arg("name", c.name)}, more...)...); err != nil {
		return err
	}
	_, err := c.exec(c.sql.NotePlan, arg("by", null(c.by)), arg("verb", verb), arg("name", c.name), arg("answer", answer))
	return err
}

func (c *planChange) pause() error {
	if c.paused {
		return nil
	}
	return c.note(c.sql.PausePlan, "pause", "paused", arg("now", stamp(c.now)), arg("by", null(c.by)))
}

// batches calls do with the batches that the statement finds, oldest first, and returns what became of the newest.
func (c *planChange) batches(
	find *sqltext.Query, pass int, answer *string, read *sqltext.Query, do func(id task.BatchID) error,
) error {
	var ids []task.BatchID
	err := c.query(func(r *sql.Rows) error {
		var id task.BatchID
		err := r.Scan(numberOf[task.BatchID]{&id})
		if id != 0 {
			ids = append(ids, id)
		}
		return err
	}, find, arg("name", c.name), arg("pass", pass))
	if err != nil {
		return err
	}
	for _, id := range ids {
		if err := do(id); err != nil {
			return err
		}
		if err := c.row([]any{answer}, read, arg("id", int64(id))); err != nil {
			return err
		}
	}
	return nil
}

// PauseChunks has agents plan nothing more of a plan.
func (s *Store) PauseChunks(ctx context.Context, name, by string) (changed bool, err error) {
	err = s.changePlan(ctx, "pause", name, by, func(c *planChange) error {
		changed = !c.paused
		return c.pause()
	})
	return changed && err == nil, err
}

// ResumeChunks has agents go on with a plan.
func (s *Store) ResumeChunks(ctx context.Context, name, by string) (changed bool, err error) {
	err = s.changePlan(ctx, "resume", name, by, func(c *planChange) error {
		n, err := c.exec(c.sql.RenewPassBatch, arg("name", name), arg("pass", c.pass))
		if changed = err == nil && (c.paused || n > 0); !changed {
			return err
		}
		return c.note(c.sql.ResumePlan, "resume", "resumed")
	})
	return changed && err == nil, err
}

// CancelChunks pauses a plan and cancels its live chunks.
func (s *Store) CancelChunks(ctx context.Context, name, by string) (answer string, err error) {
	err = s.changePlan(ctx, "cancel", name, by, func(c *planChange) error {
		answer = "paused"
		if err := c.pause(); err != nil {
			return err
		}
		return c.batches(c.sql.PlanBatches, c.pass, &answer, c.sql.CancelBatchAnswer, func(id task.BatchID) error {
			_, err := c.exec(c.sql.CancelBatch, arg("id", int64(id)), arg("by", null(by)))
			return err
		})
	})
	return answer, err
}

// RetryChunks retries the failed chunks of a plan's newest pass.
func (s *Store) RetryChunks(ctx context.Context, name, by string) (answer string, err error) {
	err = s.changePlan(ctx, "retry", name, by, func(c *planChange) error {
		answer = "unchanged"
		n, err := c.exec(c.sql.ForgiveChunks, arg("name", name))
		if err != nil {
			return err
		}
		if n > 0 {
			answer = "cleared"
			if err := c.note(c.sql.RaisePlan, "retry", answer); err != nil {
				return err
			}
		}
		return c.batches(c.sql.PassBatches, c.pass, &answer, c.sql.RetryBatchAnswer, func(id task.BatchID) error {
			return c.retryBatch(id, by)
		})
	})
	return answer, err
}

// RollbackChunks pauses a plan and rolls back a pass.
func (s *Store) RollbackChunks(ctx context.Context, name string, pass int, by string, force bool) (answer string, err error) {
	err = s.changePlan(ctx, "rollback", name, by, func(c *planChange) error {
		answer = "paused"
		if pass != 0 {
			var there bool
			err := c.row([]any{truthOf{&there}}, c.sql.AnyPass, arg("name", name), arg("pass", pass))
			if err == nil && !there {
				err = refusal("chunk plan %q has no pass %d", name, pass)
			}
			if err != nil {
				return err
			}
			c.pass = pass
		}
		if err := c.pause(); err != nil {
			return err
		}
		return c.batches(c.sql.PassBatches, c.pass, &answer, c.sql.RollbackBatchAnswer, func(id task.BatchID) error {
			return c.rollbackBatch(id, by, force)
		})
	})
	return answer, err
}
