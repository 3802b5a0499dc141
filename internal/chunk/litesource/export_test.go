package litesource

import (
	"context"
	"database/sql"

	"github.com/leasehold/leasehold/internal/chunk"
)

// Plans returns the plan of the statement that finds the ends of ranges, and of that for one key.
func (s *Source) Plans(ctx context.Context, q chunk.Query) (steps []string, err error) {
	err = s.read(ctx, slack, func(ctx context.Context, tx *sql.Tx, sh *shape) error {
		cut, err := sh.cut(q, s.o.Where)
		if err != nil {
			return err
		}
		nth, err := sh.rows(q.After, q.Limit, "")
		if err != nil {
			return err
		}
		nth.text = "SELECT " + sh.read() + " " + nth.text + sh.at(q.Rows)
		for _, f := range []fragment{cut, nth} {
			plan, err := s.plan(ctx, tx, f.text, f.args)
			if err != nil {
				return err
			}
			steps = append(steps, plan...)
		}
		return nil
	})
	return steps, err
}
