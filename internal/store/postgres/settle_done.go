package postgres

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/leasehold/leasehold/internal/fault"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

const (
	doneAgain = 5 * time.Second // after rows were locked, for how long settle.sql does all the work
	// countedLast is how long rows of batches, with a key or with a lock are reckoned with after one was claimed.
	countedLast = time.Minute
)

// recent remembers that something has happened lately, by the monotonic clock of the times that it gets.
type recent struct{ until atomic.Pointer[time.Time] }

func (r *recent) lately(now time.Time) bool {
	until := r.until.Load()
	return until != nil && now.Before(*until)
}

func (r *recent) note(now time.Time, lasts time.Duration) { r.until.Store(new(now.Add(lasts))) }

// isDone reports whether settle_done.sql does all there is to do for a settlement.
func isDone(r *store.Settlement) bool {
	n := &r.Next
	return !r.Silent && !r.InHistory() && n.Deferrals == 0 && n.EverStarted && !n.AfterLease && r.Started >= 0 && r.Report.Empty()
}

// counts reports whether rows of batches and rows with a key are settled the short way, too.
func (s *Store) counts(now time.Time) bool { return s.counted.lately(now) && !s.followed.lately(now) }

// settleDone settles rows that are done, sorted by id and no id twice, and returns those that were applied.
func (s *Store) settleDone(
	ctx context.Context, conn *pgx.Conn, session task.Session, rows []*store.Settlement, counted bool,
) (applied []int64, err error) {
	args, err := s.doneArgs(ctx, conn, session, rows)
	if err != nil {
		return nil, err
	}
	q := s.sql.SettleDone
	if counted {
		q = s.sql.SettleDoneCounted
	}
	return s.collectSettled(ctx, conn, q, args...)
}

// doneArgs are the arguments of the statements that settle rows which are done.
func (s *Store) doneArgs(ctx context.Context, conn *pgx.Conn, session task.Session, rows []*store.Settlement) ([]sqltext.Arg, error) {
	ids, fences, started := make([]int64, len(rows)), make([]int64, len(rows)), make([]pgtype.Interval, len(rows))
	var results, outputs []string
	for i, r := range rows {
		ids[i], fences[i] = int64(r.ID), int64(r.Fence)
		started[i] = pgtype.Interval{Microseconds: r.Started.Microseconds(), Valid: true}
		results = sparse(results, i, len(rows), storableResult(r.Outcome.Result))
		outputs = sparse(outputs, i, len(rows), storable(r.Outcome.Output))
	}
	if fault.Off(fault.Fence) {
		if err := s.takeAnyFence(ctx, conn, ids, fences); err != nil {
			return nil, err
		}
	}
	return []sqltext.Arg{
		arg("ids", ids), arg("fences", fences), arg("session", int64(session)), arg("results", results), arg("outputs", outputs),
		arg("started", started),
	}, nil
}

// sparse puts text at place i of n; nil stays nil while there is no text at all.
func sparse(all []string, i, n int, text string) []string {
	if text == "" {
		return all
	}
	if all == nil {
		all = make([]string, n)
	}
	all[i] = text
	return all
}
