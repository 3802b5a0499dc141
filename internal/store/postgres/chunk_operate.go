package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
)

// ListChunks returns chunk plans by name.
func (s *Store) ListChunks(ctx context.Context, f store.ChunkPlanFilter) (list []store.ChunkPlanInfo, err error) {
	from, limit := f.From, store.PageSize(f.Limit)
	if f.Name != "" {
		from, limit = f.Name, 1
	}
	err = s.do(ctx, "list chunk plans", func(ctx context.Context, conn *pgx.Conn) error {
		list = nil
		var i store.ChunkPlanInfo
		var at store.ChunkStanding
		var source string
		var follow, target int64
		var paused *time.Time
		var by *string
		into := []any{
			&i.Name, &i.Task, &i.Table, &i.Key, &source, &i.Ahead, &follow, &target, &i.Size, &i.PerRow, &i.Pass, &i.Done, &i.High, &at.Over,
			&i.CreatedAt, &paused, &by, &at.Declared, &at.Halted, &at.Planning, &i.Live, &i.Held,
		}
		return forEach(ctx, conn, into, func() error {
			if f.Name != "" && i.Name != f.Name {
				return nil
			}
			one := i
			one.Source, one.Follow, one.Target = []byte(source), microseconds(follow), microseconds(target)
			one.CreatedAt, one.PausedAt = i.CreatedAt.UTC(), utc(paused)
			if by != nil {
				one.PausedBy = *by
			}
			at.Paused = paused != nil
			one.State = at.State()
			list = append(list, one)
			i.High = nil
			return nil
		}, s.sql.ListChunkPlans, arg("from", storable(from)), arg("limit", int64(limit)))
	})
	return list, err
}

// ListPasses returns the newest passes of a plan.
func (s *Store) ListPasses(ctx context.Context, f store.ChunkPassFilter) (list []store.ChunkPassInfo, err error) {
	err = s.do(ctx, "list passes", func(ctx context.Context, conn *pgx.Conn) error {
		list = nil
		rows, err := query(ctx, conn, s.sql.ListChunkPasses, arg("name", storable(f.Plan)), arg("below", int32(f.Below)),
			arg("limit", int64(store.PageSize(f.Limit))))
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (p store.ChunkPassInfo, err error) {
			var sealed, ended *time.Time
			var batch, total, live, succeeded, failed *int64
			var state *string
			var sizes string
			err = row.Scan(&p.Pass, &p.Whole, &p.From, &p.Through, &p.Ranges, &p.Chunks, &p.Rows, &p.BeganAt, &sealed, &batch, &state,
				&total, &live, &succeeded, &failed, &ended, &sizes, &p.First, &p.Last)
			p.BeganAt, p.SealedAt, p.EndedAt, p.Sizes = p.BeganAt.UTC(), utc(sealed), utc(ended), store.ParseChunkSizes(sizes)
			for into, from := range map[*int64]*int64{
				(*int64)(&p.Batch): batch, &p.Total: total, &p.Live: live, &p.Succeeded: succeeded, &p.Failed: failed,
			} {
				if from != nil {
					*into = *from
				}
			}
			if state != nil {
				p.State = store.BatchState(*state)
			}
			return p, err
		})
		return err
	})
	return list, err
}

// PauseChunks has agents plan nothing more of a plan.
func (s *Store) PauseChunks(ctx context.Context, name, by string) (changed bool, err error) {
	return s.changeChunks(ctx, "pause", s.sql.PauseChunks, name, by)
}

// ResumeChunks has agents go on with a plan.
func (s *Store) ResumeChunks(ctx context.Context, name, by string) (changed bool, err error) {
	return s.changeChunks(ctx, "resume", s.sql.ResumeChunks, name, by)
}

func (s *Store) changeChunks(ctx context.Context, verb string, change *sqltext.Query, name, by string) (changed bool, err error) {
	what := fmt.Sprintf("%s chunks %q", verb, name)
	answer, err := s.operate(ctx, what, store.ErrNoChunkPlan, change, arg("name", storable(name)), arg("by", storable(by)))
	return err == nil && answer != "unchanged", err
}
