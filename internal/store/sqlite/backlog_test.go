package sqlite

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The backlog is what may start now.
func TestBacklog(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	require.NoError(t, h.exec(t, `
		INSERT INTO task (type, region, priority, tenant) VALUES ('a', NULL, 0, NULL), ('a', 'sg', 5, NULL), ('a', NULL, 0, 'acme')`))
	require.NoError(t, h.exec(t, `INSERT INTO task (type, run_at) VALUES ('a', '2999-01-01T00:00:00.000Z')`))
	backlog := func() int { return h.count(t, `SELECT coalesce(sum(waiting), 0) FROM backlog WHERE type = 'a'`) }
	require.Equal(t, 3, backlog())
	require.NoError(t, h.exec(t, `INSERT INTO type_pause (type) VALUES ('a')`))
	require.Zero(t, backlog())
}
