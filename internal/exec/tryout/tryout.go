// Package tryout runs one attempt of a task type without a store: no row exists, nothing is retried, and nothing is kept.
package tryout

import (
	"encoding/json"
	"log/slog"
	"net"
	"time"

	"github.com/leasehold/leasehold/internal/exec"
	"github.com/leasehold/leasehold/internal/lease"
	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// Tryout is one attempt.
type Tryout struct {
	typ   *task.Type
	lease *lease.Lease
	pings *pings // nil: none are taken
}

// New returns the attempt that a claim of a fresh row of the type would give, or of a row whose run has failed and that is to
// be rolled back. name is that of the type or an alias; a nil payload is {}. The payload of a rollback is the rollback's data,
// too. The fence is 0, which no claim hands out, so that the attempt holds no task of any store: a store may have one with its id. Close it.
func New(name string, payload json.RawMessage, t *task.Type, phase task.Phase) *Tryout {
	if payload == nil {
		payload = json.RawMessage("{}")
	}
	now := time.Now().UTC()
	row := &task.Task{
		ID: 1, Type: name, State: task.StateRunning, Attempt: 1, Payload: payload, Policy: t.Policy.Hash(name),
		CreatedAt: now, RunAt: now, ClaimedAt: now, LeaseEnd: now.Add(t.Policy.Window(phase)),
	}
	if phase == task.Rollback {
		row.State, row.EverStarted, row.Cause, row.RollbackPayload = task.StateRollbackRunning, true, task.Failed, payload
	} else if t.Policy.Deadline > 0 {
		row.Deadline = now.Add(t.Policy.Deadline)
	}
	return start(row, t)
}

// Lease is the attempt's lease.
func (t *Tryout) Lease() *lease.Lease { return t.lease }

// Listen has the attempt take pings from l, a TCP listener, until Close. Call it before Run. seen is called with each ping and
// its reply.
func (t *Tryout) Listen(l net.Listener, seen func(store.Ping, store.PingReply), log *slog.Logger) (err error) {
	t.lease.OnPing(seen)
	t.pings, err = serve(l, t.lease, log)
	return err
}

// Run runs the attempt to its end. An attempt that was accepted with 202 ends when it has reported its end, or must stop. An
// end that the task itself reports counts, whatever its target says.
func (t *Tryout) Run(r *exec.Runner) task.Outcome {
	o := r.Run(t.lease, t.typ)
	if t.pings == nil {
		return o
	}
	if o.Accepted {
		t.lease.Ping(store.Ping{}) // the response counts as one
		select {
		case <-t.pings.done:
		case <-t.lease.Context().Done():
			o = t.lease.Cause().Outcome()
		}
	}
	if ended := t.pings.outcome(); ended != nil {
		return *ended
	}
	return o
}

// Next returns what would become of the row, with a delay in the middle of its jitter.
func (t *Tryout) Next(o task.Outcome) task.Transition {
	const jitter = 0.5
	left, _ := t.lease.Left()
	return task.Decide(t.lease.Task(), &t.typ.Policy, o, left, jitter)
}

// Close ends the attempt's lease, and closes the listener.
func (t *Tryout) Close() {
	if t.pings != nil {
		t.pings.close()
	}
	t.lease.Close()
}
