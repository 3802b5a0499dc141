package work

import (
	"context"
	"log/slog"
	"time"

	"github.com/leasehold/leasehold/internal/telemetry"
)

// Store is what maintenance needs of the store.
type Store interface {
	// Maintain makes room ahead (partitions) and removes what finished more than retention ago, in bounded steps. It
	// returns how many tasks it removed; an estimate where whole partitions went.
	Maintain(ctx context.Context, retention time.Duration) (removed int64, err error)
}

// Maintenance is the housekeeping that a store needs now and then. Every agent does it.
type Maintenance struct {
	Store     Store
	Retention time.Duration // of finished tasks
	Log       *slog.Logger
	Metrics   *telemetry.Metrics
}

// How often the store is maintained.
const (
	maintainEvery  = time.Hour
	maintainWithin = 10 * time.Minute   // one maintenance
	maintainRetry  = maintainEvery / 24 // about, after one that failed
	maintainJitter = 0.5
)

// Run maintains the store at the start and about every hour, at another moment than other agents. It returns nil once ctx has
// ended.
func (m Maintenance) Run(ctx context.Context) error {
	New(Options{
		Name: "maintain", Call: m.once, Timeout: maintainWithin,
		Poll: maintainEvery, Retry: Backoff{maintainRetry, maintainRetry}, Jitter: maintainJitter,
		Log: m.Log, Metrics: m.Metrics,
	}).Run(ctx)
	return nil
}

// once maintains the store. There is always something whose retention will end.
func (m Maintenance) once(ctx context.Context) (Seen, error) {
	removed, err := m.Store.Maintain(ctx, m.Retention)
	if err != nil {
		return Seen{}, err
	}
	if removed > 0 {
		m.Log.Info("removed finished tasks past their retention", "removed", removed, "retention", m.Retention)
	}
	return Seen{Found: true}, nil
}
