package schedule_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/schedule"
	"github.com/leasehold/leasehold/internal/telemetry"
)

// TestALoopGoesOnOnlyWhileItFires: where many schedules are due and others have locked all of them, it looks again when it polls.
func TestALoopGoesOnOnlyWhileItFires(t *testing.T) {
	for _, c := range []struct{ fired, least, most int }{{1000, 1000, 1 << 30}, {0, 5, 15}} {
		synctest.Test(t, func(t *testing.T) {
			looks := 0
			l := schedule.NewLoop(schedule.Options{
				Settle: func(context.Context) error { return nil },
				Fire: func(_ context.Context, limit int) (schedule.Fired, error) {
					looks++
					return schedule.Fired{Looked: limit, Schedules: c.fired}, nil
				},
				Poll: time.Second, Log: slog.New(slog.DiscardHandler), Metrics: telemetry.NewMetrics(prometheus.NewRegistry()),
			})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			require.NoError(t, l.Run(ctx))
			require.GreaterOrEqual(t, looks, c.least)
			require.LessOrEqual(t, looks, c.most)
		})
	}
}
