package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/internal/task"
)

// Counts is Stats for those who do not wait: where there are many rows it counts a part of them.
func (s *Store) Counts(ctx context.Context) (stats store.Stats, err error) {
	err = s.do(ctx, "count tasks", func(ctx context.Context, conn *pgx.Conn) error {
		c := counter{stats: store.NewStats()}
		if c.declared, err = s.declared(ctx, conn, &c.stats); err != nil {
			return err
		}
		if c.stats.BatchTasks, err = s.batchTasks(ctx, conn); err != nil {
			return err
		}
		for _, index := range countedIndexes() {
			if err := c.index(ctx, conn, s, index); err != nil {
				return err
			}
		}
		if err := c.held(ctx, conn, s); err != nil {
			return err
		}
		stats = c.stats
		return nil
	})
	return stats, err
}

// countedIndex is an index of waiting rows by type and region.
type countedIndex struct {
	where string
	order string // behind these
	due   string // finds what is due of a pair, as the statement's {due}
}

func countedIndexes() []countedIndex {
	const (
		pending, rollback = "t.state IN ('pending', 'retry_pending')", "t.state = 'rollback_pending'"
		none, some        = " AND t.held IS NULL AND t.tenant IS NULL", " AND t.held IS NULL AND t.tenant IS NOT NULL"
	)
	return []countedIndex{
		byPriority(pending + none), byPriority(rollback + none), byTenant(pending + some), byTenant(rollback + some),
	}
}

// byPriority counts what is due of each priority: the index has it in front.
func byPriority(where string) countedIndex {
	return countedIndex{where, "t.priority DESC, t.run_at", `
		SELECT z.due, z.oldest FROM generate_series(-10, 10) AS p (level) CROSS JOIN LATERAL (
			SELECT count(*) AS due, min(w.run_at) AS oldest FROM (
				SELECT t.run_at FROM {schema}.task AS t
				WHERE ` + where + ` AND t.type = e.type AND coalesce(t.region, '') = e.region AND t.priority = p.level::smallint AND t.run_at <= now()
				ORDER BY t.run_at LIMIT e.most / 4) AS w) AS z`}
}

// byTenant counts what is due among the first rows.
func byTenant(where string) countedIndex {
	return countedIndex{where, "t.tenant", `
		SELECT count(*) FILTER (WHERE w.run_at <= now()) AS due, min(w.run_at) FILTER (WHERE w.run_at <= now()) AS oldest FROM (
			SELECT t.run_at FROM {schema}.task AS t WHERE ` + where + ` AND t.type = e.type AND coalesce(t.region, '') = e.region
			ORDER BY t.type, coalesce(t.region, ''), t.tenant LIMIT e.most) AS w`}
}

// fill puts an index into the statement.
func (i countedIndex) fill(in schema, q *sqltext.Query) (*sqltext.Query, error) {
	var err error
	for _, f := range [][2]string{{"{due}", in.fill(i.due)}, {"{where}", i.where}, {"{order}", i.order}} {
		if q, err = q.Fill(f[0], f[1]); err != nil {
			return nil, err
		}
	}
	return q, nil
}

// counter counts.
type counter struct {
	stats    store.Stats
	declared map[string]bool
}

func (c *counter) index(ctx context.Context, conn *pgx.Conn, s *Store, i countedIndex) error {
	q, err := i.fill(s.schema, s.sql.Counts)
	if err != nil {
		return err
	}
	var typ string
	var pending, retry, rollback, due int64
	var oldest *int64
	var more, moreDue bool
	return forEach(ctx, conn, []any{&typ, &pending, &retry, &rollback, &due, &oldest, &more, &moreDue}, func() error {
		c.stats.More = c.stats.More || more || moreDue
		if typ == "" {
			return nil
		}
		c.stats.Add(store.TypeCount{Type: typ, State: task.StatePending, N: pending, More: more}, !c.declared[typ])
		c.stats.Add(store.TypeCount{Type: typ, State: task.StateRetryPending, N: retry, More: more && retry > 0}, !c.declared[typ])
		c.stats.Add(store.TypeCount{Type: typ, State: task.StateRollbackPending, N: rollback, More: more && rollback > 0}, !c.declared[typ])
		if due > 0 {
			c.stats.AddDue(typ, due, microseconds(*oldest))
		}
		return nil
	}, q, arg("pairs", int64(store.CountedTypes)), arg("most", int64(store.CountedAll+1)), arg("rows", int64(store.CountedAll+1)))
}

func (c *counter) held(ctx context.Context, conn *pgx.Conn, s *Store) error {
	var one store.TypeCount
	var more bool
	return forEach(ctx, conn, []any{&one.Type, (*string)(&one.State), &one.N, &more}, func() error {
		c.stats.More = c.stats.More || more
		c.stats.Add(one, one.State.Waiting() && !c.declared[one.Type])
		return nil
	}, s.sql.CountsHeld, arg("most", int64(store.CountedAll+1)))
}
