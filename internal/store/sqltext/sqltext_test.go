package sqltext_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store/sqltext"
)

func TestCompile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		dialect    sqltext.Dialect
		want       string
		names      []string
	}{
		{"positions follow first use", "SELECT @b, @a, @b", sqltext.Postgres, "SELECT $1, $2, $1", []string{"b", "a"}},
		{"SQLite's positions", "SELECT @b, @a, @b", sqltext.SQLite, "SELECT ?1, ?2, ?1", []string{"b", "a"}},
		{"a cast", "SELECT @ids::bigint[], (@ids::text[])[@n], x::\"t@y\"", sqltext.Postgres,
			"SELECT $1::bigint[], ($1::text[])[$2], x::\"t@y\"", []string{"ids", "n"}},
		{"operators of @", "SELECT a @> @b AND a <@ @b AND a @@ b AND a @? b, @ -1, x=@b, @-@ y", sqltext.Postgres,
			"SELECT a @> $1 AND a <@ $1 AND a @@ b AND a @? b, @ -1, x=$1, @-@ y", []string{"b"}},
		{"strings", "SELECT '@a', 'it''s @a', E'\\'@a', e'\\\\', @a", sqltext.Postgres,
			"SELECT '@a', 'it''s @a', E'\\'@a', e'\\\\', $1", []string{"a"}},
		{"a backslash escapes nothing in a plain string", `SELECT '\', @a`, sqltext.Postgres, `SELECT '\', $1`, []string{"a"}},
		{"a word that ends in e", "SELECT type'@a', @a", sqltext.Postgres, "SELECT type'@a', $1", []string{"a"}},
		{"identifiers", `SELECT "@a", "x""@a", @a`, sqltext.Postgres, `SELECT "@a", "x""@a", $1`, []string{"a"}},
		{"SQLite's identifiers", "SELECT [@a], `@a`, \"@a\", @a", sqltext.SQLite, "SELECT [@a], `@a`, \"@a\", ?1", []string{"a"}},
		{"subscripts", "SELECT a[@a], a['@a']", sqltext.Postgres, "SELECT a[$1], a['@a']", []string{"a"}},
		{"dollar quotes", "DO $$ @a $$; SELECT $x$ $$ @a $x$, a$b, @a", sqltext.Postgres,
			"DO $$ @a $$; SELECT $x$ $$ @a $x$, a$b, $1", []string{"a"}},
		{"comments", "-- it's @a\nSELECT /* @a /* it's */ @a */ @b -- \"\n\n  , /* x */ @c;\n", sqltext.Postgres,
			"SELECT   $1\n  ,   $2", []string{"b", "c"}},
		{"SQLite does not nest comments", "SELECT /* /* */ @a", sqltext.SQLite, "SELECT   ?1", []string{"a"}},
		{"minus a comment", "SELECT 1--@a\n- @b", sqltext.Postgres, "SELECT 1\n- $1", []string{"b"}},
		{"lines inside a string", "SELECT 'a  \n\n --b',\n\n@a", sqltext.Postgres, "SELECT 'a  \n\n --b',\n$1", []string{"a"}},
		{"braces", "SELECT {schema}.f(@id)", sqltext.Postgres, "SELECT {schema}.f($1)", []string{"id"}},
		{"json of SQLite", "SELECT a ->> '$.x', a -> @p", sqltext.SQLite, "SELECT a ->> '$.x', a -> ?1", []string{"p"}},
		{"a product is no list", "SELECT count(*), count( * ), a * b, a.b*2, (a) * @c, 'x.' * 2 FROM t", sqltext.Postgres,
			"SELECT count(*), count( * ), a * b, a.b*2, (a) * $1, 'x.' * 2 FROM t", []string{"c"}},
		{"json of Postgres", "SELECT a ? 'x', a ->> 'y'", sqltext.Postgres, "SELECT a ? 'x', a ->> 'y'", nil},
	} {
		q, err := sqltext.Compile(c.name, c.text, c.dialect)
		require.NoError(t, err, c.name)
		require.Equal(t, c.want, q.Text, c.name)
		require.Equal(t, c.names, q.Names, c.name)
	}
}

func TestCompileRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text    string
		dialect sqltext.Dialect
		want    string
	}{
		{"SELECT * FROM t", sqltext.Postgres, "name the columns"},
		{"SELECT a FROM (\n  select\n  * FROM t) AS u", sqltext.SQLite, "line 3: name the columns"},
		{"SELECT a, t.* FROM t", sqltext.Postgres, "name the columns"},
		{"SELECT a, * FROM t", sqltext.SQLite, "name the columns"},
		{"SELECT DISTINCT * FROM t", sqltext.Postgres, "name the columns"},
		{"DELETE FROM t RETURNING /* all */ *", sqltext.Postgres, "name the columns"},
		{"SELECT $1", sqltext.Postgres, "a position"},
		{"SELECT\n?1", sqltext.SQLite, "line 2: a position"},
		{"SELECT ?", sqltext.SQLite, "a position"},
		{"SELECT $a", sqltext.SQLite, "a position"},
		{"SELECT 'a", sqltext.Postgres, "no end"},
		{"SELECT E'a\\'", sqltext.Postgres, "no end"},
		{"SELECT $a$ $b$", sqltext.Postgres, "no end"},
		{"SELECT $", sqltext.Postgres, "neither"},
		{"/* /* */", sqltext.Postgres, "no end"},
		{"SELECT a <@b", sqltext.Postgres, "put a space"},
		{"-- nothing", sqltext.Postgres, "empty"},
	} {
		_, err := sqltext.Compile("q", c.text, c.dialect)
		require.ErrorContains(t, err, c.want, c.text)
		require.ErrorContains(t, err, "query q", c.text)
	}
}

func TestArgs(t *testing.T) { // not in parallel: it counts allocations
	q, err := sqltext.Compile("q", "SELECT @a, @b", sqltext.Postgres)
	require.NoError(t, err)
	a, b, c := sqltext.A("a", 1), sqltext.A("b", "two"), sqltext.A("c", nil)
	require.Equal(t, []any{1, "two"}, q.Args(a, b))
	require.Equal(t, []any{1, "two"}, q.Args(b, a))
	for _, wrong := range [][]sqltext.Arg{{}, {a}, {a, b, c}, {a, c}, {a, a}} {
		require.Panics(t, func() { q.Args(wrong...) }, "%v", wrong)
	}
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { q.Args(a, b) }), 1.0, "the list of values")
}

func TestFill(t *testing.T) {
	t.Parallel()
	q, err := sqltext.Compile("q", "-- @not\nSELECT @a FROM {schema}.t WHERE {where}", sqltext.Postgres)
	require.NoError(t, err)
	q = q.Map(strings.NewReplacer("{schema}", `"@s"`).Replace)
	require.Equal(t, `SELECT $1 FROM "@s".t WHERE {where}`, q.Text)
	filled, err := q.Fill("{where}", "b = @b AND c = @a")
	require.NoError(t, err)
	require.Equal(t, `SELECT $1 FROM "@s".t WHERE b = $2 AND c = $1`, filled.Text)
	require.Equal(t, []string{"a", "b"}, filled.Names)
	_, err = q.Fill("{where}", "b = $1")
	require.ErrorContains(t, err, "query q: line 2")
}

func TestLoad(t *testing.T) {
	t.Parallel()
	q, err := sqltext.Load(fstest.MapFS{
		"queries/one.sql":  {Data: []byte("-- One.\nSELECT @a\nWHERE {where of=@}")},
		"queries/more.sql": {Data: []byte("-- Several.\n\n-- name: two\n-- Two.\nSELECT 2;\n\n-- name: three\nSELECT 3\n")},
		"other/four.sql":   {Data: []byte("SELECT 4")},
	}, "queries/*.sql", sqltext.SQLite, sqltext.Shared{"where": "a = {of}a AND b"})
	require.NoError(t, err)
	var all struct{ One, Two, Three *sqltext.Query }
	require.NoError(t, q.Into(&all))
	require.Equal(t, "SELECT ?1\nWHERE a = ?1 AND b", all.One.Text)
	require.Equal(t, "SELECT 2", all.Two.Text)
	require.Equal(t, "SELECT 3", all.Three.Text)
	require.EqualError(t, q.Into(&struct{ One, Two *sqltext.Query }{}), "no code runs the queries [three]")
	require.EqualError(t, q.Into(&struct{ One, TwoOrMore *sqltext.Query }{}), "there is no query two_or_more")
	q.Map(strings.ToLower)
	require.NoError(t, q.Into(&all))
	require.Equal(t, "select 2", all.Two.Text)

	for _, c := range []struct{ text, want string }{
		{"SELECT 1;\n-- name: one\nSELECT 2", "before the first name"},
		{"-- name: one\nSELECT 1;\n-- name: one\nSELECT 2", "a second time"},
		{"SELECT '", "no end"},
		{"", "empty"},
	} {
		_, err := sqltext.Load(fstest.MapFS{"q/a.sql": {Data: []byte(c.text)}}, "q/*.sql", sqltext.Postgres, nil)
		require.ErrorContains(t, err, c.want, c.text)
	}
	_, err = sqltext.Load(fstest.MapFS{}, "q/*.sql", sqltext.Postgres, nil)
	require.ErrorContains(t, err, "no file matches")
}

func TestShared(t *testing.T) {
	t.Parallel()
	shared, err := sqltext.LoadShared(fstest.MapFS{
		"shared/kept.sql": {Data: []byte("-- What stays.\n  id, type\n")},
		"shared/due.sql":  {Data: []byte("max({new}due,\n    -- never earlier\n    {lease_end})\n")},
	}, "shared/*.sql")
	require.NoError(t, err)
	require.Equal(t, "SELECT id, type FROM {schema}.t", shared.Expand("SELECT {kept} FROM {schema}.t"))
	require.Equal(t, "max(NEW.due,\n    t.lease) + '{}' || '{a b}'", shared.Expand("{due new=NEW. lease_end=t.lease} + '{}' || '{a b}'"))
	_, err = sqltext.LoadShared(fstest.MapFS{}, "shared/*.sql")
	require.ErrorContains(t, err, "no file matches")
}
