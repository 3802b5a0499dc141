package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// Counts is Stats for those who do not wait: where there are many rows it counts a part of them.
func (s *Store) Counts(ctx context.Context) (stats store.Stats, err error) {
	err = s.view(ctx, "count tasks", func(t *snapshot) error {
		c := counter{t: t, now: s.now(), stats: store.NewStats()}
		if c.declared, err = t.declaredTypes(c.now, &c.stats); err != nil {
			return err
		}
		if c.stats.BatchTasks, err = t.batchTasks(); err != nil {
			return err
		}
		for _, from := range sources() {
			count := c.first
			if from.byRegion() {
				count = c.pairs
			}
			if err := count(from); err != nil {
				return err
			}
		}
		stats = c.stats
		return nil
	})
	return stats, err
}

// byRegion reports whether the index has the regions of each type, and is for rows that may be due.
func (s *source) byRegion() bool {
	return s.index == "task_due" || s.index == "task_rollback" || s.byTenant()
}

// byTenant reports whether tenants come before priorities in the index.
func (s *source) byTenant() bool {
	return s.index == "task_tenant" || s.index == "task_tenant_rollback"
}

// fill puts the index into a statement.
func (s *source) fill(q *sqltext.Query) (*sqltext.Query, error) {
	q, err := q.Fill("{index}", "INDEXED BY "+s.index)
	if err != nil {
		return nil, err
	}
	return q.Fill("{where}", s.where)
}

// counter counts.
type counter struct {
	t        *snapshot
	now      time.Time
	stats    store.Stats
	declared map[string]bool
}

// first counts the first rows of an index.
func (c *counter) first(from source) error {
	q, err := from.fill(c.t.sql.CountFirst)
	if err != nil {
		return err
	}
	var all int64
	err = c.t.query(func(r *sql.Rows) error {
		var one store.TypeCount
		if err := r.Scan(&one.Type, &one.State, &one.N); err != nil {
			return err
		}
		all += one.N
		c.stats.Add(one, one.State.Waiting() && !c.declared[one.Type])
		return nil
	}, q, arg("most", store.CountedAll+1))
	c.stats.More = c.stats.More || all > store.CountedAll
	return err
}

// pair is a type and a region.
type pair struct{ typ, region string }

// pairs counts the first rows of each type and region of an index.
func (c *counter) pairs(from source) error {
	var list []pair
	for last := (pair{}); len(list) < store.CountedTypes; {
		next, err := c.next(from, last)
		if err != nil {
			return err
		}
		if next == (pair{}) {
			break
		}
		list, last = append(list, next), next
	}
	c.stats.More = c.stats.More || len(list) == store.CountedTypes
	for _, p := range list {
		if err := c.pair(from, p, max((store.CountedAll+1)/len(list), 100)); err != nil {
			return err
		}
	}
	return nil
}

// next returns the pair behind another; the zero value: there is none.
func (c *counter) next(from source, last pair) (p pair, err error) {
	scan := func(r *sql.Rows) error { return r.Scan(&p.typ, &p.region) }
	for _, step := range []struct {
		q    *sqltext.Query
		args []sqltext.Arg
	}{
		{c.t.sql.NextPair, []sqltext.Arg{arg("type", last.typ), arg("region", last.region)}},
		{c.t.sql.NextType, []sqltext.Arg{arg("type", last.typ)}},
	} {
		q, err := from.fill(step.q)
		if err != nil {
			return p, err
		}
		if err := c.t.query(scan, q, step.args...); err != nil || p != (pair{}) {
			return p, err
		}
	}
	return p, nil
}

func (c *counter) pair(from source, p pair, most int) error {
	q, err := from.fill(c.t.sql.CountPair)
	if err != nil {
		return err
	}
	args := []sqltext.Arg{arg("type", p.typ), arg("region", p.region), arg("most", most)}
	var pending, retry, rollback int64
	if err := c.t.row([]any{&pending, &retry, &rollback}, q, args...); err != nil {
		return err
	}
	more := pending+retry+rollback >= int64(most)
	for state, n := range map[task.State]int64{task.StatePending: pending, task.StateRetryPending: retry, task.StateRollbackPending: rollback} {
		c.stats.Add(store.TypeCount{Type: p.typ, State: state, N: n, More: more}, !c.declared[p.typ])
	}
	q = c.t.sql.CountDueOfPair
	if from.byTenant() {
		q = c.t.sql.CountDueOfTenants
	}
	if q, err = from.fill(q); err != nil {
		return err
	}
	var due, highest int64
	var oldest time.Time
	if err := c.t.row([]any{&due, timeOf{&oldest}, &highest}, q, append(args, arg("now", stamp(c.now)))...); err != nil {
		return err
	}
	if due > 0 {
		c.stats.AddDue(p.typ, due, c.now.Sub(oldest))
	}
	c.stats.More = c.stats.More || more || highest >= int64(most)
	return nil
}
