package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// Cancel cancels a task.
func (s *Store) Cancel(ctx context.Context, id task.ID, by string) (store.Became, error) {
	answer, err := s.operate(ctx, fmt.Sprintf("cancel task %d", id), store.ErrNoTask, s.sql.Cancel,
		arg("id", int64(id)), arg("by", storable(by)))
	return store.Became(answer), err
}

// Retry revives a task that has failed, was cancelled or rolled back.
func (s *Store) Retry(ctx context.Context, id task.ID, by string) (store.Became, error) {
	return s.RetryWith(ctx, id, nil, by)
}

// RetryWith is Retry with another payload.
func (s *Store) RetryWith(ctx context.Context, id task.ID, payload json.RawMessage, by string) (store.Became, error) {
	if err := store.CheckPayload(payload); err != nil {
		return "", err
	}
	answer, err := s.operate(ctx, fmt.Sprintf("retry task %d", id), store.ErrNoTask, s.sql.Retry,
		arg("id", int64(id)), arg("by", storable(by)), arg("payload", payload))
	return store.Became(answer), err
}

// Rollback rolls a task back.
func (s *Store) Rollback(ctx context.Context, id task.ID, by string) (store.Became, error) {
	answer, err := s.operate(ctx, fmt.Sprintf("roll back task %d", id), store.ErrNoTask, s.sql.Rollback,
		arg("id", int64(id)), arg("by", storable(by)))
	return store.Became(answer), err
}

// SealBatch lets no further row into a batch.
func (s *Store) SealBatch(ctx context.Context, id task.BatchID) (string, error) {
	return s.operate(ctx, fmt.Sprintf("seal batch %d", id), store.ErrNoBatch, s.sql.SealBatch, arg("id", int64(id)))
}

// CancelBatch cancels the waiting tasks of a batch, and stops the running ones.
func (s *Store) CancelBatch(ctx context.Context, id task.BatchID, by string) (string, error) {
	return s.operate(ctx, fmt.Sprintf("cancel batch %d", id), store.ErrNoBatch, s.sql.CancelBatch,
		arg("id", int64(id)), arg("by", storable(by)))
}

// RetryBatch retries the failed tasks of a batch.
func (s *Store) RetryBatch(ctx context.Context, id task.BatchID, by string) (string, error) {
	return s.operate(ctx, fmt.Sprintf("retry batch %d", id), store.ErrNoBatch, s.sql.RetryBatch,
		arg("id", int64(id)), arg("by", storable(by)))
}

// RollbackBatch rolls a batch back.
func (s *Store) RollbackBatch(ctx context.Context, id task.BatchID, by string, force bool) (string, error) {
	return s.operate(ctx, fmt.Sprintf("roll back batch %d", id), store.ErrNoBatch, s.sql.RollbackBatch,
		arg("id", int64(id)), arg("by", storable(by)), arg("force", force))
}

// operate calls one of the functions. A repeat changes nothing, so it is called again where others were in its way: two
// that wait for each other run into a deadlock, and the server ends one of them.
func (s *Store) operate(
	ctx context.Context, what string, missing error, call *sqltext.Query, args ...sqltext.Arg,
) (answer string, err error) {
	err = s.do(ctx, what, func(ctx context.Context, conn *pgx.Conn) error {
		if err := s.failAt(failBefore); err != nil {
			return err
		}
		for wait := lockFirst; ; wait *= 2 {
			err := s.naming(ctx, conn.PgConn().PID(), func() error {
				return s.committed(ctx, conn, func(on querier) error { return scanOne(ctx, on, []any{&answer}, call, args...) })
			})
			if c := code(err); (c != codeDeadlock && c != codeSerialize) || wait > lockLast || !pause(ctx, wait) {
				if err != nil {
					return operatorError(err, missing)
				}
				return s.failAt(failAfter)
			}
		}
	})
	return answer, err
}

// operatorError is what a function of operators' raised, in the words of ops; missing is what there is no such of.
func operatorError(err, missing error) error {
	var e *pgconn.PgError
	switch {
	case !errors.As(err, &e):
		return err
	case e.Code == codeNoData:
		return missing
	case e.Code == codeRefused:
		return &store.RefusedError{Text: e.Message}
	}
	return inputError(err)
}
