// Package pgtest gives tests a schema of their own on the Postgres server that `make test` starts.
package pgtest

import (
	"context"
	"crypto/rand"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// Variable names the server: a postgres:// URL of a superuser, who can make roles.
const Variable = "LEASEHOLD_TEST_POSTGRES"

// limit bounds everything that this package does on the server.
const limit = 30 * time.Second

// URL is the test server's. The test fails where there is none: a store that is not tested is not tested.
func URL(t testing.TB) string {
	t.Helper()
	u := os.Getenv(Variable)
	if u == "" {
		t.Fatalf("%s is not set: run make test, which starts a Postgres and sets it", Variable)
	}
	return u
}

// Name is a random name for something on the server; it needs no quotes.
func Name(prefix string) string { return prefix + "_" + strings.ToLower(rand.Text()[:16]) }

// Schema names a schema that does not exist yet and is dropped, with all that is in it, when the test is over.
func Schema(t testing.TB) string {
	t.Helper()
	name := Name("test")
	URL(t)
	t.Cleanup(func() { Exec(t, `DROP SCHEMA IF EXISTS `+name+` CASCADE`) })
	return name
}

// Connect gives a connection of the superuser's that lasts as long as the test.
func Connect(t testing.TB) *pgx.Conn {
	t.Helper()
	return ConnectTo(t, URL(t))
}

// ConnectTo gives a connection that lasts as long as the test.
func ConnectTo(t testing.TB, url string) *pgx.Conn {
	t.Helper()
	conn, end := Connection(t, url)
	t.Cleanup(end)
	return conn
}

// Connection gives a connection, and what closes it: a test that makes many calls would else use up the server's.
func Connection(t testing.TB, url string) (conn *pgx.Conn, end func()) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	return conn, func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		_ = conn.Close(ctx) // it is closed in any case
	}
}

// Ahead is how far the server's clock is ahead of the local one.
func Ahead(t testing.TB) time.Duration {
	t.Helper()
	conn, end := Connection(t, URL(t))
	defer end()
	return AheadOn(t, conn)
}

// AheadOn is Ahead, asked on a connection that is there.
func AheadOn(t testing.TB, conn *pgx.Conn) time.Duration {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	var now time.Time
	require.NoError(t, conn.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now))
	return time.Until(now)
}

// Exec runs a script as the superuser, on a connection of its own.
func Exec(t testing.TB, script string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	conn, err := pgx.Connect(ctx, URL(t))
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(ctx)) }()
	_, err = conn.Exec(ctx, script)
	require.NoError(t, err, script)
}

// Role makes a role that may log in and has what the script grants it, and returns a URL that connects as it. Roles
// belong to the whole server, so it has a random name; it is dropped when the test is over.
func Role(t testing.TB, grants func(role string) string) (asRole string) {
	t.Helper()
	role, asRole := NewRole(t, grants)
	t.Cleanup(func() { Exec(t, `DROP OWNED BY `+role+`; DROP ROLE `+role) })
	return asRole
}

// NewRole is Role for one that outlives the test: the caller drops it.
func NewRole(t testing.TB, grants func(role string) string) (role, asRole string) {
	t.Helper()
	u, err := url.Parse(URL(t))
	require.NoError(t, err)
	role, password := Name("app"), rand.Text()
	Exec(t, `CREATE ROLE `+role+` LOGIN PASSWORD '`+password+`'`)
	Exec(t, grants(role))
	u.User = url.UserPassword(role, password)
	return role, u.String()
}
