package docs_test

import (
	"database/sql"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver
	"github.com/stretchr/testify/require"
	_ "modernc.org/sqlite" // the driver

	"github.com/leasehold/leasehold/internal/store/postgres"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
	"github.com/leasehold/leasehold/internal/store/sqlite"
)

// TestSQLOfGuides runs the blocks of SQL of each guide, in their order, on the store that their label names: on PostgreSQL as a role that has
// what `migrate grants --operator` gives, with tables of its own in pg_temp. Tables that a block needs and the reader has are made in a
// comment of the page: <!-- sql postgres … -->. A statement may say in a comment behind it what becomes of it: "-- returns TEXT" is the
// first column of its first row ("nothing": there is no row), "-- fails: TEXT" is in its error.
func TestSQLOfGuides(t *testing.T) {
	schema, role := onPostgres(t)
	for _, page := range guides(t) {
		text := regexp.MustCompile(`<!-- (sql [a-z]+)\n((?s:.*?))-->`).ReplaceAllString(read(t, page), "```$1\n$2```")
		ran := map[string]*sql.Conn{}
		for _, m := range fence.FindAllStringSubmatch(text, -1) {
			label, statements := m[1], m[2]
			if !strings.HasPrefix(label, "sql ") {
				continue
			}
			conn := ran[label]
			if conn == nil && label == "sql postgres" {
				conn = connect(t, "pgx", role)
				_, err := conn.ExecContext(t.Context(), `SET search_path = pg_temp`)
				require.NoError(t, err)
			} else if conn == nil {
				conn = onSQLite(t)
			}
			ran[label] = conn
			if label == "sql postgres" {
				statements = strings.ReplaceAll(statements, "leasehold.", schema+".")
			}
			for _, s := range split(statements) {
				s.run(t, page, conn)
			}
		}
		for _, conn := range ran {
			require.NoError(t, conn.Close())
		}
	}
}

// statement is one of a block, with the comment behind it.
type statement struct {
	text, comment string
}

// split cuts a block into statements: each ends with a semicolon, behind which there is nothing on the line but a comment.
func split(block string) []statement {
	var all []statement
	end := regexp.MustCompile(`;[ \t]*(?:--[ \t]*(.*))?$`)
	text := ""
	for line := range strings.Lines(block) {
		line = strings.TrimRight(line, "\n")
		if m := end.FindStringSubmatchIndex(line); m != nil {
			s := statement{text: text + line[:m[0]]}
			if m[2] >= 0 {
				s.comment = line[m[2]:m[3]]
			}
			all, text = append(all, s), ""
			continue
		}
		text += line + "\n"
	}
	if strings.TrimSpace(text) != "" {
		all = append(all, statement{text: text})
	}
	return all
}

// run executes the statement and compares what becomes of it with what its comment says.
func (s statement) run(t *testing.T, page string, conn *sql.Conn) {
	t.Helper()
	first, err := s.result(t, conn)
	if want, ok := strings.CutPrefix(s.comment, "fails: "); ok {
		require.ErrorContains(t, err, want, "%s: %s", page, s.text)
		return
	}
	require.NoError(t, err, "%s: %s", page, s.text)
	if want, ok := strings.CutPrefix(s.comment, "returns "); ok {
		require.Equal(t, want, fmt.Sprint(first), "%s: %s", page, s.text)
	}
}

// result is the first column of the first row that the statement returns; "nothing": it returns none.
func (s statement) result(t *testing.T, conn *sql.Conn) (first any, err error) {
	t.Helper()
	rows, err := conn.QueryContext(t.Context(), s.text)
	if err != nil {
		return nil, err
	}
	defer func() { require.NoError(t, rows.Close()) }()
	first = "nothing"
	for n := 0; rows.Next(); n++ { // to the end, as a client does
		if n == 0 {
			first = firstColumn(t, rows)
		}
	}
	return first, rows.Err()
}

// firstColumn is the first value of a row.
func firstColumn(t *testing.T, rows *sql.Rows) any {
	t.Helper()
	columns, err := rows.Columns()
	require.NoError(t, err)
	values := make([]any, len(columns))
	for i := range values {
		values[i] = new(any)
	}
	require.NoError(t, rows.Scan(values...))
	return *values[0].(*any)
}

// onPostgres makes a schema with Leasehold's tables on the test server, and the URL of a role with the grants of an operator.
func onPostgres(t *testing.T) (schema, role string) {
	t.Helper()
	schema, name := pgtest.Schema(t), pgtest.Name("app")
	s, err := postgres.Open(t.Context(), postgres.Options{URL: pgtest.URL(t), Schema: schema, Log: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer s.Close()
	_, err = s.Migrator().Up(t.Context())
	require.NoError(t, err)
	pgtest.Exec(t, `CREATE ROLE `+name+` LOGIN PASSWORD 'app'`)
	t.Cleanup(func() {
		pgtest.Exec(t, `DROP OWNED BY `+name)
		pgtest.Exec(t, `DROP ROLE `+name)
	})
	_, err = pgtest.Connect(t).Exec(t.Context(), postgres.Grants(schema, name, true))
	require.NoError(t, err)
	u, err := url.Parse(pgtest.URL(t))
	require.NoError(t, err)
	u.User = url.UserPassword(name, "app")
	return schema, u.String()
}

// onSQLite makes a file with Leasehold's tables, and a connection to it.
func onSQLite(t *testing.T) *sql.Conn {
	t.Helper()
	file := filepath.Join(t.TempDir(), "leasehold.db")
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: file, Create: true})
	require.NoError(t, err)
	_, err = s.Migrator().Up(t.Context())
	require.NoError(t, err)
	s.Close()
	return connect(t, "sqlite", file)
}

// connect gives one connection, which ends with the test at the latest.
func connect(t *testing.T, driver, source string) *sql.Conn {
	t.Helper()
	db, err := sql.Open(driver, source)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	return conn
}
