package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// Exchange settles ends, and claims rows in the places of limits that they leave. What is done at its first try is settled in the claim's
// transaction (exchange.sql). All else is settled after it, as Settle does, and leaves its places to ordinary claims; so are types whose tenants
// take turns, and the time in which applications have rows of ours locked.
func (s *Store) Exchange(ctx context.Context, c store.Claim, ends []store.Settlement) (tasks []task.Task, answers []store.Answer, err error) {
	answers = make([]store.Answer, len(ends))
	if len(ends) == 0 {
		return nil, answers, ctx.Err()
	}
	c.Wants = slices.DeleteFunc(slices.Clone(c.Wants), func(w store.Want) bool {
		return w.N <= 0 || w.Weights != nil || !s.limits.has(w.Type) || s.turns.known(laneOf(c, w))
	})
	err = s.do(ctx, "exchange tasks", func(ctx context.Context, conn *pgx.Conn) error {
		if err := s.giveTokens(ctx, conn, c.Session, ends); err != nil {
			return err
		}
		var got claimed
		for i, places := range rounds(len(ends), func(i int) task.ID { return ends[i].ID }) {
			r := settling{s: s, conn: conn, session: c.Session, rows: ends, answers: answers}
			left := r.withoutSplits(places)
			if i == 0 {
				if got, left, err = r.exchange(ctx, c, left); err != nil {
					return err
				}
			}
			if err := r.run(ctx, left); err != nil {
				return err
			}
			if err := r.split(ctx, places); err != nil {
				return err
			}
		}
		tasks = got.tasks
		if got.bare { // the documents are read once the rows are the session's
			tasks, err = s.claimed(ctx, conn, int64(c.Session), c.Number)
		}
		s.tell(c, got)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	inOrder(tasks, c.Wants)
	return tasks, answers, nil
}

// exchange settles those of the rows at places, sorted by id, that are done at their first try, and claims in their places. It returns the
// places of the others. Where the server refuses, none are settled and nothing is claimed.
func (r *settling) exchange(ctx context.Context, c store.Claim, places []int) (got claimed, left []int, err error) {
	if len(c.Wants)+len(c.Leaves) == 0 || r.s.kept.lately(time.Now()) {
		return claimed{}, places, nil
	}
	var done []*store.Settlement
	for _, p := range places {
		if isDone(&r.rows[p]) {
			done = append(done, &r.rows[p])
		}
	}
	if len(done) == 0 {
		return claimed{}, places, nil
	}
	if err := r.s.failAt(failBefore); err != nil {
		return claimed{}, nil, err
	}
	got, applied, err := r.s.exchange(ctx, r.conn, c, done)
	switch {
	case code(err) == codeNoLock:
		r.s.kept.note(time.Now(), doneAgain)
		return claimed{}, places, nil
	case noPartition(err), badValue(err):
		return claimed{}, places, nil
	case err != nil:
		return claimed{}, nil, err
	}
	slices.Sort(applied)
	for _, p := range places {
		if _, found := slices.BinarySearch(applied, int64(r.rows[p].ID)); found {
			r.answers[p] = store.Applied
		} else {
			left = append(left, p)
		}
	}
	return got, left, r.s.failAt(failAfter)
}

// exchange settles and claims, two statements in one round trip and one transaction, to its end, commit included.
func (s *Store) exchange(ctx context.Context, conn *pgx.Conn, c store.Claim, done []*store.Settlement) (got claimed, applied []int64, err error) {
	args, err := s.doneArgs(ctx, conn, c.Session, done)
	if err != nil {
		return claimed{}, nil, err
	}
	if c.Limited == nil {
		c.Limited = map[string]store.Room{}
	}
	look := s.lowWater.look(c)
	if got, applied, err = s.exchangeOf(ctx, conn, args, c, look); err != nil {
		return claimed{}, nil, err
	}
	s.lowWater.note(look.within(c.Limited, got.tasks), got.tasks, got.cut)
	return got, applied, nil
}

// exchangeOf is exchange, from there on where a look starts.
func (s *Store) exchangeOf(
	ctx context.Context, conn *pgx.Conn, args []sqltext.Arg, c store.Claim, l *look,
) (got claimed, applied []int64, err error) {
	types := make([]string, len(c.Wants))
	for i, w := range c.Wants {
		types[i] = w.Type
	}
	slices.Sort(types)
	forgetLocks(conn)
	var both pgx.Batch
	both.Queue(s.sql.Exchange.Text, s.sql.Exchange.Args(append(args, arg("types", slices.Compact(types)), arg("leaves", c.Leaves))...)...)
	if len(c.Wants) > 0 {
		claim := s.sql.exchanging(c)
		both.Queue(claim.Text, s.sql.claimArgs(claim, c, l)...)
	}
	err = s.batched(ctx, conn, &both, func(replies pgx.BatchResults) error {
		var rooms string
		if err := replies.QueryRow().Scan(&applied, &rooms, nil); err != nil {
			return err
		}
		if err := readRooms(rooms, c.Limited); err != nil {
			return err
		}
		if len(c.Wants) == 0 {
			return nil
		}
		rows, err := replies.Query()
		if err != nil {
			return err
		}
		got.tasks, err = scanClaimed(rows, 0, flagsOf(&got, l))
		return err
	})
	got.held, got.left = sawLocks(conn)
	got.cut = got.cut || got.held
	return got, applied, err
}

// exchanging returns the statement that claims in an exchange.
func (s *statements) exchanging(c store.Claim) *sqltext.Query {
	if len(c.Wants) == 1 && c.Wants[0].Phase == task.Run && c.Region == "" {
		return s.ClaimExchange
	}
	return s.ClaimLimited
}

// batched runs statements in one transaction to its end, commit included; read reads their results.
func (s *Store) batched(ctx context.Context, conn *pgx.Conn, all *pgx.Batch, read func(pgx.BatchResults) error) error {
	run := func(on interface {
		SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
	}) error {
		replies := on.SendBatch(ctx, all)
		err := read(replies)
		return cmp.Or(err, replies.Close())
	}
	if s.fail == nil {
		return run(conn)
	}
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error { // with failpoints the commit is a step of its own
		if err := run(tx); err != nil {
			return err
		}
		return s.failAt(failCommit)
	})
}

// readRooms reads the rooms that exchange.sql has found, of types that have a limit.
func readRooms(text string, into map[string]store.Room) error {
	var rooms []struct {
		Kind, Name string
		Rooms      int
		Wanted     bool
	}
	if err := json.Unmarshal([]byte(text), &rooms); err != nil {
		return err
	}
	for _, r := range rooms {
		into[r.Kind] = store.Room{Limit: r.Name, Rows: r.Rooms, Wanted: r.Wanted}
	}
	return nil
}
