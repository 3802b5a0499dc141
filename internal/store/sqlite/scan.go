package sqlite

import (
	"database/sql"
	"encoding/json"

	"github.com/leasehold/leasehold/internal/task"
)

// columns of task and task_archive that a Task is read from, in the order of record.fields.
const columns = `id, type, state, fence, attempt, ifnull(max_attempts, 0), give_backs, touched, payload, result, labels,
	ifnull(key, ''), ifnull(region, ''), priority, ifnull(traceparent, ''), ifnull(created_by, ''), ifnull(outcome, ''),
	ifnull(error, ''), ifnull(policy, 0), created_at, run_at, claimed_at, lease_until, deadline, ifnull(session, 0),
	checkpoint`

// record is a row as it is read.
type record struct {
	task.Task
	outcome, err                        string
	session                             task.Session
	payload, result, labels, checkpoint sql.NullString
}

// fields are where to scan columns to.
func (r *record) fields() []any {
	return []any{
		&r.ID, &r.Type, &r.State, &r.Fence, &r.Attempt, &r.MaxAttempts, &r.GiveBacks, &r.Touched,
		&r.payload, &r.result, &r.labels,
		&r.Key, &r.Region, &r.Priority, &r.Traceparent, &r.CreatedBy, &r.outcome,
		&r.err, &r.Policy, timeOf{&r.CreatedAt}, timeOf{&r.RunAt}, timeOf{&r.ClaimedAt}, timeOf{&r.LeaseEnd},
		timeOf{&r.Deadline}, &r.session, &r.checkpoint,
	}
}

// complete gives the Task once the fields are filled.
func (r *record) complete() task.Task {
	r.Payload, r.Result, r.Labels, r.Checkpoint = raw(r.payload), raw(r.result), raw(r.labels), raw(r.checkpoint)
	if r.outcome != "" {
		r.Previous = &task.Previous{Outcome: task.Verdict(r.outcome), Error: r.err}
	}
	return r.Task
}

// scanTasks gathers the rows of a query for columns.
func scanTasks(into *[]task.Task) func(*sql.Rows) error {
	return func(rows *sql.Rows) error {
		var r record
		if err := rows.Scan(r.fields()...); err != nil {
			return err
		}
		*into = append(*into, r.complete())
		return nil
	}
}

func raw(s sql.NullString) json.RawMessage {
	if !s.Valid {
		return nil
	}
	return json.RawMessage(s.String)
}

// scanIDs gathers the rows of a query for ids.
func scanIDs(into *[]task.ID) func(*sql.Rows) error {
	return func(rows *sql.Rows) error {
		var id task.ID
		err := rows.Scan(&id)
		*into = append(*into, id)
		return err
	}
}
