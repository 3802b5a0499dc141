package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Situation reads a task, and all that decides whether it may start, at one moment.
func (s *Store) Situation(ctx context.Context, id task.ID) (found *store.Situation, err error) {
	err = s.do(ctx, fmt.Sprintf("look at task %d", id), func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
			found, err = s.situation(ctx, tx.Conn(), id)
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return found, nil
}

// situation reads it in the transaction that is open on conn.
func (s *Store) situation(ctx context.Context, conn *pgx.Conn, id task.ID) (found *store.Situation, err error) {
	found = &store.Situation{}
	if found.Task, err = s.get(ctx, conn, id); err != nil {
		return nil, err
	}
	if found.Agents, err = s.agents(ctx, conn, false); err != nil {
		return nil, err
	}
	if err := conn.QueryRow(ctx, "SELECT now()").Scan(&found.Now); err != nil {
		return nil, err
	}
	found.Now = found.Now.UTC()
	if found.Task.State.Finished() || found.Task.Follows != 0 {
		return found, nil
	}
	var typ string
	var n int64
	if err := forEach(ctx, conn, []any{&typ, &n}, func() error {
		found.Running = append(found.Running, store.TypeCount{Type: typ, State: task.StateRunning, N: n})
		return nil
	}, s.sql.RunningTypes); err != nil {
		return nil, err
	}
	if err := s.circumstances(ctx, conn, found); err != nil {
		return nil, err
	}
	if found.Task.State.Running() {
		var h store.SessionHolder
		if err := forEach(ctx, conn, []any{&h.SeenAt, &h.Until}, func() error {
			found.Holder = &store.SessionHolder{SeenAt: h.SeenAt.UTC(), Until: h.Until.UTC()}
			return nil
		}, s.sql.HolderSeen, arg("session", int64(found.Task.Session))); err != nil {
			return nil, err
		}
	}
	if found.Task.Sequence != "" {
		if found.Sequence, err = s.sequence(ctx, conn, found.Task.Type, found.Task.Sequence); err != nil {
			return nil, err
		}
	}
	found.Ahead, err = s.ahead(ctx, conn, found.Task)
	return found, err
}

// circumstances reads what keeps a task from being claimed.
func (s *Store) circumstances(ctx context.Context, conn *pgx.Conn, found *store.Situation) error {
	var (
		policy   []byte
		batch    store.StoppedBatch
		paused   *time.Time
		pause    store.TypePause
		lock     store.LockHolder
		limit    store.LimitUse
		tokens   store.Bucket
		tenant   store.Bucket
		returned int
	)
	err := queryRow(ctx, conn, s.sql.Circumstances, arg("id", int64(found.Task.ID))).Scan(&policy,
		&batch.Verb, &batch.By, &batch.ByFailure, &paused, &pause.By, &pause.Reason,
		(*int64)(&lock.Task), (*string)(&lock.State), &lock.Since, &lock.Until,
		&limit.Name, &limit.Most, &limit.Rate, &limit.Burst, &limit.Tenant.Most, &limit.Tenant.Rate, &limit.Tenant.Burst,
		&limit.Running, &tokens.Tokens, &tokens.At, &returned, &limit.TenantRunning, &tenant.Tokens, &tenant.At)
	if errors.Is(err, pgx.ErrNoRows) {
		return store.ErrNoTask // the view has it, in the same snapshot: so this does not happen
	}
	if err != nil {
		return err
	}
	if err := json.Unmarshal(policy, &found.Policy); err != nil {
		return fmt.Errorf("its policy: %w", err)
	}
	if batch.Verb != "" {
		batch.ID = found.Task.Batch
		found.Batch = &batch
	}
	if paused != nil {
		pause.Type, pause.At = found.Task.Type, paused.UTC()
		found.Pause = &pause
	}
	if found.Task.Lock != "" {
		found.Lock = &lock
	}
	if limit.Name != "" {
		limit.Type = found.Task.Type
		limit.Rates(tokens, tenant, returned, found.Now)
		found.Limit = &limit
	}
	return nil
}

// sequence returns a sequence as operators see it; nil where it has no rows.
func (s *Store) sequence(ctx context.Context, conn *pgx.Conn, typ, name string) (*store.SequenceInfo, error) {
	list, err := s.showSequences(ctx, conn, []string{storable(typ)}, []string{storable(name)})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

// ahead counts what comes before a task that waits, store.MostAhead + 1 at most.
func (s *Store) ahead(ctx context.Context, conn *pgx.Conn, t *store.TaskInfo) (n int, err error) {
	q := s.sql.Ahead
	switch {
	case !t.State.Waiting(), t.Held == task.HoldAfter:
		return 0, nil
	case t.Held == task.HoldLock:
		q = s.sql.WaitingForLock
	case t.Held == task.HoldSequence:
		q = s.sql.AheadInSequence
	default:
		states, tenants := "t.state IN ('pending', 'retry_pending')", "t.tenant IS NULL"
		if t.State.Phase() == task.Rollback {
			states = "t.state = 'rollback_pending'"
		}
		if t.Tenant != "" {
			tenants = "t.tenant IS NOT NULL AND t.tenant = s.tenant"
		}
		if q, err = q.Fill("{where}", states+" AND t.held IS NULL AND "+tenants); err != nil {
			return 0, err
		}
	}
	err = queryRow(ctx, conn, q, arg("id", int64(t.ID)), arg("most", int64(store.MostAhead+1))).Scan(&n)
	return n, err
}
