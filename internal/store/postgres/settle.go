package postgres

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/fault"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// The points of Settle at which a store can crash: see Options.Fail.
const (
	failBefore    = "before the statement"       // nothing has happened
	failCommit    = "before the commit"          // the server takes all of it back
	failAfter     = "after the commit"           // all has happened, and the caller does not know
	failPartition = "before a partition is made" // only where the archive has no place for today
	failRepeat    = "before the statement again" // now it has
)

// failAt is where a test has the store crash.
func (s *Store) failAt(point string) error {
	if s.fail == nil {
		return nil
	}
	return s.fail(point)
}

// Settle applies the ends of holds.
func (s *Store) Settle(ctx context.Context, session task.Session, rows []store.Settlement) ([]store.Answer, error) {
	answers := make([]store.Answer, len(rows))
	if len(rows) == 0 {
		return answers, ctx.Err()
	}
	err := s.do(ctx, "settle tasks", func(ctx context.Context, conn *pgx.Conn) error {
		if err := s.giveTokens(ctx, conn, session, rows); err != nil {
			return err
		}
		for _, places := range rounds(len(rows), func(i int) task.ID { return rows[i].ID }) {
			r := settling{s: s, conn: conn, session: session, rows: rows, answers: answers}
			if err := r.run(ctx, r.withoutSplits(places)); err != nil {
				return err
			}
			if err := r.split(ctx, places); err != nil {
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

// rounds splits rows so that no id stands in a round twice, and sorts each round by id. It gives their places.
func rounds(n int, id func(int) task.ID) [][]int {
	places := make([]int, n)
	for i := range places {
		places[i] = i
	}
	slices.SortFunc(places, func(a, b int) int {
		if c := cmp.Compare(id(a), id(b)); c != 0 {
			return c
		}
		return a - b
	})
	all := [][]int{make([]int, 0, n)}
	round := 0
	for i, p := range places {
		if i > 0 && id(places[i-1]) == id(p) {
			round++
		} else {
			round = 0
		}
		if round == len(all) {
			all = append(all, nil)
		}
		all[round] = append(all[round], p)
	}
	return all
}

// settling is one round of a Settle.
type settling struct {
	s       *Store
	conn    *pgx.Conn
	session task.Session
	rows    []store.Settlement // of the whole call
	answers []store.Answer
}

// A claim that meets a row which another has just claimed locks it before it sees that, and keeps it until its
// statement ends. Such a lock is waited for, in growing steps; one of an application is not: that may take long.
const (
	lockFirst = time.Millisecond
	lockLast  = 64 * time.Millisecond
)

// run settles the rows at places, which are sorted by id, and fills in their answers.
func (r *settling) run(ctx context.Context, places []int) error {
	if len(places) == 0 {
		return nil
	}
	before := map[task.ID]bool{} // kept by an application when last looked at
	for wait := lockFirst; ; wait *= 2 {
		missed, err := r.apply(ctx, places)
		if err != nil || len(missed) == 0 {
			return err
		}
		busy, err := r.explain(ctx, missed)
		if err != nil || len(busy) == 0 || wait > lockLast {
			return err
		}
		kept, err := idSet(query(ctx, r.conn, r.s.sql.SettleLocked, arg("ids", r.ids(busy))))
		if err != nil {
			return err
		}
		// A row that was kept twice in a row is; once, it may have become free between the two statements.
		places = slices.DeleteFunc(busy, func(p int) bool { id := r.rows[p].ID; return kept[id] && before[id] })
		if len(places) == 0 || !pause(ctx, wait) {
			return nil // they have their answer: busy
		}
		before = kept
	}
}

// apply settles the rows at places and gives the places of those that were passed over.
func (r *settling) apply(ctx context.Context, places []int) (missed []int, err error) {
	if err := r.s.failAt(failBefore); err != nil {
		return nil, err
	}
	some := make([]*store.Settlement, len(places))
	for i, p := range places {
		some[i] = &r.rows[p]
	}
	applied, err := r.settle(ctx, some)
	if err != nil {
		return nil, err
	}
	slices.Sort(applied)
	for _, p := range places {
		if _, found := slices.BinarySearch(applied, int64(r.rows[p].ID)); found {
			r.answers[p] = store.Applied
		} else {
			missed = append(missed, p)
		}
	}
	return missed, r.s.failAt(failAfter)
}

// settle sends rows that are done the short way, and the others, or all where that way is barred, the long one. It gives
// the ids of those that were applied.
func (r *settling) settle(ctx context.Context, some []*store.Settlement) (applied []int64, err error) {
	var done, others []*store.Settlement
	if !r.s.kept.lately(time.Now()) {
		done, others = part(some)
	}
	if len(done) == 0 {
		return r.s.settleSome(ctx, r.conn, r.session, some)
	}
	counted := r.s.counts(time.Now())
	applied, err = r.s.settleDone(ctx, r.conn, r.session, done, counted)
	switch {
	case code(err) == codeNoLock && counted: // rows with a key are left to settle.sql, the others need not be
		r.s.followed.note(time.Now(), doneAgain)
		return r.s.settleSome(ctx, r.conn, r.session, some)
	case code(err) == codeNoLock:
		r.s.kept.note(time.Now(), doneAgain)
		return r.s.settleSome(ctx, r.conn, r.session, some)
	case noPartition(err), badValue(err):
		return r.s.settleSome(ctx, r.conn, r.session, some)
	case err != nil:
		return nil, err
	}
	if len(applied) < len(done) { // some are lost, or belong to a batch
		others = append(others, r.missed(done, applied)...)
		slices.SortFunc(others, func(a, b *store.Settlement) int { return cmp.Compare(a.ID, b.ID) })
	}
	if len(others) == 0 {
		return applied, nil
	}
	rest, err := r.s.settleSome(ctx, r.conn, r.session, others)
	return append(applied, rest...), err
}

// missed lists the rows that are not among those that were applied.
func (*settling) missed(rows []*store.Settlement, applied []int64) []*store.Settlement {
	slices.Sort(applied)
	return slices.DeleteFunc(rows, func(row *store.Settlement) bool {
		_, found := slices.BinarySearch(applied, int64(row.ID))
		return found
	})
}

// part parts rows that are done from the others.
func part(some []*store.Settlement) (done, others []*store.Settlement) {
	done = make([]*store.Settlement, 0, len(some))
	for _, row := range some {
		if isDone(row) {
			done = append(done, row)
		} else {
			others = append(others, row)
		}
	}
	return done, others
}

// explain fills in the answers of rows that were skipped, and returns the places of the busy ones.
func (r *settling) explain(ctx context.Context, missed []int) (busy []int, err error) {
	fences, unseen := make([]int64, len(missed)), make([]bool, len(missed))
	for i, p := range missed {
		fences[i], unseen[i] = int64(r.rows[p].Fence), r.rows[p].CancelUnseen()
	}
	var ours, asked, ended bool
	i := 0
	err = forEach(ctx, r.conn, []any{&ours, &asked, &ended}, func() error {
		place := missed[i]
		i++
		switch {
		case ours && asked:
			r.answers[place] = store.CancelPending
		case ours:
			r.answers[place] = store.Busy
			busy = append(busy, place)
		case ended && !fault.Off(fault.Repeat):
			r.answers[place] = store.Ended
		default:
			r.answers[place] = store.Lost
		}
		return nil
	}, r.s.sql.SettleMissed, arg("cancel_unseen", unseen), arg("ids", r.ids(missed)), arg("fences", fences),
		arg("session", int64(r.session)))
	return busy, err
}

func (r *settling) ids(places []int) []int64 {
	ids := make([]int64, len(places))
	for i, p := range places {
		ids[i] = int64(r.rows[p].ID)
	}
	return ids
}
