package postgres_test

import (
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
