package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

//go:embed migrations/*.sql
var files embed.FS

// This is ours rather than goose: goose takes no lock on SQLite, where the whole run, version check included, can
// simply be one transaction.

const createVersions = `CREATE TABLE IF NOT EXISTS schema_version (
    version    INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    applied_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT`

// step is one migration.
type step struct {
	version  int
	name     string
	up, down string
}

// steps reads the embedded migrations, in order: 0001_name.up.sql and 0001_name.down.sql.
func steps() []step {
	ups, err := fs.Glob(files, "migrations/*.up.sql")
	if err != nil || len(ups) == 0 {
		panic("the migrations are embedded")
	}
	all := make([]step, 0, len(ups))
	for i, up := range ups {
		name := strings.TrimSuffix(strings.TrimPrefix(up, "migrations/"), ".up.sql")
		if !strings.HasPrefix(name, fmt.Sprintf("%04d_", i+1)) {
			panic("migrations are numbered without gaps, and " + name + " is out of order")
		}
		all = append(all, step{version: i + 1, name: name, up: text(up), down: text("migrations/" + name + ".down.sql")})
	}
	return all
}

func text(file string) string {
	b, err := files.ReadFile(file)
	if err != nil {
		panic("each migration has an up and a down: " + err.Error())
	}
	return strings.ReplaceAll(string(b), "{bounds}", bounds(store.DefaultMaxPayload))
}

// version is that of this binary.
func version() int { return len(steps()) }

// Migrator changes the schema of this file.
func (s *Store) Migrator() store.Migrator { return migrator{s} }

type migrator struct{ s *Store }

func (m migrator) Up(ctx context.Context) (applied []store.Migration, err error) {
	err = m.s.update(ctx, "migrate up", func(t *tx) error {
		if err := t.script(createVersions); err != nil {
			return err
		}
		have, err := t.version()
		if err != nil {
			return err
		}
		all := steps()
		if have > len(all) {
			return &store.SchemaError{Have: have, Want: len(all)}
		}
		for _, st := range all[have:] {
			if err := t.script(st.up); err != nil {
				return fmt.Errorf("%s: %w", st.name, err)
			}
			if _, err := t.exec("INSERT INTO schema_version (version, name, applied_at) VALUES (?, ?, ?)",
				st.version, st.name, stamp(t.now)); err != nil {
				return err
			}
			applied = append(applied, store.Migration{Version: st.version, Name: st.name, Applied: pointer(t.now)})
		}
		if len(applied) == 0 {
			return nil
		}
		return t.keepMaxPayload()
	})
	if err != nil {
		return nil, err
	}
	return applied, nil
}

func (m migrator) Down(ctx context.Context) (undone store.Migration, err error) {
	err = m.s.update(ctx, "migrate down", func(t *tx) error {
		have, err := t.version()
		if err != nil {
			return err
		}
		if have == 0 || have > version() {
			return &store.SchemaError{Have: have, Want: version()}
		}
		present := 0
		if err := t.row([]any{&present}, "SELECT count(*) FROM agent WHERE present_until > ?", stamp(t.now)); err != nil {
			return err
		}
		if present > 0 {
			return fmt.Errorf("agents are present (%d): stop them first", present)
		}
		st := steps()[have-1]
		if err := t.script(st.down); err != nil {
			return fmt.Errorf("%s: %w", st.name, err)
		}
		undone = store.Migration{Version: st.version, Name: st.name}
		_, err = t.exec("DELETE FROM schema_version WHERE version = ?", have)
		return err
	})
	return undone, err
}

func (m migrator) Status(ctx context.Context) (list []store.Migration, err error) {
	for _, st := range steps() {
		list = append(list, store.Migration{Version: st.version, Name: st.name})
	}
	err = m.s.view(ctx, "migrate status", func(t *sql.Tx) error {
		if have, err := versionOf(ctx, t.QueryRowContext); err != nil || have == 0 {
			return err
		}
		rows, err := t.QueryContext(ctx, "SELECT version, applied_at FROM schema_version WHERE version <= ?", len(list))
		if err != nil {
			return err
		}
		return eachRow(rows, func(r *sql.Rows) error {
			var n int
			var at time.Time
			if err := r.Scan(&n, timeOf{&at}); err != nil {
				return err
			}
			list[n-1].Applied = &at
			return nil
		})
	})
	return list, err
}

func (m migrator) SQL(from int) (string, error) {
	all := steps()
	if from < 0 || from > len(all) {
		return "", fmt.Errorf("migrate sql: there is no version %d: the versions are 0 to %d", from, len(all))
	}
	var b strings.Builder
	b.WriteString("BEGIN IMMEDIATE;\n" + createVersions + ";\n")
	for _, st := range all[from:] {
		fmt.Fprintf(&b, "\n-- %s\n%s\nINSERT INTO schema_version (version, name) VALUES (%d, '%s');\n",
			st.name, strings.TrimSpace(st.up), st.version, st.name)
	}
	b.WriteString("COMMIT;\n")
	return b.String(), nil
}

// script runs many statements, which are not kept.
func (t *tx) script(text string) error {
	_, err := t.w.conn.ExecContext(t.ctx, text)
	return err
}

func (t *tx) version() (int, error) { return versionOf(t.ctx, t.w.conn.QueryRowContext) }

// rowOf is QueryRowContext of whatever there is.
type rowOf func(context.Context, string, ...any) *sql.Row

// versionOf reads the schema's version; 0 where there is none.
func versionOf(ctx context.Context, row rowOf) (have int, err error) {
	err = row(ctx, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'schema_version'").Scan(&have)
	if err != nil || have == 0 {
		return 0, err
	}
	err = row(ctx, "SELECT ifnull(max(version), 0) FROM schema_version").Scan(&have)
	return have, err
}

// checkVersion fails unless the schema is the binary's.
func checkVersion(have int, err error) error {
	if err == nil && have != version() {
		err = &store.SchemaError{Have: have, Want: version()}
	}
	return err
}

// Ping checks that the file can be read and has the binary's schema (*store.SchemaError otherwise).
func (s *Store) Ping(ctx context.Context) error {
	return s.view(ctx, "ping", func(t *sql.Tx) error {
		return checkVersion(versionOf(ctx, t.QueryRowContext))
	})
}
