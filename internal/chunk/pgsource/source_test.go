package pgsource_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/chunk"
	"github.com/leasehold/leasehold/internal/chunk/pgsource"
	"github.com/leasehold/leasehold/internal/chunk/sourcetest"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
)

// types are columns of each kind; text has a collation of its own, which the database's does not equal.
var types = map[string]string{
	"integer": "integer", "bigint": "bigint", "uuid": "uuid", "text": `text COLLATE "de-x-icu"`, "timestamp": "timestamptz",
}

// reader is a role that may read a schema's tables, and do nothing else.
func reader(t *testing.T, schema string) (url string) {
	t.Helper()
	return pgtest.Role(t, func(role string) string {
		return "GRANT USAGE ON SCHEMA " + schema + " TO " + role + "; GRANT SELECT ON ALL TABLES IN SCHEMA " + schema + " TO " + role
	})
}

// open returns a source; edit changes its options.
func open(t *testing.T, url, schema string, edit func(*pgsource.Options)) *pgsource.Source {
	t.Helper()
	o := pgsource.Options{URL: url, Table: schema + ".tab", Key: "k"}
	if edit != nil {
		edit(&o)
	}
	s, err := pgsource.New(o)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	return s
}

// schema makes a schema and a table tab in it.
func schema(t *testing.T, columns string) string {
	t.Helper()
	name := pgtest.Schema(t)
	pgtest.Exec(t, "CREATE SCHEMA "+name+"; CREATE TABLE "+name+".tab ("+columns+")")
	return name
}

func TestSource(t *testing.T) {
	as := pgtest.Role(t, func(string) string { return "SELECT 1" })
	sourcetest.Run(t, func(t *testing.T, tab sourcetest.Table) sourcetest.Made {
		name := schema(t, "k "+types[tab.Kind]+" NOT NULL, status integer NOT NULL DEFAULT 0")
		conn := pgtest.Connect(t)
		_, err := conn.Exec(t.Context(), "CREATE INDEX ON "+name+".tab (k); GRANT USAGE ON SCHEMA "+name+" TO PUBLIC; GRANT SELECT ON "+name+".tab TO PUBLIC")
		require.NoError(t, err)
		var rows [][]any
		for _, r := range tab.Rows {
			rows = append(rows, []any{r.Key, r.Status})
		}
		_, err = conn.Exec(t.Context(), "CREATE TEMP TABLE raw (k text, status integer)")
		require.NoError(t, err)
		_, err = conn.CopyFrom(t.Context(), pgx.Identifier{"raw"}, []string{"k", "status"}, pgx.CopyFromRows(rows))
		require.NoError(t, err)
		_, err = conn.Exec(t.Context(), "INSERT INTO "+name+".tab SELECT k::"+types[tab.Kind]+", status FROM raw ORDER BY random()")
		require.NoError(t, err)
		// An application in another time zone, with another style.
		_, err = conn.Exec(t.Context(), "SET TimeZone = 'Europe/Berlin'; SET DateStyle = 'SQL, DMY'; SET search_path = "+name)
		require.NoError(t, err)
		return sourcetest.Made{
			Source: func(where string) chunk.Source {
				return open(t, as, name, func(o *pgsource.Options) { o.Where = where })
			},
			Rows: func(r chunk.Range, where string) []string {
				if where == "" {
					where = "true"
				}
				typ, _, _ := strings.Cut(types[tab.Kind], " ")
				rows, err := conn.Query(t.Context(), `SELECT k::text FROM tab WHERE ($1::text IS NULL OR k > $1::text::`+typ+`)
					AND ($2::text IS NULL OR k <= $2::text::`+typ+`) AND (`+where+"\n) ORDER BY tab.k", r.After, r.Through)
				require.NoError(t, err)
				list, err := pgx.CollectRows(rows, pgx.RowTo[string])
				require.NoError(t, err)
				return list
			},
			Exec: func(text string) {
				_, err := conn.Exec(t.Context(), text)
				require.NoError(t, err)
			},
		}
	})
}

func TestOtherTypesOfKeys(t *testing.T) {
	for typ, keys := range map[string][]string{
		"smallint":           {"-32768", "32767"},
		"varchar(10)":        {"a", "b"},
		"timestamp":          {"-infinity", "0044-03-15 00:00:00 BC", "2026-10-25 02:30:00.000001", "infinity"},
		"timestamptz":        {"-infinity", "0044-03-15 00:00:00+00 BC", "2026-10-25 02:30:00.000001+00", "infinity"},
		`text COLLATE "C"`:   {"Z", "a"},
		"text":               {"Z", "a"},
		"uuid":               {"00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002"},
		"bigint PRIMARY KEY": {"1", "2"},
	} {
		name := schema(t, "k "+typ+" NOT NULL")
		pgtest.Exec(t, "CREATE INDEX ON "+name+".tab (k); INSERT INTO "+name+".tab VALUES ('"+strings.Join(keys, "'), ('")+"')")
		cuts, err := open(t, reader(t, name), name, nil).Cut(t.Context(), nil, nil, 1, 9)
		require.NoError(t, err, typ)
		var got []string
		for _, c := range cuts.Cuts {
			got = append(got, string(c.Through))
		}
		require.Equal(t, keys, got, typ)
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
		columns, index, text string
		edit                 func(*pgsource.Options)
	}{
		{columns: "k bigint", index: "(k)", text: "NULL"},
		{columns: "k bigint NOT NULL", text: "no index"},
		{columns: "k bigint NOT NULL, x integer", index: "(x, k)", text: "no index"},
		{columns: "k bigint NOT NULL", index: "USING hash (k)", text: "no index"},
		{columns: "k bigint NOT NULL", index: "USING brin (k)", text: "no index"},
		{columns: "k bigint NOT NULL, x integer", index: "(k) WHERE x = 1", text: "no index"},
		{columns: `k text COLLATE "de-x-icu" NOT NULL`, index: `(k COLLATE "C")`, text: "no index"},
		{columns: `k text COLLATE "de-x-icu" NOT NULL`, index: `(k text_pattern_ops)`, text: "no index"},
		{columns: "k numeric NOT NULL", index: "(k)", text: "numeric"},
		{columns: "k double precision NOT NULL", index: "(k)", text: "float8"},
		{columns: "k bigint NOT NULL", index: "(k)", text: "no such table", edit: func(o *pgsource.Options) { o.Table += "x" }},
		{columns: "k bigint NOT NULL", index: "(k)", text: "invalid name syntax", edit: func(o *pgsource.Options) { o.Table = "a b" }},
		{columns: "k bigint NOT NULL", index: "(k)", text: "no such column", edit: func(o *pgsource.Options) { o.Key = "K" }},
		{columns: "k bigint NOT NULL", index: "(k)", text: `"stat"`, edit: func(o *pgsource.Options) { o.Where = "stat = 0" }},
		{columns: "k bigint NOT NULL", index: "(k)", text: "syntax", edit: func(o *pgsource.Options) { o.Where = "k > 0) OR (k < 0" }},
		{columns: "k bigint NOT NULL", index: "(k)", text: "boolean", edit: func(o *pgsource.Options) { o.Where = "k + 1" }},
		{columns: "k bigint NOT NULL", index: "(k)", text: "boolean", edit: func(o *pgsource.Options) { o.When = "SELECT 1" }},
		{columns: "k bigint NOT NULL", index: "(k)", text: "nothing", edit: func(o *pgsource.Options) { o.When = "SELECT true FROM nothing" }},
		{columns: "k bigint NOT NULL", index: "(k)", text: "pg_read_all_stats", edit: func(o *pgsource.Options) { o.OldestTransaction = time.Minute }},
	} {
		t.Run(c.columns+c.index+c.text, func(t *testing.T) {
			name := schema(t, c.columns)
			if c.index != "" {
				pgtest.Exec(t, "CREATE INDEX ON "+name+".tab "+c.index)
			}
			s := open(t, reader(t, name), name, c.edit)
			invalid(t, s.Check(t.Context()), c.text)
			_, err := s.Cut(t.Context(), nil, nil, 1, 1)
			invalid(t, err, c.text)
		})
	}
	t.Run("collation", func(t *testing.T) {
		name := schema(t, "x integer")
		pgtest.Exec(t, "CREATE COLLATION "+name+".loose (provider = icu, locale = 'und-u-ks-level2', deterministic = false)")
		pgtest.Exec(t, "ALTER TABLE "+name+".tab ADD k text COLLATE "+name+".loose NOT NULL; CREATE INDEX ON "+name+".tab (k)")
		invalid(t, open(t, reader(t, name), name, nil).Check(t.Context()), "deterministic")
	})
	t.Run("view", func(t *testing.T) {
		name := schema(t, "k bigint PRIMARY KEY")
		pgtest.Exec(t, "CREATE VIEW "+name+".v AS SELECT k FROM "+name+".tab")
		invalid(t, open(t, reader(t, name), name, func(o *pgsource.Options) { o.Table = name + ".v" }).Check(t.Context()), "no table")
	})
	t.Run("grants", func(t *testing.T) {
		name := schema(t, "k bigint PRIMARY KEY")
		as := pgtest.Role(t, func(role string) string { return "GRANT USAGE ON SCHEMA " + name + " TO " + role })
		invalid(t, open(t, as, name, nil).Check(t.Context()), "GRANT")
		as = pgtest.Role(t, func(role string) string { return "SELECT 1" })
		invalid(t, open(t, as, name, nil).Check(t.Context()), "GRANT")
	})
}

func TestIndexesThatHaveTheOrder(t *testing.T) {
	for _, c := range []struct{ columns, index, where, more string }{
		{columns: "k bigint NOT NULL, x integer", index: "(k DESC)"},
		{columns: "k bigint NOT NULL, x integer", index: "(k, x)"},
		{columns: "k bigint NOT NULL, x integer", index: "(x, k)", where: "x = 1"},
		{columns: "k bigint NOT NULL, x integer", index: "(k) WHERE x = 1", where: "x = 1"},
		{columns: "k bigint NOT NULL, x integer", index: "(k)", where: "x = 1", more: "(x)"},
		{columns: "k bigint NOT NULL, x integer", index: "(k)", where: "NOT EXISTS (SELECT FROM pg_catalog.pg_class c WHERE c.oid = tab.x::oid)"},
	} {
		name := schema(t, c.columns)
		pgtest.Exec(t, "CREATE INDEX ON "+name+".tab "+c.index)
		if c.more != "" {
			pgtest.Exec(t, "CREATE INDEX ON "+name+".tab "+c.more)
		}
		pgtest.Exec(t, "INSERT INTO "+name+".tab SELECT g, g % 2 FROM generate_series(1, 1000) g; ANALYZE "+name+".tab")
		s := open(t, reader(t, name), name, func(o *pgsource.Options) { o.Where = c.where })
		require.NoError(t, s.Check(t.Context()), "%+v", c)
		cuts, err := s.Cut(t.Context(), nil, nil, 100, 3)
		require.NoError(t, err)
		require.Len(t, cuts.Cuts, 3)
	}
	t.Run("partitions", func(t *testing.T) {
		name := pgtest.Schema(t)
		pgtest.Exec(t, `CREATE SCHEMA `+name+`; CREATE TABLE `+name+`.tab (k bigint NOT NULL PRIMARY KEY) PARTITION BY RANGE (k);
			CREATE TABLE `+name+`.a PARTITION OF `+name+`.tab FOR VALUES FROM (0) TO (500); CREATE TABLE `+name+`.b PARTITION OF `+name+`.tab DEFAULT;
			INSERT INTO `+name+`.tab SELECT g FROM generate_series(1, 1000) g`)
		cuts, err := open(t, reader(t, name), name, nil).Cut(t.Context(), nil, nil, 400, 3)
		require.NoError(t, err)
		require.Equal(t, []chunk.Cut{{Through: "400", Rows: 400}, {Through: "800", Rows: 400}, {Through: "1000", Rows: 200}}, cuts.Cuts)
	})
}

func TestThrottle(t *testing.T) {
	name := schema(t, "k bigint PRIMARY KEY")
	pgtest.Exec(t, "CREATE TABLE "+name+".other (x integer)")
	as := pgtest.Role(t, func(role string) string {
		return fmt.Sprintf("GRANT USAGE ON SCHEMA %s TO %s; GRANT SELECT ON ALL TABLES IN SCHEMA %s TO %s; GRANT pg_read_all_stats TO %s", name, role, name, role, role)
	})
	s := open(t, as, name, func(o *pgsource.Options) { o.When = "SELECT count(*) > 1 FROM " + name + ".other" })
	reason, err := s.Throttled(t.Context())
	require.NoError(t, err)
	require.Empty(t, reason)
	pgtest.Exec(t, "INSERT INTO "+name+".other VALUES (1), (2)")
	reason, err = s.Throttled(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, reason)
	s = open(t, as, name, func(o *pgsource.Options) { o.OldestTransaction = time.Millisecond })
	conn := pgtest.Connect(t)
	_, err = conn.Exec(t.Context(), "BEGIN; SELECT pg_sleep(0.01)")
	require.NoError(t, err)
	reason, err = s.Throttled(t.Context())
	require.NoError(t, err)
	require.Contains(t, reason, "transaction")
	s = open(t, as, name, func(o *pgsource.Options) { o.OldestTransaction = 100 * time.Hour })
	reason, err = s.Throttled(t.Context())
	require.NoError(t, err)
	require.Empty(t, reason)
}

func TestASourceIsOnlyReadAndInTime(t *testing.T) {
	name := schema(t, "k bigint PRIMARY KEY")
	pgtest.Exec(t, "INSERT INTO "+name+".tab SELECT g FROM generate_series(1, 100) g; CREATE FUNCTION "+name+
		".put(x bigint) RETURNS boolean LANGUAGE sql AS $$ INSERT INTO "+name+".tab VALUES (x + 1000000) RETURNING true $$")
	s := open(t, pgtest.URL(t), name, func(o *pgsource.Options) { o.Where = name + ".put(k)" })
	_, err := s.Cut(t.Context(), nil, nil, 10, 10)
	require.ErrorContains(t, err, "read-only")
	s = open(t, pgtest.URL(t), name, func(o *pgsource.Options) { o.Where = "pg_sleep(0.2) IS NOT NULL" })
	began := time.Now()
	_, err = s.Cut(t.Context(), nil, nil, 100, 10)
	require.ErrorIs(t, err, chunk.ErrSlow)
	require.Less(t, time.Since(began), 15*time.Second)
	lock := pgtest.Connect(t)
	_, err = lock.Exec(t.Context(), "BEGIN; LOCK TABLE "+name+".tab")
	require.NoError(t, err)
	s = open(t, pgtest.URL(t), name, nil)
	began = time.Now()
	require.Error(t, s.Check(t.Context()))
	require.Less(t, time.Since(began), 10*time.Second)
}

// key is a number as a key.
func key(n int) chunk.Key { return chunk.Key(strconv.Itoa(n)) }
