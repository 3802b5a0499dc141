package sqlite

import (
	"database/sql"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/sqltext"
	"github.com/leasehold/leasehold/test/storetest"
)

// additive is a step of a later version that admits this one: a column for each table and view, a table, an index, and all
// functions anew.
func additive(t *testing.T, h *harness) *schemaFiles {
	t.Helper()
	up := fmt.Sprintf("-- oldest: %d\nCREATE TABLE later_table (id INTEGER PRIMARY KEY) STRICT;\n", version())
	for name, text := range h.texts(t) {
		if create := "CREATE VIEW " + name + " AS"; strings.HasPrefix(text, create) {
			up += "DROP VIEW " + name + ";\n" + create + " SELECT v.*, 'later' AS later FROM (" + strings.TrimPrefix(text, create) + ") AS v;\n"
			continue
		}
		up += "ALTER TABLE " + name + " ADD COLUMN later TEXT;\n"
	}
	next := embedded(t)
	step := fmt.Sprintf("migrations/%04d_additive.", version()+1)
	next[step+"up.sql"] = &fstest.MapFile{Data: []byte(up + "CREATE INDEX task_later ON task (later) WHERE later IS NOT NULL;\n")}
	next[step+"down.sql"] = &fstest.MapFile{}
	return readSchema(next)
}

// texts returns what created the tables, and the views that are no functions.
func (h *harness) texts(t *testing.T) map[string]string {
	t.Helper()
	rows, err := h.app.QueryContext(t.Context(), `SELECT name, sql FROM sqlite_schema
		WHERE name NOT LIKE 'sqlite_%' AND (type = 'table' OR name IN ('tasks', 'followers', 'batches', 'leases', 'schedules', 'chunk_plans', 'chunk_passes'))`)
	require.NoError(t, err)
	all := map[string]string{}
	require.NoError(t, eachRow(rows, func(r *sql.Rows) error {
		var name, text string
		err := r.Scan(&name, &text)
		all[name] = text
		return err
	}))
	return all
}

// columns lists the columns of a table or a view.
func (h *harness) columns(t *testing.T, of string) (all []string) {
	t.Helper()
	rows, err := h.app.QueryContext(t.Context(), "SELECT name FROM pragma_table_info(?)", of)
	require.NoError(t, err)
	require.NoError(t, eachRow(rows, func(r *sql.Rows) error {
		var name string
		err := r.Scan(&name)
		all = append(all, name)
		return err
	}))
	return all
}

// Agents of this version go on while a later one changes the schema under them, and afterwards.
func TestAgentsWorkOnANewerSchema(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	later := migrator{openHarness(t, h.path, nil).Store, additive(t, h)}
	storetest.OnNewerSchema(t, h, func() {
		applied, err := later.Up(t.Context())
		require.NoError(t, err)
		require.Len(t, applied, 1)
	})
	have, err := h.Migrator().Schema(t.Context())
	require.NoError(t, err)
	require.Equal(t, store.Schema{Version: version() + 1, Oldest: version()}, have)
}

// Every statement is valid on a schema with columns that it does not know, also those that no test happens to run: here each
// table and view has a column for every word of the statements.
func TestStatementsIgnoreNewColumns(t *testing.T) {
	t.Parallel()
	today := newHarness(t)
	words := map[string]bool{}
	for _, q := range loadQueries() {
		for _, word := range regexp.MustCompile(`[a-z_]+[a-z0-9_]*`).FindAllString(q.Text, -1) {
			words[word] = true
		}
	}
	delete(words, "rowid") // a column of that name would hide the table's own
	require.Greater(t, len(words), 150)
	wide := readSchema(files)
	table := regexp.MustCompile(`CREATE (TABLE|VIEW) (\w+) (AS\s+SELECT|\()`)
	for _, found := range table.FindAllStringSubmatch(wide.schema, -1) {
		columns, more := today.columns(t, found[2]), ""
		for _, word := range slices.Sorted(maps.Keys(words)) {
			switch {
			case slices.Contains(columns, word):
			case found[1] == "TABLE":
				more += fmt.Sprintf(" %q TEXT,", word)
			default:
				more += fmt.Sprintf(" NULL AS %q,", word)
			}
		}
		wide.schema = strings.Replace(wide.schema, found[0], found[0]+more, 1)
		if found[2] == "tasks" { // the other parts of the view
			before, view, _ := strings.Cut(wide.schema, found[0])
			wide.schema = before + found[0] + strings.Replace(view, "UNION ALL\n    SELECT", "UNION ALL\n    SELECT"+more, 2)
		}
	}
	h := empty(t)
	_, err := migrator{h.Store, wide}.Up(t.Context())
	require.NoError(t, err)
	require.Error(t, h.valid(t, "SELECT state FROM batches JOIN batch USING (id)"), "the check finds what it is to find")
	for name, q := range loadQueries() {
		filled, err := anyway(q)
		require.NoError(t, err)
		require.NoError(t, h.valid(t, filled.Text, make([]any, len(q.Names))...), "%s\n%s", name, filled.Text)
	}
}

// anyway fills what statements leave to each call.
func anyway(q *sqltext.Query) (*sqltext.Query, error) {
	return q.FillAll("{index}", "", "{where}", "true", "{of}", "id < 1")
}

// valid compiles a statement.
func (h *harness) valid(t *testing.T, text string, args ...any) error {
	t.Helper()
	_, err := h.app.ExecContext(t.Context(), "EXPLAIN "+text, args...)
	return err
}
