package postgres_test

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
	"github.com/leasehold/leasehold/test/storetest"
)

// TestStatementsIgnoreNewColumns: a running agent may find columns that a later version has added, under any name. So each
// table, and each view, gets a column for every word of the statements. The statements must be valid then, and a role that
// may use only the columns of today must be allowed to run them: a select list with a * may not be, nor a name without its
// table that now means another column.
func TestStatementsIgnoreNewColumns(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	_, err := h.Maintain(t.Context(), week) // for the partitions
	require.NoError(t, err)
	statements, err := h.AllStatements(h.Now())
	require.NoError(t, err)
	asToday := pgtest.Role(t, h.grantsOfToday)
	h.widen(t, statements)
	conn := pgtest.ConnectTo(t, asToday)
	require.Error(t, explains(t, conn, h.q(`SELECT t.* FROM SCHEMA.task AS t`)), "the check finds what it is to find")
	require.Error(t, explains(t, conn, h.q(`DELETE FROM SCHEMA.batch AS b RETURNING b.*`)))
	for name, text := range statements {
		require.NoError(t, explains(t, conn, text), "%s\n%s", name, text)
	}
}

// explains plans a statement, and checks the rights that it takes.
func explains(t *testing.T, conn *pgx.Conn, text string) error {
	t.Helper()
	statement, err := conn.Prepare(t.Context(), "", text)
	if err != nil {
		return err
	}
	execute := strings.TrimSuffix("EXPLAIN "+text, ";")
	args := []any{pgx.QueryExecModeDescribeExec}
	for range statement.ParamOIDs {
		args = append(args, nil)
	}
	_, err = conn.Exec(t.Context(), execute, args...)
	return err
}

// columns lists the columns of each table and view.
func (h *harness) columns(t testing.TB) map[string][]string {
	t.Helper()
	conn, end := pgtest.Connection(t, pgtest.URL(t))
	defer end()
	rows, err := conn.Query(t.Context(), h.q(`
		SELECT c.relname, array_agg(a.attname::text ORDER BY a.attnum)
		FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
		WHERE c.relnamespace = 'SCHEMA'::regnamespace AND c.relkind IN ('r', 'p', 'v')
		  AND a.attnum > 0 AND NOT a.attisdropped
		GROUP BY c.relname`))
	require.NoError(t, err)
	all := map[string][]string{}
	var name string
	var columns []string
	_, err = pgx.ForEachRow(rows, []any{&name, &columns}, func() error {
		all[name] = slices.Clone(columns)
		return nil
	})
	require.NoError(t, err)
	return all
}

// grantsOfToday grants an agent's rights, on the columns that there are now.
func (h *harness) grantsOfToday(role string) string {
	grants := regexp.MustCompile(`(?m)^GRANT SELECT.*$`).ReplaceAllString(postgres.AgentGrants(h.schema, role), "")
	for table, columns := range h.columns(h.t) {
		list := `("` + strings.Join(columns, `", "`) + `")`
		grants += h.q("GRANT SELECT" + list + ", INSERT" + list + ", UPDATE" + list + " ON SCHEMA." + table + " TO " + role + ";\n" +
			"GRANT DELETE ON SCHEMA." + table + " TO " + role + ";\n")
	}
	return grants + h.q("GRANT SELECT (xmax) ON SCHEMA.agent TO "+role) // a system column that present.sql reads
}

// widen adds columns to all tables and views: one for each word of the statements.
func (h *harness) widen(t *testing.T, statements map[string]string) {
	t.Helper()
	words := map[string]bool{}
	for _, text := range statements {
		for _, word := range regexp.MustCompile(`[a-z_]+[a-z0-9_]*`).FindAllString(text, -1) {
			words[word] = true
		}
	}
	for _, system := range []string{"ctid", "tableoid", "xmin", "xmax", "cmin", "cmax"} {
		delete(words, system)
	}
	require.Greater(t, len(words), 200)
	sorted := slices.Sorted(maps.Keys(words))
	for table, columns := range h.columns(t) {
		if strings.HasPrefix(table, "task_archive_") {
			continue // the partition gets what the archive gets
		}
		var add, view []string
		for _, word := range sorted {
			if !slices.Contains(columns, word) {
				add, view = append(add, `ADD COLUMN "`+word+`" text`), append(view, `NULL::text AS "`+word+`"`)
			}
		}
		if isView(table) {
			h.exec(t, `DO $$ BEGIN EXECUTE 'CREATE OR REPLACE VIEW SCHEMA.`+table+` AS SELECT v.*, `+strings.Join(view, ", ")+
				` FROM (' || rtrim(pg_get_viewdef('SCHEMA.`+table+`'), ';') || ') AS v'; END $$`)
			continue
		}
		h.exec(t, `ALTER TABLE SCHEMA.`+table+` `+strings.Join(add, ", "))
	}
}

// isView reports whether a relation is one of our views.
func isView(name string) bool {
	return slices.Contains([]string{"tasks", "batches", "agents", "leases", "schedules", "chunk_plans", "chunk_passes", "sequences", "orphans", "redactions", "bulk_changes", "activities"}, name)
}

// additive is a step of a later version that admits this one: a column for each table and view, a table, an index, and all
// functions anew.
func (h *harness) additive(t *testing.T) fstest.MapFS {
	t.Helper()
	up := "-- oldest: 1\nCREATE TABLE {schema}.later_table (id bigint PRIMARY KEY);\n"
	for table := range h.columns(t) {
		switch {
		case strings.HasPrefix(table, "task_archive_"): // the partition gets what the archive gets
		case isView(table):
			up += `DO $$ BEGIN EXECUTE 'CREATE OR REPLACE VIEW {schema}.` + table + ` AS SELECT v.*, NULL::text AS later FROM ('
				|| rtrim(pg_get_viewdef('{schema}.` + table + `'), ';') || ') AS v'; END $$;` + "\n"
		default:
			up += "ALTER TABLE {schema}." + table + " ADD COLUMN later text;\n"
		}
	}
	return fstest.MapFS{
		"migrations/0002_additive.up.sql": {
			Data: []byte(up + "CREATE INDEX task_later ON {schema}.task (later) WHERE later IS NOT NULL;\n"),
		},
		"migrations/0002_additive.down.sql": {},
	}
}

// TestAgentsWorkOnANewerSchema: agents of this version go on while a later one changes the schema under them, and afterwards.
func TestAgentsWorkOnANewerSchema(t *testing.T) {
	t.Parallel()
	h := newFreshAgentHarness(t)
	_, err := h.Maintain(t.Context(), week) // for the partitions
	require.NoError(t, err)
	later := openStore(t, postgres.Options{Schema: h.schema})
	later.WithFiles(h.additive(t))
	storetest.OnNewerSchema(t, h, func() {
		applied, err := later.Migrator().Up(t.Context())
		require.NoError(t, err)
		require.Len(t, applied, 1)
	})
	have, err := h.Migrator().Schema(t.Context())
	require.NoError(t, err)
	require.Equal(t, store.Schema{Version: 2, Oldest: 1}, have)
}
