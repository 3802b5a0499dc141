package work

import (
	"context"
	"log/slog"
	"time"

	"github.com/leasehold/leasehold/internal/task"
	"github.com/leasehold/leasehold/internal/telemetry"
)

// Declaring notes in the store what an agent declares: the change log of definitions, which plan compares with. Nothing that agents do
// depends on it.
type Declaring struct {
	// Declare notes it for a session. known is false where the store has no such session.
	Declare func(ctx context.Context, session task.Session) (known bool, err error)
	Joined  <-chan struct{} // closed once the session is open
	Session func() (s task.Session, joined bool)
	Log     *slog.Logger
	Metrics *telemetry.Metrics
}

// How often that is noted.
const (
	declareEvery  = time.Hour // so the log says to an hour until when something was declared
	declareWithin = 15 * time.Second
	declareWait   = time.Second // after one that did not find the session
	declareFirst  = time.Second // after a call that failed
	declareLast   = time.Minute
)

// Run notes it once the session is open, and about every hour. It returns nil once ctx has ended.
func (d Declaring) Run(ctx context.Context) error {
	select {
	case <-d.Joined:
	case <-ctx.Done():
		return nil
	}
	New(Options{
		Name: "declare", Call: d.once, Timeout: declareWithin, Poll: declareEvery, Wait: declareWait,
		Retry: Backoff{declareFirst, declareLast}, Jitter: 0.2, Log: d.Log, Metrics: d.Metrics,
	}).Run(ctx)
	return nil
}

func (d Declaring) once(ctx context.Context) (Seen, error) {
	session, _ := d.Session()
	known, err := d.Declare(ctx, session)
	return Seen{Found: known, Waits: !known}, err
}
