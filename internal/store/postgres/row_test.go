package postgres_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
	"github.com/leasehold/leasehold/internal/task"
)

// TestRowsReadTheSameInEveryForm reads a row that has nothing but defaults, and one that has none, as a server sends
// them and as it spells them out.
func TestRowsReadTheSameInEveryForm(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	a := joined(t, h)
	a.Insert(t, store.EnqueueRequest{Type: "a"}, store.EnqueueRequest{
		Type: "a", Payload: []byte(`{"a": [1]}`), Key: "k", Region: "sg", Priority: -3, MaxAttempts: 7, CreatedBy: "c",
		Traceparent: "00-1-2-01", Labels: map[string]string{"x": "y"}, In: -time.Hour,
	})
	h.exec(t, `UPDATE SCHEMA.task SET attempt = 3, deferrals = 2, ever_started = true, outcome = 'failed', error = 'why',
		result = '[1]', deadline = '2100-01-02 03:04:05.678901+00', created_at = '1999-12-31 23:59:59.999999+00' WHERE key = 'k'`)
	for _, region := range []string{"", "sg"} {
		_, err := a.Claim(t.Context(), store.Claim{Session: a.session, Number: 1, Region: region, Wants: []store.Want{wantOf(1)}})
		require.NoError(t, err)
	}
	plain, err := a.Claimed(t.Context(), a.session, 1)
	require.NoError(t, err)
	require.Len(t, plain, 2)
	bare, full := plain[0], plain[1]
	require.Equal(t, task.Task{
		ID: bare.ID, Type: "a", State: task.StateRunning, Fence: 1, Attempt: 1, Payload: []byte(`{}`), Policy: 7,
		CreatedAt: bare.CreatedAt, RunAt: bare.RunAt, ClaimedAt: bare.ClaimedAt, LeaseEnd: bare.ClaimedAt.Add(time.Minute),
	}, bare)
	require.WithinDuration(t, time.Now(), bare.RunAt, time.Hour)
	require.Equal(t, task.Task{
		ID: full.ID, Type: "a", State: task.StateRunning, Fence: 1, Attempt: 4, MaxAttempts: 7, Deferrals: 2, EverStarted: true,
		Payload: []byte(`{"a": [1]}`), Result: []byte(`[1]`), Labels: []byte(`{"x": "y"}`), Key: "k", Region: "sg",
		Priority: -3, Traceparent: "00-1-2-01", CreatedBy: "c", Previous: &task.Previous{Outcome: task.Failed, Error: "why"},
		Policy: 7, CreatedAt: time.Date(1999, 12, 31, 23, 59, 59, 999_999_000, time.UTC), RunAt: full.RunAt,
		ClaimedAt: full.ClaimedAt, LeaseEnd: full.ClaimedAt.Add(time.Minute),
		Deadline: time.Date(2100, 1, 2, 3, 4, 5, 678_901_000, time.UTC),
	}, full)

	spelt := openStore(t, postgres.Options{URL: pgtest.URL(t) + "&default_query_exec_mode=simple_protocol", Schema: h.schema})
	same, err := spelt.Claimed(t.Context(), a.session, 1)
	require.NoError(t, err)
	require.Equal(t, plain, same)
}
