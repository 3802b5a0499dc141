package litesource

import (
	"context"
	"database/sql"
	"errors"
	"strconv"

	"github.com/leasehold/leasehold/internal/chunk"
)

// reader reads for a scan.
type reader struct{ s *Source }

var _ chunk.Reader = reader{}

// Look is chunk.Reader's.
func (r reader) Look(ctx context.Context, q chunk.Query) (f chunk.Found, err error) {
	err = r.s.read(ctx, quick, func(ctx context.Context, tx *sql.Tx, sh *shape) error {
		f = chunk.Found{}
		cut, err := sh.cut(q, r.s.o.Where)
		if err != nil {
			return err
		}
		err = r.s.each(ctx, tx, sh, cut, func(k chunk.Key) { f.Through = append(f.Through, k) })
		if err != nil || len(f.Through) >= q.Most {
			return err
		}
		after := q.After
		if n := len(f.Through); n > 0 {
			after = &f.Through[n-1]
		}
		rest, err := sh.rows(after, q.Limit, r.s.o.Where)
		if err != nil {
			return err
		}
		rest.text = "SELECT " + sh.read() + " " + rest.text + " ORDER BY " + sh.column + " LIMIT " + strconv.Itoa(q.Rows)
		var last chunk.Key
		if err = r.s.each(ctx, tx, sh, rest, func(k chunk.Key) { last = k; f.Rows++ }); f.Rows > 0 {
			f.Rest = &last
		}
		return err
	})
	return f, err
}

// Nth is chunk.Reader's.
func (r reader) Nth(ctx context.Context, after, limit *chunk.Key, n int) (found *chunk.Key, err error) {
	err = r.s.read(ctx, quick, func(ctx context.Context, tx *sql.Tx, sh *shape) error {
		nth, err := sh.rows(after, limit, "")
		if err != nil {
			return err
		}
		nth.text = "SELECT " + sh.read() + " " + nth.text + sh.at(n)
		return r.s.each(ctx, tx, sh, nth, func(k chunk.Key) { found = &k })
	})
	return found, err
}

// Last is chunk.Reader's.
func (r reader) Last(ctx context.Context) (found *chunk.Key, err error) {
	err = r.s.read(ctx, quick, func(ctx context.Context, tx *sql.Tx, sh *shape) error {
		last, err := sh.rows(nil, nil, "")
		if err != nil {
			return err
		}
		last.text = "SELECT " + sh.read() + " " + last.text + " ORDER BY " + sh.column + " DESC LIMIT 1"
		return r.s.each(ctx, tx, sh, last, func(k chunk.Key) { found = &k })
	})
	return found, err
}

// each calls f with each key that a statement returns.
func (s *Source) each(ctx context.Context, tx *sql.Tx, sh *shape, q fragment, f func(chunk.Key)) (err error) {
	rows, err := tx.QueryContext(ctx, q.text, q.args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var class, text string
	for rows.Next() {
		if err := rows.Scan(&class, &text); err != nil {
			return err
		}
		if class != sh.class {
			return s.mixed(class, sh.class)
		}
		f(chunk.Key(text))
	}
	return rows.Err()
}

// read is what is read of a row: the class that its key is stored in, and the key. Of an expression the driver knows no declared
// type by which it would make something else of the text.
func (sh *shape) read() string {
	return "typeof(" + sh.column + "), CAST(" + sh.column + " AS TEXT)"
}

// cut is the key of every n-th row, one after another: each is looked up by index from the one before, so that rows with its key are
// passed over, and no row is read twice.
func (sh *shape) cut(q chunk.Query, where string) (fragment, error) {
	first, err := sh.rows(q.After, q.Limit, where)
	if err != nil {
		return first, err
	}
	next, err := sh.rows(nil, nil, where)
	if err != nil {
		return first, err
	}
	below := next.text
	if q.Limit != nil {
		below += " AND " + sh.column + " <= ?" + strconv.Itoa(len(first.args))
	}
	first.text = `WITH RECURSIVE leasehold_cut (leasehold_key, leasehold_n) AS (
  SELECT (SELECT ` + sh.column + ` ` + first.text + sh.at(q.Rows) + `), 1
  UNION ALL
  SELECT (SELECT ` + sh.column + ` ` + below + ` AND ` + sh.column + ` > leasehold_cut.leasehold_key` + sh.at(q.Rows) + `),
    leasehold_cut.leasehold_n + 1
  FROM leasehold_cut
  WHERE leasehold_cut.leasehold_key IS NOT NULL AND leasehold_cut.leasehold_n < ` + strconv.Itoa(q.Most) + `
)
SELECT typeof(leasehold_key), CAST(leasehold_key AS TEXT) FROM leasehold_cut WHERE leasehold_key IS NOT NULL`
	return first, nil
}

// at is the end of a query for the n-th row.
func (sh *shape) at(n int) string {
	return " ORDER BY " + sh.column + " LIMIT 1 OFFSET " + strconv.Itoa(n-1)
}
