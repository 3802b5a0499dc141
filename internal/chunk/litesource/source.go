// Package litesource reads tables in SQLite files that are cut into chunks.
package litesource

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/leasehold/leasehold/internal/chunk"
)

// Options name a table, and what of it is cut.
type Options struct {
	Path  string // of the file
	Table string
	Key   string // the column
	Where string // a condition in SQL; "": all rows

	When string // planning waits while this query returns true; "": it does not
}

// Bounds of each call.
const (
	quick       = time.Second      // a statement that finds keys
	lengthy     = 30 * time.Second // one that counts
	slack       = 5 * time.Second  // for the other statements of a transaction
	busy        = 2 * time.Second  // for the lock of a program that does not use write-ahead logging
	connections = 2
)

// Source is a table in a SQLite file. It is safe for concurrent use.
type Source struct {
	o           Options
	db          *sql.DB
	*chunk.Scan // Cut, Middle and Ends of chunk.Source

	mu    sync.Mutex
	shape *shape // once Check has seen it
}

var _ chunk.Source = (*Source)(nil)

// New returns a source. It opens the file, for reading only, when it is first used.
func New(o Options) (*Source, error) {
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, fmt.Errorf("source of chunks %s: %w", o.Path, err)
	}
	q := url.Values{"mode": {"ro"}, "_dqs": {"0"}, "_error_rc": {"1"}, "_pragma": {
		fmt.Sprintf("busy_timeout(%d)", busy.Milliseconds()), "query_only(1)", "temp_store(memory)",
	}}
	u := url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, fmt.Errorf("source of chunks %s: %w", o.Path, err)
	}
	db.SetMaxOpenConns(connections)
	s := &Source{o: o, db: db}
	s.Scan = chunk.NewScan(o.Table, o.Key, reader{s})
	return s, nil
}

// Close ends its connections.
func (s *Source) Close() { _ = s.db.Close() } // it has written nothing

// Count is chunk.Source's.
func (s *Source) Count(ctx context.Context, r chunk.Range, most int) (n int, err error) {
	err = s.read(ctx, lengthy, func(ctx context.Context, tx *sql.Tx, sh *shape) error {
		q, err := sh.rows(r.After, r.Through, s.o.Where)
		if err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, "SELECT count(*) FROM (SELECT 1 "+q.text+" LIMIT "+strconv.Itoa(most)+")", q.args...).Scan(&n)
	})
	return n, err
}

// Compare is chunk.Source's.
func (s *Source) Compare(ctx context.Context, a, b chunk.Key) (n int, err error) {
	err = s.read(ctx, quick, func(ctx context.Context, tx *sql.Tx, sh *shape) error {
		x, err := sh.value(a)
		if err != nil {
			return err
		}
		y, err := sh.value(b)
		if err != nil {
			return err
		}
		text := "SELECT (?1" + sh.order + " > ?2) - (?1" + sh.order + " < ?2)"
		return tx.QueryRowContext(ctx, text, x, y).Scan(&n)
	})
	return n, err
}

// Order is chunk.Source's.
func (s *Source) Order(ctx context.Context, keys []chunk.Key) (places []int, err error) {
	err = s.read(ctx, quick, func(ctx context.Context, tx *sql.Tx, sh *shape) (err error) {
		values := make([]any, len(keys))
		for i, k := range keys {
			if values[i], err = sh.value(k); err != nil {
				return err
			}
		}
		list, err := json.Marshal(values)
		if err != nil {
			return err
		}
		text := "SELECT k.key FROM json_each(?1) AS k ORDER BY k.value" + sh.order + ", k.key" //nolint:gosec // a quoted collation
		rows, err := tx.QueryContext(ctx, text, string(list))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, rows.Close()) }()
		for rows.Next() {
			var n int
			if err := rows.Scan(&n); err != nil {
				return err
			}
			places = append(places, n)
		}
		return rows.Err()
	})
	return places, err
}

// Throttled is chunk.Source's.
func (s *Source) Throttled(ctx context.Context) (reason string, err error) {
	if s.o.When == "" {
		return "", nil
	}
	err = s.read(ctx, slack, func(ctx context.Context, tx *sql.Tx, _ *shape) error {
		waits, err := s.when(ctx, tx)
		if waits {
			reason = "the query of throttle returns true"
		}
		return err
	})
	return reason, err
}

// when runs the query of one's own.
func (s *Source) when(ctx context.Context, tx *sql.Tx) (bool, error) {
	var waits any
	err := tx.QueryRowContext(ctx, s.o.When).Scan(&waits)
	switch n := waits.(type) {
	case nil:
		if err == nil || errors.Is(err, sql.ErrNoRows) {
			return false, nil
		}
		return false, err
	case int64:
		return n != 0, err
	default:
		return false, s.invalid("the query of throttle does not return true or false", "write it as SELECT count(*) > 100 FROM …")
	}
}

// read runs f in a transaction that only reads and sees one state of the file.
func (s *Source) read(ctx context.Context, limit time.Duration, f func(context.Context, *sql.Tx, *shape) error) error {
	sh, err := s.looked(ctx)
	if err != nil {
		return err
	}
	return s.transact(ctx, limit, func(ctx context.Context, tx *sql.Tx) error { return f(ctx, tx, sh) })
}

// transact is read, before anything is known of the table. limit bounds f as a whole.
func (s *Source) transact(ctx context.Context, limit time.Duration, f func(context.Context, *sql.Tx) error) error {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tx, err := s.db.BeginTx(bounded, nil)
	if err != nil {
		return s.explain(ctx, bounded, err)
	}
	defer func() { _ = tx.Rollback() }() // it has changed nothing
	return s.explain(ctx, bounded, f(bounded, tx))
}

// explain turns SQLite's errors into those of package chunk, and adds to others what was being read.
func (s *Source) explain(ctx, bounded context.Context, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*chunk.InvalidError](err); ok {
		return err
	}
	if bounded.Err() != nil && ctx.Err() == nil {
		return fmt.Errorf("read table %s: %w", s.o.Table, chunk.ErrSlow)
	}
	if e, ok := errors.AsType[*driver.Error](err); ok {
		switch code := e.Code(); {
		case code == lib.SQLITE_ERROR:
			return s.invalid(e.Error(), "correct table, key, where and when; a condition is what may follow WHERE")
		case code&0xff == lib.SQLITE_NOTADB:
			return s.invalid("the file "+s.o.Path+" is not a SQLite database", "name another one")
		case code == lib.SQLITE_READONLY: // its extended codes pass: a writer has left a journal, or is about to
			return s.invalid("the query of throttle, or the condition, would write", "a source is only read")
		case code&0xff == lib.SQLITE_CANTOPEN:
			return fmt.Errorf("read table %s: the file %s cannot be opened: this user must be able to read it, and to write its "+
				"directory if it uses write-ahead logging: %w", s.o.Table, s.o.Path, err)
		}
	}
	return fmt.Errorf("read table %s: %w", s.o.Table, err)
}

func (s *Source) invalid(problem, remedy string) error {
	return &chunk.InvalidError{Table: s.o.Table, Key: s.o.Key, Problem: problem, Remedy: remedy}
}

// fragment is a part of a statement, and the values of its parameters from ?1 on.
type fragment struct {
	text string
	args []any
}

// rows is FROM and WHERE of the rows in a range. The index that Check has found is named where the planner would take another.
func (sh *shape) rows(after, through *chunk.Key, where string) (f fragment, err error) {
	var terms []string
	bound := func(op string, k *chunk.Key) {
		if k == nil || err != nil {
			return
		}
		var v any
		if v, err = sh.value(*k); err != nil {
			return
		}
		f.args = append(f.args, v)
		terms = append(terms, sh.column+op+"?"+strconv.Itoa(len(f.args)))
	}
	bound(" > ", after)
	bound(" <= ", through)
	if where != "" {
		terms = append(terms, "("+where+"\n)")
	}
	if len(terms) == 0 {
		terms = append(terms, "1")
	}
	by := sh.whole
	if where != "" {
		by = sh.some
	}
	f.text = "FROM " + sh.table + by + " WHERE " + strings.Join(terms, " AND ")
	return f, err
}

// quote quotes a name.
func quote(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
