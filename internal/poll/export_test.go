package poll

import (
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

// Condition is what the next heartbeat reports.
func (e *Engine) Condition() store.Condition { return e.condition() }

// StandStill makes it look as though the loop had last turned so long ago.
func (e *Engine) StandStill(ago time.Duration) { e.turned.Store(int64(e.o.Clock.Now() - ago)) }
