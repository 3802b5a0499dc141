//go:build linux

package faults

import (
	"cmp"
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/faults/history"
)

// collect reads what stands in the log and in the database.
func (w *world) collect(t testing.TB) *history.History {
	t.Helper()
	h := &history.History{Seed: w.o.Seed, Presence: Presence, Kinds: Kinds(), Slack: cmp.Or(w.o.Slack, slack)}
	var err error
	h.Events, err = history.Read(w.logPath)
	require.NoError(t, err)
	w.mu.Lock()
	h.Enqueued, h.Said, h.Samples, h.Crashes = w.rows, w.said, w.samples, w.crashes
	w.mu.Unlock()

	query(t, w, `SELECT t.id, coalesce(t.key, ''), t.type, t.state, t.attempt, coalesce(t.max_attempts, 0), t.give_backs, t.fence,
			coalesce(t.outcome, ''), coalesce(t.error, ''), t.result, t.touched,
			EXISTS (SELECT FROM leasehold.task l WHERE l.id = t.id),
			(SELECT count(*) FROM leasehold.task_archive a WHERE a.id = t.id)
		FROM (SELECT id, key, type, state, attempt, max_attempts, give_backs, fence, outcome, error, result, touched FROM leasehold.task
			UNION ALL
			SELECT id, key, type, state, attempt, max_attempts, give_backs, fence, outcome, error, result, touched
			FROM leasehold.task_archive) AS t
		ORDER BY t.id`, func(rows pgx.Rows) error {
		var r history.Row
		err := rows.Scan(&r.ID, &r.Key, &r.Type, &r.State, &r.Attempt, &r.MaxAttempts, &r.GiveBacks, &r.Fence, &r.Outcome, &r.Error,
			&r.Result, &r.Touched, &r.Live, &r.Archived)
		if n := len(h.Rows); err == nil && n > 0 && h.Rows[n-1].ID == r.ID {
			return nil // in both, or twice: Live and Archived tell
		}
		h.Rows = append(h.Rows, r)
		return err
	})
	query(t, w, `SELECT task_id, attempt, fence, ran_fence, phase, outcome, coalesce(error, ''), coalesce(session, 0)
		FROM leasehold.attempt ORDER BY task_id, fence`, func(rows pgx.Rows) error {
		var a history.Tried
		err := rows.Scan(&a.ID, &a.Attempt, &a.Fence, &a.RanFence, &a.Phase, &a.Outcome, &a.Error, &a.Session)
		h.Tried = append(h.Tried, a)
		return err
	})
	query(t, w, `SELECT serial, id, fence, who FROM effect ORDER BY serial`, func(rows pgx.Rows) error {
		var e history.EffectRow
		err := rows.Scan(&e.Serial, &e.ID, &e.Fence, &e.Who)
		h.Effects = append(h.Effects, e)
		return err
	})
	return h
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
