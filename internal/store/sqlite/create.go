package sqlite

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// rowsAtOnce is how many rows one statement inserts. SQLite must be able to revert all that a statement did, and to
// prepare for that costs several times as much as inserting one row.
const rowsAtOnce = 200

// rowValues is how many values a row has of its own, beside the time and the batch that all of them share.
const rowValues = 16

// rowsQuery returns the statement insert_row for n rows.
func (q *statements) rowsQuery(n int) string { return listOf(q.InsertRow, 2, n) }

// CreateBatch inserts a batch and its rows in one transaction, all of them or none. While that lasts no other connection can
// write, so all rows are read before it begins.
func (s *Store) CreateBatch(
	ctx context.Context, b store.BatchRequest, rows iter.Seq2[store.EnqueueRequest, error], progress func(n int64),
) (id task.BatchID, err error) {
	var kept spool
	defer func() { err = errors.Join(err, kept.close()) }()
	for r, err := range rows {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = kept.add(&r)
		}
		if err != nil {
			return 0, s.explain("create batch", err)
		}
	}
	labels, err := labelText(b.Labels)
	if err != nil {
		return 0, err
	}
	payload, onFailure := jsonText(b.FinishPayload), b.OnFailure
	if payload == nil {
		payload = "{}"
	}
	if onFailure == "" {
		onFailure = store.OnFailureContinue
	}
	err = s.change(ctx, "create batch", func(t *tx) error {
		from, err := kept.read()
		if err != nil {
			return err
		}
		err = t.row([]any{&id}, t.sql.CreateBatch, arg("name", b.Name), arg("on_failure", string(onFailure)),
			arg("finish_type", null(b.FinishType)), arg("finish_payload", payload), arg("labels", null(labels)),
			arg("created_by", null(b.CreatedBy)), arg("sealed", !b.Open), arg("now", stamp(t.now)))
		if err != nil {
			return orRefused(err)
		}
		return t.insertRows(ctx, id, from, progress)
	})
	if err != nil {
		return 0, err
	}
	return id, nil
}

// insertRows inserts what the spool has. It stops where ctx ends.
func (t *tx) insertRows(ctx context.Context, id task.BatchID, from *spoolReader, progress func(int64)) (err error) {
	done := int64(0)
	if err := t.row([]any{&from.id}, t.sql.NextNumber); err != nil {
		return err
	}
	head := []any{stamp(t.now), int64(id)}
	values := make([]any, 0, rowsAtOnce*rowValues+len(head))
	for from.left > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := int(min(from.left, rowsAtOnce))
		values = append(values[:0], head...)
		for range n {
			if values, err = from.next(values, t.now); err != nil {
				return err
			}
		}
		if n == rowsAtOnce {
			_, err = t.execText(t.sql.rowsQuery(n), values...)
		}
		if n < rowsAtOnce || err != nil { // the rest; or the statement did nothing, and one of its rows is to blame
			err = t.insertSingly(head, values[len(head):], done)
		}
		if err != nil {
			return err
		}
		if err := t.foretold(from); err != nil {
			return err
		}
		if done += int64(n); progress != nil {
			progress(done)
		}
	}
	return nil
}

// foretold returns an error if the rows inserted so far have other ids than those that others have named them by.
func (t *tx) foretold(from *spoolReader) error {
	if len(from.ids) == 0 {
		return nil
	}
	var next task.ID
	if err := t.row([]any{&next}, t.sql.NextNumber); err != nil {
		return err
	}
	if next != from.id {
		return fmt.Errorf("the last row has the id %d, and not %d: what names rows of the batch would name others", next-1, from.id-1)
	}
	return nil
}

// insertSingly inserts rows one by one; an error names the row, counted from 1 after those that were done before.
func (t *tx) insertSingly(head, values []any, done int64) error {
	for ; len(values) > 0; values = values[rowValues:] {
		done++
		if _, err := t.execText(t.sql.rowsQuery(1), append(slices.Clip(head), values[:rowValues]...)...); err != nil {
			if input := refused(err); input != nil {
				return &store.InputError{Text: fmt.Sprintf("row %d: %s", done, input.Text)}
			}
			return fmt.Errorf("row %d: %w", done, err)
		}
	}
	return nil
}

// orRefused is the mistake in what was to be written, or else the error as it is.
func orRefused(err error) error {
	if input := refused(err); input != nil {
		return input
	}
	return err
}
