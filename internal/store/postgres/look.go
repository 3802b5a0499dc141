package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Get returns a task with its history.
func (s *Store) Get(ctx context.Context, id task.ID) (info *store.TaskInfo, err error) {
	err = s.do(ctx, fmt.Sprintf("get task %d", id), func(ctx context.Context, conn *pgx.Conn) error {
		info, err = s.get(ctx, conn, id)
		return err
	})
	if err != nil {
		return nil, err
	}
	return info, nil
}

func (s *Store) get(ctx context.Context, conn *pgx.Conn, id task.ID) (*store.TaskInfo, error) {
	var info store.TaskInfo
	row := queryRow(ctx, conn, s.sql.Get, arg("id", int64(id)))
	if err := row.Scan(append(infoTargets(&info), &info.Output, (*int64)(&info.FollowedBy))...); err != nil {
		if errors.Is(err, pgx.ErrNoRows) {
			return nil, store.ErrNoTask
		}
		return nil, err
	}
	rows, err := query(ctx, conn, s.sql.History, arg("id", int64(id)))
	if err != nil {
		return nil, err
	}
	if info.History, err = pgx.CollectRows(rows, scanAttempt); err != nil {
		return nil, err
	}
	if len(info.History) == 0 {
		info.History = nil
	}
	info.Related, err = s.related(ctx, conn, id, info.Batch)
	return &info, err
}

func scanAttempt(row pgx.CollectableRow) (a store.AttemptInfo, err error) {
	err = row.Scan((*int64)(&a.Fence), (*int64)(&a.Session), (*int64)(&a.Policy), (*string)(&a.Phase), &a.Attempt, (*string)(&a.Outcome),
		&a.Error, &a.Output, (*[]byte)(&a.Result), (*string)(&a.State), &a.StartedAt, &a.EndedAt, &a.Agent,
		(*int64)(&a.ReapedSession), &a.ReapedBy)
	return a, err
}

func infoTargets(i *store.TaskInfo) []any {
	return []any{
		(*int64)(&i.ID), &i.Type, (*string)(&i.State), &i.Priority, &i.Region, &i.Key, (*[]byte)(&i.Labels),
		(*[]byte)(&i.Payload), (*[]byte)(&i.Result), &i.Error, (*string)(&i.Outcome), &i.Attempt, &i.MaxAttempts,
		&i.Deferrals, &i.EverStarted, (*int64)(&i.Fence), (*int64)(&i.Session), &i.Agent, &i.CreatedBy, &i.Traceparent,
		&i.CreatedAt, &i.RunAt, &i.ClaimedAt, &i.LeaseEnd, &i.Deadline, &i.FinishedAt,
		(*[]byte)(&i.Progress), &i.Message, (*[]byte)(&i.Checkpoint), &i.CancelRequested, &i.CancelRequestedBy, &i.Detached,
		(*int64)(&i.Batch), &i.Round, (*[]byte)(&i.RollbackPayload), (*string)(&i.Cause),
		(*int64)(&i.Follows), &i.Lock, &i.Held, &i.Sequence, &i.Tenant, &i.Spilled, (*int64)(&i.FailedTask),
	}
}
