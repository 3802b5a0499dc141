package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
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
		&a.Error, &a.Output, (*[]byte)(&a.Result), (*string)(&a.State), &a.StartedAt, &a.EndedAt)
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

// List returns tasks that match, newest first.
func (s *Store) List(ctx context.Context, f store.TaskFilter) ([]store.TaskInfo, error) {
	where, args, err := filterSQL(f)
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	q := s.sql.List
	if f.Batch != 0 {
		q = s.sql.ListOfBatch
	}
	if q, err = q.Fill("{where}", where); err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	var list []store.TaskInfo
	err = s.do(ctx, "list tasks", func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := query(ctx, conn, q, args...)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (i store.TaskInfo, err error) {
			err = row.Scan(infoTargets(&i)...)
			return i, err
		})
		return err
	})
	return list, err
}

// texts makes states a value that pgx can send without knowing their type.
func texts[T ~string](states []T) []string {
	list := make([]string, len(states))
	for i, s := range states {
		list[i] = string(s)
	}
	return list
}

// failedOnly implies the condition of the index of what went wrong of batches.
const failedOnly = "state IN ('failed', 'rollback_failed')"

// filterSQL returns the condition and the arguments of a List.
func filterSQL(f store.TaskFilter) (where string, args []sqltext.Arg, err error) {
	terms := []string{"true"}
	args = []sqltext.Arg{arg("limit", store.PageSize(f.Limit))}
	term := func(text, name string, value any) {
		terms, args = append(terms, text), append(args, arg(name, value))
	}
	if f.Type != "" {
		term("type = @type", "type", f.Type)
	}
	if f.Key != "" {
		term("key = @key", "key", f.Key)
	}
	if f.Batch != 0 {
		term("batch_id = @batch", "batch", int64(f.Batch))
	}
	if f.Before != 0 {
		term("id < @before", "before", int64(f.Before))
	}
	if len(f.Labels) > 0 {
		labels, err := json.Marshal(f.Labels)
		if err != nil {
			return "", nil, err
		}
		term("labels @> @labels::text::jsonb", "labels", string(labels))
	}
	if len(f.States) > 0 {
		term("state = ANY (@states::text[])", "states", texts(f.States))
		if !slices.Contains(f.States, task.StateSucceeded) { // the archive's index of what did not succeed
			terms = append(terms, "state <> 'succeeded'")
		}
		if !slices.ContainsFunc(f.States, func(st task.State) bool { return st != task.StateFailed && st != task.StateRollbackFailed }) {
			terms = append(terms, failedOnly) // and of a batch's
		}
	}
	return strings.Join(terms, " AND "), args, nil
}
