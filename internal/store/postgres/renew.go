package postgres

import (
	"context"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/fault"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Renew moves the ends of leases.
func (s *Store) Renew(ctx context.Context, session task.Session, rows []store.Renewal) ([]store.Answer, error) {
	answers := make([]store.Answer, len(rows))
	if len(rows) == 0 {
		return answers, ctx.Err()
	}
	err := s.live(ctx, "renew leases", func(ctx context.Context, conn *pgx.Conn) error {
		for _, places := range rounds(len(rows), func(i int) task.ID { return rows[i].ID }) {
			if err := s.renewRound(ctx, conn, session, rows, places, answers); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return answers, nil
}

// renewRound renews the rows at places, which are sorted by id, and fills in their answers. A lock that it meets is
// another agent's for the length of a statement (see settling), and waited for.
func (s *Store) renewRound(
	ctx context.Context, conn *pgx.Conn, session task.Session, rows []store.Renewal, places []int, answers []store.Answer,
) error {
	began := time.Now()
	for wait := lockFirst; ; wait *= 2 {
		some := make([]store.Renewal, len(places))
		ids, fences := make([]int64, len(places)), make([]int64, len(places))
		for i, p := range places {
			some[i], ids[i], fences[i] = rows[p], int64(rows[p].ID), int64(rows[p].Fence)
			some[i].Age += time.Since(began)
		}
		applied, err := s.renewSome(ctx, conn, session, some)
		if err != nil {
			return err
		}
		var ours map[task.ID]bool
		if len(applied) < len(places) {
			ours, err = idSet(query(ctx, conn, s.sql.RenewMissed,
				arg("ids", ids), arg("session", int64(session)), arg("fences", fences)))
			if err != nil {
				return err
			}
		}
		var busy []int
		for _, p := range places {
			switch id := rows[p].ID; {
			case applied[id]:
				answers[p] = store.Applied
			case ours[id]:
				answers[p] = store.Busy
				busy = append(busy, p)
			default:
				answers[p] = store.Lost
			}
		}
		if len(busy) == 0 || wait > lockLast || !pause(ctx, wait) {
			return nil
		}
		places = busy
	}
}

// renewSome renews rows that are sorted by id, and returns those that were applied. A note that the server refuses must not
// keep the batch from being renewed: it is found by halving the batch, and kept in another form.
func (s *Store) renewSome(
	ctx context.Context, conn *pgx.Conn, session task.Session, rows []store.Renewal,
) (map[task.ID]bool, error) {
	applied, err := s.renewOnce(ctx, conn, session, rows)
	switch {
	case !badValue(err):
		return applied, err
	case len(rows) == 1 && hasJSON(&rows[0].Report):
		s.log.Warn("the store refuses what a task said as JSON: it is kept as strings", "task", int64(rows[0].ID), "err", err)
		rows[0].Report = asStrings(rows[0].Report)
		return s.renewOnce(ctx, conn, session, rows)
	case len(rows) == 1:
		return nil, err
	}
	half := len(rows) / 2
	if applied, err = s.renewSome(ctx, conn, session, rows[:half]); err != nil {
		return nil, err
	}
	rest, err := s.renewSome(ctx, conn, session, rows[half:])
	maps.Copy(applied, rest)
	return applied, err
}

func (s *Store) renewOnce(
	ctx context.Context, conn *pgx.Conn, session task.Session, rows []store.Renewal,
) (map[task.ID]bool, error) {
	n := len(rows)
	ids, fences, least, most := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	detach, more := make([]bool, n), false
	var reports reportColumns
	var marks []string
	for i := range rows {
		r := &rows[i]
		ids[i], fences[i] = int64(r.ID), int64(r.Fence)
		from, to := r.Bounds()
		least[i], most[i], detach[i] = from.Microseconds(), to.Microseconds(), r.Detach
		reports.set(i, n, &r.Report)
		if r.Marks != nil {
			marks = sparse(marks, i, n, string(r.Marks.JSON()))
		}
		more = more || r.Detach || !r.Report.Empty() || r.Marks != nil
	}
	if fault.Off(fault.Fence) {
		if err := s.takeAnyFence(ctx, conn, ids, fences); err != nil {
			return nil, err
		}
	}
	if !more {
		return idSet(query(ctx, conn, s.sql.Renew, arg("ids", ids), arg("session", int64(session)), arg("fences", fences),
			arg("least", least), arg("most", most)))
	}
	return idSet(query(ctx, conn, s.sql.RenewMore, arg("ids", ids), arg("session", int64(session)), arg("fences", fences),
		arg("detach", detach), arg("progress", reports.progress), arg("messages", reports.message),
		arg("checkpoints", reports.checkpoint), arg("marks", marks), arg("least", least), arg("most", most)))
}
