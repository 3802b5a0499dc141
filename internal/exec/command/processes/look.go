package processes

import (
	"time"

	"github.com/leasehold/leasehold/internal/store"
)

// Doing is what a process and its descendants do.
type Doing struct {
	State store.ProcessState
	CPU   time.Duration // that they have used so far, in steps of 10 ms; without that of descendants nobody has waited for
	Count int           // of processes
}
