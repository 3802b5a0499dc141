package postgres_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The backlog is what may start now. It is counted in the indexes of waiting rows, however many rows of other types there are.
func TestBacklog(t *testing.T) {
	t.Parallel()
	h := newFreshHarness(t)
	h.exec(t, `
		INSERT INTO SCHEMA.task (type) SELECT 'other' FROM generate_series(1, 40000);
		INSERT INTO SCHEMA.task (type, region, priority) VALUES ('a', NULL, 0), ('a', 'sg', 5), ('a', NULL, -5);
		INSERT INTO SCHEMA.task (type, tenant) VALUES ('a', 'acme');
		INSERT INTO SCHEMA.task (type, run_at) VALUES ('a', now() + interval '1 hour');
		INSERT INTO SCHEMA.task (type, lock, held) VALUES ('a', 'l', 'lock');
		INSERT INTO SCHEMA.task (type) SELECT 'many' FROM generate_series(1, 10001)`)
	backlog := func(typ string) int64 { return h.number(t, `SELECT SCHEMA.backlog('`+typ+`')`) }
	require.EqualValues(t, 4, backlog("a"))
	require.EqualValues(t, 0, backlog("none"))
	require.EqualValues(t, 10_000, backlog("many"))
	require.EqualValues(t, 0, h.number(t, `SELECT coalesce(SCHEMA.backlog(NULL), 0)`))
	for how, set := range settings {
		require.Less(t, pages(t, planner(t, set), h.q(`SELECT SCHEMA.backlog('a')`), 49), 50, how)
	}
	h.exec(t, `INSERT INTO SCHEMA.type_pause (type) VALUES ('a')`)
	require.EqualValues(t, 0, backlog("a"))
}
