package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
	"github.com/leasehold/leasehold/internal/task"
)

func wantOf(n int) store.Want {
	return store.Want{Type: "a", Phase: task.Run, N: n, Window: time.Minute, Policy: 7}
}

// pooler refuses startup parameters as PgBouncer does.
func pooler(t *testing.T) *proxy {
	t.Helper()
	return (&proxy{startup: func(packet []byte) []byte {
		if bytes.Contains(packet, []byte("statement_timeout")) {
			return refusal("08P01", "unsupported startup parameter: statement_timeout")
		}
		return nil
	}}).start(t)
}

// poolerModes are those of pgx that need no prepared statement to outlive a transaction.
func poolerModes() []string {
	return []string{"exec", "cache_describe", "simple_protocol", "describe_exec"}
}

// TestPoolerModes goes a row's whole way through what a pooler leaves of a connection.
func TestPoolerModes(t *testing.T) {
	t.Parallel()
	p := pooler(t)
	for _, mode := range poolerModes() {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			var log lines
			s := openStore(t, postgres.Options{
				URL:    p.URL + "&default_query_exec_mode=" + mode,
				Schema: h.schema,
				Log:    slog.New(slog.NewTextHandler(&log, nil)),
			})
			ctx := t.Context()
			agent := someAgent()
			policy := task.Policy{Timeout: time.Second, Retry: task.Retry{On: task.DefaultOn()}}
			agent.Policies = map[task.PolicyHash]store.NamedPolicy{policy.Hash("a"): {Type: "a", Policy: policy}}
			session, err := s.Join(ctx, agent)
			require.NoError(t, err)
			stored, err := s.Policies(ctx, []task.PolicyHash{policy.Hash("a"), 1})
			require.NoError(t, err)
			require.Equal(t, map[task.PolicyHash]task.Policy{policy.Hash("a"): policy}, stored)
			labels := map[string]string{"x": "y"}
			id, answer, err := s.Enqueue(ctx, store.EnqueueRequest{Type: "a", Payload: []byte(`{"n": 1}`), Labels: labels})
			require.NoError(t, err)
			require.Equal(t, store.EnqueuedInserted, answer)
			rows, err := s.Claim(ctx, store.Claim{Session: session, Number: 1, Region: "sg", Wants: []store.Want{wantOf(5)}})
			require.NoError(t, err)
			require.Len(t, rows, 1)
			require.Equal(t, id, rows[0].ID)
			require.JSONEq(t, `{"n": 1}`, string(rows[0].Payload))
			answers, err := s.Renew(ctx, session, []store.Renewal{{ID: id, Fence: rows[0].Fence, Window: time.Hour}})
			require.NoError(t, err)
			require.Equal(t, []store.Answer{store.Applied}, answers)
			standing, err := s.Present(ctx, store.Heartbeat{Session: session, Agent: agent})
			require.NoError(t, err)
			require.Len(t, standing.Held, 1)
			require.InDelta(t, time.Hour, standing.Held[0].Left, float64(time.Minute))
			standing.Held[0].Left = 0
			require.Equal(t, []store.Held{{ID: id, Fence: rows[0].Fence, Claim: 1}}, standing.Held)
			liveThroughAPooler(t, s, session, rows[0])
			answers, err = s.Settle(ctx, session, []store.Settlement{done(rows[0]), done(rows[0])})
			require.NoError(t, err)
			require.Equal(t, []store.Answer{store.Applied, store.Ended}, answers)
			list, err := s.List(ctx, store.TaskFilter{Type: "a", Labels: labels, States: []task.State{task.StateSucceeded}})
			require.NoError(t, err)
			require.Equal(t, id, list[0].ID)
			_, err = s.Stats(ctx)
			require.NoError(t, err)
			require.NoError(t, s.Leave(ctx, session))
			require.Equal(t, 1, log.count("refuses our settings"))
		})
	}
}

// liveThroughAPooler makes each call that is about liveness.
func liveThroughAPooler(t *testing.T, s *postgres.Store, session task.Session, row task.Task) {
	t.Helper()
	ctx := t.Context()
	key, err := s.Secret(ctx)
	require.NoError(t, err)
	require.Len(t, key, 32)
	reports := store.Report{Progress: []byte(`0.4`), Message: "page 40", Checkpoint: []byte(`{"page": 40}`)}
	answers, err := s.Renew(ctx, session, []store.Renewal{{ID: row.ID, Fence: row.Fence, Window: time.Hour, Detach: true, Report: reports}})
	require.NoError(t, err)
	require.Equal(t, []store.Answer{store.Applied}, answers)
	replies, err := s.TakePings(ctx, []store.RemotePing{
		{ID: row.ID, Fence: row.Fence, Ping: store.Ping{Message: "page 41", NextWithin: time.Minute}}, {ID: row.ID, Fence: row.Fence + 1},
	})
	require.NoError(t, err)
	require.True(t, replies[0].Counted)
	require.Equal(t, store.PingReply{}, replies[1])
	done, err := s.Completed(ctx, []store.Held{{ID: row.ID, Fence: row.Fence}})
	require.NoError(t, err)
	require.Equal(t, []bool{false}, done)
	answer, err := s.Complete(ctx, row.ID, row.Fence+1, []byte(`1`))
	require.NoError(t, err)
	require.Equal(t, store.Lost, answer)
	reaped, answer, err := s.Adopt(ctx, session, row.ID, row.Fence+1, time.Minute)
	require.NoError(t, err)
	require.Nil(t, reaped)
	require.Equal(t, store.Lost, answer)
	said, err := s.Cancel(ctx, row.ID, "alice")
	require.NoError(t, err)
	require.Equal(t, store.Cancelling, said)
	info, err := s.Get(ctx, row.ID)
	require.NoError(t, err)
	require.Equal(t, "page 41", info.Message)
	require.JSONEq(t, `{"page": 40}`, string(info.Checkpoint))
	require.Equal(t, "alice", info.CancelRequestedBy)
	require.True(t, info.Detached)
}

// done is the settlement of a row that succeeded.
func done(t task.Task) store.Settlement {
	return store.Settlement{
		ID: t.ID, Fence: t.Fence, RanFence: t.Fence, Phase: task.Run, Attempt: t.Attempt, Started: time.Millisecond,
		Next:    task.Transition{State: task.StateSucceeded, Attempt: t.Attempt, EverStarted: true},
		Outcome: task.Outcome{Verdict: task.Succeeded},
	}
}

func TestConnectionsAreGuarded(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	show := func(s *postgres.Store, name string) string {
		value, err := s.Show(t.Context(), name)
		require.NoError(t, err)
		return value
	}
	require.Equal(t, "10s", show(h.Store, "statement_timeout"))
	require.Equal(t, "on", show(h.Store, "synchronous_commit"))
	require.Equal(t, "pg_catalog, pg_temp", show(h.Store, "search_path"))
	require.NotEqual(t, "0", show(h.Store, "idle_in_transaction_session_timeout"))
	own := openStore(t, postgres.Options{URL: pgtest.URL(t) + "&statement_timeout=3000", Schema: h.schema})
	require.Equal(t, "3s", show(own, "statement_timeout"), "what the URL says stands")
}

func TestReadOnlyServers(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	session, err := h.Join(t.Context(), someAgent())
	require.NoError(t, err)
	// The server that all connections lead to becomes a standby: writes are refused once, then there are none left.
	require.NoError(t, h.Spoil(t.Context()))
	err = h.Idle(t.Context(), session, true)
	require.ErrorContains(t, err, "25006")
	require.NoError(t, h.Idle(t.Context(), session, true))

	readOnly := pgtest.URL(t) + "&options=-cdefault_transaction_read_only%3Don"
	standby := openStore(t, postgres.Options{URL: readOnly, Schema: h.schema})
	require.ErrorContains(t, standby.Ping(t.Context()), "read only connection")
	asked := openStore(t, postgres.Options{URL: readOnly + "&target_session_attrs=any", Schema: h.schema})
	require.NoError(t, asked.Ping(t.Context()))
}

// TestLostReplyToAClaim cuts the connection when the claim has committed and the reply is on its way.
func TestLostReplyToAClaim(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var armed, updated atomic.Bool
	p := (&proxy{message: func(kind byte, body []byte) (bool, error) {
		switch {
		case kind == 'C' && strings.HasPrefix(string(body), "UPDATE") && armed.Load():
			updated.Store(true)
		case kind == 'Z' && updated.Swap(false): // ReadyForQuery comes after the commit
			armed.Store(false)
			return false, errors.New("cut")
		}
		return true, nil
	}}).start(t)
	s := openStore(t, postgres.Options{URL: p.URL, Schema: h.schema})
	session, err := s.Join(t.Context(), someAgent())
	require.NoError(t, err)
	ids := h.Insert(t, store.EnqueueRequest{Type: "a"}, store.EnqueueRequest{Type: "a"}, store.EnqueueRequest{Type: "a"})
	armed.Store(true)
	_, err = s.Claim(t.Context(), store.Claim{Session: session, Number: 41, Wants: []store.Want{wantOf(2)}})
	require.Error(t, err)
	require.False(t, armed.Load(), "the reply was cut")
	rows, err := s.Claimed(t.Context(), session, 41)
	require.NoError(t, err)
	got := []task.ID{rows[0].ID, rows[1].ID}
	require.Equal(t, ids[:2], got)
	answers, err := s.Settle(t.Context(), session, []store.Settlement{done(rows[0]), done(rows[1])})
	require.NoError(t, err)
	require.Equal(t, []store.Answer{store.Applied, store.Applied}, answers)
}

// TestACancelledCallerDoesNotCutItsStatement ends the caller's context while the statement waits for a lock.
func TestACancelledCallerDoesNotCutItsStatement(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	session, err := h.Join(t.Context(), someAgent())
	require.NoError(t, err)
	tx, err := pgtest.Connect(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), h.q(`SELECT FROM SCHEMA.agent FOR UPDATE`))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- h.Idle(ctx, session, true) }()
	waiting := h.q(`SELECT count(*) FROM pg_stat_activity
		WHERE wait_event_type = 'Lock' AND query LIKE '%SCHEMA%agent SET idle%'`)
	conn := pgtest.Connect(t)
	require.Eventually(t, func() bool {
		var n int
		return conn.QueryRow(t.Context(), waiting).Scan(&n) == nil && n == 1
	}, soon, 10*time.Millisecond)
	cancel()
	require.NoError(t, tx.Rollback(t.Context()))
	require.NoError(t, <-result)
	require.ErrorIs(t, h.Idle(ctx, session, true), context.Canceled, "it does not begin another")
}

// TestSlowCallsDoNotKeepASessionFromSayingThatItIsThere takes every connection of the pool, as calls do that wait for
// the server's disk.
func TestSlowCallsDoNotKeepASessionFromSayingThatItIsThere(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	session, err := h.Join(t.Context(), someAgent())
	require.NoError(t, err)
	h.Insert(t, store.EnqueueRequest{Type: "a"})
	rows, err := h.Claim(t.Context(), store.Claim{Session: session, Number: 1, Wants: []store.Want{wantOf(1)}})
	require.NoError(t, err)
	require.Len(t, rows, 1)
	release, err := h.Occupy(t.Context())
	require.NoError(t, err)
	defer release()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	standing, err := h.Present(ctx, store.Heartbeat{Session: session, Agent: someAgent()})
	require.NoError(t, err)
	require.Len(t, standing.Held, 1)
	answers, err := h.Renew(ctx, session, []store.Renewal{{ID: rows[0].ID, Fence: rows[0].Fence, Window: time.Hour}})
	require.NoError(t, err)
	require.Equal(t, []store.Answer{store.Applied}, answers)
}
