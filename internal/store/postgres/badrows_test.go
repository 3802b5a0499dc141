package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
)

// Only a superuser can insert such rows, and most only without the table's checks: one bad row costs no other row anything.
func TestABadRowHarmsNoOther(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	h.exec(t, `ALTER TABLE SCHEMA.task DROP CONSTRAINT "fence must be between 0 and 2^62",
		DROP CONSTRAINT "payload must be 1 MiB at most: see migrate --max-payload",
		DROP CONSTRAINT "columns must be within their bounds"`)
	for columns, values := range map[string]string{
		"fence": "9223372036854775807", "fence, session": "-9223372036854775808, 1", "attempt": "2147483647",
		"attempt, session": "-2147483648, 1", "deferrals": "2147483647", "max_attempts": "-2147483648", "deadline": "'infinity'",
		"created_at": "'-infinity'", "fence, batch_id": "1, 4711", "payload": `to_jsonb(repeat('x', 70000000))`,
	} {
		h.exec(t, fmt.Sprintf("INSERT INTO SCHEMA.task (type, %s) VALUES ('%s', %s)", columns, "a", values))
	}
	good := h.Insert(t, store.EnqueueRequest{Type: "a"})[0]
	a := joined(t, h)
	rows, err := a.Claim(t.Context(), store.Claim{Session: a.session, Number: 77, Bytes: 100 << 20, Wants: []store.Want{wantOf(100)}})
	require.NoError(t, err)
	require.Len(t, rows, 11)
	unfit := 0
	for _, r := range rows {
		require.Positive(t, r.Fence)
		require.LessOrEqual(t, r.Attempt, 1_000_001)
		if r.Unfit != "" {
			unfit++
			require.Less(t, len(r.Payload), 1000, "it is not read")
		}
		require.False(t, r.ID == good && r.Unfit != "")
	}
	require.Equal(t, 2, unfit, "the highest fence, and the payload")
	back, err := a.Claimed(t.Context(), a.session, 77)
	require.NoError(t, err)
	require.Len(t, back, 11)
}

func TestBoundsOfAnInsert(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	insert := func(url, columns, values string) error {
		_, err := pgtest.ConnectTo(t, url).Exec(t.Context(), h.q(fmt.Sprintf("INSERT INTO SCHEMA.task (type, %s) VALUES ('a', %s)", columns, values)))
		return err
	}
	const large = `to_jsonb(repeat('x', 1100000))`
	require.ErrorContains(t, insert(h.asApp, "payload", large), "payload must be 1 MiB at most")
	require.ErrorContains(t, insert(h.asApp, "rollback_payload", large), "rollback_payload must be 1 MiB at most")
	require.ErrorContains(t, insert(h.asApp, "fence, payload", "1, "+large), "permission denied", "no application gets around it")
	require.ErrorContains(t, insert(pgtest.URL(t), "fence", "9223372036854775807"), "fence must be between 0 and 2^62")
	_, err := pgtest.ConnectTo(t, h.asApp).Exec(t.Context(), h.q("SELECT SCHEMA.set_max_payload(67108864)"))
	require.ErrorContains(t, err, "permission denied")

	require.NoError(t, h.Migrator().SetMaxPayload(t.Context(), 8<<20))
	require.NoError(t, insert(h.asApp, "payload", large))
	require.NoError(t, h.Migrator().SetMaxPayload(t.Context(), 128<<10))
	require.NoError(t, h.Migrator().SetMaxPayload(t.Context(), 128<<10), "again")
	require.ErrorContains(t, insert(h.asApp, "payload", large), "payload must be 128 KiB at most")
	got, err := h.Migrator().MaxPayload(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 128<<10, got)
	_, _, err = h.Enqueue(t.Context(), store.EnqueueRequest{Type: "a", Payload: []byte(`"` + fmt.Sprintf("%0200000d", 0) + `"`)})
	require.ErrorContains(t, err, "migrate --max-payload 8MiB")

	// The row that is larger than the present bound is claimed, cancelled and retried.
	for _, text := range []string{"UPDATE SCHEMA.task SET state = 'running', fence = fence + 1", "UPDATE SCHEMA.task SET state = 'pending'",
		"SELECT SCHEMA.cancel(id) FROM SCHEMA.task", "SELECT SCHEMA.retry(id) FROM SCHEMA.task_archive"} {
		h.exec(t, text)
	}
	require.EqualValues(t, 1, h.number(t, "SELECT count(*) FROM SCHEMA.task WHERE state = 'pending'"))

	conn := pgtest.Connect(t)
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), h.q("SELECT FROM SCHEMA.task"))
	require.NoError(t, err)
	start := time.Now()
	require.ErrorContains(t, h.Migrator().SetMaxPayload(t.Context(), 1<<20), "another transaction keeps the table")
	require.Less(t, time.Since(start), 30*time.Second)
	require.NoError(t, tx.Rollback(t.Context()))
}
