package postgres_test

import (
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
)

// TestTheDocumentedRoles runs the block of docs/operations.md for a fresh database, and then works in it: the owner
// migrates, an agent claims and settles, an application enqueues.
func TestTheDocumentedRoles(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/operations.md")
	require.NoError(t, err)
	_, block, _ := strings.Cut(string(page), "## Roles on PostgreSQL")
	_, block, _ = strings.Cut(block, "```sql\n")
	block, _, ok := strings.Cut(block, "```")
	require.True(t, ok)
	database := pgtest.Name("fresh")
	owner, agent, app := pgtest.Name("owner"), pgtest.Name("agent"), pgtest.Name("app")
	block = strings.NewReplacer("leasehold_owner", owner, "leasehold_agent", agent, " app ", " "+app+" ", " app;", " "+app+";",
		"'and me'", "'pw'", "'change me'", "'pw'", "'change me, too'", "'pw'", " shop", " "+database).Replace(block)
	as := func(user *url.Userinfo) string {
		u, err := url.Parse(pgtest.URL(t))
		require.NoError(t, err)
		u.Path = "/" + database
		if user != nil {
			u.User = user
		}
		return u.String()
	}
	t.Cleanup(func() {
		pgtest.Exec(t, `DROP DATABASE IF EXISTS `+database+` WITH (FORCE)`)
		pgtest.Exec(t, `DROP ROLE IF EXISTS `+owner+`, `+agent+`, `+app)
	})
	before, after, ok := strings.Cut(block, `\connect `+database)
	require.True(t, ok)
	for statement := range strings.SplitSeq(strings.TrimSpace(before), "\n") { // CREATE DATABASE stands alone
		pgtest.Exec(t, statement)
	}
	_, err = pgtest.ConnectTo(t, as(nil)).Exec(t.Context(), after)
	require.NoError(t, err)

	asOwner, asAgent := as(url.UserPassword(owner, "pw")), as(url.UserPassword(agent, "pw"))
	_, err = openStore(t, postgres.Options{URL: asOwner}).Migrator().Up(t.Context())
	require.NoError(t, err)
	_, err = pgtest.ConnectTo(t, asOwner).Exec(t.Context(),
		postgres.AgentGrants("leasehold", agent)+postgres.Grants("leasehold", app, false))
	require.NoError(t, err)

	conn := pgtest.ConnectTo(t, as(url.UserPassword(app, "pw")))
	_, err = conn.Exec(t.Context(), `INSERT INTO leasehold.task (type) VALUES ('a'); SELECT leasehold.enqueue('a', key => 'k')`)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), `CREATE TEMPORARY TABLE bait (id int)`)
	require.ErrorContains(t, err, "42501")
	s := openStore(t, postgres.Options{URL: asAgent})
	session, err := s.Join(t.Context(), someAgent())
	require.NoError(t, err)
	list, err := s.List(t.Context(), store.TaskFilter{})
	require.NoError(t, err)
	require.Len(t, list, 2)
	_, err = s.Maintain(t.Context(), week)
	require.NoError(t, err)
	require.NoError(t, s.Leave(t.Context(), session))
}

// TestTheGuideToNamedLeases runs the blocks of SQL in docs/named-leases.md that are for PostgreSQL, as an application's role, and
// compares what the comments say that they return.
func TestTheGuideToNamedLeases(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/named-leases.md")
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(page), "\n## On PostgreSQL\n")
	section, _, _ = strings.Cut(section, "\n## ")
	h := newFreshHarness(t)
	h.watched(t)
	app := pgtest.ConnectTo(t, h.asApp)
	_, err = app.Exec(t.Context(), `SET search_path = pg_temp`) // for the guide's own table
	require.NoError(t, err)
	said := 0
	for i, block := range strings.Split(section, "```sql\n") {
		if i == 0 {
			continue
		}
		block, _, _ = strings.Cut(block, "```")
		for line := range strings.Lines(block) {
			text, comment, _ := strings.Cut(strings.TrimSpace(line), "--")
			text = strings.ReplaceAll(text, "leasehold.", h.schema+".")
			want, ok := strings.CutPrefix(strings.TrimSpace(comment), "returns ")
			if !ok {
				_, err := app.Exec(t.Context(), strings.Replace(text, "CREATE TABLE", "CREATE TEMPORARY TABLE", 1))
				require.NoError(t, err, line)
				continue
			}
			said++
			want, _, _ = strings.Cut(want, ": ")
			rows, err := app.Query(t.Context(), text)
			require.NoError(t, err, line)
			require.True(t, rows.Next(), line)
			values, err := rows.Values()
			require.NoError(t, err, line)
			rows.Close()
			require.Equal(t, want, strings.Replace(fmt.Sprint(values[0]), "<nil>", "null", 1), line)
		}
	}
	require.Equal(t, 5, said)
}
