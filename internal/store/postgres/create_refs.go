package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Rows that name others of their batch need the ids of these, which COPY does not return. So from the first that others may name on, rows
// are inserted by statements, which are sent together.
const (
	sentRows  = 500     // that are sent together at most
	sentBytes = 4 << 20 // of their payloads, unless one row has more
)

// inserting are rows that wait to be sent together, and the ids of those before.
type inserting struct {
	s       *Store
	tx      pgx.Tx
	from    *requests
	ids     []task.ID // of rows with a ref
	waiting []store.EnqueueRequest
	bytes   int
}

// insertRows sends the rows from the first one that others may name on, which was read already.
func (s *Store) insertRows(ctx context.Context, tx pgx.Tx, from *requests) error {
	i := &inserting{s: s, tx: tx, from: from}
	for row, more := from.row, true; more; {
		if err := i.add(ctx, row); err != nil {
			return err
		}
		var err error
		if row, err, more = from.next(); err != nil {
			return err
		}
	}
	if err := i.send(ctx); err != nil {
		return err
	}
	if from.progress != nil {
		from.progress(from.n)
	}
	return nil
}

// add takes in a row. What it names has been sent before.
func (i *inserting) add(ctx context.Context, row store.EnqueueRequest) error {
	row.Batch = i.from.batch
	if row.RunAt.IsZero() {
		row.RunAt = i.from.now.Add(row.In)
	}
	size := len(row.Payload) + len(row.RollbackPayload) + 8*len(row.After)
	full := len(i.waiting) == sentRows || len(i.waiting) > 0 && i.bytes+size > sentBytes
	for _, ref := range row.AfterRefs {
		full = full || ref >= int64(len(i.ids))
	}
	if full {
		if err := i.send(ctx); err != nil {
			return err
		}
	}
	for _, ref := range row.AfterRefs {
		if ref < 0 || ref >= int64(len(i.ids)) {
			return fmt.Errorf("row %d names row %d of those with a ref, and there are %d", i.from.n+1, ref, len(i.ids))
		}
		row.After = append(slices.Clip(row.After), i.ids[ref])
	}
	i.waiting, i.bytes = append(i.waiting, row), i.bytes+size
	return nil
}

// send sends the rows that wait, in one round trip.
func (i *inserting) send(ctx context.Context) error {
	if len(i.waiting) == 0 {
		return nil
	}
	var all pgx.Batch
	for _, row := range i.waiting {
		args, err := enqueueArgs(row)
		if err != nil {
			return err
		}
		all.Queue(i.s.sql.Enqueue.Text, i.s.sql.Enqueue.Args(args...)...)
	}
	answers := i.tx.SendBatch(ctx, &all)
	err := i.read(answers)
	i.waiting, i.bytes = i.waiting[:0], 0
	return errors.Join(err, closed(answers, err))
}

// read reads the ids of the rows that were sent.
func (i *inserting) read(answers pgx.BatchResults) error {
	for _, row := range i.waiting {
		var id task.ID
		switch err := answers.QueryRow().Scan((*int64)(&id)); {
		case errors.Is(err, pgx.ErrNoRows):
			return &store.InputError{Text: fmt.Sprintf("row %d: a live task of this type has the key %q", i.from.n+1, row.Key)}
		case err != nil:
			return inRow(i.from.n+1, inputError(err))
		}
		if row.Ref {
			i.ids = append(i.ids, id)
		}
		if i.from.n++; i.from.progress != nil && i.from.n%progressEvery == 0 {
			i.from.progress(i.from.n)
		}
	}
	return nil
}

// inRow is an error with the number of the row that it is about, from 1.
func inRow(n int64, err error) error {
	if input, ok := errors.AsType[*store.InputError](err); ok {
		return &store.InputError{Text: fmt.Sprintf("row %d: %s", n, input.Text)}
	}
	return fmt.Errorf("row %d: %w", n, err)
}

// closed ends a batch of statements. After an error it has nothing to add.
func closed(answers pgx.BatchResults, before error) error {
	if err := answers.Close(); before == nil {
		return err
	}
	return nil
}
