package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/task"
)

// What the switches of fault builds do to the store. They change what statements are given, never a statement: those that
// are tested are those that run.

// takeAnyFence puts the fence that a row has at that moment in the place of the one that was given.
func (s *Store) takeAnyFence(ctx context.Context, conn *pgx.Conn, ids, fences []int64) error {
	now := map[int64]int64{}
	var id, fence int64
	note := func() error { now[id] = fence; return nil }
	if err := forEach(ctx, conn, []any{&id, &fence}, note, s.sql.AnyFences, arg("ids", ids)); err != nil {
		return err
	}
	for i, id := range ids {
		if fence, there := now[id]; there {
			fences[i] = fence
		}
	}
	return nil
}

// claimedByAny reads back the claims with a number of all sessions.
func (s *Store) claimedByAny(ctx context.Context, conn *pgx.Conn, number int64) (all []task.Task, err error) {
	sessions, err := collectIDs(query(ctx, conn, s.sql.AnySessions))
	if err != nil {
		return nil, err
	}
	for _, session := range sessions {
		tasks, err := s.claimed(ctx, conn, session, number)
		if err != nil {
			return nil, err
		}
		all = append(all, tasks...)
	}
	return all, nil
}
