package harness

import (
	"context"
	"net/url"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
)

// Database makes a database on the test server, with Leasehold's schema, and drops it when the test is over. The URL is
// that of a superuser.
func Database(t testing.TB) string {
	t.Helper()
	name := pgtest.Name("test")
	pgtest.Exec(t, `CREATE DATABASE `+name)
	t.Cleanup(func() { pgtest.Exec(t, `DROP DATABASE `+name+` WITH (FORCE)`) })
	u, err := url.Parse(pgtest.URL(t))
	require.NoError(t, err)
	u.Path = "/" + name
	MustRun(t, nil, "migrate", "up", "--store", u.String())
	return u.String()
}

// EmptyDatabase makes a database on the test server with nothing in it, and drops it when the test is over. The URL is that of its
// owner, who may do nothing else.
func EmptyDatabase(t testing.TB) string {
	t.Helper()
	u, err := url.Parse(pgtest.URL(t))
	require.NoError(t, err)
	role, name := pgtest.Name("owner"), pgtest.Name("test")
	pgtest.Exec(t, `CREATE ROLE `+role+` LOGIN PASSWORD 'owner'`)
	t.Cleanup(func() { pgtest.Exec(t, `DROP ROLE `+role) })
	pgtest.Exec(t, `CREATE DATABASE `+name+` OWNER `+role)
	t.Cleanup(func() { pgtest.Exec(t, `DROP DATABASE `+name+` WITH (FORCE)`) })
	u.User, u.Path = url.UserPassword(role, "owner"), "/"+name
	return u.String()
}

// poolerVariable names a pooler before the test server, which test/with-pgbouncer sets.
const poolerVariable = "LEASEHOLD_TEST_POOLER"

// Pooled is the URL of a Database, as any role, by way of the pooler, where the environment names one; else it is the
// URL as it stands.
func Pooled(t testing.TB, database string) string {
	t.Helper()
	if os.Getenv(poolerVariable) == "" {
		return database
	}
	direct, err := url.Parse(database)
	require.NoError(t, err)
	u, err := url.Parse(os.Getenv(poolerVariable)) // with the parameters that it needs
	require.NoError(t, err)
	u.User, u.Path = direct.User, direct.Path
	return u.String()
}

// Application is the URL of a role on a Database that has what `migrate grants` gives to applications, and may make
// tables of its own in the schema public.
func Application(t testing.TB, database string) string {
	t.Helper()
	u, err := url.Parse(database)
	require.NoError(t, err)
	role := pgtest.Name("app")
	pgtest.Exec(t, `CREATE ROLE `+role+` LOGIN PASSWORD 'app'`)
	t.Cleanup(func() {
		db := pgtest.ConnectTo(t, database)
		_, err := db.Exec(context.Background(), `DROP OWNED BY `+role) // the test's own context has ended
		require.NoError(t, err)
		pgtest.Exec(t, `DROP ROLE `+role)
	})
	grants := MustRun(t, nil, "migrate", "grants", "--role", role, "--store", database)
	db := pgtest.ConnectTo(t, database)
	_, err = db.Exec(t.Context(), grants+`; GRANT CREATE ON SCHEMA public TO `+role)
	require.NoError(t, err)
	u.User = url.UserPassword(role, "app")
	return u.String()
}
