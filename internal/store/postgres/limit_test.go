package postgres_test

import (
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
	"github.com/leasehold/leasehold/internal/task"
)

// limitOf is a limit and a rate of the type that wantOf wants.
func limitOf(most int) store.Agent {
	a := someAgent()
	w := wantOf(1)
	a.Limits = []store.TypeLimit{{Name: w.Type, Types: []string{w.Type}, Most: most, Rate: 100, Burst: 100}}
	return a
}

// TestLimitsThroughAPooler claims rows of a type with a limit through what a pooler leaves of a connection: the two statements of such a
// claim have to be one transaction.
func TestLimitsThroughAPooler(t *testing.T) {
	t.Parallel()
	p := pooler(t)
	for _, mode := range poolerModes() {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			s := openStore(t, postgres.Options{URL: p.URL + "&default_query_exec_mode=" + mode, Schema: h.schema})
			w := wantOf(5)
			h.Insert(t, store.EnqueueRequest{Type: w.Type}, store.EnqueueRequest{Type: w.Type}, store.EnqueueRequest{Type: w.Type})
			session, err := s.Join(t.Context(), limitOf(2))
			require.NoError(t, err)
			for n, want := range []int{2, 0} {
				rooms := map[string]store.Room{}
				rows, err := s.Claim(t.Context(), store.Claim{Session: session, Number: int64(n + 1), Wants: []store.Want{w}, Limited: rooms})
				require.NoError(t, err)
				require.Len(t, rows, want)
				require.Equal(t, map[string]store.Room{w.Type: {Limit: w.Type, Rows: want}}, rooms)
			}
		})
	}
}

// TestARateGoesOnAfterTheClockWasSetBack: what was counted at a time that has not come yet is counted from now on.
func TestARateGoesOnAfterTheClockWasSetBack(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	w := wantOf(5)
	h.Insert(t, store.EnqueueRequest{Type: w.Type}, store.EnqueueRequest{Type: w.Type})
	session, err := h.Join(t.Context(), limitOf(0))
	require.NoError(t, err)
	claim := func(number int64, n int) []task.Task {
		w.N = n
		rows, err := h.Claim(t.Context(), store.Claim{Session: session, Number: number, Wants: []store.Want{w}})
		require.NoError(t, err)
		return rows
	}
	require.Len(t, claim(1, 1), 1)
	h.exec(t, `UPDATE SCHEMA.limit_bucket SET tokens = 0, counted_at = counted_at + interval '1 day'`)
	number := int64(1)
	require.Eventually(t, func() bool { number++; return len(claim(number, 1)) == 1 }, soon, time.Millisecond)
	require.Zero(t, h.number(t, `SELECT count(*) FROM SCHEMA.limit_bucket WHERE counted_at > clock_timestamp()`))
}

// TestAKeptPlaceLastsAsLongAsItsLease: a renewal that commits while the attempt is settled prolongs the place that it keeps, whether or not
// another settlement had noted that place before.
func TestAKeptPlaceLastsAsLongAsItsLease(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	w := wantOf(1)
	h.Insert(t, store.EnqueueRequest{Type: w.Type})
	var session task.Session
	var rows []task.Task
	renewed := 0
	h.Fail(func(point string) error {
		if point != "before the statement" || len(rows) == 0 {
			return nil
		}
		renewed++
		answers, err := h.Renew(t.Context(), session, []store.Renewal{
			{ID: rows[0].ID, Fence: rows[0].Fence, Window: time.Duration(renewed) * time.Hour},
		})
		require.NoError(t, err)
		require.Equal(t, []store.Answer{store.Applied}, answers)
		if renewed == 1 {
			return errors.New("the connection was lost")
		}
		return nil
	})
	var err error
	session, err = h.Join(t.Context(), limitOf(1))
	require.NoError(t, err)
	rows, err = h.Claim(t.Context(), store.Claim{Session: session, Number: 1, Wants: []store.Want{w}})
	require.NoError(t, err)
	end := done(rows[0])
	end.Next.State, end.Next.AfterLease = task.StateFailed, true
	end.Outcome = task.Outcome{Verdict: task.Failed, Error: "it broke", EndUnknown: true}
	_, err = h.Settle(t.Context(), session, []store.Settlement{end})
	require.ErrorContains(t, err, "the connection was lost")
	answers, err := h.Settle(t.Context(), session, []store.Settlement{end})
	require.NoError(t, err)
	require.Equal(t, []store.Answer{store.Applied}, answers)
	require.EqualValues(t, 1, h.number(t, `SELECT count(*) FROM SCHEMA.limit_place WHERE until > now() + interval '90 minutes'`))
	require.EqualValues(t, 1, h.number(t, `SELECT count(*) FROM SCHEMA.limit_place`))
}

// TestAClaimDoesNotWaitLongForALimit: while another transaction has a limit locked, a claim reports that it did not get its turn, takes
// nothing, and takes what there is of other types.
func TestAClaimDoesNotWaitLongForALimit(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	w, other := wantOf(5), wantOf(5)
	other.Type = "beside"
	ids := h.Insert(t, store.EnqueueRequest{Type: w.Type}, store.EnqueueRequest{Type: other.Type})
	session, err := h.Join(t.Context(), limitOf(2))
	require.NoError(t, err)
	conn := pgtest.Connect(t)
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), h.q(`SELECT FROM SCHEMA.type_limit FOR UPDATE`))
	require.NoError(t, err)
	claim := func(number int64) (got []int64, rooms map[string]store.Room) {
		rooms = map[string]store.Room{}
		rows, err := h.Claim(t.Context(), store.Claim{Session: session, Number: number, Wants: []store.Want{w, other}, Limited: rooms})
		require.NoError(t, err)
		for i := range rows {
			got = append(got, int64(rows[i].ID))
		}
		return got, rooms
	}
	began := time.Now()
	got, rooms := claim(1)
	require.Less(t, time.Since(began), 5*time.Second)
	require.Equal(t, []int64{int64(ids[1])}, got)
	require.True(t, rooms[w.Type].Busy)
	require.NoError(t, tx.Commit(t.Context()))
	got, rooms = claim(2)
	require.Equal(t, []int64{int64(ids[0])}, got)
	require.Equal(t, 2, rooms[w.Type].Rows)
}

// TestAClaimSeesWhatTheOneBeforeItTook: a claim that waits for its turn counts what the one before it has taken, although it began earlier.
func TestAClaimSeesWhatTheOneBeforeItTook(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	w := wantOf(5)
	ids := h.Insert(t, store.EnqueueRequest{Type: w.Type}, store.EnqueueRequest{Type: w.Type}, store.EnqueueRequest{Type: w.Type})
	session, err := h.Join(t.Context(), limitOf(1))
	require.NoError(t, err)
	h.exec(t, `ALTER FUNCTION SCHEMA.limit_rooms SET lock_timeout = '20s'`)
	conn := pgtest.Connect(t)
	tx, err := conn.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), h.q(`SELECT FROM SCHEMA.type_limit FOR UPDATE`))
	require.NoError(t, err)
	claimed := make(chan int, 1)
	go func() {
		rows, err := h.Claim(t.Context(), store.Claim{Session: session, Number: 1, Wants: []store.Want{w}})
		if err != nil {
			t.Errorf("claim: %v", err)
		}
		claimed <- len(rows)
	}()
	watch := pgtest.Connect(t)
	require.Eventually(t, func() bool {
		var waits bool
		const blocked = `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE $1::integer = ANY (pg_blocking_pids(pid)))`
		return watch.QueryRow(t.Context(), blocked, conn.PgConn().PID()).Scan(&waits) == nil && waits
	}, 10*time.Second, time.Millisecond)
	_, err = tx.Exec(t.Context(), h.q(`UPDATE SCHEMA.task SET state = 'running', session = 99, claim = 1, fence = 1, limited = type,
		lease_until = now() + interval '1 hour' WHERE id = $1`), pgx.QueryExecModeExec, int64(ids[0]))
	require.NoError(t, err)
	require.NoError(t, tx.Commit(t.Context()))
	require.Zero(t, <-claimed)
}
