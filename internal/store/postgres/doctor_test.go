package postgres_test

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
)

// patient is a machine on which other tests keep transactions open.
func patient() ops.DoctorOptions { return ops.DoctorOptions{OldestTransaction: time.Hour} }

// findings returns what doctor finds under a name.
func findings(t *testing.T, s *postgres.Store, o ops.DoctorOptions, name string) (found []ops.Finding) {
	t.Helper()
	c := ops.Doctor(t.Context(), s, o, time.Now)
	for _, f := range c.Findings {
		if f.Name == name {
			require.NotEmpty(t, f.Remedy)
			found = append(found, f)
		}
	}
	return found
}

// database makes a database of its own, which no other test has a session on, with a migrated store.
func database(t *testing.T) (s *postgres.Store, conn *pgx.Conn, asSuperuser string) {
	t.Helper()
	name := pgtest.Name("doctor")
	pgtest.Exec(t, `CREATE DATABASE `+name)
	t.Cleanup(func() { pgtest.Exec(t, `DROP DATABASE `+name+` WITH (FORCE)`) })
	u, err := url.Parse(pgtest.URL(t))
	require.NoError(t, err)
	u.Path = "/" + name
	s = openStore(t, postgres.Options{URL: u.String()})
	_, err = s.Migrator().Up(t.Context())
	require.NoError(t, err)
	_, err = s.Maintain(t.Context(), week)
	require.NoError(t, err)
	return s, pgtest.ConnectTo(t, u.String()), u.String()
}

func TestDoctorFindsOldTransactions(t *testing.T) {
	t.Parallel()
	s, conn, _ := database(t)
	at := ops.DoctorOptions{OldestTransaction: time.Microsecond}
	none := func() bool { return len(findings(t, s, at, "oldest_transaction")) == 0 }
	require.Eventually(t, none, soon, time.Millisecond, "an idle session is in a transaction for a moment where it learns of others' changes of the catalog")
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), `SET LOCAL application_name = 'a report'; SELECT count(*) FROM leasehold.task`)
	require.NoError(t, err)
	require.Empty(t, findings(t, s, patient(), "oldest_transaction"))
	found := findings(t, s, at, "oldest_transaction")
	require.Len(t, found, 1)
	require.Equal(t, ops.Problem, found[0].Severity)
	require.Contains(t, found[0].What, "a report, idle in transaction")
	require.Contains(t, found[0].Remedy, fmt.Sprintf("pg_terminate_backend(%d)", conn.PgConn().PID()))
	require.NotNil(t, found[0].Since)
	require.NoError(t, tx.Rollback(t.Context()))
	require.Eventually(t, none, soon, time.Millisecond)
}

// Dead rows stay for as long as a snapshot of before may see them.
func TestDoctorFindsDeadRows(t *testing.T) {
	t.Parallel()
	s, conn, super := database(t)
	require.Empty(t, findings(t, s, patient(), "dead_rows"))
	old := pgtest.ConnectTo(t, super)
	tx, err := old.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	defer func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }()
	_, err = tx.Exec(t.Context(), `SELECT count(*) FROM leasehold.task`)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), `INSERT INTO leasehold.task (type) SELECT 'a' FROM generate_series(1, 60000)`)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), `DELETE FROM leasehold.task`)
	require.NoError(t, err)
	var found []ops.Finding
	require.Eventually(t, func() bool { // the server counts what a session has done a little later
		found = findings(t, s, patient(), "dead_rows")
		return len(found) == 1
	}, soon, 100*time.Millisecond)
	require.Equal(t, ops.Problem, found[0].Severity)
	require.Equal(t, `end old transactions, and VACUUM "leasehold".task;`, found[0].Remedy)
}

func TestDoctorFindsReadOnlyServers(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	asRole := pgtest.Role(t, func(role string) string {
		return postgres.AgentGrants(h.schema, role) + `; ALTER ROLE ` + role + ` SET default_transaction_read_only = on`
	})
	for _, more := range []string{"", "&target_session_attrs=any"} {
		s := openStore(t, postgres.Options{URL: withParameters(asRole, more), Schema: h.schema})
		c := ops.Doctor(t.Context(), s, patient(), time.Now)
		require.False(t, c.Healthy)
		require.Len(t, c.Findings, 1)
		require.Equal(t, "read_only", c.Findings[0].Name)
	}
}

// withParameters adds parameters to a URL, which may have some.
func withParameters(u, more string) string {
	if more != "" && !strings.Contains(u, "?") {
		return u + "?" + more[1:]
	}
	return u + more
}

func TestDoctorFindsAutovacuumOff(t *testing.T) {
	t.Parallel()
	s, conn, super := database(t)
	require.Empty(t, findings(t, s, patient(), "autovacuum"))
	_, err := conn.Exec(t.Context(), `ALTER TABLE leasehold.task SET (autovacuum_enabled = off)`)
	require.NoError(t, err)
	require.Equal(t, `ALTER TABLE "leasehold".task RESET (autovacuum_enabled);`, findings(t, s, patient(), "autovacuum")[0].Remedy)
	_, err = conn.Exec(t.Context(), `ALTER TABLE leasehold.task RESET (autovacuum_enabled)`)
	require.NoError(t, err)
	require.Empty(t, findings(t, s, patient(), "autovacuum"))
	u, err := url.Parse(super)
	require.NoError(t, err)
	_, err = conn.Exec(t.Context(), `ALTER DATABASE `+u.Path[1:]+` SET track_counts = off`)
	require.NoError(t, err)
	again := openStore(t, postgres.Options{URL: super})
	require.Contains(t, findings(t, again, patient(), "autovacuum")[0].What, "track_counts is off")
}

func TestDoctorFindsMissingPartitions(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	joined(t, h)
	require.Empty(t, findings(t, h.Store, patient(), "partitions"))
	tomorrow := h.Now().UTC().AddDate(0, 0, 1)
	h.exec(t, `DROP TABLE SCHEMA.task_archive_`+tomorrow.Format("20060102"))
	found := findings(t, h.Store, patient(), "partitions")
	require.Len(t, found, 1)
	require.Equal(t, tomorrow.Format(time.DateOnly), found[0].About)
	require.Equal(t, ops.Problem, found[0].Severity)
	h.exec(t, strings.TrimPrefix(found[0].Remedy, "run an agent, which makes partitions ahead, or "))
	require.Empty(t, findings(t, h.Store, patient(), "partitions"))
}

// A store that was only migrated is well: agents, which make partitions, are yet to come. Once one has run, both are a problem.
func TestDoctorOfAFreshStore(t *testing.T) {
	t.Parallel()
	h := newFreshAgentHarness(t)
	require.Empty(t, findings(t, h.Store, patient(), "partitions"))
	found := findings(t, h.Store, patient(), "no_agents")
	require.Len(t, found, 1)
	require.Equal(t, ops.Notice, found[0].Severity)
	require.Equal(t, "no agent has run on this store yet: no task starts", found[0].What)
	require.True(t, ops.Doctor(t.Context(), h.Store, patient(), time.Now).Healthy)

	session, err := h.Join(t.Context(), someAgent())
	require.NoError(t, err)
	require.NoError(t, h.Leave(t.Context(), session))
	h.exec(t, `DROP TABLE SCHEMA.task_archive_`+h.Now().UTC().Format("20060102"))
	require.Equal(t, ops.Problem, findings(t, h.Store, patient(), "no_agents")[0].Severity)
	require.Len(t, findings(t, h.Store, patient(), "partitions"), 1)
}

// The machine's clock is what is wrong here; the server's is as it is.
func TestDoctorComparesClocks(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	for off, want := range map[time.Duration]ops.Severity{
		0: "", -time.Second: "", 10 * time.Second: ops.Notice, -10 * time.Second: ops.Notice, 2 * time.Minute: ops.Problem, -2 * time.Minute: ops.Problem,
	} {
		c := ops.Doctor(t.Context(), h.Store, patient(), func() time.Time { return time.Now().Add(off) })
		var got ops.Severity
		for _, f := range c.Findings {
			require.NotContains(t, []string{"unseen", "store"}, f.Name, f.What)
			if f.Name == "clock_difference" {
				got = f.Severity
				require.Contains(t, f.What, map[bool]string{true: "behind", false: "ahead of"}[off > 0])
			}
		}
		require.Equal(t, want, got, off)
	}
}

func TestDoctorCountsConnections(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	require.Empty(t, findings(t, h.Store, patient(), "connections"))
	var role string
	asRole := pgtest.Role(t, func(name string) string {
		role = name
		return postgres.AgentGrants(h.schema, name) + `; ALTER ROLE ` + name + ` CONNECTION LIMIT 3`
	})
	s := openStore(t, postgres.Options{URL: asRole, Schema: h.schema})
	require.Empty(t, findings(t, s, patient(), "connections"))
	pgtest.ConnectTo(t, asRole)
	pgtest.ConnectTo(t, asRole)
	found := findings(t, s, patient(), "connections")
	require.Len(t, found, 1)
	require.Contains(t, found[0].What, "3 of the 3 connections are in use that role "+role+" may have")
}

func TestDoctorFindsPoolers(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	require.Empty(t, findings(t, h.Store, patient(), "pooler"))
	p := (&proxy{message: func(kind byte, _ []byte) (bool, error) { return kind != 'A', nil }}).start(t) // NotificationResponse
	for notify, want := range map[bool]int{true: 1, false: 0} {
		s := openStore(t, postgres.Options{URL: p.URL, Schema: h.schema, Notify: notify})
		require.Len(t, findings(t, s, patient(), "pooler"), want)
	}
}

func TestDoctorFindsMissingPrivileges(t *testing.T) {
	t.Parallel()
	h := newFreshAgentHarness(t)
	problems := func() (all []ops.Finding) {
		for _, f := range findings(t, h.Store, patient(), "privileges") {
			if f.Severity == ops.Problem {
				all = append(all, f)
			}
		}
		return all
	}
	require.Empty(t, problems())
	u, err := url.Parse(h.asAgent)
	require.NoError(t, err)
	role := u.User.Username()
	h.exec(t, `REVOKE DELETE ON SCHEMA.attempt FROM `+role+`; REVOKE EXECUTE ON FUNCTION SCHEMA.cancel FROM `+role+`, PUBLIC`)
	found := problems()
	require.Len(t, found, 1)
	require.Contains(t, found[0].What, "lacks a privilege on function cancel, table attempt")
	require.Contains(t, found[0].Remedy, "leasehold migrate grants --agent --role "+role)
	pgtest.Exec(t, h.agents)
	require.Empty(t, problems())

	conn := pgtest.ConnectTo(t, h.asApp) // what it does the agent's role may not see
	_, err = conn.Exec(t.Context(), `SELECT 1`)
	require.NoError(t, err)
	hidden := findings(t, h.Store, patient(), "privileges")
	require.Len(t, hidden, 1)
	require.Equal(t, ops.Notice, hidden[0].Severity)
	pgtest.Exec(t, hidden[0].Remedy)
	require.Empty(t, findings(t, h.Store, patient(), "privileges"))
}

// Agents that connect as doctor does need no more than their grants.
func TestDoctorFindsRolesThatMayDoTooMuch(t *testing.T) {
	t.Parallel()
	owner, role, schema := owned(t)
	found := findings(t, owner, patient(), "agent_role")
	require.Len(t, found, 1)
	require.Equal(t, ops.Notice, found[0].Severity)
	require.Contains(t, found[0].What, "role "+role+" owns the schema")
	require.Contains(t, found[0].Remedy, "leasehold migrate up --grant-agent leasehold_agent")

	name, asMember := someRole(t)
	pgtest.Exec(t, `GRANT `+role+` TO `+name)
	member := openStore(t, postgres.Options{URL: asMember, Schema: schema})
	require.Contains(t, findings(t, member, patient(), "agent_role")[0].What, "role "+name+" owns the schema")
	super := findings(t, openStore(t, postgres.Options{Schema: schema}), patient(), "agent_role")
	require.Len(t, super, 1)
	require.Equal(t, ops.Notice, super[0].Severity)
	require.Contains(t, super[0].What, "is a superuser")

	name, asAgent := someRole(t)
	granted, err := owner.Migrator().Grant(t.Context(), store.Roles{Agents: []string{name}})
	require.NoError(t, err)
	require.True(t, granted)
	agent := openStore(t, postgres.Options{URL: asAgent, Schema: schema})
	require.Empty(t, findings(t, agent, patient(), "agent_role"))
	require.Contains(t, ops.Doctor(t.Context(), agent, patient(), time.Now).Checked, "agent_role")
}

// A role that may read a part of the store is told what it may not, and the GRANT that it prints is the remedy.
func TestDoctorNamesWhatItMayNotRead(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	asRole := pgtest.Role(t, func(role string) string {
		return postgres.Grants(h.schema, role, true) + `; GRANT SELECT ON ` + h.schema + `.schema_version TO ` + role
	})
	s := openStore(t, postgres.Options{URL: asRole, Schema: h.schema})
	c := ops.Doctor(t.Context(), s, patient(), time.Now)
	require.Contains(t, c.Checked, "no_agents")
	require.Contains(t, c.Checked, "schedule_behind")
	for _, name := range []string{"orphans", "sequence_blocked", "rollback_failed", "stalls"} {
		require.NotContains(t, c.Checked, name)
	}
	found := findings(t, s, patient(), "unseen")
	require.Len(t, found, 1)
	require.Equal(t, ops.Notice, found[0].Severity)
	pgtest.Exec(t, found[0].Remedy)
	require.Empty(t, findings(t, s, patient(), "unseen"))
	require.Empty(t, findings(t, h.Store, patient(), "unseen"))
}

// What takes too long is given up and named; all else is checked.
func TestDoctorGivesUpWhatTakesTooLong(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	conn := pgtest.Connect(t)
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), h.q(`LOCK TABLE SCHEMA.sequence_failure IN ACCESS EXCLUSIVE MODE`))
	require.NoError(t, err)
	c := ops.Doctor(t.Context(), h.Store, patient(), time.Now)
	require.NoError(t, tx.Rollback(t.Context()))
	require.NotContains(t, c.Checked, "sequence_blocked")
	require.Contains(t, c.Checked, "stalls")
	require.Equal(t, "unseen", c.Findings[len(c.Findings)-1].Name)
	require.Contains(t, c.Findings[len(c.Findings)-1].What, "took longer than 3s and were given up: sequences")
}

func TestDoctorOfAStoreThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	u, err := url.Parse(pgtest.URL(t))
	require.NoError(t, err)
	for name, o := range map[string]postgres.Options{
		"schema": {Schema: pgtest.Name("none")},
		"store":  {URL: "postgres://127.0.0.1:1/x?connect_timeout=1"},
	} {
		c := ops.Doctor(t.Context(), openStore(t, o), patient(), time.Now)
		require.False(t, c.Healthy)
		require.Len(t, c.Findings, 1)
		require.Equal(t, name, c.Findings[0].Name)
		require.NotEmpty(t, c.Findings[0].Remedy)
	}
	u.User = url.UserPassword("nobody_at_all", "x")
	c := ops.Doctor(t.Context(), openStore(t, postgres.Options{URL: u.String()}), patient(), time.Now)
	require.Equal(t, "store", c.Findings[0].Name)
	require.NotContains(t, c.Findings[0].What, u.String())
}

// A hot table with many rows makes the look no slower: it reads what it lists.
func TestDoctorReadsLittle(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	_, err := h.Maintain(t.Context(), week)
	require.NoError(t, err)
	h.exec(t, fill)
	d, err := h.Diagnose(t.Context())
	require.NoError(t, err)
	require.Empty(t, d.Unseen)
	require.Len(t, d.Orphans, 7)
	for _, o := range d.Orphans {
		require.Equal(t, store.DiagnosisWaiting+1, o.Waiting, strconv.Quote(o.Type))
	}
}
