package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
)

// asked asks for a lease on a connection or in a transaction; 0: another holds it.
func (h *harness) asked(t *testing.T, on interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, name, holder, ttl string,
) int64 {
	t.Helper()
	var fence *int64
	require.NoError(t, on.QueryRow(t.Context(), h.q(`SELECT SCHEMA.acquire($1, $2, $3::text::interval)`), name, holder, ttl).Scan(&fence))
	if fence == nil {
		return 0
	}
	return *fence
}

// watched opens a session that vouches for the server's clock.
func (h *harness) watched(t *testing.T) {
	t.Helper()
	session, err := h.Join(t.Context(), someAgent())
	require.NoError(t, err)
	_, err = h.Present(t.Context(), store.Heartbeat{Session: session, Agent: someAgent(), View: func() store.View {
		return store.View{Now: h.Now(), Calm: someAgent().Presence}
	}})
	require.NoError(t, err)
}

func begin(t *testing.T, conn *pgx.Conn) pgx.Tx {
	t.Helper()
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) })
	return tx
}

// TestNamedLeasesGoByTheServersClock: not by the beginning of the transaction, which may have been long ago.
func TestNamedLeasesGoByTheServersClock(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	old := begin(t, pgtest.ConnectTo(t, h.asApp))
	first := h.asked(t, old, "first", "me", "1s")
	require.Positive(t, first)
	_, err := old.Exec(t.Context(), `SELECT pg_sleep(1.2)`)
	require.NoError(t, err)
	second := h.asked(t, old, "second", "me", "1m")
	var left []bool
	require.NoError(t, old.QueryRow(t.Context(), h.q(`SELECT array_agg(l.expires_at > clock_timestamp() ORDER BY l.name)
		FROM SCHEMA.leases AS l`)).Scan(&left))
	require.Equal(t, []bool{false, true}, left)
	var until time.Time
	require.NoError(t, old.QueryRow(t.Context(), h.q(`SELECT SCHEMA.renew_lease('first', $1)`), first).Scan(&until))
	require.WithinDuration(t, h.Now().Add(time.Second), until, 900*time.Millisecond)
	require.NoError(t, old.Commit(t.Context()))
	h.watched(t)

	late := begin(t, pgtest.ConnectTo(t, h.asApp)) // it begins before the lease expires
	require.Zero(t, h.asked(t, late, "second", "you", "1m"))
	h.Advance(t, 2*time.Minute)
	h.watched(t)
	require.Greater(t, h.asked(t, late, "second", "you", "1m"), second)
}

// TestALeaseThatIsBeingTakenIsWaitedForBriefly: by others that ask, and it is theirs if that transaction fails.
func TestALeaseThatIsBeingTakenIsWaitedForBriefly(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	first, second := pgtest.ConnectTo(t, h.asApp), pgtest.ConnectTo(t, h.asApp)
	tx := begin(t, first)
	drawn := h.asked(t, tx, "reindex", "me", "1m")
	began := time.Now()
	require.Zero(t, h.asked(t, second, "reindex", "you", "1m"), "a new name")
	require.WithinRange(t, time.Now(), began.Add(900*time.Millisecond), began.Add(5*time.Second))
	require.NoError(t, tx.Rollback(t.Context()))
	next := h.asked(t, second, "reindex", "you", "1m")
	require.Greater(t, next, drawn, "no number is drawn twice, not even one that was never committed")

	h.Advance(t, time.Hour)
	h.watched(t)
	tx = begin(t, first)
	taken := h.asked(t, tx, "reindex", "me", "1m")
	require.Greater(t, taken, next)
	began = time.Now()
	require.Zero(t, h.asked(t, second, "reindex", "they", "1m"), "one that has expired")
	require.Less(t, time.Since(began), 900*time.Millisecond, "this is not waited for")
	require.NoError(t, tx.Rollback(t.Context()))
	require.Greater(t, h.asked(t, second, "reindex", "they", "1m"), taken)

	tx = begin(t, first)
	_, err := tx.Exec(t.Context(), h.q(`SELECT SCHEMA.renew_lease('reindex', l.fence) FROM SCHEMA.leases AS l`))
	require.NoError(t, err)
	require.Zero(t, h.asked(t, second, "reindex", "they", "1m"), "its holder, while a renewal is not committed")
	require.NoError(t, tx.Commit(t.Context()))
	require.Positive(t, h.asked(t, second, "reindex", "they", "1m"))
}

// TestAHeldLeaseIsReleasedLater: a release waits for the transaction that holds the lease, but not for ever.
func TestAHeldLeaseIsReleasedLater(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	first, second := pgtest.ConnectTo(t, h.asApp), pgtest.ConnectTo(t, h.asApp)
	fence := h.asked(t, first, "reindex", "me", "1m")
	tx := begin(t, first)
	_, err := tx.Exec(t.Context(), h.q(`SELECT SCHEMA.hold_lease('reindex', $1)`), fence)
	require.NoError(t, err)
	_, err = second.Exec(t.Context(), h.q(`SELECT SCHEMA.release_lease('reindex', $1)`), fence)
	refusal, ok := errors.AsType[*pgconn.PgError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, "55P03", refusal.Code)
	_, err = second.Exec(t.Context(), h.q(`SELECT SCHEMA.hold_lease('reindex', $1)`), fence)
	require.NoError(t, err, "two transactions of the holder may hold it")
	require.NoError(t, tx.Commit(t.Context()))
	_, err = second.Exec(t.Context(), h.q(`SELECT SCHEMA.release_lease('reindex', $1)`), fence)
	require.NoError(t, err)
}

// TestLostNamedLeasesAreExplained: the error names who has the lease, and until when.
func TestLostNamedLeasesAreExplained(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	app := pgtest.ConnectTo(t, h.asApp)
	refusals := func(fence int64, pattern string) {
		t.Helper()
		for _, f := range []string{"renew_lease", "hold_lease", "release_lease"} {
			_, err := app.Exec(t.Context(), h.q(`SELECT SCHEMA.`+f+`('reindex', $1)`), fence)
			refusal, ok := errors.AsType[*pgconn.PgError](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, "LH410", refusal.Code)
			require.Regexp(t, "^"+pattern+`, and is not held with fence \d+ any more: stop, and commit nothing$`, refusal.Message)
		}
	}
	refusals(1, `lease "reindex" is free`)
	fence := h.asked(t, app, "reindex", "me", "1m")
	refusals(99, `lease "reindex" is held by "me" with fence 1 until `+atMillisecond)
	h.Advance(t, time.Hour)
	h.watched(t)
	refusals(fence, `lease "reindex" of "me" expired at `+atMillisecond)
	require.Positive(t, h.asked(t, app, "reindex", "you", "1m"))
	refusals(fence, `lease "reindex" is held by "you" with fence 2 until `+atMillisecond)
	_, err := app.Exec(t.Context(), h.q(`SELECT SCHEMA.renew_lease(NULL, NULL)`))
	require.ErrorContains(t, err, "LH410")
}

const atMillisecond = `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z`

// TestBadNamedLeasesAreRefused tries what only SQL can say.
func TestBadNamedLeasesAreRefused(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	app := pgtest.ConnectTo(t, h.asApp)
	for call, reason := range map[string]string{
		`acquire(NULL, 'me', '30s')`:                        "name must be 1 to 255 bytes",
		`acquire('', 'me', '30s')`:                          "name must be 1 to 255 bytes",
		`acquire(repeat('x', 10240), 'me', '30s')`:          "name must be 1 to 255 bytes",
		`acquire('a', NULL, '30s')`:                         "holder must be 1 to 255 bytes",
		`acquire('a', repeat('ü', 128), '30s')`:             "holder must be 1 to 255 bytes",
		`acquire('a', 'me', NULL)`:                          "ttl must be 1 second to 1 day",
		`acquire('a', 'me', '-30s')`:                        "ttl must be 1 second to 1 day",
		`acquire('a', 'me', '0.999s')`:                      "ttl must be 1 second to 1 day",
		`acquire('a', 'me', '1 day 1 microsecond')`:         "ttl must be 1 second to 1 day",
		`acquire('a', 'me', '1 mon')`:                       "ttl must be 1 second to 1 day",
		`acquire('a', 'me', '100000000 years')`:             "ttl must be 1 second to 1 day",
		`acquire('a', 'me', '-100000000 years')`:            "ttl must be 1 second to 1 day",
		`acquire('a', 'me', 'infinity')`:                    "i", // PostgreSQL 17 knows it, and others refuse the text
		`acquire('a', 'me', '-infinity')`:                   "i",
		`acquire(E'a\000b', 'me', '30s')`:                   "invalid byte sequence",
		`acquire('a', 'me', '30s'::text)`:                   "does not exist",
		`renew_lease('a', 9223372036854775807)`:             "is free",
		`hold_lease(repeat('x', 10240), -1)`:                "is free",
		`release_lease('%s %I {schema}', 1)`:                `lease "%s %I {schema}" is free`,
		`acquire('a', 'me', interval '1 mon -30 days')`:     "ttl must be 1 second to 1 day",
		`acquire('a', 'me', interval '-1 mon 32 days 1 s')`: "ttl must be 1 second to 1 day",
	} {
		_, err := app.Exec(t.Context(), h.q(`SELECT SCHEMA.`+call))
		require.ErrorContains(t, err, reason, call)
	}
	require.Zero(t, h.number(t, `SELECT count(*) FROM SCHEMA.lease`))
	// A day has 24 hours, whatever the session's time zone does that night.
	_, err := app.Exec(t.Context(), `SET timezone = 'Europe/Berlin'`)
	require.NoError(t, err)
	require.Positive(t, h.asked(t, app, "a", "me", "1 day"))
	require.EqualValues(t, 1, h.number(t, `SELECT count(*) FROM SCHEMA.lease WHERE ttl::text = '24:00:00'`))
}

// TestNamedLeasesAreFlushed: a session that has turned synchronous_commit off must not be told of a lease that a crash takes
// back, and with it the fence.
func TestNamedLeasesAreFlushed(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for _, set := range []string{"off", "local", "on"} {
		conn := pgtest.ConnectTo(t, h.asApp)
		_, err := conn.Exec(t.Context(), `SET synchronous_commit = `+set)
		require.NoError(t, err)
		want := set
		if set == "off" {
			want = "on"
		}
		var got string
		tx := begin(t, conn)
		fence := h.asked(t, tx, set, "me", "1m")
		require.NoError(t, tx.QueryRow(t.Context(), `SHOW synchronous_commit`).Scan(&got))
		require.Equal(t, want, got)
		require.NoError(t, tx.Commit(t.Context()))
		require.NoError(t, conn.QueryRow(t.Context(), `SHOW synchronous_commit`).Scan(&got))
		require.Equal(t, set, got, "only in that transaction")
		tx = begin(t, conn)
		_, err = tx.Exec(t.Context(), h.q(`SELECT SCHEMA.renew_lease($1, $2)`), set, fence)
		require.NoError(t, err)
		require.NoError(t, tx.QueryRow(t.Context(), `SHOW synchronous_commit`).Scan(&got))
		require.Equal(t, want, got)
	}
}

// TestNamedLeasesReadNoTable calls the functions where there are many leases, and renewals are heap-only.
func TestNamedLeasesReadNoTable(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	h.watched(t)
	h.exec(t, `INSERT INTO SCHEMA.lease (name, holder, ttl, acquired_at, expires_at)
		SELECT 'lease ' || n, 'holder', '1 minute', now() - n % 40 * interval '1 day', now() + interval '1 minute'
		FROM generate_series(1, 20000) AS n; ANALYZE SCHEMA.lease`)
	conn := pgtest.Connect(t)
	for range 7 { // past the fifth, plans are kept
		tx := begin(t, conn)
		for _, call := range []string{
			`acquire('lease 7', 'holder', '1 minute')`, `acquire('lease 8', 'another', '1 minute')`,
			`acquire('a new one', 'holder', '1 minute')`, `renew_lease('lease 9', 9)`, `hold_lease('lease 9', 9)`,
			`release_lease('lease 9', 9)`,
		} {
			_, err := tx.Exec(t.Context(), h.q(`SELECT SCHEMA.`+call))
			require.NoError(t, err, call)
		}
		var read []string
		require.NoError(t, tx.QueryRow(t.Context(), h.q(`SELECT coalesce(array_agg(relname::text), '{}') FROM pg_stat_xact_user_tables
			WHERE schemaname = 'SCHEMA' AND seq_scan > 0 AND relname = 'lease'`)).Scan(&read))
		require.Empty(t, read)
		require.NoError(t, tx.Rollback(t.Context()))
	}
	tx := begin(t, pgtest.Connect(t)) // a new connection: the counters begin at 0
	_, err := tx.Exec(t.Context(), h.q(`SELECT SCHEMA.renew_lease('lease ' || n, n) FROM generate_series(100, 20000, 200) AS n`))
	require.NoError(t, err)
	var hot int
	require.NoError(t, tx.QueryRow(t.Context(), h.q(`SELECT n_tup_hot_upd FROM pg_stat_xact_user_tables
		WHERE relid = 'SCHEMA.lease'::regclass`)).Scan(&hot))
	require.Equal(t, 100, hot)
	// Of those that are old, bounded steps remove what has expired.
	require.NoError(t, tx.Rollback(t.Context()))
	h.exec(t, `UPDATE SCHEMA.lease SET expires_at = acquired_at + interval '1 minute' WHERE acquired_at < now() - interval '1 hour'`)
	h.watched(t)
	_, err = h.Maintain(t.Context(), week)
	require.NoError(t, err)
	require.EqualValues(t, 4000, h.number(t, `SELECT count(*) FROM SCHEMA.lease`), "8 days of 40")
	require.Zero(t, h.number(t, `SELECT count(*) FROM SCHEMA.lease WHERE fence IS NULL`))
}
