package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/task"
)

const answerQuery = "SELECT answer FROM cancel WHERE id = ?"

// Cancel calls a task off, by the view that does so for applications.
func (s *Store) Cancel(ctx context.Context, id task.ID, by string) (became ops.Cancelled, err error) {
	err = s.change(ctx, "cancel task", func(t *tx) error {
		err := t.row([]any{&became}, answerQuery, int64(id))
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("%d: %w", id, ops.ErrNoTask)
		}
		if err != nil {
			return err
		}
		if _, err := t.exec("INSERT INTO cancel (id, by) VALUES (?, ?)", int64(id), null(by)); err != nil {
			if input := refused(err); input != nil {
				return input
			}
			return err
		}
		return t.row([]any{&became}, answerQuery, int64(id))
	})
	if err != nil {
		return "", err
	}
	return became, nil
}
