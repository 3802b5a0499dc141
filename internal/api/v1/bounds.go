package v1

import (
	"context"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/leasehold/leasehold/internal/api"
)

// Bounds of the API as a whole.
const (
	mostRequests = 64       // at once, of all kinds but streams
	mostCalls    = 2        // that work in the store at once: the agent's own work needs its connections, too
	mostWaits    = 32       // long polls, of the requests
	mostStreams  = 128      // beside the requests
	mostLong     = 1        // changes that take long: of many rows, or of a batch that is being created
	mostCounts   = 1        // counts of the table of a plan
	mostBodies   = 32 << 20 // bytes of bodies in memory

	callPatience = 5 * time.Second // for a turn in the store
)

// bounds are the places that requests take. Each is released when the request ends.
type bounds struct {
	requests, calls, waits, streams, long, counts, bodies *semaphore.Weighted
}

func newBounds() bounds {
	return bounds{
		semaphore.NewWeighted(mostRequests), semaphore.NewWeighted(mostCalls), semaphore.NewWeighted(mostWaits),
		semaphore.NewWeighted(mostStreams), semaphore.NewWeighted(mostLong), semaphore.NewWeighted(mostCounts),
		semaphore.NewWeighted(mostBodies),
	}
}

func (b *bounds) enter() bool { return b.requests.TryAcquire(1) }

func (b *bounds) leave() { b.requests.Release(1) }

// turn waits for a place in the store; errBusy where there is none in time.
func (b *bounds) turn(ctx context.Context) (done func(), err error) {
	patience, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	if b.calls.Acquire(patience, 1) != nil {
		return nil, errBusy
	}
	return func() { b.calls.Release(1) }, nil
}

// busy refuses a request for now.
func busy(w http.ResponseWriter, what string) {
	w.Header().Set("Retry-After", "1")
	api.Problem(w, http.StatusServiceUnavailable, what+": try again")
}
