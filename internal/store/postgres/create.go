package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// createTimeout is how long the rows of a batch may take to come. A transaction is open meanwhile.
const createTimeout = 6 * time.Hour

// progressEvery is after how many rows progress is called.
const progressEvery = 1000

// CreateBatch inserts a batch and its rows, all of it or nothing.
func (s *Store) CreateBatch(
	ctx context.Context, b store.BatchRequest, rows iter.Seq2[store.EnqueueRequest, error], progress func(n int64),
) (id task.BatchID, err error) {
	labels, err := labelText(b.Labels)
	if err != nil {
		return 0, fmt.Errorf("create a batch: %w", err)
	}
	err = s.with(ctx, s.pool, "create a batch", createTimeout, func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			var now time.Time
			made := queryRow(ctx, tx, s.sql.CreateBatch, arg("name", b.Name), arg("on_failure", string(b.OnFailure)),
				arg("finish_type", b.FinishType), arg("finish_payload", string(b.FinishPayload)), arg("labels", labels),
				arg("created_by", b.CreatedBy), arg("sealed", !b.Open))
			if err := made.Scan((*int64)(&id), &now); err != nil {
				return inputError(err)
			}
			// As long as the rows take to come, but not for ever: the caller's context ends it.
			if _, err := tx.Exec(ctx, "SET LOCAL statement_timeout = 0"); err != nil {
				return err
			}
			next, stop := iter.Pull2(rows)
			defer stop()
			from := &requests{next: next, batch: id, now: now, progress: progress}
			if err := s.copyRows(ctx, tx, from); err != nil || !from.named {
				return err
			}
			return s.insertRows(ctx, tx, from)
		})
	})
	return id, err
}

// copyRows sends the rows of a batch, up to the first that others may name, or that names others.
func (s *Store) copyRows(ctx context.Context, tx pgx.Tx, rows *requests) error {
	_, err := tx.CopyFrom(ctx, pgx.Identifier{string(s.schema), "task"}, requestColumns(), rows)
	switch {
	case rows.err != nil:
		return rows.err
	case code(err) == codeUnique:
		var e *pgconn.PgError
		_ = errors.As(err, &e)
		return &store.InputError{Text: fmt.Sprintf("%s: a live task of this type has this key: %s", e.Where, e.Detail)}
	case err != nil:
		return inputError(err)
	}
	if progress := rows.progress; progress != nil {
		progress(rows.n)
	}
	return nil
}

// requestColumns are the columns in which requests gives its rows.
func requestColumns() []string {
	return []string{
		"type", "payload", "run_at", "priority", "key", "region", "max_attempts", "labels", "traceparent", "created_by",
		"batch_id", "rollback_payload", "lock", "sequence", "after", "after_if", "tenant",
	}
}

// requests gives the rows of a batch to COPY.
type requests struct {
	next     func() (store.EnqueueRequest, error, bool)
	batch    task.BatchID
	now      time.Time // the server's
	progress func(n int64)
	row      store.EnqueueRequest
	n        int64
	err      error // that the caller's rows gave
	named    bool  // others may name row, or it names others: it was not sent
}

// Next implements pgx.CopyFromSource.
func (r *requests) Next() bool {
	if r.progress != nil && r.n > 0 && r.n%progressEvery == 0 {
		r.progress(r.n)
	}
	row, err, more := r.next()
	if !more || err != nil {
		r.err = err
		return false
	}
	r.row = row
	if r.named = row.Ref || len(row.AfterRefs) > 0; r.named {
		return false
	}
	r.n++
	return true
}

// Err implements pgx.CopyFromSource.
func (r *requests) Err() error { return r.err }

// Values implements pgx.CopyFromSource.
func (r *requests) Values() ([]any, error) {
	labels, err := labelText(r.row.Labels)
	if err != nil {
		return nil, err
	}
	payload := r.row.Payload
	if payload == nil {
		payload = json.RawMessage(`{}`)
	}
	at := r.row.RunAt
	if at.IsZero() {
		at = r.now.Add(r.row.In)
	}
	return []any{
		r.row.Type, []byte(payload), at, int64(r.row.Priority), nullable(r.row.Key), nullable(r.row.Region),
		nullable(int64(r.row.MaxAttempts)), jsonOrNull([]byte(labels)), nullable(r.row.Traceparent), nullable(r.row.CreatedBy),
		int64(r.batch), jsonOrNull(r.row.RollbackPayload), nullable(r.row.Lock), nullable(r.row.Sequence),
		idsOrNull(r.row.After), nullable(r.row.AfterIf), nullable(r.row.Tenant),
	}, nil
}

// nullable is the value, or NULL for zero.
func nullable[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

func idsOrNull(ids []task.ID) any {
	if len(ids) == 0 {
		return nil
	}
	return idList(ids)
}

func jsonOrNull(text []byte) any {
	if len(text) == 0 {
		return nil
	}
	return text
}

// labelText is labels as JSON; "" where there are none.
func labelText(labels map[string]string) (string, error) {
	if len(labels) == 0 {
		return "", nil
	}
	body, err := json.Marshal(labels)
	return string(body), err
}
