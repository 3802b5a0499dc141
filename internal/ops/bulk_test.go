package ops_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/ops"
	"github.com/leasehold/leasehold/internal/store"
)

// counted is work whose looks end there.
type counted struct {
	ops.BulkWork

	c store.BulkCount
}

func (w counted) Count(_ context.Context, _ *store.BulkRequest, most int, within time.Duration) (store.BulkCount, error) {
	if most <= 0 || within <= 0 || within > 250*time.Millisecond {
		return store.BulkCount{}, context.DeadlineExceeded
	}
	return w.c, nil
}

func TestAPreviewSaysHowFarItLooked(t *testing.T) {
	r := store.BulkRequest{Verb: store.VerbRetry, Filter: store.BulkFilter{Type: "a"}}
	at := time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
	p, err := ops.PreviewBulk(t.Context(), counted{c: store.BulkCount{Tasks: 3, Back: 17, BackTo: at}}, r)
	require.NoError(t, err)
	require.Equal(t, ops.BulkPreview{Tasks: 3, Capped: true, LookedBack: &ops.LookedBack{ID: 17, CreatedAt: &at}, DryRun: true}, p)
	require.Equal(t, "looked back to task 17, which was inserted at "+ops.Time(at), p.LookedBack.String())
	p, err = ops.PreviewBulk(t.Context(), counted{c: store.BulkCount{Tasks: 3, All: true, Back: 17, BackTo: at}}, r)
	require.NoError(t, err)
	require.Equal(t, ops.BulkPreview{Tasks: 3, DryRun: true}, p)
}
