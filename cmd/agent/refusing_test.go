package main

import (
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
)

// setRefusing names stores that refuse every connection with their URL, each for another reason.
func setRefusing(t *testing.T, env *testscript.Env, store string) {
	t.Helper()
	variant := func(change func(*url.URL)) string {
		u, err := url.Parse(store)
		require.NoError(t, err)
		change(u)
		return u.String()
	}
	env.Setenv("NO_DATABASE", variant(func(u *url.URL) { u.Path = "/leasehold_nowhere" }))
	env.Setenv("NO_ROLE", variant(func(u *url.URL) { u.User = url.User("leasehold_nobody") }))
	env.Setenv("NO_TLS", variant(func(u *url.URL) { u.RawQuery = "sslmode=require" }))
	env.Setenv("NO_PRIVILEGE", pgtest.Role(t, func(role string) string {
		env.Setenv("ROLE", role)                    // its name
		return `GRANT pg_read_all_stats TO ` + role // doctor misses nothing then
	}))
	env.Setenv("NO_PASSWORD", "postgres://app:geheim@"+passwordRefused(t)+"/app?sslmode=disable")
}

// passwordRefused is the address of a server that accepts no password: the test server asks for none.
func passwordRefused(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() { // ends with the listener
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
			refusePassword(conn)
		}
	}()
	return l.Addr().String()
}

func refusePassword(conn net.Conn) {
	defer func() { _ = conn.Close() }() // the client has its answer
	b := pgproto3.NewBackend(conn, conn)
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return
	}
	b.Send(&pgproto3.AuthenticationCleartextPassword{})
	if b.Flush() != nil || b.SetAuthType(pgproto3.AuthTypeCleartextPassword) != nil {
		return
	}
	if _, err := b.Receive(); err != nil {
		return
	}
	b.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "28P01", Message: "password authentication failed"})
	_ = b.Flush()
}
