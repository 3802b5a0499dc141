package sqlite

import (
	"database/sql"
	"errors"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

const leaseLost = "the lease is not held with this fence any more: stop, and commit nothing"

// leases is all that there is of named leases.
func (h *harness) leases(t *testing.T) (all []string) {
	t.Helper()
	rows, err := h.app.QueryContext(t.Context(), `SELECT quote(name) || quote(holder) || quote(ttl_s) || fence || acquired_at || expires_at
		|| quote(expiry_seen_at) FROM lease ORDER BY fence`)
	require.NoError(t, err)
	require.NoError(t, eachRow(rows, func(r *sql.Rows) error {
		var text string
		err := r.Scan(&text)
		all = append(all, text)
		return err
	}))
	return all
}

func TestTheViewsOfLeasesRefuse(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	require.NoError(t, h.exec(t, "INSERT INTO acquire (name, holder, ttl_s) VALUES ('a', 'me', 60)"))
	const (
		acquire   = "acquire (name, holder, ttl_s)"
		badName   = "name must be text of 1 to 255 bytes, none of them 0"
		badHolder = "holder must be text of 1 to 255 bytes, none of them 0"
		badTTL    = "ttl_s must be a number of seconds, 1 to 86400"
	)
	before := h.leases(t)
	for _, c := range []struct {
		into    string
		values  []any
		message string
	}{
		{acquire, []any{nil, "me", 60}, badName},
		{acquire, []any{"", "me", 60}, badName},
		{acquire, []any{7, "me", 60}, badName},
		{acquire, []any{[]byte("a"), "me", 60}, badName},
		{acquire, []any{"a\x00", "me", 60}, badName},
		{acquire, []any{strings.Repeat("x", 10<<10), "me", 60}, badName},
		{acquire, []any{"b", nil, 60}, badHolder},
		{acquire, []any{"b", "", 60}, badHolder},
		{acquire, []any{"b", "\x00me", 60}, badHolder},
		{acquire, []any{"b", strings.Repeat("ü", 128), 60}, badHolder},
		{acquire, []any{"b", "me", nil}, badTTL},
		{acquire, []any{"b", "me", -60}, badTTL},
		{acquire, []any{"b", "me", 0}, badTTL},
		{acquire, []any{"b", "me", 0.999}, badTTL},
		{acquire, []any{"b", "me", 86400.001}, badTTL},
		{acquire, []any{"b", "me", math.MaxInt64}, badTTL},
		{acquire, []any{"b", "me", math.Inf(1)}, badTTL},
		{acquire, []any{"b", "me", math.Inf(-1)}, badTTL},
		{acquire, []any{"b", "me", math.NaN()}, badTTL},
		{acquire, []any{"b", "me", "30s"}, badTTL},
		{acquire, []any{"b", "me", "60 seconds"}, badTTL},
		{acquire, []any{"b", "me", "infinity"}, badTTL},
		{acquire, []any{"b", "me", "9e999"}, badTTL},
		{acquire, []any{"b", "me", "[60]"}, badTTL},
		{acquire, []any{"b", "me", "true"}, badTTL},
		{acquire, []any{"b", "me", []byte("60")}, badTTL},
		{"acquire (name, holder)", []any{"b", "me"}, badTTL},
		{"renew_lease (name, fence)", []any{"a", 2}, leaseLost},
		{"renew_lease (name, fence)", []any{"a", nil}, leaseLost},
		{"renew_lease (name, fence)", []any{nil, 1}, leaseLost},
		{"renew_lease (name)", []any{"a"}, leaseLost},
		{"release_lease (name, fence)", []any{"A", 1}, leaseLost},
		{"release_lease (name, fence)", []any{"a", "1 OR 1"}, leaseLost},
		{"release_lease (fence)", []any{1}, leaseLost},
		{"hold_lease (name, fence)", []any{"a", 1.5}, leaseLost},
		{"hold_lease (name, fence)", []any{"a", []byte("1")}, leaseLost},
		{"hold_lease (name, fence)", []any{"b", 1}, leaseLost},
	} {
		err := h.exec(t, "INSERT INTO "+c.into+" VALUES (?"+strings.Repeat(", ?", len(c.values)-1)+")", c.values...)
		require.ErrorContains(t, err, c.message, "%s %.80v", c.into, c.values)
		require.Equal(t, c.message, refused(err).Text)
		require.Equal(t, before, h.leases(t), "%s %.80v", c.into, c.values)
	}
	require.Error(t, h.exec(t, "INSERT INTO acquire (name, holder, ttl_s) VALUES ('b', 'me', 60), ('c', 'me', 0)"), "all or none")
	require.Equal(t, before, h.leases(t))
	for _, view := range []string{"acquire", "renew_lease", "release_lease", "hold_lease", "lapsed_lease", "leases"} {
		require.ErrorContains(t, h.exec(t, "DELETE FROM "+view), "view")
		require.ErrorContains(t, h.exec(t, "UPDATE "+view+" SET fence = 1"), "view")
	}
}

// Drivers bind numbers as text, and decimal fractions.
func TestTheViewsOfLeasesTakeNumbersAsText(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for _, ttl := range []any{60, 60.0, "60", "60.0", "6e1", " 60 "} {
		require.NoError(t, h.exec(t, "INSERT INTO acquire (name, holder, ttl_s) VALUES ('a', 'me', ?)", ttl))
		require.NoError(t, h.exec(t, "INSERT INTO hold_lease (name, fence) VALUES ('a', '1')"))
		require.NoError(t, h.exec(t, "INSERT INTO renew_lease (name, fence) VALUES ('a', '1')"))
		require.Equal(t, 1, h.count(t, "SELECT count(*) FROM renew_lease WHERE julianday(expires_at) - julianday('now') BETWEEN 59/86400.0 AND 60.1/86400"))
	}
	require.NoError(t, h.exec(t, "INSERT INTO release_lease (name, fence) VALUES ('a', '1')"))
	require.Empty(t, h.leases(t))
}

// The time is that of the statement, however old its transaction.
func TestNamedLeasesGoByTheClock(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	a := h.Begin(t)
	first, err := a.Acquire(t.Context(), "first", "me", time.Second)
	require.NoError(t, err)
	began := time.Now()
	require.Eventually(t, func() bool { return time.Since(began) > 1200*time.Millisecond }, time.Minute, 10*time.Millisecond)
	second, err := a.Acquire(t.Context(), "second", "me", time.Second)
	require.NoError(t, err)
	require.Greater(t, second, first, "it is there to be read, so it lasts from now")
	require.NoError(t, a.RenewLease(t.Context(), "first", first))
	require.NoError(t, a.Commit(t.Context()))
	for _, l := range h.NamedLeases(t) {
		require.Greater(t, l.ExpiresAt, began.Add(2*time.Second), l.Name)
	}
}

// While an application holds a lease, in the one write transaction that there is, another that asks waits and then gets it.
func TestAHeldLeaseIsNotTaken(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	fence := leaseOf(t, h, "reindex", "me")
	a := h.Begin(t)
	require.NoError(t, a.HoldLease(t.Context(), "reindex", fence))
	other, err := sql.Open("sqlite", "file:"+h.path+"?_pragma=busy_timeout(50)")
	require.NoError(t, err)
	defer func() { require.NoError(t, other.Close()) }()
	_, err = other.ExecContext(t.Context(), "INSERT INTO acquire (name, holder, ttl_s) VALUES ('reindex', 'you', 60)")
	require.ErrorContains(t, err, "locked")
	require.NoError(t, a.Rollback(t.Context()))
	require.Equal(t, fence, h.NamedLeases(t)[0].Fence)
}

func leaseOf(t *testing.T, h *harness, name, holder string) (f task.Fence) {
	t.Helper()
	a := h.Begin(t)
	f, err := a.Acquire(t.Context(), name, holder, time.Minute)
	require.NoError(t, err)
	require.NoError(t, a.Commit(t.Context()))
	return f
}

// What looks at one lease looks at no other.
func TestPlansOfLeases(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for range 2 {
		for text, needs := range map[string]string{
			"SELECT 1 FROM lapsed_lease WHERE lapsed_lease.fence = ?":                                                           "SEARCH lease USING INTEGER PRIMARY KEY (rowid=?)",
			"SELECT fence FROM acquire WHERE name = ? AND holder = ?":                                                           "SEARCH lease USING INDEX lease_name (name=?)",
			"SELECT expires_at FROM renew_lease WHERE name = ?":                                                                 "SEARCH lease USING INDEX lease_name (name=?)",
			"UPDATE lease SET ttl_s = 1 WHERE name = ? AND fence IN (SELECT fence FROM lapsed_lease WHERE fence = lease.fence)": "SEARCH lease USING",
		} {
			plan := h.plan(t, text)
			require.Contains(t, plan, needs)
			require.NotContains(t, plan, "SCAN lease", "%s\n%s", text, plan)
		}
		require.NoError(t, h.exec(t, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)
			INSERT INTO acquire (name, holder, ttl_s) SELECT 'lease ' || i, 'me', 60 FROM n`))
		require.NoError(t, h.exec(t, "ANALYZE"))
	}
	h.Advance(t, 8*24*time.Hour)
	session, err := h.Join(t.Context(), store.Agent{Name: "a", Presence: time.Hour})
	require.NoError(t, err)
	_, err = h.Present(t.Context(), store.Heartbeat{Session: session, Agent: store.Agent{Name: "a", Presence: time.Hour}, View: calm})
	require.NoError(t, err)
	for range 4 {
		_, err = h.Maintain(t.Context(), time.Hour)
		require.NoError(t, err)
	}
	require.Zero(t, h.count(t, "SELECT count(*) FROM lease"), "in steps of %d", removeStep)
	require.Positive(t, leaseOf(t, h, "lease 1", "you"))
}

// The block of SQL in docs/named-leases.md that is for SQLite returns what its comments say.
func TestTheGuideToNamedLeases(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/named-leases.md")
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(page), "\n## On SQLite\n")
	_, block, _ := strings.Cut(section, "```sql\n")
	block, _, _ = strings.Cut(block, "```")
	h := newHarness(t)
	conn, err := h.app.Conn(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	said := 0
	for line := range strings.Lines(block) {
		text, comment, _ := strings.Cut(strings.TrimSpace(line), "--")
		want, ok := strings.CutPrefix(strings.TrimSpace(comment), "returns ")
		if !ok {
			_, err := conn.ExecContext(t.Context(), text)
			require.NoError(t, err, line)
			continue
		}
		said++
		want, _, _ = strings.Cut(want, ": ")
		if strings.HasPrefix(text, "SELECT holder,") {
			text = strings.Replace(text, ", fence, acquired_at, expires_at", "", 1)
		}
		got := "null"
		err := conn.QueryRowContext(t.Context(), text).Scan(&got)
		if !errors.Is(err, sql.ErrNoRows) {
			require.NoError(t, err, line)
		}
		require.Equal(t, want, got, line)
	}
	require.Equal(t, 4, said)
}
