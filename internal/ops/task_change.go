package ops

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// changeWithin bounds the change of one task, however many there are.
const changeWithin = 30 * time.Second

// TaskChange is a request to change tasks one by one.
type TaskChange struct {
	Verb Verb
	By   string // who requests it, shown to people; "": not given
	// Payload takes the place of the task's with VerbRetry; nil: it keeps its own.
	Payload json.RawMessage
	// Before reads each task before it is changed, a call more for each, so that its Report knows whether it is Unchanged.
	Before bool
}

// ChangedTasks is what ChangeTasks needs of the store.
type ChangedTasks interface {
	Operator
	redactionStore
	// Get is Store.Get.
	Get(ctx context.Context, id task.ID) (*store.TaskInfo, error)
}

// Report is what became of one task that was to be changed.
type Report struct {
	ID     task.ID      `json:"id"`
	Became store.Became `json:"became,omitempty"` // "": there is no such task, or it must not be
	Error  string       `json:"error,omitempty"`
	// Revives is how many tasks that were cancelled on account of this one its retry revives, too, as far as is known: Barred are
	// those of the first store.MostNeighbours that cannot be.
	Revives int               `json:"revives,omitempty"`
	Barred  []store.Neighbour `json:"barred,omitempty"`
	// Missing: there is no such task; else, where Error is set, the request was refused.
	Missing bool `json:"-"`
	// Before is the task's state before the change; "": not known.
	Before task.State `json:"-"`
}

// Unchanged reports whether the task is known to have been in this state before.
func (r *Report) Unchanged() bool {
	return r.Error == "" && r.Before != "" && task.State(r.Became) == r.Before
}

// ChangeTasks changes tasks one by one, in their order, and returns what became of each. A task that does not exist or refuses
// the change does not keep the others from theirs. At the first other error it stops: the reports are then of the tasks before.
func ChangeTasks(ctx context.Context, s ChangedTasks, ids []task.ID, c TaskChange) ([]Report, error) {
	if err := c.Verb.check(c.By); err != nil {
		return nil, err
	}
	if err := store.CheckPayload(c.Payload); err != nil {
		return nil, err
	}
	reports := make([]Report, 0, len(ids))
	for _, id := range ids {
		r, err := c.one(ctx, s, id)
		if err != nil {
			return reports, fmt.Errorf("task %d: %w", id, err)
		}
		reports = append(reports, r)
	}
	return reports, nil
}

// one changes one task. Only errors that concern the others too are returned.
func (c TaskChange) one(ctx context.Context, s ChangedTasks, id task.ID) (r Report, err error) {
	call, cancel := context.WithTimeout(ctx, changeWithin)
	defer cancel()
	r.ID = id
	var before store.TaskInfo
	if c.Before || c.Verb == VerbRetry {
		switch info, err := s.Get(call, id); {
		case err == nil:
			before = *info
		case mayBeMasked(c.Payload): // it is unknown whether its type masks members
			err = r.refused(err)
			return r, err
		} // otherwise the change itself reports what is wrong with the store
	}
	r.Before = before.State
	if err := notMasked(call, s, &before, c.Payload); err != nil {
		err = r.refused(err)
		return r, err
	}
	switch c.Verb {
	case VerbCancel:
		r.Became, err = s.Cancel(call, id, c.By)
	case VerbRetry:
		if r.Became, err = s.RetryWith(call, id, c.Payload, c.By); err == nil && before.Related != nil && !r.Unchanged() {
			r.with(before.Related)
		}
	case VerbRollback:
		r.Became, err = s.Rollback(call, id, c.By)
	}
	err = r.refused(err)
	return r, err
}

// refused notes an error that concerns the task alone; others it returns.
func (r *Report) refused(err error) error {
	refused, isRefused := errors.AsType[*store.RefusedError](err)
	switch {
	case errors.Is(err, store.ErrNoTask):
		r.Error, r.Missing = store.ErrNoTask.Error(), true
	case isRefused:
		r.Error = refused.Text
	default:
		return err
	}
	return nil
}

// notMasked refuses a payload that was copied from where the task was shown, and edited there: what was masked would be lost.
func notMasked(ctx context.Context, s redactionStore, info *store.TaskInfo, payload json.RawMessage) error {
	if !mayBeMasked(payload) {
		return nil
	}
	masks, err := ReadRedactions(ctx, s)
	if err != nil {
		return err
	}
	if masks.of(info).Any() {
		return &store.RefusedError{Text: "the payload has " + maskedText + " where members of this type are masked: give their values"}
	}
	return nil
}

// mayBeMasked reports whether a payload may have been copied from where it was masked.
func mayBeMasked(payload json.RawMessage) bool { return bytes.Contains(payload, []byte(maskedText)) }

// with notes what a retry revives beside the task.
func (r *Report) with(related *store.Related) {
	for _, n := range related.Cancelled {
		if n.Barred != "" {
			r.Barred = append(r.Barred, n)
		}
	}
	r.Revives = related.CancelledTotal - len(r.Barred)
}

// ReportsError sums up the tasks that do not exist or refused their change; nil: there are none.
func ReportsError(reports []Report) error {
	var missing, refused []Report
	for _, r := range reports {
		switch {
		case r.Missing:
			missing = append(missing, r)
		case r.Error != "":
			refused = append(refused, r)
		}
	}
	switch {
	case len(missing)+len(refused) == 0:
		return nil
	case len(missing) == 1 && len(refused) == 0:
		return taskError(missing[0].ID, store.ErrNoTask)
	case len(refused) == 0:
		return fmt.Errorf("%d of %d tasks do not exist (or their retention is over)", len(missing), len(reports))
	case len(refused) == 1 && len(missing) == 0:
		return fmt.Errorf("task %d: %s", refused[0].ID, refused[0].Error)
	case len(missing) == 0:
		return fmt.Errorf("%d of %d tasks were not changed", len(refused), len(reports))
	}
	return fmt.Errorf("%d of %d tasks were not changed, and %d do not exist", len(refused), len(reports), len(missing))
}
