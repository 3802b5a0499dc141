package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/leasehold/leasehold/internal/store"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrator is our own rather than goose: the schema's name is a parameter of every file, the book of versions stands
// inside that schema, the steps are printed as one script, and the lock belongs to the transaction, so that it works
// through a pooler where goose's session lock would stay behind on some connection. All steps of an Up commit at once.
type migrator struct{ s *Store }

type step struct {
	store.Migration
	up, down string
}

// oldest is the least server version that the statements need, as server_version_num gives it.
const oldest = 140000

const (
	createBook = `CREATE TABLE IF NOT EXISTS {schema}.schema_version (
    version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now()
)`
	recordStep = `INSERT INTO {schema}.schema_version (version, name) VALUES (%d, %s)`
)

// steps reads the embedded steps, from version 1 on without gaps.
func steps(sc schema) ([]step, error) {
	files, err := fs.Glob(migrationFiles, "migrations/*.up.sql") // sorted by name, and so by number
	if err != nil {
		return nil, err
	}
	all := make([]step, len(files))
	for i, file := range files {
		base := strings.TrimSuffix(file, ".up.sql")
		number, name, _ := strings.Cut(strings.TrimPrefix(base, "migrations/"), "_")
		if v, err := strconv.Atoi(number); err != nil || v != i+1 {
			return nil, fmt.Errorf("migration %s: the number should be %04d", file, i+1)
		}
		up, err := migrationFiles.ReadFile(file)
		if err != nil {
			return nil, err
		}
		down, err := migrationFiles.ReadFile(base + ".down.sql")
		if err != nil {
			return nil, err
		}
		all[i] = step{store.Migration{Version: i + 1, Name: name}, sc.fill(string(up)), sc.fill(string(down))}
	}
	return all, nil
}

// Up brings the schema to the binary's version in one transaction. Others that do the same wait for it, and find it
// done.
func (m migrator) Up(ctx context.Context) ([]store.Migration, error) {
	var applied []store.Migration
	err := m.change(ctx, "migrate up", func(tx pgx.Tx, all []step) error {
		if err := m.prepare(ctx, tx); err != nil {
			return err
		}
		have, _, err := version(ctx, tx, m.s.schema)
		if err != nil {
			return err
		}
		if have > len(all) {
			return &store.SchemaError{Have: have, Want: len(all)}
		}
		for _, st := range all[have:] {
			if _, err := tx.Exec(ctx, st.up); err != nil {
				return fmt.Errorf("step %d (%s): %w", st.Version, st.Name, err)
			}
			if _, err := tx.Exec(ctx, m.record(st)); err != nil {
				return err
			}
			now := time.Now().UTC()
			st.Applied = &now
			applied = append(applied, st.Migration)
		}
		if len(applied) == 0 {
			return nil
		}
		return m.keepMaxPayload(ctx, tx)
	})
	return applied, err
}

// Down takes back the newest step, unless a session is present.
func (m migrator) Down(ctx context.Context) (store.Migration, error) {
	var gone store.Migration
	err := m.change(ctx, "migrate down", func(tx pgx.Tx, all []step) error {
		have, at, err := version(ctx, tx, m.s.schema)
		switch {
		case err != nil:
			return err
		case have == 0:
			return errors.New("there is nothing to take back")
		case have > len(all):
			return &store.SchemaError{Have: have, Want: len(all)}
		}
		var present int
		// The lock keeps sessions from joining until this has committed.
		const count = `LOCK TABLE {schema}.agent IN SHARE MODE; `
		if _, err := tx.Exec(ctx, m.s.schema.fill(count)); err != nil {
			return err
		}
		const who = `SELECT count(*) FROM {schema}.agent WHERE present_until > now()`
		if err := tx.QueryRow(ctx, m.s.schema.fill(who)).Scan(&present); err != nil {
			return err
		}
		if present > 0 {
			return fmt.Errorf("%d agents are present: stop them first", present)
		}
		gone = all[have-1].Migration
		gone.Applied = &at
		if _, err := tx.Exec(ctx, all[have-1].down); err != nil {
			return fmt.Errorf("step %d (%s): %w", gone.Version, gone.Name, err)
		}
		_, err = tx.Exec(ctx, m.s.schema.fill(`DELETE FROM {schema}.schema_version WHERE version = $1`), have)
		return err
	})
	return gone, err
}

// Status lists all steps that the binary knows.
func (m migrator) Status(ctx context.Context) ([]store.Migration, error) {
	all, err := steps(m.s.schema)
	if err != nil {
		return nil, err
	}
	at := map[int]time.Time{}
	err = m.s.do(ctx, "read the schema's version", func(ctx context.Context, c *pgx.Conn) error {
		rows, err := c.Query(ctx, m.s.schema.fill(`SELECT version, applied_at FROM {schema}.schema_version`))
		if err != nil {
			return err
		}
		var v int
		var t time.Time
		_, err = pgx.ForEachRow(rows, []any{&v, &t}, func() error { at[v] = t; return nil })
		return err
	})
	if err != nil && !missing(err) {
		return nil, err
	}
	list := make([]store.Migration, len(all))
	for i, st := range all {
		list[i] = st.Migration
		if t, there := at[st.Version]; there {
			list[i].Applied = &t
		}
	}
	return list, nil
}

// SQL is the text of the steps after version from, as one transaction.
func (m migrator) SQL(from int) (string, error) {
	all, err := steps(m.s.schema)
	if err != nil {
		return "", err
	}
	if from < 0 || from > len(all) {
		return "", fmt.Errorf("version %d is not within 0..%d", from, len(all))
	}
	var b strings.Builder
	b.WriteString("BEGIN;\n")
	if from == 0 {
		b.WriteString(m.s.schema.fill("CREATE SCHEMA IF NOT EXISTS {schema};\n" + createBook + ";\n"))
	}
	for _, st := range all[from:] {
		fmt.Fprintf(&b, "\n-- version %d: %s\n%s\n%s;\n", st.Version, st.Name, strings.TrimSpace(st.up), m.record(st))
	}
	b.WriteString("COMMIT;\n")
	return b.String(), nil
}

func (m migrator) record(st step) string {
	return fmt.Sprintf(m.s.schema.fill(recordStep), st.Version, quoteLiteral(st.Name))
}

// change runs f in a transaction that is the only one to change the schema.
func (m migrator) change(ctx context.Context, what string, f func(pgx.Tx, []step) error) error {
	all, err := steps(m.s.schema)
	if err != nil {
		return err
	}
	return m.s.with(ctx, m.s.pool, what, migrateTimeout, func(ctx context.Context, c *pgx.Conn) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			// A step may take longer than a statement of the hot path, and so may the wait for another's.
			limit := fmt.Sprintf("SET LOCAL statement_timeout = '%ds'", int(migrateTimeout.Seconds()))
			if _, err := tx.Exec(ctx, limit); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", m.s.schema.lock()); err != nil {
				return err
			}
			return f(tx, all)
		})
	})
}

// prepare makes the schema and the book of versions where they are not there yet. CREATE SCHEMA IF NOT EXISTS asks for
// the right to create it even where it exists.
func (m migrator) prepare(ctx context.Context, tx pgx.Tx) error {
	var server int
	var there bool
	const look = `SELECT current_setting('server_version_num')::int,
    EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = $1)`
	if err := tx.QueryRow(ctx, look, string(m.s.schema)).Scan(&server, &there); err != nil {
		return err
	}
	if server < oldest {
		return fmt.Errorf("the server is Postgres %d, and 14 is the oldest that will do", server/10000)
	}
	if !there {
		if _, err := tx.Exec(ctx, m.s.schema.fill("CREATE SCHEMA {schema}")); err != nil {
			return err
		}
	}
	_, err := tx.Exec(ctx, m.s.schema.fill(createBook))
	return err
}

// querier is a connection or a transaction.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// version reads the schema's version; 0 where there is none.
func version(ctx context.Context, q querier, sc schema) (have int, at time.Time, err error) {
	const look = `SELECT version, applied_at FROM {schema}.schema_version ORDER BY version DESC LIMIT 1`
	err = q.QueryRow(ctx, sc.fill(look)).Scan(&have, &at)
	if errors.Is(err, pgx.ErrNoRows) || missing(err) {
		return 0, at, nil
	}
	return have, at, err
}
