package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

const enqueueSQL = `
INSERT INTO {schema}.task (type, payload, run_at, priority, key, region, max_attempts, labels, traceparent, created_by,
    batch_id, rollback_payload)
VALUES ($1, coalesce(nullif($2::text, '')::jsonb, '{}'),
        coalesce($3::timestamptz, now() + $4::bigint * interval '1 microsecond'), $5::bigint, nullif($6::text, ''),
        nullif($7::text, ''), nullif($8::bigint, 0), nullif($9::text, '')::jsonb, nullif($10::text, ''),
        nullif($11::text, ''), nullif($12::bigint, 0), nullif($13::text, '')::jsonb)
ON CONFLICT (type, key) WHERE key IS NOT NULL DO NOTHING
RETURNING id`

const findKeySQL = `SELECT t.id FROM {schema}.task AS t WHERE t.type = $1 AND t.key = $2`

// enqueueRounds is how often the live row with the key may finish between the two looks.
const enqueueRounds = 10

// Enqueue inserts a row, or finds the live one with the same type and key.
func (s *Store) Enqueue(ctx context.Context, r ops.Request) (id task.ID, isNew bool, err error) {
	args, err := enqueueArgs(r)
	if err != nil {
		return 0, false, fmt.Errorf("enqueue: %w", err)
	}
	err = s.do(ctx, "enqueue", func(ctx context.Context, conn *pgx.Conn) error {
		for range enqueueRounds {
			err := conn.QueryRow(ctx, s.sql.enqueue, args...).Scan((*int64)(&id))
			if isNew = err == nil; isNew {
				return nil
			}
			if !errors.Is(err, pgx.ErrNoRows) {
				return inputError(err)
			}
			err = conn.QueryRow(ctx, s.sql.findKey, r.Type, r.Key).Scan((*int64)(&id))
			if !errors.Is(err, pgx.ErrNoRows) {
				return err
			}
		}
		return fmt.Errorf("a task of type %s with key %s came and went %d times: try again", r.Type, r.Key, enqueueRounds)
	})
	return id, isNew, err
}

func enqueueArgs(r ops.Request) ([]any, error) {
	labels, err := labelText(r.Labels)
	if err != nil {
		return nil, err
	}
	var at *time.Time
	if !r.RunAt.IsZero() {
		at = &r.RunAt
	}
	return []any{
		r.Type, string(r.Payload), at, r.In.Microseconds(), int64(r.Priority), r.Key, r.Region, int64(r.MaxAttempts),
		labels, r.Traceparent, r.CreatedBy, int64(r.Batch), string(r.RollbackPayload),
	}, nil
}

// inputError makes an *ops.InputError of a refusal of values: a constraint's name is its text.
func inputError(err error) error {
	var e *pgconn.PgError
	switch {
	case !errors.As(err, &e):
		return err
	case e.Code == codeCheck && e.ConstraintName != "":
		return &ops.InputError{Text: store.TooLarge(e.ConstraintName)}
	case e.Code == codeNotNull:
		return &ops.InputError{Text: e.ColumnName + " must be given"}
	case e.Code == codeRefused:
		return &ops.InputError{Text: e.Message}
	case badValue(err):
		text := e.Message
		if e.Detail != "" {
			text += ": " + strings.TrimSuffix(e.Detail, ".")
		}
		return &ops.InputError{Text: text}
	}
	return err
}
