package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/task"
)

// infoColumns is a task as scanInfo reads it, without output.
const infoColumns = `t.id, t.type, t.state, t.priority, coalesce(t.region, ''), coalesce(t.key, ''), t.labels,
    t.payload, t.result, coalesce(t.error, ''), coalesce(t.outcome, ''), t.attempt,
    coalesce(t.max_attempts, 0), t.deferrals, t.ever_started, t.fence, coalesce(t.session, 0), coalesce(a.name, ''), coalesce(t.created_by, ''),
    coalesce(t.traceparent, ''), t.created_at, t.run_at, t.claimed_at, t.lease_until, t.deadline, t.finished_at, t.progress,
    coalesce(t.message, ''), t.checkpoint, t.cancel_asked, coalesce(t.cancel_by, ''), t.detached, coalesce(t.batch_id, 0),
    coalesce(t.round, 0), t.rollback_payload, coalesce(t.cause, '')`

const getSQL = `SELECT ` + infoColumns + `, coalesce(t.output, '')
FROM {schema}.tasks AS t LEFT JOIN {schema}.agent AS a ON a.session = t.session
WHERE t.id = $1`

const historySQL = `
SELECT ran_fence, session, phase, attempt, outcome, coalesce(error, ''), coalesce(output, ''), result, state,
       started_at, ended_at
FROM {schema}.attempt WHERE task_id = $1 ORDER BY fence`

// The newest of each table ($1 at most) are found by an index, then the two are one list. {where} is written for each
// combination of filters: a statement that has them all, half of them switched off, finds no index. {live} is liveSQL.
const listSQL = `
SELECT ` + infoColumns + ` FROM (
    SELECT * FROM (
        {live}
        UNION ALL
        (SELECT {columns}, finished_at, false
         FROM {schema}.task_archive WHERE {where} ORDER BY {order} DESC LIMIT $1)
    ) AS both_tables ORDER BY id DESC LIMIT $1
) AS t LEFT JOIN {schema}.agent AS a ON a.session = t.session
ORDER BY t.id DESC`

// Of a batch, an index knows rows that wait by their ids. Those that run, which are few, and those that are finished are
// sorted ("+ 0"): to look for them by id could take the planner through the whole table.
const (
	liveSQL = `(SELECT {columns}, NULL::timestamptz AS finished_at, coalesce(detached, false) AS detached
         FROM {schema}.task WHERE {where} ORDER BY id DESC LIMIT $1)`
	liveOfBatchSQL = `(SELECT {columns}, NULL::timestamptz AS finished_at, coalesce(detached, false) AS detached
         FROM {schema}.task WHERE {where} AND state IN ('pending', 'retry_pending', 'rollback_pending')
         ORDER BY id DESC LIMIT $1)
        UNION ALL
        (SELECT {columns}, NULL, coalesce(detached, false)
         FROM {schema}.task WHERE {where} AND state IN ('running', 'rollback_running') ORDER BY id + 0 DESC LIMIT $1)`
)

const listColumns = `id, type, state, priority, region, key, labels, payload, result, error, outcome, attempt,
    max_attempts, deferrals, ever_started, fence, session, created_by, traceparent, created_at, run_at, claimed_at,
    lease_until, deadline, progress, message, checkpoint, cancel_asked, cancel_by, batch_id, round,
    rollback_payload, cause`

// Get returns a task with its history.
func (s *Store) Get(ctx context.Context, id task.ID) (*ops.Info, error) {
	var info ops.Info
	err := s.do(ctx, fmt.Sprintf("get task %d", id), func(ctx context.Context, conn *pgx.Conn) error {
		row := conn.QueryRow(ctx, s.sql.get, int64(id))
		if err := row.Scan(append(infoTargets(&info), &info.Output)...); err != nil {
			if errors.Is(err, pgx.ErrNoRows) {
				return ops.ErrNoTask
			}
			return err
		}
		rows, err := conn.Query(ctx, s.sql.history, int64(id))
		if err != nil {
			return err
		}
		info.History, err = pgx.CollectRows(rows, scanAttempt)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(info.History) == 0 {
		info.History = nil
	}
	return &info, nil
}

func scanAttempt(row pgx.CollectableRow) (a ops.Attempt, err error) {
	err = row.Scan((*int64)(&a.Fence), (*int64)(&a.Session), (*string)(&a.Phase), &a.Attempt, (*string)(&a.Outcome),
		&a.Error, &a.Output, (*[]byte)(&a.Result), (*string)(&a.State), &a.StartedAt, &a.EndedAt)
	return a, err
}

func infoTargets(i *ops.Info) []any {
	return []any{
		(*int64)(&i.ID), &i.Type, (*string)(&i.State), &i.Priority, &i.Region, &i.Key, (*[]byte)(&i.Labels),
		(*[]byte)(&i.Payload), (*[]byte)(&i.Result), &i.Error, (*string)(&i.Outcome), &i.Attempt, &i.MaxAttempts,
		&i.Deferrals, &i.EverStarted, (*int64)(&i.Fence), (*int64)(&i.Session), &i.Agent, &i.CreatedBy, &i.Traceparent,
		&i.CreatedAt, &i.RunAt, &i.ClaimedAt, &i.LeaseEnd, &i.Deadline, &i.FinishedAt,
		(*[]byte)(&i.Progress), &i.Message, (*[]byte)(&i.Checkpoint), &i.CancelAsked, &i.CancelBy, &i.Detached,
		(*int64)(&i.Batch), &i.Round, (*[]byte)(&i.RollbackPayload), (*string)(&i.Cause),
	}
}

// List returns tasks that match, newest first.
func (s *Store) List(ctx context.Context, f ops.Filter) ([]ops.Info, error) {
	where, args, err := filterSQL(f)
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	text := s.sql.list
	if f.Batch != 0 {
		text = s.sql.listOfBatch
	}
	text = strings.NewReplacer("{where}", where, "{columns}", listColumns).Replace(text)
	var list []ops.Info
	err = s.do(ctx, "list tasks", func(ctx context.Context, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, text, args...)
		if err != nil {
			return err
		}
		list, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (i ops.Info, err error) {
			err = row.Scan(infoTargets(&i)...)
			return i, err
		})
		return err
	})
	return list, err
}

// failedOnly implies the condition of the index of what went wrong of batches.
const failedOnly = "state IN ('failed', 'rollback_failed')"

// filterSQL is the condition and the parameters of a List.
func filterSQL(f ops.Filter) (where string, args []any, err error) {
	terms := []string{"true"}
	args = []any{min(cmp.Or(f.Limit, 50), 1000)}
	term := func(format string, arg any) {
		args = append(args, arg)
		terms = append(terms, fmt.Sprintf(format, len(args)))
	}
	if f.Type != "" {
		term("type = $%d", f.Type)
	}
	if f.Key != "" {
		term("key = $%d", f.Key)
	}
	if f.Batch != 0 {
		term("batch_id = $%d", int64(f.Batch))
	}
	if f.Before != 0 {
		term("id < $%d", int64(f.Before))
	}
	if len(f.Labels) > 0 {
		labels, err := json.Marshal(f.Labels)
		if err != nil {
			return "", nil, err
		}
		term("labels @> $%d::text::jsonb", string(labels))
	}
	if len(f.States) > 0 {
		names := make([]string, len(f.States))
		well := false
		for i, st := range f.States {
			names[i] = string(st)
			well = well || st == task.StateSucceeded
		}
		term("state = ANY ($%d::text[])", names)
		if !well { // the archive's index of what did not succeed
			terms = append(terms, "state <> 'succeeded'")
		}
		if !slices.ContainsFunc(f.States, func(st task.State) bool { return st != task.StateFailed && st != task.StateRollbackFailed }) {
			terms = append(terms, failedOnly) // and of a batch's
		}
	}
	return strings.Join(terms, " AND "), args, nil
}
