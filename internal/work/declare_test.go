package work_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/internal/telemetry"
	"github.com/leasehold/leasehold/internal/work"
)

// book is a store that notes what is declared, after it has failed and forgotten the session.
type book struct {
	failures, unknown int
	noted             []time.Time
}

func (b *book) declare(_ context.Context, s task.Session) (bool, error) {
	switch {
	case s != 7:
		return false, errors.New("another session")
	case b.failures > 0:
		b.failures--
		return false, errors.New("out of reach")
	case b.unknown > 0:
		b.unknown--
		return false, nil
	}
	b.noted = append(b.noted, time.Now())
	return true, nil
}

func TestWhatIsDeclaredIsNoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, b := time.Now(), &book{failures: 2, unknown: 1}
		ctx, cancel := context.WithCancel(t.Context())
		ended, joined := make(chan error), make(chan struct{})
		time.AfterFunc(time.Minute, func() { close(joined) })
		go func() {
			ended <- work.Declaring{
				Declare: b.declare, Joined: joined, Session: func() (task.Session, bool) { return 7, true },
				Log: slog.New(slog.DiscardHandler), Metrics: telemetry.NewMetrics(prometheus.NewRegistry()),
			}.Run(ctx)
		}()
		time.Sleep(5 * time.Hour)
		cancel()
		require.NoError(t, <-ended)
		require.GreaterOrEqual(t, b.noted[0].Sub(began), time.Minute, "once the session is open")
		require.Less(t, b.noted[0].Sub(began), 2*time.Minute)
		require.InDelta(t, 5, len(b.noted), 2, "and about every hour")
	})
}
