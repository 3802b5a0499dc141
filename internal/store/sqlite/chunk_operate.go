package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// ListChunks returns chunk plans by name. It does not wait for writers.
func (s *Store) ListChunks(ctx context.Context, f store.ChunkPlanFilter) (list []store.ChunkPlanInfo, err error) {
	from, limit := f.From, store.PageSize(f.Limit)
	if f.Name != "" {
		from, limit = f.Name, 1
	}
	err = s.view(ctx, "list chunk plans", func(t *snapshot) error {
		list = nil
		return t.query(func(r *sql.Rows) error {
			var i store.ChunkPlanInfo
			var at store.ChunkStanding
			var source string
			var follow, target int64
			err := r.Scan(&i.Name, &i.Task, &i.Table, &i.Key, &source, &i.Ahead, &follow, &target, &i.Size, &i.PerRow, &i.Pass, &i.Done,
				keyOf{&i.High}, truthOf{&at.Over}, timeOf{&i.CreatedAt}, timeOf{&i.PausedAt}, textOf[string]{&i.PausedBy},
				truthOf{&at.Declared}, truthOf{&at.Halted}, truthOf{&at.Planning}, &i.Live, &i.Held)
			if err != nil || f.Name != "" && i.Name != f.Name {
				return err
			}
			i.Source, i.Follow, i.Target = []byte(source), microseconds(follow), microseconds(target)
			at.Paused = !i.PausedAt.IsZero()
			i.State = at.State()
			list = append(list, i)
			return nil
		}, t.sql.ListChunkPlans, arg("from", from), arg("limit", limit))
	})
	return list, err
}

// ListPasses returns the newest passes of a plan. It does not wait for writers.
func (s *Store) ListPasses(ctx context.Context, f store.ChunkPassFilter) (list []store.ChunkPassInfo, err error) {
	err = s.view(ctx, "list passes", func(t *snapshot) error {
		list = nil
		return t.query(func(r *sql.Rows) error {
			var p store.ChunkPassInfo
			var sizes string
			err := r.Scan(&p.Pass, truthOf{&p.Whole}, keyOf{&p.From}, keyOf{&p.Through}, &p.Ranges, &p.Chunks, &p.Rows, timeOf{&p.BeganAt},
				timeOf{&p.SealedAt}, numberOf[task.BatchID]{&p.Batch}, textOf[store.BatchState]{&p.State}, numberOf[int64]{&p.Total},
				numberOf[int64]{&p.Live}, numberOf[int64]{&p.Succeeded}, numberOf[int64]{&p.Failed}, timeOf{&p.EndedAt}, &sizes,
				keyOf{&p.First}, keyOf{&p.Last})
			p.Sizes = store.ParseChunkSizes(sizes)
			list = append(list, p)
			return err
		}, t.sql.ListChunkPasses, arg("name", f.Plan), arg("below", f.Below), arg("limit", store.PageSize(f.Limit)))
	})
	return list, err
}

// PauseChunks has agents plan nothing more of a plan.
func (s *Store) PauseChunks(ctx context.Context, name, by string) (changed bool, err error) {
	return s.changeChunks(ctx, "pause", s.sql.PauseChunks, name, by, func(paused, _ bool) bool { return !paused })
}

// ResumeChunks has agents go on with a plan.
func (s *Store) ResumeChunks(ctx context.Context, name, by string) (changed bool, err error) {
	return s.changeChunks(ctx, "resume", s.sql.ResumeChunks, name, by, func(paused, halted bool) bool { return paused || halted })
}

// changeChunks executes a statement where it is needed.
func (s *Store) changeChunks(
	ctx context.Context, verb string, change *sqltext.Query, name, by string, needed func(paused, halted bool) bool,
) (changed bool, err error) {
	err = s.change(ctx, verb+" chunks", func(t *tx) error {
		var paused, halted bool
		err := t.row([]any{truthOf{&paused}, truthOf{&halted}}, t.sql.ChunksHalted, arg("name", name))
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("%q: %w", name, store.ErrNoChunkPlan)
		}
		if changed = err == nil && needed(paused, halted); changed {
			_, err = t.exec(change, arg("name", name), arg("by", by))
		}
		return err
	})
	return changed && err == nil, err
}
