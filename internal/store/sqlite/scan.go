package sqlite

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"unsafe"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// record is a row as it is read.
type record struct {
	task.Task
	outcome task.Verdict
	err     string
}

// unclaimed returns where to scan the columns that a claim returns: those that it does not write itself. What few rows have
// comes as one JSON column, since what a claim reads costs more than what it writes.
func (r *record) unclaimed() []any {
	return append(make([]any, 0, 40),
		numberOf[task.ID]{&r.ID}, numberOf[task.Fence]{&r.Fence}, numberOf[int]{&r.Attempt}, numberOf[int]{&r.MaxAttempts},
		numberOf[int]{&r.Deferrals}, truthOf{&r.EverStarted}, jsonOf{&r.Payload}, jsonOf{&r.Result}, jsonOf{&r.Labels},
		textOf[string]{&r.Key}, textOf[string]{&r.Region}, textOf[string]{&r.Traceparent}, textOf[string]{&r.CreatedBy},
		textOf[task.Verdict]{&r.outcome}, textOf[string]{&r.err}, timeOf{&r.CreatedAt}, timeOf{&r.RunAt}, timeOf{&r.Deadline},
		jsonOf{&r.Checkpoint}, jsonOf{&r.RollbackPayload}, rareOf{&r.Task})
}

// fields returns where to scan the columns that a Task is read from, in all other statements.
func (r *record) fields() []any {
	return append(r.unclaimed(),
		textOf[string]{&r.Type}, textOf[task.State]{&r.State}, numberOf[int]{&r.Priority}, numberOf[task.PolicyHash]{&r.Policy},
		timeOf{&r.ClaimedAt}, timeOf{&r.LeaseEnd})
}

// complete gives the Task once the fields are filled.
func (r *record) complete() task.Task {
	if r.outcome != "" {
		r.Previous = &task.Previous{Outcome: r.outcome, Error: r.err}
	}
	// An application can write anything. A number that no row reaches in use must leave room to count on from.
	r.Deferrals = min(max(r.Deferrals, 0), store.MaxAttempt)
	r.MaxAttempts = min(max(r.MaxAttempts, 0), store.MaxAttempts)
	if r.Fence > store.MaxFence {
		r.Unfit = store.UnfitFence()
	}
	return r.Task
}

// scanTasks gathers the rows of a query for fields.
func scanTasks(into *[]task.Task) func(*sql.Rows) error {
	r := new(record)
	return scanRecords(into, r, r.fields(), task.Task{})
}

// scanClaimed gathers the rows of a claim; known has the values that all of them share.
func scanClaimed(into *[]task.Task, known task.Task) func(*sql.Rows) error {
	r := new(record)
	return scanRecords(into, r, r.unclaimed(), known)
}

func scanRecords(into *[]task.Task, r *record, fields []any, known task.Task) func(*sql.Rows) error {
	return func(rows *sql.Rows) error {
		*r = record{Task: known}
		if err := rows.Scan(fields...); err != nil {
			return err
		}
		*into = append(*into, r.complete())
		return nil
	}
}

// scanIDs gathers the rows of a query for ids.
func scanIDs[T ~int64](into *[]T) func(*sql.Rows) error {
	return func(rows *sql.Rows) error {
		var id T
		err := rows.Scan(&id)
		*into = append(*into, id)
		return err
	}
}

// The types below implement sql.Scanner for what a row may hold; NULL leaves the zero value. database/sql could read all
// but times without them, and would take several times as long: by reflection, and numbers by way of text.
type (
	numberOf[T ~int | ~int64] struct{ n *T }
	textOf[T ~string]         struct{ s *T }
	truthOf                   struct{ b *bool }
	jsonOf                    struct{ j *json.RawMessage }
)

// Scan reads a number.
func (x numberOf[T]) Scan(v any) error {
	switch v := v.(type) {
	case nil:
	case int64:
		*x.n = T(v)
	default:
		return unexpected("a number", v)
	}
	return nil
}

// Scan reads a text.
func (x textOf[T]) Scan(v any) error {
	switch v := v.(type) {
	case nil:
	case string:
		*x.s = T(v)
	default:
		return unexpected("a text", v)
	}
	return nil
}

// Scan reads a truth value, which is a number.
func (x truthOf) Scan(v any) error {
	n := 0
	err := numberOf[int]{&n}.Scan(v)
	*x.b = n != 0
	return err
}

// Scan reads JSON.
func (x jsonOf) Scan(v any) error {
	switch v := v.(type) {
	case nil:
	case string:
		// The driver made the string for us, and a task's documents are never changed: a copy would double what a large one takes.
		*x.j = unsafe.Slice(unsafe.StringData(v), len(v)) //nolint:gosec // read only
	default:
		return unexpected("JSON", v)
	}
	return nil
}

// rareOf reads the column of what few rows have: batch_id, cause, round, lock, sequence, tenant, whether they have after, and
// whether they were spilled.
type rareOf struct{ t *task.Task }

// Scan reads what few rows have.
func (x rareOf) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		err := json.Unmarshal([]byte(v), &[]any{
			&x.t.Batch, &x.t.Cause, &x.t.Round, &x.t.Lock, &x.t.Sequence, &x.t.Tenant, &x.t.HasAfter, &x.t.Spilled,
		})
		if err != nil {
			return fmt.Errorf("read a row of a batch, of a rollback, with a lock, a sequence, a tenant or after from the store: %w", err)
		}
		return nil
	}
	return unexpected("JSON", v)
}

func unexpected(what string, v any) error {
	return fmt.Errorf("read %s from the store: found %T", what, v)
}
