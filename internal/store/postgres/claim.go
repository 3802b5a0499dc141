package postgres

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/fault"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// priorities is how many there are, from highest to -highest.
const (
	highest    = 10
	priorities = 2*highest + 1
)

// regions lists those whose rows an agent of the region claims.
func regions(region string) []string {
	if region == "" {
		return []string{""}
	}
	return []string{"", region}
}

// Claim takes due rows. Below a low-water mark rows may have appeared since it was set: a want that comes back short is asked
// for once more without one, so a short answer always means that there is no more; unless its bytes are bounded, and cut it.
func (s *Store) Claim(ctx context.Context, c store.Claim) ([]task.Task, error) {
	c.Wants = slices.DeleteFunc(slices.Clone(c.Wants), func(w store.Want) bool { return w.N <= 0 })
	if len(c.Wants) == 0 {
		return nil, ctx.Err()
	}
	var all claimed
	err := s.do(ctx, "claim tasks", func(ctx context.Context, conn *pgx.Conn) (err error) {
		all, err = s.claimAll(ctx, conn, c)
		return err
	})
	if err != nil {
		return nil, err
	}
	s.tell(c, all)
	inOrder(all.tasks, c.Wants)
	return all.tasks, nil
}

// tell tells the caller of a claim what it wants to know beside the rows, and notes what settlements are to know.
func (s *Store) tell(c store.Claim, all claimed) {
	if c.Cut != nil {
		*c.Cut = all.cut
	}
	if c.Left != nil {
		*c.Left = all.left
	}
	if slices.ContainsFunc(all.tasks, func(t task.Task) bool { return t.Batch != 0 || t.Key != "" || t.Lock != "" }) {
		s.counted.note(time.Now(), countedLast)
	}
}

// claimAll passes on locks and turns, if it is to, and claims what is wanted: first of types without limit and tenants.
func (s *Store) claimAll(ctx context.Context, conn *pgx.Conn, c store.Claim) (all claimed, err error) {
	plain, turned, err := s.partTurns(ctx, conn, c)
	if err != nil {
		return all, err
	}
	free, limited := s.limits.part(plain)
	if c.Pass != nil {
		if all, err = s.pass(ctx, conn, c, &free, &limited, &turned); err != nil || c.Pass.Only && c.Pass.Promoted.Rows == 0 {
			return all, err
		}
	}
	if len(free.Wants) > 0 {
		some, err := s.claimBeside(ctx, conn, free)
		if err != nil {
			return all, err
		}
		all = all.with(some)
	}
	if len(limited.Wants) > 0 {
		some, err := s.claimLimited(ctx, conn, limited)
		if err != nil {
			return all, err
		}
		all = all.with(some)
	}
	for _, w := range turned.Wants {
		some, err := s.claimTurns(ctx, conn, turned, w, all.tasks)
		if err != nil {
			return all, err
		}
		all = all.with(some)
	}
	if all.bare { // the documents are read once the rows are the session's
		all.tasks, err = s.claimed(ctx, conn, int64(c.Session), c.Number)
	}
	return all, err
}

// claimed is what one statement has claimed.
type claimed struct {
	tasks []task.Task
	cut   bool // the bound on bytes, or locks, kept rows from being taken
	held  bool // locks did
	left  bool // locks of rows were being passed on
	bare  bool // documents were left out, because some of them could be large
}

// with is what two statements have claimed.
func (c claimed) with(more claimed) claimed {
	tasks := more.tasks
	if len(c.tasks) > 0 {
		tasks = append(c.tasks, tasks...)
	}
	return claimed{tasks, c.cut || more.cut, c.held || more.held, c.left || more.left, c.bare || more.bare}
}

// flagsOf reads what a claim returns of a row after its documents. It notes in the look how many entries of the index were read.
func flagsOf(c *claimed, l *look) func(*taskRow, *task.Task) {
	return func(r *taskRow, _ *task.Task) {
		bare, cut := r.bool(), r.bool()
		c.bare, c.cut = c.bare || bare, c.cut || cut
		if l.tenants != nil {
			l.read = int(r.int(0))
		}
	}
}

// claimBeside claims rows of types without a limit.
func (s *Store) claimBeside(ctx context.Context, conn *pgx.Conn, c store.Claim) (all claimed, err error) {
	look := s.lowWater.look(c)
	if all, err = s.claim(ctx, conn, c, look); err != nil {
		return all, err
	}
	again := c
	again.Wants = s.lowWater.note(look, all.tasks, all.cut)
	if len(again.Wants) == 0 {
		return all, nil
	}
	look = s.lowWater.look(again)
	more, err := s.claim(ctx, conn, again, look)
	if err != nil {
		return all, err
	}
	s.lowWater.note(look, more.tasks, more.cut)
	return all.with(more), nil
}

// claim runs the statement to its end, commit included.
func (s *Store) claim(ctx context.Context, conn *pgx.Conn, c store.Claim, l *look) (got claimed, err error) {
	return s.claimOf(ctx, conn, s.sql.claiming(c), c, l)
}

// claimOf is claim by that statement.
func (s *Store) claimOf(ctx context.Context, conn *pgx.Conn, q *sqltext.Query, c store.Claim, l *look) (got claimed, err error) {
	forgetLocks(conn)
	room := 0
	for _, w := range c.Wants {
		room += w.N
	}
	err = s.committed(ctx, conn, func(on querier) error {
		rows, err := on.Query(ctx, q.Text, s.sql.claimArgs(q, c, l)...)
		if err != nil {
			return err
		}
		got.tasks, err = scanClaimed(rows, min(room, 4096), flagsOf(&got, l))
		return err
	})
	got.held, got.left = sawLocks(conn)
	got.cut = got.cut || got.held
	return got, err
}

// claiming returns the statement for a claim.
func (s *statements) claiming(c store.Claim) *sqltext.Query {
	rollbacks := slices.ContainsFunc(c.Wants, func(w store.Want) bool { return w.Phase == task.Rollback })
	switch {
	case c.Region == "" && !rollbacks:
		return s.Claim
	case c.Region == "":
		return s.ClaimBoth
	case !rollbacks:
		return s.ClaimRegion
	}
	return s.ClaimRegionBoth
}

// claimArgs are the arguments of a claim, which for a region has one more.
func (s *statements) claimArgs(q *sqltext.Query, c store.Claim, l *look) []any {
	n := len(c.Wants)
	types, rollbacks, most := make([]string, n), make([]bool, n), make([]int32, n)
	length, policy, deadline := make([]int64, n), make([]int64, n), make([]int64, n)
	for i, w := range c.Wants {
		types[i], rollbacks[i], most[i] = w.Type, w.Phase == task.Rollback, int32(min(w.N, 1<<30))
		length[i], policy[i], deadline[i] = w.Window.Microseconds(), int64(w.Policy), w.Deadline.Microseconds()
	}
	bytes := math.Inf(1)
	if c.Bytes > 0 {
		bytes = float64(c.Bytes)
	}
	args := append(make([]sqltext.Arg, 0, 12),
		arg("types", types), arg("rollbacks", rollbacks), arg("limits", most), arg("lengths", length), arg("policies", policy),
		arg("deadlines", deadline))
	if c.Region != "" || q == s.ClaimLimited || l.tenants != nil {
		args = append(args, arg("regions", regions(c.Region)))
	}
	if l.tenants != nil {
		args = append(args, arg("tenants", l.tenants), arg("low_firsts", l.sparse.first), arg("low_counts", l.sparse.count),
			arg("low_places", l.sparse.places))
	}
	args = append(args, arg("low_times", l.at), arg("low_ids", l.id), arg("bytes", bytes),
		arg("session", int64(c.Session)), arg("number", c.Number))
	return q.Args(args...)
}

// inOrder sorts claimed rows as they are handed out: want by want, then priority, due time, id.
func inOrder(rows []task.Task, wants []store.Want) {
	place := func(t *task.Task) int {
		if len(wants) == 1 {
			return 0
		}
		return slices.IndexFunc(wants, func(w store.Want) bool { return w.Type == t.Type && w.Phase == t.Phase() })
	}
	slices.SortFunc(rows, func(a, b task.Task) int {
		return cmp.Or(
			cmp.Compare(place(&a), place(&b)), cmp.Compare(b.Priority, a.Priority),
			a.RunAt.Compare(b.RunAt), cmp.Compare(a.ID, b.ID),
		)
	})
}

// Claimed reads back what a claim took and the session still holds.
func (s *Store) Claimed(ctx context.Context, session task.Session, number int64) (tasks []task.Task, err error) {
	err = s.do(ctx, "read back a claim", func(ctx context.Context, conn *pgx.Conn) error {
		if fault.Off(fault.Session) {
			tasks, err = s.claimedByAny(ctx, conn, number)
			return err
		}
		tasks, err = s.claimed(ctx, conn, int64(session), number)
		return err
	})
	return tasks, err
}

func (s *Store) claimed(ctx context.Context, conn *pgx.Conn, session, number int64) ([]task.Task, error) {
	rows, err := query(ctx, conn, s.sql.Claimed, arg("session", session), arg("number", number))
	if err != nil {
		return nil, err
	}
	return scanClaimed(rows, 0, func(r *taskRow, t *task.Task) {
		if unfit := r.text(""); unfit != "" {
			t.Unfit = unfit
		}
	})
}

// scanClaimed reads the rows of a claim with their documents to the end and closes them: with no error, the statement is
// committed. rest reads what else a row has.
func scanClaimed(rows pgx.Rows, room int, rest func(*taskRow, *task.Task)) ([]task.Task, error) {
	defer rows.Close()
	tasks := make([]task.Task, 0, room)
	var r taskRow
	for rows.Next() && r.err == nil {
		t := r.next(rows)
		r.documents(&t)
		rest(&r, &t)
		if t.Fence > store.MaxFence {
			t.Unfit = store.UnfitFence()
		}
		tasks = append(tasks, t)
	}
	rows.Close()
	if fault.Off(fault.ReadToEnd) && len(tasks) > 0 {
		return tasks, r.err
	}
	return tasks, cmp.Or(rows.Err(), r.err)
}
