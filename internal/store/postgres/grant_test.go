package postgres_test

import (
	"net/url"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
)

// someRole makes a role without any right, and returns its name and a URL that connects as it.
func someRole(t *testing.T) (role, asRole string) {
	t.Helper()
	asRole = pgtest.Role(t, func(string) string { return `SELECT 1` })
	u, err := url.Parse(asRole)
	require.NoError(t, err)
	return u.User.Username(), asRole
}

// owned makes a schema that belongs to a role without other rights, and migrates it as that role.
func owned(t *testing.T) (owner *postgres.Store, role, schema string) {
	t.Helper()
	role, asOwner := someRole(t)
	schema = pgtest.Schema(t)
	pgtest.Exec(t, `CREATE SCHEMA `+schema+` AUTHORIZATION `+role)
	owner = openStore(t, postgres.Options{URL: asOwner, Schema: schema})
	_, err := owner.Migrator().Up(t.Context())
	require.NoError(t, err)
	return owner, role, schema
}

// TestGrantingLetsEachRoleWork migrates and grants as an owner that is no superuser: then an agent's role runs what an application's role
// inserts, and an operator's role pauses a type.
func TestGrantingLetsEachRoleWork(t *testing.T) {
	t.Parallel()
	owner, _, schema := owned(t)
	agent, asAgent := someRole(t)
	app, asApp := someRole(t)
	operator, asOperator := someRole(t)
	h := &harness{t: t, schema: schema, asAgent: asAgent, asApp: asApp, opened: new([]*postgres.Store), ahead: pgtest.Ahead(t)}
	h.open()
	_, err := h.Join(t.Context(), someAgent())
	require.ErrorContains(t, err, "lacks a privilege")

	to := store.Roles{Agents: []string{agent}, Applications: []string{app}, Operators: []string{operator}}
	for range 2 { // it may be repeated
		granted, err := owner.Migrator().Grant(t.Context(), to)
		require.NoError(t, err)
		require.True(t, granted)
	}

	_, err = pgtest.ConnectTo(t, asApp).Exec(t.Context(), `SELECT `+schema+`.pause('a')`)
	require.ErrorContains(t, err, "42501")
	_, err = pgtest.ConnectTo(t, asOperator).Exec(t.Context(), `SELECT `+schema+`.pause('b')`)
	require.NoError(t, err)
	a := joined(t, h)
	rows := a.take(t, 1) // which the application has inserted
	require.Equal(t, all(1, store.Applied), a.settle(t, done(rows[0])))
	_, err = h.Maintain(t.Context(), week)
	require.NoError(t, err)
	_, err = pgtest.ConnectTo(t, asAgent).Exec(t.Context(), `UPDATE `+schema+`.secret SET key = ''`)
	require.ErrorContains(t, err, "42501")
}

// TestGrantingAtOnce has several jobs grant at the same time: GRANT itself fails where two change one object.
func TestGrantingAtOnce(t *testing.T) {
	t.Parallel()
	owner, _, _ := owned(t)
	role, _ := someRole(t)
	var jobs sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		jobs.Go(func() { _, errs[i] = owner.Migrator().Grant(t.Context(), store.Roles{Agents: []string{role}}) })
	}
	jobs.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
}

func TestGrantingRefuses(t *testing.T) {
	t.Parallel()
	owner, ownerRole, schema := owned(t)
	role, asRole := someRole(t)
	for name, c := range map[string]struct {
		to   store.Roles
		text string
	}{
		"a role that does not exist": {
			store.Roles{Agents: []string{role}, Applications: []string{"no one"}, Operators: []string{"no one"}},
			`there is no role no one, and nothing was granted: correct the name, or create it first (CREATE ROLE "no one" LOGIN;)`,
		},
		"everyone":  {store.Roles{Applications: []string{"public"}}, "there is no role public"},
		"the owner": {store.Roles{Agents: []string{ownerRole}}, "the role " + ownerRole + " owns the tables of the schema " + schema + ", and needs no grants"},
	} {
		granted, err := owner.Migrator().Grant(t.Context(), c.to)
		require.ErrorContains(t, err, c.text, name)
		require.False(t, granted)
	}
	var may bool
	require.NoError(t, pgtest.Connect(t).QueryRow(t.Context(), `SELECT has_schema_privilege($1, $2, 'USAGE')`, role, schema).Scan(&may))
	require.False(t, may, "all or nothing")

	// A role that does not own the schema would be warned by the server, and nothing else.
	_, err := owner.Migrator().Grant(t.Context(), store.Roles{Agents: []string{role}})
	require.NoError(t, err)
	other, _ := someRole(t)
	_, err = openStore(t, postgres.Options{URL: asRole, Schema: schema}).Migrator().Grant(t.Context(), store.Roles{Agents: []string{other}})
	require.ErrorContains(t, err, "and only its owner can migrate it, or grant what is in it")

	// What a newer schema needs only its binary knows.
	pgtest.Exec(t, `INSERT INTO `+schema+`.schema_version (version, name, oldest) SELECT max(version) + 1, 'newer', 1 FROM `+schema+`.schema_version`)
	granted, err := owner.Migrator().Grant(t.Context(), store.Roles{Agents: []string{other}})
	require.NoError(t, err)
	require.False(t, granted)
	require.NoError(t, pgtest.Connect(t).QueryRow(t.Context(), `SELECT has_schema_privilege($1, $2, 'USAGE')`, other, schema).Scan(&may))
	require.False(t, may)
	pgtest.Exec(t, `DROP SCHEMA `+schema+` CASCADE`)
	_, err = owner.Migrator().Grant(t.Context(), store.Roles{Agents: []string{other}})
	require.ErrorContains(t, err, "the store has no Leasehold schema")
}
