package postgres_test

import (
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
)

// TestTheDocumentedRoles runs the block of docs/operations.md for a fresh database, and then works in it.
func TestTheDocumentedRoles(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/operations.md")
	require.NoError(t, err)
	_, block, _ := strings.Cut(string(page), "## Roles on PostgreSQL")
	_, block, _ = strings.Cut(block, "```sql\n")
	block, _, ok := strings.Cut(block, "```")
	require.True(t, ok)
	r := newRoles(t)
	block = strings.NewReplacer(" app ", " "+r.app+" ", " app;", " "+r.app+";", "'and me'", "'pw'", "'change me'", "'pw'", "'change me, too'", "'pw'",
		" shop", " "+r.database).Replace(r.named(block))
	before, after, ok := strings.Cut(block, `\connect `+r.database)
	require.True(t, ok)
	for statement := range strings.SplitSeq(strings.TrimSpace(before), "\n") { // CREATE DATABASE stands alone
		pgtest.Exec(t, statement)
	}
	_, err = pgtest.ConnectTo(t, r.as(t, "")).Exec(t.Context(), after)
	require.NoError(t, err)
	r.work(t)
	_, err = pgtest.ConnectTo(t, r.as(t, r.app)).Exec(t.Context(), `CREATE TEMPORARY TABLE bait (id int)`)
	require.ErrorContains(t, err, "42501")
}

// TestTheRolesOfCompose runs what the Compose file has its server run first, and then works in it.
func TestTheRolesOfCompose(t *testing.T) {
	t.Parallel()
	script, err := os.ReadFile("../../../deploy/compose/roles.sql")
	require.NoError(t, err)
	r := newRoles(t)
	pgtest.Exec(t, `CREATE DATABASE `+r.database)
	text := regexp.MustCompile(`PASSWORD '\w+'`).ReplaceAllString(string(script), "PASSWORD 'pw'")
	_, err = pgtest.ConnectTo(t, r.as(t, "")).Exec(t.Context(), regexp.MustCompile(`\bapplication\b`).ReplaceAllString(r.named(text), r.app))
	require.NoError(t, err)
	r.work(t)
}

// roles are an owner's, an agent's and an application's in a database of their own, which a script has yet to make, and their password.
type roles struct{ database, owner, agent, app string }

func newRoles(t *testing.T) roles {
	t.Helper()
	r := roles{pgtest.Name("fresh"), pgtest.Name("owner"), pgtest.Name("agent"), pgtest.Name("app")}
	t.Cleanup(func() {
		pgtest.Exec(t, `DROP DATABASE IF EXISTS `+r.database+` WITH (FORCE)`)
		pgtest.Exec(t, `DROP ROLE IF EXISTS `+r.owner+`, `+r.agent+`, `+r.app)
	})
	return r
}

// named has a script make these roles.
func (r roles) named(script string) string {
	return strings.NewReplacer("leasehold_owner", r.owner, "leasehold_agent", r.agent).Replace(script)
}

// as is a URL that connects as a role; "" is the superuser.
func (r roles) as(t *testing.T, role string) string {
	t.Helper()
	u, err := url.Parse(pgtest.URL(t))
	require.NoError(t, err)
	u.Path = "/" + r.database
	if role != "" {
		u.User = url.UserPassword(role, "pw")
	}
	return u.String()
}

// work has the owner migrate and grant, an application enqueue, and an agent look.
func (r roles) work(t *testing.T) {
	t.Helper()
	migrator := openStore(t, postgres.Options{URL: r.as(t, r.owner)}).Migrator()
	_, err := migrator.Up(t.Context())
	require.NoError(t, err)
	granted, err := migrator.Grant(t.Context(), store.Roles{Agents: []string{r.agent}, Applications: []string{r.app}})
	require.NoError(t, err)
	require.True(t, granted)
	_, err = pgtest.ConnectTo(t, r.as(t, r.app)).Exec(t.Context(),
		`INSERT INTO leasehold.task (type) VALUES ('a'); SELECT leasehold.enqueue('a', key => 'k')`)
	require.NoError(t, err)
	var sees bool
	require.NoError(t, pgtest.ConnectTo(t, r.as(t, r.agent)).QueryRow(t.Context(), `SELECT pg_has_role('pg_read_all_stats', 'USAGE')`).Scan(&sees))
	require.True(t, sees, "doctor sees all sessions")
	s := openStore(t, postgres.Options{URL: r.as(t, r.agent)})
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
