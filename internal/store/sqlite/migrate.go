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
    applied_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT`

// step is one migration. The first, whose up is empty, is the schema of schema.sql.
type step struct {
	version  int
	name     string
	up, down string
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
	f := &schemaFiles{schema: read("schema.sql"), steps: []step{{version: 1, name: "schema", down: read("drop.sql")}}}
	for _, file := range functions {
		f.functions += "\n" + shared.Expand(read(file))
	}
	for _, up := range laterSteps(from) {
		st := step{version: len(f.steps) + 1, name: strings.TrimSuffix(strings.TrimPrefix(up, "migrations/"), ".up.sql")}
		if !strings.HasPrefix(st.name, fmt.Sprintf("%04d_", st.version)) {
			panic("migrations are numbered from 0002 on without gaps, and " + st.name + " is out of order")
		}
		st.up, st.down = read(up), read("migrations/"+st.name+".down.sql")
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
		have, err := t.version()
		if err != nil {
			return err
		}
		if have > len(m.files.steps) {
			return &store.SchemaError{Have: have, Want: len(m.files.steps)}
		}
		for _, script := range m.files.from(have) {
			if err := t.script(script.up); err != nil {
				return fmt.Errorf("%s: %w", script.name, err)
			}
		}
		for _, st := range m.files.steps[have:] {
			if _, err := t.exec(t.sql.AddVersion, arg("version", st.version), arg("name", st.name), arg("now", stamp(t.now))); err != nil {
				return err
			}
			applied = append(applied, store.Migration{Version: st.version, Name: st.name, Applied: pointer(t.now)})
		}
		if len(applied) == 0 || have == 0 {
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
		if have == 0 || have > len(m.files.steps) {
			return &store.SchemaError{Have: have, Want: len(m.files.steps)}
		}
		present := 0
		if err := t.row([]any{&present}, t.sql.CountPresent, arg("now", stamp(t.now))); err != nil {
			return err
		}
		if present > 0 {
			return fmt.Errorf("agents are present (%d): stop them first", present)
		}
		st := m.files.steps[have-1]
		if err := t.script(st.down); err != nil {
			return fmt.Errorf("%s: %w", st.name, err)
		}
		undone = store.Migration{Version: st.version, Name: st.name}
		_, err = t.exec(t.sql.DeleteVersion, arg("version", have))
		return err
	})
	return undone, err
}

func (m migrator) Status(ctx context.Context) (list []store.Migration, err error) {
	for _, st := range m.files.steps {
		list = append(list, store.Migration{Version: st.version, Name: st.name})
	}
	err = m.s.view(ctx, "migrate status", func(t *snapshot) error {
		if have, err := t.version(); err != nil || have == 0 {
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
		fmt.Fprintf(&b, "INSERT INTO schema_version (version, name) VALUES (%d, '%s');\n", st.version, st.name)
	}
	b.WriteString("COMMIT;\n")
	return b.String(), nil
}

// script runs many statements, which are not kept.
func (t *tx) script(text string) error {
	_, err := t.w.conn.ExecContext(t.ctx, text)
	return err
}

func (t *tx) version() (int, error)       { return t.sql.versionOf(t.row) }
func (t *snapshot) version() (int, error) { return t.sql.versionOf(t.row) }

// versionOf returns the schema's version; 0 where there is none.
func (q *statements) versionOf(row rowFunc) (have int, err error) {
	if err := row([]any{&have}, q.CountVersionTables); err != nil || have == 0 {
		return 0, err
	}
	err = row([]any{&have}, q.SchemaVersion)
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
	return s.view(ctx, "ping", func(t *snapshot) error {
		return checkVersion(t.version())
	})
}
