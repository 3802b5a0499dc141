package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// enqueueRounds is how often the live row with the key may finish between the two looks.
const enqueueRounds = 10

// Enqueue inserts a row, or does with the live one that has its type and key what the request asks for.
func (s *Store) Enqueue(ctx context.Context, r store.EnqueueRequest) (id task.ID, answer store.Enqueued, err error) {
	args, err := enqueueArgs(r)
	if err != nil {
		return 0, "", fmt.Errorf("enqueue: %w", err)
	}
	more := r.Patience()
	err = explain(s.with(ctx, s.pool, "enqueue", callTimeout+more, func(ctx context.Context, conn *pgx.Conn) error {
		return withPatience(ctx, conn, more, func(on querier) (err error) {
			id, answer, err = s.enqueue(ctx, on, r, args)
			return err
		})
	}))
	if err != nil {
		return 0, "", err
	}
	return id, answer, nil
}

// withPatience lets statements take that much longer than others. More than nothing costs a transaction.
func withPatience(ctx context.Context, conn *pgx.Conn, more time.Duration, f func(on querier) error) error {
	if more == 0 {
		return f(conn)
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, fmt.Sprintf("SET LOCAL statement_timeout = %d", (statementTimeout+more).Milliseconds())); err != nil {
			return err
		}
		return f(tx)
	})
}

func (s *Store) enqueue(ctx context.Context, on querier, r store.EnqueueRequest, args []sqltext.Arg) (id task.ID, answer store.Enqueued, err error) {
	if r.AsksForMore() {
		err = inputError(queryRow(ctx, on, s.sql.EnqueueLive, liveArgs(r, args)...).Scan((*int64)(&id), (*string)(&answer)))
		return id, answer, err
	}
	for range enqueueRounds {
		err := queryRow(ctx, on, s.sql.Enqueue, args...).Scan((*int64)(&id))
		if err == nil {
			return id, store.EnqueuedInserted, nil
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return 0, "", inputError(err)
		}
		err = queryRow(ctx, on, s.sql.FindKey, arg("type", r.Type), arg("key", r.Key)).Scan((*int64)(&id))
		if !errors.Is(err, pgx.ErrNoRows) {
			return id, store.EnqueuedKept, err
		}
	}
	return 0, "", fmt.Errorf("a task of type %s with key %s came and went %d times: try again", r.Type, r.Key, enqueueRounds)
}

func enqueueArgs(r store.EnqueueRequest) ([]sqltext.Arg, error) {
	labels, err := labelText(r.Labels)
	if err != nil {
		return nil, err
	}
	var at *time.Time
	if !r.RunAt.IsZero() {
		at = &r.RunAt
	}
	return []sqltext.Arg{
		arg("type", r.Type), arg("payload", string(r.Payload)), arg("run_at", at), arg("delay", r.In.Microseconds()),
		arg("priority", int64(r.Priority)), arg("key", r.Key), arg("region", r.Region), arg("max_attempts", int64(r.MaxAttempts)),
		arg("labels", labels), arg("traceparent", r.Traceparent), arg("created_by", r.CreatedBy),
		arg("batch_id", int64(r.Batch)), arg("rollback_payload", string(r.RollbackPayload)), arg("lock", r.Lock), arg("sequence", r.Sequence),
		arg("after", idList(r.After)), arg("after_if", r.AfterIf),
		arg("tenant", r.Tenant),
	}, nil
}

// liveArgs adds what is to become of a live row.
func liveArgs(r store.EnqueueRequest, args []sqltext.Arg) []sqltext.Arg {
	return append(slices.Clip(args), arg("on_live", string(r.Live())), arg("debounce", r.Debounce.Microseconds()),
		arg("debounce_max", r.DebounceMax.Microseconds()))
}

// inputError makes an *store.InputError of a refusal of values: a constraint's name is its text.
func inputError(err error) error {
	var e *pgconn.PgError
	switch {
	case !errors.As(err, &e):
		return err
	case e.Code == codeCheck && e.ConstraintName != "":
		return &store.InputError{Text: store.TooLarge(e.ConstraintName)}
	case e.Code == codeNotNull:
		return &store.InputError{Text: e.ColumnName + " must be given"}
	case e.Code == codeRefused:
		return &store.InputError{Text: e.Message}
	case badValue(err):
		text := e.Message
		if e.Detail != "" {
			text += ": " + strings.TrimSuffix(e.Detail, ".")
		}
		return &store.InputError{Text: text}
	}
	return err
}

// idList is ids as an argument: an empty list for none.
func idList(ids []task.ID) []int64 {
	list := make([]int64, len(ids))
	for i, id := range ids {
		list[i] = int64(id)
	}
	return list
}
