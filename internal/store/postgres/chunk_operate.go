package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// ListChunks returns chunk plans by name.
func (s *Store) ListChunks(ctx context.Context, f store.ChunkFilter) (list []store.ChunkInfo, err error) {
	err = s.do(ctx, "list chunk plans", func(ctx context.Context, conn *pgx.Conn) error {
		list = nil
		var i store.ChunkInfo
		var target, follow int64
		var source []byte
		var paused *time.Time
		sp := &i.Spec
		into := []any{
			&i.Now, &sp.Name, &sp.Task, &sp.Table, &sp.Key, &sp.Size.Start, &sp.Size.Min, &sp.Size.Max, &target, &sp.Ahead, &follow,
			&source, &i.CreatedAt, &paused, &i.PausedBy, &i.Over, &i.Pass, &i.Size, &i.Holder, &i.Planning, &i.Chunks, &i.Rows,
			&i.Stopped, &i.DeclaredBy, &i.Live, &i.LiveOfPass, &i.Failed, &i.Held,
		}
		return forEach(ctx, conn, into, func() error {
			one := i
			one.Now, one.CreatedAt, one.PausedAt = i.Now.UTC(), i.CreatedAt.UTC(), utc(paused)
			one.Spec.Size.Target, one.Spec.Follow = microseconds(target), microseconds(follow)
			one.DeclaredBy = append([]string(nil), i.DeclaredBy...)
			one.Source = store.ChunkSource{}
			list = append(list, one)
			return json.Unmarshal(source, &list[len(list)-1].Source)
		}, s.sql.ListChunkPlans, arg("from", storable(f.From)), arg("name", storable(f.Name)), arg("limit", int64(store.PageSize(f.Limit))))
	})
	return list, err
}

// ListChunkPasses returns the passes of a plan, the newest first.
func (s *Store) ListChunkPasses(ctx context.Context, name string, limit int) (list []store.ChunkPassInfo, err error) {
	err = s.do(ctx, "list passes", func(ctx context.Context, conn *pgx.Conn) error {
		list = nil
		var p store.ChunkPassInfo
		var cost int64
		var earlier []int64
		var sealed *time.Time
		into := []any{
			&p.Pass, &p.Whole, &p.From, &p.Through, &p.Ranges, &p.Chunks, &p.Rows, &cost, (*int64)(&p.Batch), &earlier, &p.Began, &sealed,
		}
		return forEach(ctx, conn, into, func() error {
			one := p
			one.Cost, one.Began, one.Sealed, one.Earlier = microseconds(cost), p.Began.UTC(), utc(sealed), nil
			for _, id := range earlier {
				one.Earlier = append(one.Earlier, task.BatchID(id))
			}
			list, p.From, p.Through = append(list, one), nil, nil
			return nil
		}, s.sql.ListChunkPasses, arg("name", storable(name)), arg("limit", int64(store.PageSize(limit))))
	})
	return list, err
}

// FailedChunks returns ranges that have failed, in their order.
func (s *Store) FailedChunks(ctx context.Context, name string, limit int) (list []store.ChunkObstacle, err error) {
	err = s.do(ctx, "list failed chunks", func(ctx context.Context, conn *pgx.Conn) error {
		list = nil
		look := &store.ChunkLook{Spec: store.ChunkSpec{Name: name}, Plan: store.ChunkPlan{Pass: math.MaxInt32 - 1}}
		err := s.lookObstacles(ctx, conn, look, limit)
		for _, o := range look.Obstacles {
			if o.State == store.ChunkFailed {
				list = append(list, o)
			}
		}
		return err
	})
	return list, err
}

// PauseChunks has agents plan nothing more of a plan.
func (s *Store) PauseChunks(ctx context.Context, name, by string) (changed bool, err error) {
	answer, err := s.changeChunks(ctx, "pause", s.sql.PauseChunks, name, by)
	return err == nil && answer != "unchanged", err
}

// ResumeChunks has agents go on with a plan.
func (s *Store) ResumeChunks(ctx context.Context, name, by string) (changed bool, err error) {
	answer, err := s.changeChunks(ctx, "resume", s.sql.ResumeChunks, name, by)
	return err == nil && answer != "unchanged", err
}

// CancelChunks pauses a plan and cancels its live chunks.
func (s *Store) CancelChunks(ctx context.Context, name, by string) (string, error) {
	return s.changeChunks(ctx, "cancel", s.sql.CancelChunks, name, by)
}

// RetryChunks retries the failed chunks of a plan's newest pass.
func (s *Store) RetryChunks(ctx context.Context, name, by string) (string, error) {
	return s.changeChunks(ctx, "retry", s.sql.RetryChunks, name, by)
}

// RollbackChunks pauses a plan and rolls back a pass.
func (s *Store) RollbackChunks(ctx context.Context, name string, pass int, by string, force bool) (string, error) {
	return s.changeChunks(ctx, "roll back", s.sql.RollbackChunks, name, by, arg("pass", int32(pass)), arg("force", force))
}

func (s *Store) changeChunks(
	ctx context.Context, verb string, change *sqltext.Query, name, by string, more ...sqltext.Arg,
) (answer string, err error) {
	args := append([]sqltext.Arg{arg("name", storable(name)), arg("by", storable(by))}, more...)
	return s.operate(ctx, fmt.Sprintf("%s chunk plan %q", verb, name), store.ErrNoChunkPlan, change, args...)
}
