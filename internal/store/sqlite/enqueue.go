package sqlite

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// Enqueue inserts a row, or does with the live one that has the same type and key what the request asks for.
func (s *Store) Enqueue(ctx context.Context, r store.EnqueueRequest) (id task.ID, answer store.Enqueued, err error) {
	labels, err := labelText(r.Labels)
	if err != nil {
		return 0, "", err
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
		row := []sqltext.Arg{
			arg("type", r.Type), arg("payload", payload), arg("run_at", stamp(runAt)), arg("priority", r.Priority),
			arg("key", null(r.Key)), arg("region", null(r.Region)), arg("max_attempts", null(r.MaxAttempts)), arg("labels", null(labels)),
			arg("traceparent", null(r.Traceparent)), arg("created_by", null(r.CreatedBy)), arg("batch", null(int64(r.Batch))),
			arg("rollback_payload", jsonText(r.RollbackPayload)), arg("lock", null(r.Lock)), arg("sequence", null(r.Sequence)),
			arg("after", idsText(r.After)), arg("after_if", null(r.AfterIf)), arg("tenant", null(r.Tenant)),
		}
		if r.AsksForMore() {
			id, answer, err = t.enqueueLive(r, row)
			return err
		}
		err := t.row([]any{&id}, t.sql.Enqueue, append(row, arg("now", stamp(t.now)))...)
		answer = store.EnqueuedInserted
		if errors.Is(err, sql.ErrNoRows) {
			answer = store.EnqueuedKept
			return t.row([]any{&id}, t.sql.LiveWithKey, arg("type", r.Type), arg("key", r.Key))
		}
		if input := refused(err); input != nil {
			return cmp.Or(t.admits(r.Batch), error(input))
		}
		return err
	})
	if err != nil {
		return 0, "", err
	}
	return id, answer, nil
}

// enqueueLive enqueues by the function enqueue, which applications use too.
func (t *tx) enqueueLive(r store.EnqueueRequest, row []sqltext.Arg) (id task.ID, answer store.Enqueued, err error) {
	if r.Debounce != 0 && r.RunAt.IsZero() && r.In == 0 { // it says when the row is due
		row = slices.DeleteFunc(row, func(a sqltext.Arg) bool { return a.Name == "run_at" })
		row = append(row, arg("run_at", nil))
	}
	row = append(row, arg("on_live", string(r.Live())), arg("debounce_s", null(r.Debounce.Seconds())),
		arg("debounce_max_s", null(r.DebounceMax.Seconds())))
	if _, err := t.exec(t.sql.EnqueueLive, row...); err != nil {
		return 0, "", orRefused(err)
	}
	err = t.row([]any{&id, &answer}, t.sql.EnqueueResult)
	return id, answer, err
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

// idsText is ids as they stand in the table; nil for none.
func idsText(ids []task.ID) any {
	if len(ids) == 0 {
		return nil
	}
	return jsonList(ids)
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
