package model

import (
	"encoding/json"
	"time"

	"github.com/leasehold/leasehold/internal/task"
)

// onFailed inserts the row of on_failed for one that ends now, of that type; "": none is due.
func (s *Store) onFailed(r *Row, typ string, now time.Time) {
	if typ == "" || r.FailedTask != 0 {
		return
	}
	r.FailedTask = r.ID
	said := map[string]any{
		"id": r.ID, "type": r.Type, "state": r.State, "outcome": orNull(string(r.Outcome)), "error": orNull(r.Error),
		"rollback_error": nil, "data": r.Payload,
	}
	if r.State != task.StateFailed {
		said["outcome"], said["error"] = orNull(string(r.Cause)), orNull(s.lastRun(r.ID).Error)
	}
	if r.State == task.StateRollbackFailed {
		said["rollback_error"] = orNull(r.Error)
	}
	payload, _ := json.Marshal(said) // of texts, a number and JSON
	due := now
	if r.LeaseEnd.After(due) { // which it has only if something may be at work until then
		due = r.LeaseEnd
	}
	s.add(&Row{
		Type: typ, State: task.StatePending, Payload: payload, Labels: r.Labels, Region: r.Region, Tenant: r.Tenant,
		Traceparent: r.Traceparent, CreatedBy: "leasehold", CreatedAt: now, RunAt: due, FailedTask: r.ID, Fence: 1,
	})
}

// lastRun returns the last attempt to run a task that the history has; zero: there is none.
func (s *Store) lastRun(id task.ID) (last Attempt) {
	for _, a := range s.attempts[id] {
		if a.Phase == task.Run {
			last = a
		}
	}
	return last
}

// orNull returns text, or nil for none.
func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}
