package sqlite

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/batch"
	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
)

// A change whose filter has a part that this version does not know is left to newer agents, and keeps none of the others from being carried
// on: without that part it would match more tasks.
func TestAFilterThatIsNotKnownIsLeft(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	require.NoError(t, h.exec(t, `INSERT INTO task (type) VALUES ('a'), ('b')`))
	for _, filter := range []string{`{"type":"a","colour":"red"}`, `nonsense`, `{"type":7}`} {
		require.NoError(t, h.exec(t, `INSERT INTO bulk_change (verb, filter, from_id, after_id, up_to) VALUES ('cancel', '`+filter+`', 0, 0, 9)`))
	}
	require.NoError(t, h.exec(t, `INSERT INTO bulk_change (verb, filter, again, from_id, after_id, up_to) VALUES ('cancel', '{"type":"a"}', '{', 0, 9, 9)`))
	id, err := ops.StartBulk(t.Context(), h, store.BulkRequest{Verb: "cancel", Filter: store.BulkFilter{Type: "b"}})
	require.NoError(t, err)
	work := batch.NewBulk(h, ops.NamedSignature)
	for range 3 {
		s, err := work.Step(t.Context(), 10)
		require.NoError(t, err)
		require.True(t, s.Found)
	}
	b, err := h.GetBulk(t.Context(), id)
	require.NoError(t, err)
	require.NotNil(t, b.EndedAt)
	require.EqualValues(t, 1, b.Done)
	open, err := h.OpenBulks(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Len(t, open, 4)
	for _, o := range open {
		require.Zero(t, o.Done)
		require.NoError(t, h.StopBulk(t.Context(), o.ID, ""))
	}
}

// One maintenance removes all that is past its retention, however many steps that takes.
func TestMaintenanceGoesOn(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	require.NoError(t, h.exec(t, `WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1203)
		INSERT INTO bulk_change (verb, filter, from_id, after_id, up_to, ended_at)
		SELECT 'cancel', '{}', 0, 0, 0, iif(i > 1200, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), '2026-01-01T00:00:00.000Z') FROM n`))
	_, err := h.Maintain(t.Context(), time.Hour)
	require.NoError(t, err)
	var left int
	require.NoError(t, h.app.QueryRowContext(t.Context(), `SELECT count(*) FROM bulk_change`).Scan(&left))
	require.Equal(t, 3, left)
}
