//go:build linux

package faults

import (
	"cmp"
	"context"
	"encoding/json"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/faults/history"
)

// collect reads the log and the database.
func (w *world) collect(t testing.TB) *history.History {
	t.Helper()
	h := &history.History{Seed: w.o.Seed, Presence: w.presence(), Kinds: Kinds(), Slack: cmp.Or(w.o.Slack, slack)}
	if w.cluster != nil && w.cluster.Pooled != "" {
		h.Deaf = []string{w.agents[len(w.agents)-1].name}
	}
	var err error
	h.Events, err = history.Read(w.logPath)
	require.NoError(t, err)
	w.mu.Lock()
	h.Enqueued, h.Said, h.Samples, h.Crashes, h.Ops = w.rows, w.said, w.leaseSamples, w.crashes, w.ops
	h.Limits = w.limitSamples
	h.Tenants = w.tenantSamples
	h.Of.Made, h.Of.Samples = w.made, w.batchSamples
	w.mu.Unlock()

	query(t, w, `SELECT t.id, coalesce(t.key, ''), t.type, t.state, t.attempt, coalesce(t.max_attempts, 0), t.deferrals, t.fence,
			coalesce(t.outcome, ''), coalesce(t.error, ''), t.result, t.ever_started, coalesce(t.round, 0), coalesce(t.batch_id, 0),
			EXISTS (SELECT FROM leasehold.task l WHERE l.id = t.id),
			(SELECT count(*) FROM leasehold.task_archive a WHERE a.id = t.id), coalesce(t.policy, 0)
		FROM (SELECT id, key, type, state, attempt, max_attempts, deferrals, fence, outcome, error, result, ever_started, round, batch_id, policy
			FROM leasehold.task
			UNION ALL
			SELECT id, key, type, state, attempt, max_attempts, deferrals, fence, outcome, error, result, ever_started, round, batch_id, policy
			FROM leasehold.task_archive) AS t
		ORDER BY t.id`, func(rows pgx.Rows) error {
		var r history.Row
		err := rows.Scan(&r.ID, &r.Key, &r.Type, &r.State, &r.Attempt, &r.MaxAttempts, &r.Deferrals, &r.Fence, &r.Outcome, &r.Error,
			&r.Result, &r.EverStarted, &r.Round, &r.Batch, &r.Live, &r.Archived, &r.Policy)
		if n := len(h.Rows); err == nil && n > 0 && h.Rows[n-1].ID == r.ID {
			return nil // in both, or twice: see Live and Archived
		}
		h.Rows = append(h.Rows, r)
		return err
	})
	query(t, w, `SELECT task_id, attempt, fence, ran_fence, phase, outcome, coalesce(error, ''), coalesce(session, 0), coalesce(policy, 0)
		FROM leasehold.attempt ORDER BY task_id, fence`, func(rows pgx.Rows) error {
		var a history.Tried
		err := rows.Scan(&a.ID, &a.Attempt, &a.Fence, &a.RanFence, &a.Phase, &a.Outcome, &a.Error, &a.Session, &a.Policy)
		h.Tried = append(h.Tried, a)
		return err
	})
	query(t, w, `SELECT serial, id, fence, phase, rolls_back, who FROM effect ORDER BY serial`, func(rows pgx.Rows) error {
		var e history.EffectRow
		err := rows.Scan(&e.Serial, &e.ID, &e.Fence, &e.Phase, &e.RollsBack, &e.Who)
		h.Effects = append(h.Effects, e)
		return err
	})
	w.collectMoves(t, h)
	w.collectOrphans(t, h)
	w.collectSchedules(t, h)
	w.collectFollowers(t, h)
	w.collectLeases(t, h)
	w.collectChunks(t, h)
	w.collectBatches(t, &h.Of)
	query(t, w, `SELECT id, state FROM grave ORDER BY serial`, func(rows pgx.Rows) error {
		var g history.Grave
		err := rows.Scan(&g.ID, &g.State)
		h.Graves = append(h.Graves, g)
		return err
	})
	h.Mourned = true
	return h
}

func (w *world) collectMoves(t testing.TB, h *history.History) {
	t.Helper()
	query(t, w, `SELECT serial, id, coalesce(batch, 0), state, fence, attempt, round, ever_started, coalesce(outcome, ''), coalesce(cause, ''), archived,
			coalesce(type, '')
		FROM journal ORDER BY serial`, func(rows pgx.Rows) error {
		var m history.Move
		err := rows.Scan(&m.Serial, &m.ID, &m.Batch, &m.State, &m.Fence, &m.Attempt, &m.Round, &m.EverStarted, &m.Outcome, &m.Cause, &m.Archived,
			&m.Type)
		h.Moves = append(h.Moves, m)
		return err
	})
	query(t, w, `SELECT serial, type, coalesce(name, ''), coalesce(most, 0) FROM journal_limit ORDER BY serial`, func(rows pgx.Rows) error {
		var m history.LimitMove
		err := rows.Scan(&m.Serial, &m.Type, &m.Name, &m.Most)
		h.LimitMoves = append(h.LimitMoves, m)
		return err
	})
}

func (w *world) collectBatches(t testing.TB, of *history.Batches) {
	t.Helper()
	query(t, w, `SELECT id, name, state, sealed, ended_at IS NOT NULL, round, coalesce(finish_type, ''), coalesce(operation, ''),
			total, live, waiting, running, rolling_back, succeeded, failed, cancelled, rolled_back, rollback_failed
		FROM leasehold.batches ORDER BY id`, func(rows pgx.Rows) error {
		var b history.Batch
		c := &b.Counts
		err := rows.Scan(&b.ID, &b.Name, &b.State, &b.Sealed, &b.Ended, &b.Round, &b.FinishType, &b.Operation,
			&c.Total, &c.Live, &c.Waiting, &c.Running, &c.RollingBack, &c.Succeeded, &c.Failed, &c.Cancelled, &c.RolledBack, &c.RollbackFailed)
		of.Ended = append(of.Ended, b)
		return err
	})
	query(t, w, `SELECT serial, id, round, sealed, stopping, ended, coalesce(requested, ''), by_failure FROM journal_batch ORDER BY serial`,
		func(rows pgx.Rows) error {
			var m history.BatchMove
			err := rows.Scan(&m.Serial, &m.ID, &m.Round, &m.Sealed, &m.Stopping, &m.Ended, &m.Requested, &m.ByFailure)
			of.Moves = append(of.Moves, m)
			return err
		})
	query(t, w, `SELECT id, payload FROM leasehold.tasks WHERE type = '`+kindFinish+`' ORDER BY id`, func(rows pgx.Rows) error {
		var f history.Finish
		var payload json.RawMessage
		if err := rows.Scan(&f.ID, &payload); err != nil {
			return err
		}
		var report struct {
			Batch struct {
				ID    int64
				Name  string
				State string
				Round int

				Total, Succeeded, Failed, Cancelled int64
				RolledBack                          int64 `json:"rolled_back"`
				RollbackFailed                      int64 `json:"rollback_failed"`
			}
		}
		err := json.Unmarshal(payload, &report)
		b := &report.Batch
		f.Batch, f.Name, f.State, f.Round = b.ID, b.Name, b.State, b.Round
		f.Counts = history.Counts{
			Total: b.Total, Succeeded: b.Succeeded, Failed: b.Failed, Cancelled: b.Cancelled, RolledBack: b.RolledBack, RollbackFailed: b.RollbackFailed,
		}
		of.Finishes = append(of.Finishes, f)
		return err
	})
}

func query(t testing.TB, w *world, sql string, each func(pgx.Rows) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), calmWithin)
	defer cancel()
	rows, err := w.app.Query(ctx, sql)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		require.NoError(t, each(rows))
	}
	require.NoError(t, rows.Err())
}
