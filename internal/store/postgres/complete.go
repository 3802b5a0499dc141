package postgres

import (
	"context"
	"encoding/json"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Complete ends an attempt as succeeded, whichever session holds its row.
func (s *Store) Complete(
	ctx context.Context, id task.ID, f task.Fence, result json.RawMessage,
) (answer store.Answer, err error) {
	err = s.do(ctx, "complete a task", func(ctx context.Context, conn *pgx.Conn) error {
		for wait := lockFirst; ; wait *= 2 {
			answer, err = s.completeOnce(ctx, conn, id, f, storableResult(result))
			if badValue(err) {
				s.log.Warn("the store refuses a result as JSON: it is kept as a string", "task", int64(id), "err", err)
				answer, err = s.completeOnce(ctx, conn, id, f, string(asString(result)))
			}
			if err != nil || answer != store.Busy || wait > lockLast || !pause(ctx, wait) {
				return err
			}
		}
	})
	return answer, err
}

func (s *Store) completeOnce(
	ctx context.Context, conn *pgx.Conn, id task.ID, f task.Fence, result string,
) (answer store.Answer, err error) {
	var text string
	err = s.change(ctx, conn, func(on querier) error {
		return scanOne(ctx, on, []any{&text}, s.sql.Complete,
			arg("id", int64(id)), arg("fence", int64(f)), arg("result", result))
	})
	if err != nil {
		return store.Lost, err
	}
	return answerOf(text)
}

// Completed reports which attempts have succeeded.
func (s *Store) Completed(ctx context.Context, rows []store.Held) (done []bool, err error) {
	if len(rows) == 0 {
		return nil, ctx.Err()
	}
	ids, fences := make([]int64, len(rows)), make([]int64, len(rows))
	for i, h := range rows {
		ids[i], fences[i] = int64(h.ID), int64(h.Fence)
	}
	err = s.do(ctx, "look for completions", func(ctx context.Context, conn *pgx.Conn) error {
		found, err := query(ctx, conn, s.sql.Completed, arg("ids", ids), arg("fences", fences))
		if err != nil {
			return err
		}
		done, err = pgx.CollectRows(found, pgx.RowTo[bool])
		return err
	})
	return done, err
}
