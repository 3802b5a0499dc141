package task

import "time"

// Batch says how many tasks of one type and phase a Webhook gets in one request.
type Batch struct {
	Max int // tasks of one request, at most; 1 to MaxBatch
	// Wait is how long a task waits for others, while another request of its type is in flight; 0 to MaxBatchWait.
	Wait time.Duration
}

// Bounds and defaults of a Batch.
const (
	MaxBatch         = 1000
	MaxBatchWait     = 250 * time.Millisecond
	DefaultBatch     = 100
	DefaultBatchWait = 10 * time.Millisecond
	MaxBatchBytes    = 8 << 20 // of the body of a request with several tasks
)

// SharesWith returns how many tasks the request that t goes into may have, itself included: most, half as many after it was in
// a request that failed as a whole (Outcome.Shared), and half as many again after each further one, down to 1. The row
// alone says so, which means that every agent knows, and that a task which breaks each request is found after ten of them at
// the latest: each such failure raises Deferrals. Other deferrals before the failure count as well, which makes the requests
// smaller than they need be, once. A task that has waited for others always goes alone.
func (t *Task) SharesWith(most int) int {
	if t.HasAfter { // with the results of others, which no bound of the request counts
		return 1
	}
	if t.Deferrals == 0 || t.Previous == nil {
		return most
	}
	switch t.Previous.Outcome {
	case Drained, Undelivered: // what has never reached its target says nothing new
		return max(most>>min(t.Deferrals, 62), 1)
	}
	return most
}
