package litesource_test

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/chunk"
	"github.com/leasehold/leasehold/internal/chunk/litesource"
	"github.com/leasehold/leasehold/internal/chunk/sourcetest"
)

// file makes a file with a script, and returns its path and a connection.
func file(t *testing.T, script string) (path string, db *sql.DB) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "app.db")
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=synchronous(off)")
	require.NoError(t, err)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	_, err = db.ExecContext(t.Context(), script)
	require.NoError(t, err, script)
	return path, db
}

// open returns a source; edit changes its options.
func open(t *testing.T, path string, edit func(*litesource.Options)) *litesource.Source {
	t.Helper()
	o := litesource.Options{Path: path, Table: "tab", Key: "k"}
	if edit != nil {
		edit(&o)
	}
	s, err := litesource.New(o)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

func TestSource(t *testing.T) {
	sourcetest.Run(t, maker("wal"))
}

// TestAFileWithoutWriteAheadLogging is read while it is written now and then.
func TestAFileWithoutWriteAheadLogging(t *testing.T) {
	m := maker("delete")(t, sourcetest.Table{Kind: "integer", Rows: []sourcetest.Row{{Key: "1"}, {Key: "2"}}})
	s := m.Source("")
	for range 3 {
		cuts, err := s.Cut(t.Context(), nil, nil, 2, 1)
		require.NoError(t, err)
		require.Equal(t, []chunk.Cut{{Through: "2", Rows: 2}}, cuts.Cuts)
		m.Exec("UPDATE tab SET status = status + 1")
	}
}

func maker(journal string) func(t *testing.T, tab sourcetest.Table) sourcetest.Made {
	return func(t *testing.T, tab sourcetest.Table) sourcetest.Made {
		// A declared type of TIMESTAMP makes the driver read times, and gives the column the affinity of numbers.
		typ := map[string]string{"integer": "INTEGER", "bigint": "BIGINT", "uuid": "TEXT", "text": "TEXT", "timestamp": "TIMESTAMP"}[tab.Kind]
		path, db := file(t, "PRAGMA journal_mode = "+journal+
			"; CREATE TABLE tab (k "+typ+" NOT NULL, status INTEGER NOT NULL DEFAULT 0); CREATE INDEX tab_k ON tab (k)")
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		for _, r := range tab.Rows {
			_, err = tx.ExecContext(t.Context(), "INSERT INTO tab (k, status) VALUES (?, ?)", r.Key, r.Status)
			require.NoError(t, err)
		}
		require.NoError(t, tx.Commit())
		bound := "?"
		if strings.HasSuffix(tab.Kind, "int") || tab.Kind == "integer" {
			bound = "CAST(? AS INTEGER)"
		}
		return sourcetest.Made{
			Source: func(where string) chunk.Source {
				return open(t, path, func(o *litesource.Options) { o.Where = where })
			},
			Rows: func(r chunk.Range, where string) (list []string) {
				terms, args := []string{"1"}, []any{}
				if r.After != nil {
					terms, args = append(terms, "k > "+bound), append(args, string(*r.After))
				}
				if r.Through != nil {
					terms, args = append(terms, "k <= "+bound), append(args, string(*r.Through))
				}
				if where != "" {
					terms = append(terms, "("+where+"\n)")
				}
				rows, err := db.QueryContext(t.Context(), "SELECT CAST(k AS TEXT) FROM tab WHERE "+strings.Join(terms, " AND ")+" ORDER BY k", args...)
				require.NoError(t, err)
				defer func() { require.NoError(t, rows.Close()) }()
				list = []string{}
				for rows.Next() {
					var k string
					require.NoError(t, rows.Scan(&k))
					list = append(list, k)
				}
				require.NoError(t, rows.Err())
				return list
			},
			Exec: func(text string) {
				_, err := db.ExecContext(t.Context(), text)
				require.NoError(t, err)
			},
		}
	}
}

// invalid requires an *InvalidError that names the table and contains a text.
func invalid(t *testing.T, err error, text string) {
	t.Helper()
	var bad *chunk.InvalidError
	require.ErrorAs(t, err, &bad)
	require.ErrorContains(t, err, text)
	require.ErrorContains(t, err, bad.Table)
	require.NotEmpty(t, bad.Remedy)
}

func TestWhatCannotBeCut(t *testing.T) {
	for _, c := range []struct {
		script, text string
		edit         func(*litesource.Options)
	}{
		{script: "CREATE TABLE tab (k BIGINT); CREATE INDEX i ON tab (k)", text: "NULL"},
		{script: "CREATE TABLE tab (k TEXT PRIMARY KEY)", text: "NULL"},
		{script: "CREATE TABLE tab (k INT PRIMARY KEY)", text: "NULL"},
		{script: "CREATE TABLE tab (k INTEGER PRIMARY KEY DESC)", text: "NULL"},
		{script: "CREATE TABLE tab (k BIGINT NOT NULL)", text: "no index"},
		{script: "CREATE TABLE tab (k BIGINT NOT NULL, x INTEGER); CREATE INDEX i ON tab (x, k)", text: "no index"},
		{script: "CREATE TABLE tab (k BIGINT NOT NULL, x INTEGER); CREATE INDEX i ON tab (k) WHERE x = 1", text: "no index"},
		{script: "CREATE TABLE tab (k TEXT NOT NULL COLLATE NOCASE); CREATE INDEX i ON tab (k COLLATE BINARY)", text: "no index"},
		{script: "CREATE TABLE tab (k NOT NULL); CREATE INDEX i ON tab (k); INSERT INTO tab VALUES (1), ('a')", text: "integer and others as text"},
		{script: "CREATE TABLE tab (k TEXT NOT NULL); CREATE INDEX i ON tab (k); INSERT INTO tab VALUES ('a'), (x'00')", text: "text and others as blob"},
		{script: "CREATE TABLE tab (k NOT NULL); CREATE INDEX i ON tab (k); INSERT INTO tab VALUES (1), (1.5)", text: "integer and others as real"},
		{script: "CREATE TABLE tab (k NOT NULL); CREATE INDEX i ON tab (k); INSERT INTO tab VALUES (x'00')", text: "blob"},
		{script: "CREATE TABLE tab (k REAL NOT NULL); CREATE INDEX i ON tab (k); INSERT INTO tab VALUES (1)", text: "real"},
		{script: "CREATE TABLE other (k INTEGER PRIMARY KEY)", text: "no such table"},
		{script: "CREATE TABLE tab (id INTEGER PRIMARY KEY)", text: "no such column"},
		{script: "CREATE TABLE x (k INTEGER PRIMARY KEY); CREATE VIEW tab AS SELECT k FROM x", text: "no table"},
		{script: "CREATE TABLE tab (k INTEGER PRIMARY KEY)", text: "stat", edit: func(o *litesource.Options) { o.Where = "stat = 0" }},
		{script: "CREATE TABLE tab (k INTEGER PRIMARY KEY)", text: "syntax", edit: func(o *litesource.Options) { o.Where = "k > 0) OR (k < 0" }},
		{script: "CREATE TABLE tab (k INTEGER PRIMARY KEY)", text: "nothing", edit: func(o *litesource.Options) { o.When = "SELECT 1 FROM nothing" }},
		{script: "CREATE TABLE tab (k INTEGER PRIMARY KEY)", text: "true or false", edit: func(o *litesource.Options) { o.When = "SELECT 'a'" }},
	} {
		t.Run(c.script+c.text, func(t *testing.T) {
			path, _ := file(t, c.script)
			s := open(t, path, c.edit)
			invalid(t, s.Check(t.Context()), c.text)
			_, err := s.Cut(t.Context(), nil, nil, 1, 1)
			invalid(t, err, c.text)
		})
	}
	require.ErrorContains(t, open(t, filepath.Join(t.TempDir(), "none.db"), nil).Check(t.Context()), "cannot be opened")
}

// TestAKeyOfAnotherClassBoundsNothing: classes in the middle are found when a range would end there.
func TestAKeyOfAnotherClassBoundsNothing(t *testing.T) {
	path, _ := file(t, "CREATE TABLE tab (k NOT NULL); CREATE INDEX i ON tab (k); INSERT INTO tab VALUES (1), (1.5), (2)")
	s := open(t, path, nil)
	require.NoError(t, s.Check(t.Context()))
	_, err := s.Cut(t.Context(), nil, nil, 2, 1)
	invalid(t, err, "real and others as integer")
}

func TestIndexesThatHaveTheOrder(t *testing.T) {
	for _, c := range []struct{ script, where string }{
		{"CREATE TABLE tab (k INTEGER PRIMARY KEY, x INTEGER)", ""},
		{"CREATE TABLE tab (k INTEGER PRIMARY KEY, x INTEGER)", "x = 1"},
		{"CREATE TABLE tab (k INTEGER PRIMARY KEY, x INTEGER); CREATE INDEX i ON tab (x, status)", "x = 1"},
		{"CREATE TABLE tab (k BIGINT NOT NULL, x INTEGER); CREATE INDEX i ON tab (x); CREATE INDEX j ON tab (k)", "x = 1"},
		{"CREATE TABLE tab (k BIGINT NOT NULL, x INTEGER); CREATE INDEX i ON tab (x, k); CREATE INDEX j ON tab (k DESC)", "x = 1"},
		{"CREATE TABLE tab (k BIGINT NOT NULL PRIMARY KEY, x INTEGER) WITHOUT ROWID", ""},
		{"CREATE TABLE tab (k INT NOT NULL UNIQUE, x INTEGER) STRICT", "x = 1"},
		{"CREATE TABLE tab (k BIGINT NOT NULL, x INTEGER); CREATE INDEX j ON tab (k); CREATE INDEX i ON tab (k) WHERE x = 1", "x = 1"},
	} {
		script := strings.Replace(c.script, "x INTEGER", "x INTEGER, status INTEGER", 1)
		path, _ := file(t, script+`; INSERT INTO tab (k, x) WITH RECURSIVE g (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM g WHERE i < 1000)
			SELECT i, i % 2 FROM g; ANALYZE`)
		s := open(t, path, func(o *litesource.Options) { o.Where = c.where })
		require.NoError(t, s.Check(t.Context()), "%+v", c)
		cuts, err := s.Cut(t.Context(), nil, nil, 100, 3)
		require.NoError(t, err)
		require.Len(t, cuts.Cuts, 3, "%+v", c)
	}
}

// TestCollations: the order is the column's, and keys that it takes for equal are in one range.
func TestCollations(t *testing.T) {
	path, _ := file(t, "CREATE TABLE tab (k TEXT NOT NULL COLLATE NOCASE); CREATE INDEX i ON tab (k); INSERT INTO tab VALUES ('a'), ('B'), ('b'), ('C')")
	s := open(t, path, nil)
	cuts, err := s.Cut(t.Context(), nil, nil, 1, 9)
	require.NoError(t, err)
	require.Len(t, cuts.Cuts, 3)
	n, err := s.Compare(t.Context(), "B", "b")
	require.NoError(t, err)
	require.Zero(t, n)
	n, err = s.Compare(t.Context(), "a", "B")
	require.NoError(t, err)
	require.Negative(t, n)
	places, err := s.Order(t.Context(), []chunk.Key{"C", "b", "B", "a"})
	require.NoError(t, err)
	require.Equal(t, []int{3, 1, 2, 0}, places)
}

// TestKeysThatCannotTravel: rows with such keys are in the range of the next one that can; at the end there is none.
func TestKeysThatCannotTravel(t *testing.T) {
	path, db := file(t, `CREATE TABLE tab (k TEXT NOT NULL); CREATE INDEX i ON tab (k);
		INSERT INTO tab VALUES ('a'), (CAST(x'6200ff' AS TEXT)), (CAST(x'62ff' AS TEXT)), ('c')`)
	s := open(t, path, nil)
	cuts, err := s.Cut(t.Context(), nil, nil, 1, 9)
	require.NoError(t, err)
	require.Equal(t, []chunk.Cut{{Through: "a", Rows: 1}, {Through: "c", Rows: 3}}, cuts.Cuts)
	_, err = db.ExecContext(t.Context(), "INSERT INTO tab VALUES (CAST(x'ff' AS TEXT))")
	require.NoError(t, err)
	_, err = s.Cut(t.Context(), new(chunk.Key("c")), nil, 1, 9)
	invalid(t, err, `\xff`)
}

func TestThrottle(t *testing.T) {
	path, db := file(t, "CREATE TABLE tab (k INTEGER PRIMARY KEY); CREATE TABLE other (x)")
	s := open(t, path, func(o *litesource.Options) { o.When = "SELECT count(*) > 1 FROM other" })
	reason, err := s.Throttled(t.Context())
	require.NoError(t, err)
	require.Empty(t, reason)
	_, err = db.ExecContext(t.Context(), "INSERT INTO other VALUES (1), (2)")
	require.NoError(t, err)
	reason, err = s.Throttled(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, reason)
}

func TestASourceIsOnlyReadAndInTime(t *testing.T) {
	path, _ := file(t, `CREATE TABLE tab (k INTEGER PRIMARY KEY); INSERT INTO tab
		WITH RECURSIVE g (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM g WHERE i < 100) SELECT i FROM g`)
	s := open(t, path, func(o *litesource.Options) {
		o.Where = "(WITH RECURSIVE g (i) AS (SELECT tab.k UNION ALL SELECT i + 1 FROM g WHERE i < 100000000) SELECT count(*) FROM g) > 0"
	})
	began := time.Now()
	_, err := s.Cut(t.Context(), nil, nil, 100, 10)
	require.ErrorIs(t, err, chunk.ErrSlow)
	require.Less(t, time.Since(began), 15*time.Second)
	s = open(t, path, func(o *litesource.Options) { o.When = "DELETE FROM tab RETURNING k" })
	_, err = s.Throttled(t.Context())
	require.Error(t, err)
	cuts, err := open(t, path, nil).Cut(t.Context(), nil, nil, 100, 1)
	require.NoError(t, err)
	require.Equal(t, 100, cuts.Cuts[0].Rows)
}
