package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/store/postgres"
	"github.com/leasehold/leasehold/internal/store/postgres/pgtest"
	"github.com/leasehold/leasehold/internal/task"
)

const day = 24 * time.Hour

// days lists the archive's tables, attached or not.
func days(t *testing.T, h *harness) []string {
	t.Helper()
	rows, err := pgtest.Connect(t).Query(t.Context(), h.q(`SELECT relname::text FROM pg_class
		WHERE relnamespace = 'SCHEMA'::regnamespace AND relkind = 'r' AND relname LIKE 'task\_archive\_%' ORDER BY 1`))
	require.NoError(t, err)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return list
}

func TestPartitionsAreMadeAhead(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	require.Empty(t, days(t, h))
	before := time.Now().UTC()
	var g errgroup.Group
	for range 10 {
		s := openStore(t, postgres.Options{Schema: h.schema, Connections: 2})
		g.Go(func() error { _, err := s.Join(t.Context(), someAgent()); return err })
		g.Go(func() error { _, err := s.Maintain(t.Context(), week); return err })
	}
	require.NoError(t, g.Wait())
	var want []string
	for n := -1; n <= 3; n++ {
		want = append(want, before.AddDate(0, 0, n).Format("task_archive_20060102"))
	}
	if before.YearDay() == time.Now().UTC().YearDay() { // else midnight has passed meanwhile
		require.Equal(t, want, days(t, h))
	}
}

// TestNoWriterWaitsForAPartition has a writer and a reader in the midst of a transaction while partitions are made.
func TestNoWriterWaitsForAPartition(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	tx, err := pgtest.Connect(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), h.q(`LOCK TABLE SCHEMA.task_archive IN ROW EXCLUSIVE MODE;
		SELECT count(*) FROM SCHEMA.tasks`))
	require.NoError(t, err)
	joined(t, h)
	require.Len(t, days(t, h), 5)
	require.NoError(t, tx.Rollback(t.Context()))
}

// age finishes two tasks, one at its second attempt, and makes that so long ago.
func (a *agentOn) age(t *testing.T, ago time.Duration) []task.Task {
	t.Helper()
	rows := a.take(t, 2)
	again := done(rows[0])
	again.Next = task.Transition{State: task.StateRetryPending, Attempt: 1, EverStarted: true}
	again.Outcome = task.Outcome{Verdict: task.Failed, Error: "it broke"}
	require.Equal(t, "applied", a.settle(t, again)[0].String())
	a.claims++
	got, err := a.Claim(t.Context(), store.Claim{Session: a.session, Number: a.claims, Wants: []store.Want{wantOf(1)}})
	require.NoError(t, err)
	require.Len(t, got, 1)
	rows[0] = got[0]
	for _, answer := range a.settle(t, done(rows[0]), done(rows[1])) {
		require.Equal(t, "applied", answer.String())
	}
	a.Advance(t, ago)
	return rows
}

func TestRetention(t *testing.T) {
	t.Parallel()
	a := joined(t, newFreshHarness(t))
	old := a.age(t, 6*day)
	recent := a.age(t, 3*day)
	kept := a.take(t, 1)
	removed, err := a.Maintain(t.Context(), week)
	require.NoError(t, err)
	require.EqualValues(t, 2, removed)
	for _, row := range old {
		_, err := a.Get(t.Context(), row.ID)
		require.ErrorIs(t, err, store.ErrNoTask)
	}
	const history = `SELECT count(*) FROM SCHEMA.attempt WHERE task_id = $1`
	require.Zero(t, a.number(t, history, int64(old[0].ID)), "its history goes with it")
	info, err := a.Get(t.Context(), recent[0].ID)
	require.NoError(t, err)
	require.Len(t, info.History, 2)
	require.NotContains(t, days(t, a.harness), time.Now().UTC().AddDate(0, 0, -9).Format("task_archive_20060102"))
	again, err := a.Maintain(t.Context(), week)
	require.NoError(t, err)
	require.Zero(t, again)
	_, err = a.Get(t.Context(), kept[0].ID)
	require.NoError(t, err)
	// However short the retention, yesterday and today stay.
	_, err = a.Maintain(t.Context(), time.Second)
	require.NoError(t, err)
	require.Contains(t, days(t, a.harness), time.Now().UTC().AddDate(0, 0, -1).Format("task_archive_20060102"))
}

// TestRemovalGoesOn finds days whose removal was cut off: while it waited for readers, and after it had detached.
func TestRemovalGoesOn(t *testing.T) {
	t.Parallel()
	a := joined(t, newFreshHarness(t))
	old := a.age(t, 9*day)
	name := time.Now().UTC().AddDate(0, 0, -9).Format("task_archive_20060102")
	reader, err := pgtest.Connect(t).Begin(t.Context())
	require.NoError(t, err)
	_, err = reader.Exec(t.Context(), a.q(`SELECT count(*) FROM SCHEMA.task_archive`))
	require.NoError(t, err)
	impatient := pgtest.Connect(t)
	_, err = impatient.Exec(t.Context(), `SET statement_timeout = '200ms'`)
	require.NoError(t, err)
	detach := a.q(`ALTER TABLE SCHEMA.task_archive DETACH PARTITION SCHEMA.` + name)
	_, err = impatient.Exec(t.Context(), detach+` CONCURRENTLY`)
	require.ErrorContains(t, err, "57014", "the reader keeps it waiting")
	require.EqualValues(t, 1, a.number(t, `SELECT count(*) FROM pg_inherits
		WHERE inhrelid = 'SCHEMA.`+name+`'::regclass AND inhdetachpending`))
	// No other call waits meanwhile.
	require.Equal(t, "applied", a.settle(t, done(a.take(t, 1)[0]))[0].String())
	require.NoError(t, reader.Rollback(context.WithoutCancel(t.Context())))
	// To finish the removal waits for every older snapshot in the database, as long as a statement may take. Those of other tests are not what
	// this is about: where one is held, maintenance is repeated, as agents do.
	for began := time.Now(); ; {
		if _, err = a.Maintain(t.Context(), week); err == nil {
			break
		}
		require.ErrorContains(t, err, "finish detaching")
		require.ErrorContains(t, err, "57014")
		require.Less(t, time.Since(began), time.Minute)
	}
	require.NotContains(t, days(t, a.harness), name)
	require.Zero(t, a.number(t, `SELECT count(*) FROM SCHEMA.attempt WHERE task_id = $1`, int64(old[0].ID)))

	old = a.age(t, 9*day)
	a.exec(t, `ALTER TABLE SCHEMA.task_archive DETACH PARTITION SCHEMA.`+name)
	_, err = a.Maintain(t.Context(), week)
	require.NoError(t, err)
	require.NotContains(t, days(t, a.harness), name)
	require.Zero(t, a.number(t, `SELECT count(*) FROM SCHEMA.attempt WHERE task_id = $1`, int64(old[0].ID)))
}

func TestManyMaintainAtOnce(t *testing.T) {
	t.Parallel()
	a := joined(t, newFreshHarness(t))
	for range 3 {
		a.age(t, 9*day)
	}
	var g errgroup.Group
	for range 5 {
		s := openStore(t, postgres.Options{Schema: a.schema, Connections: 1})
		g.Go(func() error { _, err := s.Maintain(t.Context(), week); return err })
	}
	require.NoError(t, g.Wait())
	_, err := a.Maintain(t.Context(), week)
	require.NoError(t, err)
	require.Zero(t, a.number(t, `SELECT count(*) FROM SCHEMA.task_archive`))
	require.Zero(t, a.number(t, `SELECT count(*) FROM SCHEMA.attempt`))
	for _, name := range days(t, a.harness) {
		require.Greater(t, name, time.Now().UTC().AddDate(0, 0, -5).Format("task_archive_20060102"))
	}
}

// One maintenance removes all that is past its retention, however many steps that takes.
func TestMaintenanceGoesOn(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	h.exec(t, `INSERT INTO SCHEMA.bulk_change (verb, filter, from_id, after_id, up_to, ended_at)
		SELECT 'cancel', '{}', 0, 0, 0, now() - CASE WHEN n > 12000 THEN interval '1 minute' ELSE interval '1 day' END FROM generate_series(1, 12003) AS n`)
	_, err := h.Maintain(t.Context(), time.Hour)
	require.NoError(t, err)
	require.EqualValues(t, 3, h.number(t, `SELECT count(*) FROM SCHEMA.bulk_change`))
}
