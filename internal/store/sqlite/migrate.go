package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

//go:embed schema.sql functions/*.sql drop.sql migrations queries/*.sql shared/*.sql
var files embed.FS

// This is our own rather than goose: goose takes no lock on SQLite, where the whole run, version check included, can
// be one transaction.

const createVersions = `CREATE TABLE IF NOT EXISTS schema_version (
    version    INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    applied_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    oldest     INTEGER NOT NULL
               CONSTRAINT "oldest must be between 1 and the version" CHECK (oldest BETWEEN 1 AND version)
) STRICT`

// step is one migration. The first, whose up is empty, is the schema of schema.sql.
type step struct {
	version  int
	name     string
	oldest   int // the oldest binary that may work on the schema from this step on
	up, down string
}

func (s *step) migration() store.Migration {
	return store.Migration{Version: s.version, Name: s.name, Oldest: s.oldest}
}

// schemaFiles are the schema as files: what creates it, and the steps that lead to it from an older version.
type schemaFiles struct {
	schema    string // tables, indexes, triggers and views
	functions string
	steps     []step
}

// readSchema reads the files. It panics where they contradict each other, which every test would find.
func readSchema(from fs.FS) *schemaFiles {
	read := func(file string) string {
		b, err := fs.ReadFile(from, file)
		if err != nil {
			panic("the schema is embedded: " + err.Error())
		}
		return string(b)
	}
	shared := sharedText()
	functions, err := fs.Glob(from, "functions/*.sql")
	if err != nil {
		panic("the functions are embedded: " + err.Error())
	}
	f := &schemaFiles{schema: shared.Expand(read("schema.sql")), steps: []step{{version: 1, name: "schema", oldest: 1, down: read("drop.sql")}}}
	for _, file := range functions {
		f.functions += "\n" + shared.Expand(read(file))
	}
	for _, up := range laterSteps(from) {
		st := step{version: len(f.steps) + 1, name: strings.TrimSuffix(strings.TrimPrefix(up, "migrations/"), ".up.sql")}
		if !strings.HasPrefix(st.name, fmt.Sprintf("%04d_", st.version)) {
			panic("migrations are numbered from 0002 on without gaps, and " + st.name + " is out of order")
		}
		st.up = read(up)
		if st.oldest, err = store.DeclaredOldest(st.up, st.version, f.steps[len(f.steps)-1].oldest); err != nil {
			panic("migration " + st.name + ": " + err.Error())
		}
		st.down = read("migrations/" + st.name + ".down.sql")
		f.steps = append(f.steps, st)
	}
	return f
}

// laterSteps returns the files of the steps after the first, in order.
func laterSteps(from fs.FS) []string {
	ups, err := fs.Glob(from, "migrations/*.up.sql")
	if err != nil {
		panic("the migrations are embedded: " + err.Error())
	}
	return ups
}

// from returns the scripts that bring a file from a version to the newest: a new file gets the schema as it is, an older one
// the steps, and its functions anew.
func (f *schemaFiles) from(version int) []step {
	if version == 0 {
		return []step{{name: f.steps[0].name, up: f.schema + f.functions + "\n" + bounds(store.DefaultMaxPayload)}}
	}
	if version == len(f.steps) {
		return nil
	}
	drops, createdView := "", regexp.MustCompile(`(?m)^CREATE VIEW (\w+)`)
	for _, view := range createdView.FindAllStringSubmatch(f.functions, -1) {
		drops += "DROP VIEW IF EXISTS " + view[1] + ";\n"
	}
	return append(slices.Clone(f.steps[version:]), step{name: "functions", up: drops + f.functions})
}

// version is the schema version that this binary works on.
func version() int { return 1 + len(laterSteps(files)) }

// Migrator changes the schema of this file.
func (s *Store) Migrator() store.Migrator { return migrator{s, readSchema(files)} }

type migrator struct {
	s     *Store
	files *schemaFiles
}

func (m migrator) Up(ctx context.Context) (applied []store.Migration, err error) {
	err = m.s.update(ctx, "migrate up", func(t *tx) error {
		if err := t.script(createVersions); err != nil {
			return err
		}
		schema, err := t.version()
		if err != nil {
			return err
		}
		missing, err := schema.Missing(len(m.files.steps))
		if err != nil || missing == 0 {
			return err
		}
		have := len(m.files.steps) - missing
		for _, script := range m.files.from(have) {
			if err := t.script(script.up); err != nil {
				return fmt.Errorf("%s: %w", script.name, err)
			}
		}
		for _, st := range m.files.steps[have:] {
			if _, err := t.exec(t.sql.AddVersion, arg("version", st.version), arg("name", st.name), arg("now", stamp(t.now)),
				arg("oldest", st.oldest)); err != nil {
				return err
			}
			done := st.migration()
			done.Applied = pointer(t.now)
			applied = append(applied, done)
		}
		if have == 0 {
			return nil
		}
		return t.keepMaxPayload()
	})
	if err != nil {
		return nil, err
	}
	return applied, nil
}

func (m migrator) Down(ctx context.Context) (reverted store.Migration, err error) {
	err = m.s.update(ctx, "migrate down", func(t *tx) error {
		have, err := t.version()
		if err == nil {
			err = have.KnownTo(len(m.files.steps))
		}
		if err == nil && have.Version == 0 {
			err = have.Admits(len(m.files.steps))
		}
		if err != nil {
			return err
		}
		present := 0
		if err := t.row([]any{&present}, t.sql.CountPresent, arg("now", stamp(t.now))); err != nil {
			return err
		}
		if present > 0 {
			return fmt.Errorf("agents are present (%d): stop them first", present)
		}
		st := m.files.steps[have.Version-1]
		if err := t.script(st.down); err != nil {
			return fmt.Errorf("%s: %w", st.name, err)
		}
		reverted = st.migration()
		_, err = t.exec(t.sql.DeleteVersion, arg("version", have.Version))
		return err
	})
	return reverted, err
}

func (m migrator) Schema(ctx context.Context) (have store.Schema, err error) {
	err = m.s.view(ctx, "read the schema's version", func(t *snapshot) error {
		have, err = t.version()
		return err
	})
	return have, err
}

func (m migrator) Status(ctx context.Context) (list []store.Migration, err error) {
	for _, st := range m.files.steps {
		list = append(list, st.migration())
	}
	err = m.s.view(ctx, "migrate status", func(t *snapshot) error {
		if have, err := t.version(); err != nil || have.Version == 0 {
			return err
		}
		return t.query(func(r *sql.Rows) error {
			var n int
			var at time.Time
			if err := r.Scan(&n, timeOf{&at}); err != nil {
				return err
			}
			list[n-1].Applied = &at
			return nil
		}, t.sql.AppliedVersions, arg("latest", len(list)))
	})
	return list, err
}

func (m migrator) SQL(from int) (string, error) {
	all := m.files.steps
	if from < 0 || from > len(all) {
		return "", fmt.Errorf("migrate sql: there is no version %d: the versions are 0 to %d", from, len(all))
	}
	var b strings.Builder
	b.WriteString("BEGIN IMMEDIATE;\n" + createVersions + ";\n")
	for _, script := range m.files.from(from) {
		fmt.Fprintf(&b, "\n-- %s\n%s\n", script.name, strings.TrimSpace(script.up))
	}
	for _, st := range all[from:] {
		fmt.Fprintf(&b, "INSERT INTO schema_version (version, name, oldest) VALUES (%d, '%s', %d);\n", st.version, st.name, st.oldest)
	}
	b.WriteString("COMMIT;\n")
	return b.String(), nil
}

// script runs many statements, which are not kept.
func (t *tx) script(text string) error {
	_, err := t.w.conn.ExecContext(t.ctx, text)
	return err
}

func (t *tx) version() (store.Schema, error)       { return t.sql.versionOf(t.row) }
func (t *snapshot) version() (store.Schema, error) { return t.sql.versionOf(t.row) }

// versionOf returns the schema's version and range; the zero value where there is none.
func (q *statements) versionOf(row rowFunc) (have store.Schema, err error) {
	tables := 0
	if err := row([]any{&tables}, q.CountVersionTables); err != nil || tables == 0 {
		return have, err
	}
	err = row([]any{&have.Version, &have.Oldest}, q.SchemaVersion)
	return have, err
}

// checkVersion fails unless the schema admits the binary.
func checkVersion(have store.Schema, err error) error {
	if err == nil {
		err = have.Admits(version())
	}
	return err
}

// Ping checks that the file can be read and that its schema admits the binary (*store.SchemaError otherwise).
func (s *Store) Ping(ctx context.Context) error {
	if err := s.look(); err != nil {
		return s.explain("ping", err)
	}
	return s.view(ctx, "ping", func(t *snapshot) error {
		return checkVersion(t.version())
	})
}
