package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Enqueue inserts a row, or finds the live one with the same type and key.
func (s *Store) Enqueue(ctx context.Context, r store.EnqueueRequest) (id task.ID, isNew bool, err error) {
	labels, err := labelText(r.Labels)
	if err != nil {
		return 0, false, err
	}
	payload := jsonText(r.Payload)
	if payload == nil {
		payload = "{}"
	}
	err = s.update(ctx, "enqueue", func(t *tx) error {
		runAt := r.RunAt
		if runAt.IsZero() {
			runAt = t.now.Add(r.In)
		}
		err := t.row([]any{&id}, t.sql.Enqueue, arg("type", r.Type), arg("payload", payload), arg("run_at", stamp(runAt)),
			arg("priority", r.Priority), arg("key", null(r.Key)), arg("region", null(r.Region)),
			arg("max_attempts", null(r.MaxAttempts)), arg("labels", null(labels)), arg("traceparent", null(r.Traceparent)),
			arg("created_by", null(r.CreatedBy)), arg("now", stamp(t.now)), arg("batch", null(int64(r.Batch))),
			arg("rollback_payload", jsonText(r.RollbackPayload)))
		if errors.Is(err, sql.ErrNoRows) {
			return t.row([]any{&id}, t.sql.LiveWithKey, arg("type", r.Type), arg("key", r.Key))
		}
		if input := refused(err); input != nil {
			return cmp.Or(t.admits(r.Batch), error(input))
		}
		isNew = err == nil
		return err
	})
	if err != nil {
		return 0, false, err
	}
	return id, isNew, nil
}

// admits returns why rows cannot be inserted into a batch, with its number; nil where they can. The triggers check the same,
// but their messages cannot have the number.
func (t *tx) admits(id task.BatchID) error {
	if id == 0 {
		return nil
	}
	wrong := func(format string) error { return &store.InputError{Text: fmt.Sprintf(format, id)} }
	var open, stopping bool
	var request string
	err := t.row([]any{&open, &stopping, &request}, t.sql.Admission, arg("id", int64(id)))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return wrong("there is no batch %d")
	case err != nil:
		return err
	case stopping && request == "rollback":
		return wrong("batch %d was rolled back: create another")
	case stopping:
		return wrong("batch %d was cancelled: create another")
	case !open:
		return wrong("batch %d is sealed: insert its rows in the transaction that creates it, or create it with sealed = false")
	}
	return nil
}

// labelText writes labels as they stand in the table; "" for none.
func labelText(labels map[string]string) (string, error) {
	if len(labels) == 0 {
		return "", nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // people read them in the table
	if err := enc.Encode(labels); err != nil {
		return "", fmt.Errorf("encode labels: %w", err)
	}
	return string(bytes.TrimSpace(b.Bytes())), nil
}
