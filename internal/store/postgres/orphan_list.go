package postgres

import (
	"context"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
)

// Orphans lists the types of waiting rows that no present agent with workers declares. It counts a part of the rows, where there are many.
func (s *Store) Orphans(ctx context.Context) (all store.OrphanList, err error) {
	err = s.do(ctx, "list orphans", func(ctx context.Context, conn *pgx.Conn) error {
		var found store.OrphanTally
		declared, err := s.declared(ctx, conn, new(store.Stats))
		if err != nil {
			return err
		}
		for _, where := range append(waitingClasses(), "t.sequence IS NOT NULL") {
			if err := s.waitingTypes(ctx, conn, where, &found); err != nil {
				return err
			}
		}
		if err := s.heldTypes(ctx, conn, &found); err != nil {
			return err
		}
		names := found.Undeclared(declared)
		most := store.CountedOf(len(names))
		if err := s.countOrphans(ctx, conn, names, most, &found); err != nil {
			return err
		}
		all = found.List(names, most)
		return nil
	})
	return all, err
}

// waitingTypes finds the types of the rows that an index has.
func (s *Store) waitingTypes(ctx context.Context, on querier, where string, found *store.OrphanTally) error {
	q, err := s.sql.WaitingTypes.Fill("{where}", where)
	if err != nil {
		return err
	}
	var name string
	n := 0
	err = forEach(ctx, on, []any{&name}, func() error {
		found.Type(name)
		n++
		return nil
	}, q, arg("steps", store.OrphanSteps))
	found.More = found.More || n >= store.OrphanSteps
	return err
}

// heldTypes finds the types, and counts the rows, of those that no index has by type.
func (s *Store) heldTypes(ctx context.Context, on querier, found *store.OrphanTally) error {
	var name string
	var waiting, running int64
	var oldest *time.Time
	var more bool
	return forEach(ctx, on, []any{&name, &waiting, &running, &oldest, &more}, func() error {
		found.Capped = found.Capped || more
		if waiting+running > 0 {
			o := found.Type(name)
			o.Wait(waiting, utc(oldest))
			o.Running += running
		}
		return nil
	}, s.sql.HeldTypes, arg("most", int64(store.OrphanHeld)))
}

// countOrphans counts the rows of types that indexes have by type.
func (s *Store) countOrphans(ctx context.Context, on querier, names []string, most int, found *store.OrphanTally) error {
	q, err := fillOrphans(s.schema, s.sql.Orphans)
	if err != nil {
		return err
	}
	var name, by, as string
	var waiting int64
	var oldest, at *time.Time
	var whole bool
	return forEach(ctx, on, []any{&name, &waiting, &oldest, &whole, &at, &by, &as}, func() error {
		o := found.Type(name)
		o.Wait(waiting, utc(oldest))
		o.Capped, o.DeclaredAt, o.DeclaredBy, o.DeclaredAs = !whole, utcPointer(at), by, as
		return nil
	}, q, arg("types", names), arg("most", int64(most+1)))
}

// fillOrphans puts the indexes of waiting rows by type into the statement.
func fillOrphans(in schema, q *sqltext.Query) (*sqltext.Query, error) {
	var rows strings.Builder
	for _, where := range waitingClasses() {
		rows.WriteString("(SELECT t.created_at, false AS sequenced FROM " + in.fill("{schema}.task") + " AS t WHERE " + where +
			" AND t.type = u.type ORDER BY t.type, coalesce(t.region, '') LIMIT @most::bigint) UNION ALL ")
	}
	return q.Fill("{rows}", rows.String())
}
