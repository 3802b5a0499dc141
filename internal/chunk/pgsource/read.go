package pgsource

import (
	"context"
	"errors"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/chunk"
)

// reader reads for a scan.
type reader struct{ s *Source }

// Look is chunk.Reader's.
func (r reader) Look(ctx context.Context, q chunk.Query) (f chunk.Found, err error) {
	err = r.s.read(ctx, quick, func(ctx context.Context, tx pgx.Tx, sh *shape) error {
		f = chunk.Found{}
		cut := sh.cut(q, r.s.o.Where)
		if f.Through, err = keys(tx.Query(ctx, cut.text, cut.args...)); err != nil || len(f.Through) >= q.Most {
			return err
		}
		rest := sh.rest(q, f.Through, r.s.o.Where)
		rows, err := tx.Query(ctx, rest.text, rest.args...)
		if err != nil {
			return err
		}
		var k string
		_, err = pgx.ForEachRow(rows, []any{&k}, func() error { f.Rows++; return nil })
		if f.Rows > 0 {
			f.Rest = new(chunk.Key(k))
		}
		return err
	})
	return f, err
}

// Nth is chunk.Reader's.
func (r reader) Nth(ctx context.Context, after, limit *chunk.Key, n int) (k *chunk.Key, err error) {
	err = r.s.read(ctx, quick, func(ctx context.Context, tx pgx.Tx, sh *shape) error {
		var text string
		nth := sh.nth(after, limit, n)
		err := tx.QueryRow(ctx, nth.text, nth.args...).Scan(&text)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		k = new(chunk.Key(text))
		return err
	})
	return k, err
}

// Last is chunk.Reader's.
func (r reader) Last(ctx context.Context) (k *chunk.Key, err error) {
	err = r.s.read(ctx, quick, func(ctx context.Context, tx pgx.Tx, sh *shape) error {
		list, err := keys(tx.Query(ctx, "SELECT "+sh.text()+" "+sh.rows(nil, nil, "").text+" ORDER BY "+sh.column+" DESC LIMIT 1"))
		if len(list) > 0 {
			k = &list[0]
		}
		return err
	})
	return k, err
}

func keys(rows pgx.Rows, err error) ([]chunk.Key, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[chunk.Key])
}

// nth is the key of the n-th row, whatever the condition finds.
func (sh *shape) nth(after, limit *chunk.Key, n int) fragment {
	f := sh.rows(after, limit, "")
	f.text = "SELECT " + sh.text() + " " + f.text + sh.at(n)
	return f
}

// cut is the key of every n-th row, one after another: each is looked up by index from the one before, so that rows with its key are
// passed over, and no row is read twice.
func (sh *shape) cut(q chunk.Query, where string) fragment {
	first := sh.rows(q.After, q.Limit, where)
	below := sh.rows(nil, nil, where).text
	if q.Limit != nil {
		below += " AND " + sh.column + " <= " + sh.value(len(first.args))
	}
	first.text = `WITH RECURSIVE leasehold_cut (leasehold_key, leasehold_n) AS (
  SELECT (SELECT ` + sh.column + ` ` + first.text + sh.at(q.Rows) + `), 1
  UNION ALL
  SELECT (SELECT ` + sh.column + ` ` + below + ` AND ` + sh.column + ` > leasehold_cut.leasehold_key` + sh.at(q.Rows) + `),
    leasehold_cut.leasehold_n + 1
  FROM leasehold_cut
  WHERE leasehold_cut.leasehold_key IS NOT NULL AND leasehold_cut.leasehold_n < ` + strconv.Itoa(q.Most) + `
)
SELECT leasehold_cut.leasehold_key::pg_catalog.text FROM leasehold_cut WHERE leasehold_cut.leasehold_key IS NOT NULL`
	return first
}

// rest is the keys behind the last full range: fewer than one has.
func (sh *shape) rest(q chunk.Query, through []chunk.Key, where string) fragment {
	after := q.After
	if len(through) > 0 {
		after = &through[len(through)-1]
	}
	f := sh.rows(after, q.Limit, where)
	f.text = "SELECT " + sh.text() + " " + f.text + " ORDER BY " + sh.column + " LIMIT " + strconv.Itoa(q.Rows)
	return f
}

// at is the end of a query for the n-th row.
func (sh *shape) at(n int) string {
	return " ORDER BY " + sh.column + " LIMIT 1 OFFSET " + strconv.Itoa(n-1)
}
