// Package e2e_test runs real agents on a real PostgreSQL and kills some of them. With LEASEHOLD_TEST_POOLER (see
// test/with-pgbouncer) agents and applications come to it through a pooler.
package e2e_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// Bounds: a test that takes longer hangs. They leave room for a busy machine with two cores and the race detector.
const (
	workWithin = 4 * time.Minute
	sqlWithin  = 2 * time.Minute
)

// house is a database with an endpoint, and the agents that work there.
type house struct {
	t        *testing.T
	url      string        // for agents
	app      *pgxpool.Pool // with the rights of an application
	admin    *pgxpool.Pool
	endpoint *endpoint
}

// newHouse makes a house for n tasks.
func newHouse(t *testing.T, n int) *house {
	t.Helper()
	database := harness.Database(t)
	h := &house{t: t, url: harness.Pooled(t, database), endpoint: newEndpoint(t, n)}
	h.admin = h.pool(database)
	h.app = h.pool(harness.Pooled(t, harness.Application(t, database)))
	return h
}

func (h *house) pool(url string) *pgxpool.Pool {
	h.t.Helper()
	p, err := pgxpool.New(h.t.Context(), url)
	require.NoError(h.t, err)
	h.t.Cleanup(p.Close)
	return p
}

// agent starts an agent that has some workers, more of the agent block, and a task block "work" with more in it.
func (h *house) agent(name string, workers int, agent, work string) *harness.Agent {
	h.t.Helper()
	return harness.StartAgent(h.t, harness.AgentOptions{
		Name: name, Store: h.url,
		Agent:  fmt.Sprintf("  workers = %d\n  presence = \"5s\"\n%s", workers, agent),
		Config: fmt.Sprintf("task \"work\" {\n%s\n  webhook {\n    url = %q\n  }\n}", work, h.endpoint.url),
	})
}

// exec runs SQL as the database's owner.
func (h *house) exec(sql string, args ...any) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), sqlWithin)
	defer cancel()
	_, err := h.admin.Exec(ctx, sql, args...)
	require.NoError(h.t, err, sql)
}

// insert runs SQL as an application and checks how many rows it has made.
func (h *house) insert(n int, sql string) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), sqlWithin)
	defer cancel()
	done, err := h.app.Exec(ctx, sql)
	require.NoError(h.t, err, sql)
	require.EqualValues(h.t, n, done.RowsAffected())
}

// number asks for a number.
func (h *house) number(sql string, args ...any) (n int64) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), sqlWithin)
	defer cancel()
	require.NoError(h.t, h.admin.QueryRow(ctx, sql, args...).Scan(&n), sql)
	return n
}

// ids asks for a list of numbers.
func (h *house) ids(sql string, args ...any) (ids []int64) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), sqlWithin)
	defer cancel()
	rows, err := h.admin.Query(ctx, sql, args...)
	require.NoError(h.t, err, sql)
	defer rows.Close()
	for rows.Next() {
		var id int64
		require.NoError(h.t, rows.Scan(&id))
		ids = append(ids, id)
	}
	require.NoError(h.t, rows.Err())
	return ids
}

// heldBy lists what an agent's sessions hold.
func (h *house) heldBy(name string) []int64 {
	h.t.Helper()
	return h.ids(`SELECT t.id FROM leasehold.task t JOIN leasehold.agent a USING (session)
		WHERE a.name = $1 AND t.state = 'running' ORDER BY t.id`, name)
}

// emptied waits until the hot table is empty.
func (h *house) emptied() {
	h.t.Helper()
	harness.Until(h.t, workWithin, "the hot table is empty", func() bool {
		return h.number(`SELECT count(*) FROM (SELECT FROM leasehold.task LIMIT 1) AS any_task`) == 0
	})
}

// allSucceeded checks that the archive has every task of 1 to n once, and that each has succeeded.
func (h *house) allSucceeded(n int) {
	h.t.Helper()
	require.EqualValues(h.t, n, h.number(`SELECT count(*) FROM leasehold.tasks`))
	require.EqualValues(h.t, n, h.number(`SELECT count(DISTINCT id) FROM leasehold.tasks WHERE state = 'succeeded' AND id BETWEEN 1 AND $1`, n))
}
