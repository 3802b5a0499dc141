// Package pgsource reads tables in PostgreSQL that are cut into chunks.
package pgsource

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/leasehold/leasehold/internal/chunk"
)

// Options name a table, and what of it is cut.
type Options struct {
	URL   string // of the database; a role that may read the table is enough
	Table string // as in SQL, with its schema where the role's search_path does not find it
	Key   string // the column, exactly as the catalogue has it
	Where string // a condition in SQL; "": all rows

	OldestTransaction time.Duration // planning waits while a transaction in the database is older; 0: it does not
	When              string        // planning waits while this query returns true; "": it does not
}

// Bounds of each call.
const (
	connectTimeout = 5 * time.Second
	quick          = time.Second      // a statement that finds keys
	lengthy        = 30 * time.Second // one that counts
	slack          = 5 * time.Second  // for a connection and the network
	connections    = 2
)

// Source is a table in PostgreSQL. It is safe for concurrent use.
type Source struct {
	o           Options
	pool        *pgxpool.Pool
	*chunk.Scan // Cut, Middle and Ends of chunk.Source

	mu    sync.Mutex
	shape *shape // once Check has seen it
}

var _ chunk.Source = (*Source)(nil)

// New returns a source. It connects when it is first used.
func New(o Options) (*Source, error) {
	config, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		return nil, fmt.Errorf("source of chunks: %w", err)
	}
	config.MaxConns, config.MinConns, config.MinIdleConns = connections, 0, 0
	conn := config.ConnConfig
	// Nothing of ours lasts longer than a transaction, so that a pooler may be between.
	conn.DefaultQueryExecMode = pgx.QueryExecModeExec
	if conn.ConnectTimeout == 0 || conn.ConnectTimeout > connectTimeout {
		conn.ConnectTimeout = connectTimeout
	}
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, fmt.Errorf("source of chunks: %w", err)
	}
	s := &Source{o: o, pool: pool}
	s.Scan = chunk.NewScan(o.Table, o.Key, reader{s})
	return s, nil
}

// Close ends its connections.
func (s *Source) Close() { s.pool.Close() }

// Count is chunk.Source's.
func (s *Source) Count(ctx context.Context, r chunk.Range, most int) (n int, err error) {
	err = s.read(ctx, lengthy, func(ctx context.Context, tx pgx.Tx, sh *shape) error {
		q := sh.rows(r.After, r.Through, s.o.Where)
		return tx.QueryRow(ctx, "SELECT count(*) FROM (SELECT 1 "+q.text+" LIMIT "+strconv.Itoa(most)+") leasehold_rows", q.args...).Scan(&n)
	})
	return n, err
}

// Compare is chunk.Source's.
func (s *Source) Compare(ctx context.Context, a, b chunk.Key) (n int, err error) {
	err = s.read(ctx, quick, func(ctx context.Context, tx pgx.Tx, sh *shape) error {
		text := "SELECT CASE WHEN " + sh.value(1) + " < " + sh.value(2) + " THEN -1 WHEN " + sh.value(1) + " > " + sh.value(2) + " THEN 1 ELSE 0 END"
		return tx.QueryRow(ctx, text, string(a), string(b)).Scan(&n)
	})
	return n, err
}

// Order is chunk.Source's.
func (s *Source) Order(ctx context.Context, keys []chunk.Key) (places []int, err error) {
	texts := make([]string, len(keys))
	for i, k := range keys {
		texts[i] = string(k)
	}
	err = s.read(ctx, quick, func(ctx context.Context, tx pgx.Tx, sh *shape) error {
		rows, err := tx.Query(ctx, "SELECT k.n FROM pg_catalog.unnest($1::pg_catalog.text[]) WITH ORDINALITY AS k (key, n) ORDER BY k.key::"+
			sh.cast+sh.order+", k.n", texts)
		if err != nil {
			return err
		}
		var n int
		_, err = pgx.ForEachRow(rows, []any{&n}, func() error {
			places = append(places, n-1)
			return nil
		})
		return err
	})
	return places, err
}

// read runs f in a transaction that only reads and sees one state of the database, each statement for limit at most.
func (s *Source) read(ctx context.Context, limit time.Duration, f func(context.Context, pgx.Tx, *shape) error) error {
	sh, err := s.looked(ctx)
	if err != nil {
		return err
	}
	return s.transact(ctx, limit, func(ctx context.Context, tx pgx.Tx) error { return f(ctx, tx, sh) })
}

// transact is read, before anything is known of the table. It ends in time where the server does not answer, too.
func (s *Source) transact(ctx context.Context, limit time.Duration, f func(context.Context, pgx.Tx) error) error {
	bounded, cancel := context.WithTimeout(ctx, 2*limit+slack)
	defer cancel()
	tx, err := s.pool.BeginTx(bounded, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return s.explain(ctx, err)
	}
	defer func() {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), slack)
		defer cancel()
		_ = tx.Rollback(last) // it has changed nothing; pgx closes a connection that does not answer
	}()
	if _, err = tx.Exec(bounded, settings, strconv.FormatInt(limit.Milliseconds(), 10)); err != nil {
		return s.explain(ctx, err)
	}
	return s.explain(ctx, f(bounded, tx))
}

// settings hold until the end of the transaction. Without sequential scans, sorts and bitmaps there is no plan left that reads more
// than was asked for, where an index has the order. Times are written in UTC, in the one style that every session reads alike.
const settings = `SELECT pg_catalog.set_config('statement_timeout', $1, true),
	pg_catalog.set_config('lock_timeout', $1, true),
	pg_catalog.set_config('idle_in_transaction_session_timeout', '30000', true),
	pg_catalog.set_config('TimeZone', 'UTC', true),
	pg_catalog.set_config('DateStyle', 'ISO, YMD', true),
	pg_catalog.set_config('enable_seqscan', 'off', true),
	pg_catalog.set_config('enable_bitmapscan', 'off', true),
	pg_catalog.set_config('enable_sort', 'off', true),
	pg_catalog.set_config('enable_incremental_sort', 'off', true),
	pg_catalog.set_config('max_parallel_workers_per_gather', '0', true),
	pg_catalog.set_config('jit', 'off', true)`

// explain turns the server's errors into those of package chunk, and adds to others what was being read.
func (s *Source) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*chunk.InvalidError](err); ok {
		return err
	}
	code, text := "", ""
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		code, text = e.Code, e.Message
	}
	switch code {
	case "57014": // canceled: by statement_timeout, where it was not our caller
		if ctx.Err() == nil {
			return fmt.Errorf("read table %s: %w", s.o.Table, chunk.ErrSlow)
		}
	case "42501":
		return s.invalid(text, "GRANT USAGE on its schema and SELECT on the table to this role")
	case "42P01", "3F000":
		return s.invalid(text, "name a table that exists, with its schema")
	case "42703", "42601", "42602", "42883", "42804", "42702", "42803", "42P20", "42P18":
		return s.invalid(text, "correct table, key, where and when; a condition is what may follow WHERE")
	}
	return fmt.Errorf("read table %s: %w", s.o.Table, err)
}

func (s *Source) invalid(problem, remedy string) error {
	return &chunk.InvalidError{Table: s.o.Table, Key: s.o.Key, Problem: problem, Remedy: remedy}
}

// fragment is a part of a statement, and the values of its parameters from $1 on.
type fragment struct {
	text string
	args []any
}

// rows is FROM and WHERE of the rows in a range.
func (sh *shape) rows(after, through *chunk.Key, where string) fragment {
	var f fragment
	var terms []string
	bound := func(op string, k *chunk.Key) {
		if k != nil {
			f.args = append(f.args, string(*k))
			terms = append(terms, sh.column+op+sh.value(len(f.args)))
		}
	}
	bound(" > ", after)
	bound(" <= ", through)
	f.text = "FROM " + sh.table + " WHERE " + strings.Join(append(terms, condition(where)), " AND ")
	return f
}

// condition is where, closed; a comment at its end hides nothing.
func condition(where string) string {
	if where == "" {
		return "true"
	}
	return "(" + where + "\n)"
}
