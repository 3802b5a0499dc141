package postgres_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store/postgres"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
	servers "github.com/leasehold/leasehold/test/harness"
)

// TestDoctorOnAServerOfItsOwn makes real what concerns all of a server, and would be found by other tests on it. Each remedy is carried out.
func TestDoctorOnAServerOfItsOwn(t *testing.T) {
	t.Parallel()
	server := servers.NewCluster(t)
	conn := pgtest.ConnectTo(t, server.URL)
	do(t, conn, `ALTER SYSTEM SET max_prepared_transactions = 4`, `ALTER SYSTEM SET max_connections = 20`)
	require.NoError(t, server.TryRestart("fast"))
	conn = pgtest.ConnectTo(t, server.URL)
	s := openStore(t, postgres.Options{URL: server.URL})
	_, err := s.Migrator().Up(t.Context())
	require.NoError(t, err)
	_, err = s.Maintain(t.Context(), week)
	require.NoError(t, err)

	for name, test := range map[string]func(t *testing.T, url string, conn *pgx.Conn, s *postgres.Store){
		"prepared transaction": preparedTransaction, "slot": unusedSlot, "slot and log": slotKeepsLog,
		"autovacuum": autovacuumOff, "connections": connectionsUsed,
	} {
		t.Run(name, func(t *testing.T) { test(t, server.URL, conn, s) })
	}
}

// do runs statements one by one, as ALTER SYSTEM has to be.
func do(t *testing.T, conn *pgx.Conn, statements ...string) {
	t.Helper()
	for _, text := range statements {
		_, err := conn.Exec(t.Context(), text)
		require.NoError(t, err, text)
	}
}

func preparedTransaction(t *testing.T, _ string, conn *pgx.Conn, s *postgres.Store) {
	const name = "oldest_transaction"
	at := ops.DoctorOptions{OldestTransaction: time.Microsecond}
	require.Empty(t, findings(t, s, at, name))
	do(t, conn, `BEGIN`, `INSERT INTO leasehold.task (type) VALUES ('a')`, `PREPARE TRANSACTION 'it''s'`)
	require.Empty(t, findings(t, s, patient(), name))
	found := findings(t, s, at, name)
	require.Len(t, found, 1)
	require.Equal(t, ops.Problem, found[0].Severity)
	require.Equal(t, "it's", found[0].About)
	require.Contains(t, found[0].What, "the prepared transaction it's of postgres is open since")
	_, rollback, ok := strings.Cut(found[0].Remedy, "; or ")
	require.True(t, ok)
	do(t, conn, rollback)
	require.Empty(t, findings(t, s, at, name))
}

// A standby that reports its oldest query has its slot keep rows on the primary; it goes on doing so when the standby is gone.
func unusedSlot(t *testing.T, at string, conn *pgx.Conn, s *postgres.Store) {
	const name = "replication_slot"
	do(t, conn, `SELECT pg_create_physical_replication_slot('standby_1', true)`)
	require.Empty(t, findings(t, s, patient(), name), "it keeps no rows yet")
	config, err := pgconn.ParseConfig(at)
	require.NoError(t, err)
	config.RuntimeParams["replication"] = "true"
	standby, err := pgconn.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	defer func() { _ = standby.Close(t.Context()) }()
	send := func(m pgproto3.FrontendMessage) {
		standby.Frontend().Send(m)
		require.NoError(t, standby.Frontend().Flush())
	}
	var now string
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT pg_current_wal_flush_lsn()::text`).Scan(&now))
	send(&pgproto3.Query{String: `START_REPLICATION SLOT standby_1 PHYSICAL ` + now})
	m, err := standby.ReceiveMessage(t.Context())
	require.NoError(t, err)
	require.IsType(t, &pgproto3.CopyBothResponse{}, m)
	var oldest uint32
	require.NoError(t, conn.QueryRow(t.Context(), `SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint`).Scan(&oldest))
	feedback := append([]byte{'h'}, make([]byte, 24)...) // hot standby feedback: time, xmin and its epoch, catalog_xmin and its epoch
	binary.BigEndian.PutUint32(feedback[9:], oldest)
	send(&pgproto3.CopyData{Data: feedback})
	kept := func() (xmin, active bool) {
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT xmin IS NOT NULL, active FROM pg_replication_slots`).Scan(&xmin, &active))
		return xmin, active
	}
	require.Eventually(t, func() bool { xmin, _ := kept(); return xmin }, soon, 20*time.Millisecond)
	require.Empty(t, findings(t, s, patient(), name), "the standby is there, and not behind")
	require.NoError(t, standby.Close(t.Context()))
	require.Eventually(t, func() bool { _, active := kept(); return !active }, soon, 20*time.Millisecond)
	found := findings(t, s, patient(), name)
	require.Len(t, found, 1)
	require.Equal(t, "no standby uses replication slot standby_1, which keeps dead rows of all tables", found[0].What)
	_, drop, ok := strings.Cut(found[0].Remedy, ", or ")
	require.True(t, ok)
	do(t, conn, drop)
	require.Empty(t, findings(t, s, patient(), name))
}

// A slot that no one uses keeps the log from when it was made, whether it keeps rows or not.
func slotKeepsLog(t *testing.T, _ string, conn *pgx.Conn, s *postgres.Store) {
	const name = "replication_slot"
	do(t, conn, `ALTER SYSTEM SET max_wal_size = '32MB'`, `SELECT pg_reload_conf()`, `SELECT pg_create_physical_replication_slot('gone', true)`)
	require.Empty(t, findings(t, s, patient(), name), "it keeps little yet")
	for range 6 {
		do(t, conn, `SELECT pg_logical_emit_message(false, 'test', 'text')`, `SELECT pg_switch_wal()`)
	}
	require.Eventually(t, func() bool { return len(findings(t, s, patient(), name)) == 1 }, soon, 20*time.Millisecond)
	found := findings(t, s, patient(), name)[0]
	require.Equal(t, ops.Problem, found.Severity)
	require.Regexp(t, `^nothing uses replication slot gone, which keeps [0-9.]+ MiB of the write-ahead log: the disk fills up$`, found.What)
	require.Contains(t, found.Remedy, "max_slot_wal_keep_size")

	do(t, conn, `ALTER SYSTEM SET max_slot_wal_keep_size = '16MB'`, `SELECT pg_reload_conf()`)
	require.Eventually(t, func() bool {
		do(t, conn, `SELECT pg_logical_emit_message(false, 'test', 'text')`, `SELECT pg_switch_wal()`, `CHECKPOINT`)
		f := findings(t, s, patient(), name)
		return len(f) == 1 && f[0].Severity == ops.Notice
	}, soon, 20*time.Millisecond)
	found = findings(t, s, patient(), name)[0]
	require.Equal(t, "replication slot gone has lost the write-ahead log that it needs: nothing can use it any more", found.What)
	do(t, conn, found.Remedy)
	require.Empty(t, findings(t, s, patient(), name))
	do(t, conn, `ALTER SYSTEM RESET max_slot_wal_keep_size`, `ALTER SYSTEM RESET max_wal_size`, `SELECT pg_reload_conf()`)
}

func autovacuumOff(t *testing.T, _ string, conn *pgx.Conn, s *postgres.Store) {
	const name = "autovacuum"
	require.Empty(t, findings(t, s, patient(), name))
	do(t, conn, `ALTER SYSTEM SET autovacuum = off`, `SELECT pg_reload_conf()`)
	require.Eventually(t, func() bool { return len(findings(t, s, patient(), name)) == 1 }, soon, 20*time.Millisecond)
	found := findings(t, s, patient(), name)[0]
	require.Equal(t, "autovacuum is off on the server: dead rows stay, and claims get slower", found.What)
	do(t, conn, strings.Split(found.Remedy, "; ")...)
	require.Eventually(t, func() bool { return len(findings(t, s, patient(), name)) == 0 }, soon, 20*time.Millisecond)
}

// Of 20 connections three are the superusers' own, and 16 of the others are nine in ten.
func connectionsUsed(t *testing.T, at string, conn *pgx.Conn, s *postgres.Store) {
	const name, most, full = "connections", 17, 16
	require.Empty(t, findings(t, s, patient(), name))
	used := func() (n int) {
		require.NoError(t, conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'`).Scan(&n))
		return n
	}
	for used() < full {
		pgtest.ConnectTo(t, at)
	}
	found := findings(t, s, patient(), name)
	require.Len(t, found, 1)
	require.Regexp(t, fmt.Sprintf(`^\d+ of the %d connections are in use that the server allows \(max_connections\)$`, most), found[0].What)
}

// TestDoctorFindsOldServers has a server say that it is PostgreSQL 13: there is none to test on.
func TestDoctorFindsOldServers(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	require.Empty(t, findings(t, h.Store, patient(), "server_version"))
	var version uint32
	require.NoError(t, pgtest.Connect(t).QueryRow(t.Context(), `SELECT current_setting('server_version_num')::bigint`).Scan(&version))
	said := binary.BigEndian.AppendUint32(nil, version)
	p := (&proxy{message: func(kind byte, body []byte) (bool, error) {
		if at := bytes.Index(body, said); kind == 'D' && at >= 0 {
			binary.BigEndian.PutUint32(body[at:], 130_011)
		}
		return true, nil
	}}).start(t)
	found := findings(t, openStore(t, postgres.Options{URL: p.URL, Schema: h.schema}), patient(), "server_version")
	require.Len(t, found, 1)
	require.Equal(t, "the server is PostgreSQL 13", found[0].What)
}
