package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/leasehold/leasehold/internal/store"
	"github.com/leasehold/leasehold/internal/task"
)

// BatchFailpoints names the points at which Options.Fail is called in a Fold that ends a batch, and in a Step.
func (*Store) BatchFailpoints() []string { return []string{failBegun, failCommit, failCommitted} }

// operation is a change of a batch, or of one task that ran when it was requested.
type operation struct {
	id            int64
	verb          string
	batch         task.BatchID // of the task, where it is about one; 0: that belongs to none
	task          task.ID      // 0: it is about the batch
	requestedBy   string
	done, refused int64

	// The cursor: the row that it looked at last, by id or, in a rollback, by when it had started. "~" is after any time.
	afterID task.ID
	afterAt string
	// Of a rollback: whether it has come to the finished tasks; when it did, how many there were at the most, and how many it
	// has taken since.
	stopped     bool
	since       string
	goal, taken int64
}

// Step carries out a part of the oldest operation that need not wait: at most so many rows of it.
func (s *Store) Step(ctx context.Context, rows int) (did store.Stepped, err error) {
	if found, err := s.any(ctx, "look for operations", s.sql.AnyOperation); err != nil || !found {
		return did, err
	}
	err = s.change(ctx, "carry on an operation", func(t *tx) error {
		list, err := t.operations()
		if err != nil {
			return err
		}
		did = store.Stepped{Found: len(list) > 0}
		for i := range list {
			st := stepping{tx: t, operation: &list[i], left: rows}
			if did.Ended, err = st.carryOn(); err != nil {
				return fmt.Errorf("%s of batch %d, task %d: %w", st.verb, st.batch, st.task, err)
			}
			if did.Rows = rows - st.left; did.Rows > 0 || did.Ended {
				st.done += int64(did.Rows)
				did.Verb, did.Task, did.Done, did.Refused = st.verb, st.task, st.done, st.refused
				if st.task == 0 {
					did.Batch = st.batch
				}
				return st.keep(did.Ended)
			}
			if err := st.keep(false); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return store.Stepped{}, err
	}
	return did, nil
}

func (t *tx) operations() (list []operation, err error) {
	err = t.query(func(r *sql.Rows) error {
		var o operation
		err := r.Scan(&o.id, &o.verb, &o.batch, &o.task, &o.requestedBy, &o.done, &o.refused, &o.stopped, &o.afterID, &o.afterAt,
			&o.since, &o.goal, &o.taken)
		list = append(list, o)
		return err
	}, t.sql.Operations)
	return list, err
}

// stepping is one step of an operation.
type stepping struct {
	*tx
	*operation
	left  int // tasks that it may still change
	moved bool
}

// keep writes how far the operation is.
func (s *stepping) keep(over bool) error {
	if !over && !s.moved {
		return nil
	}
	var ended, started any
	if over {
		ended = stamp(s.now)
	}
	if s.afterAt != "~" {
		started = s.afterAt
	}
	_, err := s.exec(s.sql.KeepOperation, arg("done", s.done), arg("refused", s.refused), arg("stopped", s.stopped),
		arg("after_id", int64(s.afterID)), arg("after_at", started), arg("since", null(s.since)), arg("goal", s.goal),
		arg("taken", s.taken), arg("ended_at", ended), arg("id", s.id))
	return err
}

// carryOn carries out a part of the operation, and reports whether nothing is left to do.
func (s *stepping) carryOn() (over bool, err error) {
	switch {
	case s.task != 0:
		return s.one()
	case s.verb == "retry":
		return s.retry()
	}
	over, err = s.cancel()
	if err != nil || !over || s.verb == "cancel" {
		return over, err
	}
	return s.rollBack()
}

// cancel cancels what waits of a batch and asks what runs to stop. It is over when nothing does either.
func (s *stepping) cancel() (over bool, err error) {
	by := fmt.Sprintf("batch %d", s.batch)
	if s.requestedBy != "" {
		by += fmt.Sprintf(" (%s by %s)", s.verb, s.requestedBy)
	}
	var ids []task.ID
	if err := s.query(scanIDs(&ids), s.sql.WaitingOfBatch, arg("batch", int64(s.batch)), arg("limit", s.left)); err != nil {
		return false, err
	}
	if len(ids) > 0 {
		list, err := json.Marshal(ids)
		if err != nil {
			return false, fmt.Errorf("encode task ids: %w", err)
		}
		if _, err := s.exec(s.sql.CancelWaiting, arg("by", by), arg("rollback", s.verb == "rollback"), arg("ids", string(list))); err != nil {
			return false, err
		}
		s.change(len(ids))
	}
	n, err := s.exec(s.sql.RequestCancel, arg("now", stamp(s.now)), arg("by", by), arg("batch", int64(s.batch)), arg("limit", s.left))
	if err != nil {
		return false, err
	}
	if n > 0 {
		s.change(int(n))
		if _, err := s.exec(s.sql.WakeForCancel); err != nil {
			return false, err
		}
	}
	if s.left == 0 {
		return false, nil
	}
	unstopped := false
	err = s.row([]any{&unstopped}, s.sql.AnyUnstopped, arg("batch", int64(s.batch)))
	return !unstopped, err
}

// change counts tasks that were changed.
func (s *stepping) change(n int) {
	s.left -= n
	s.moved = s.moved || n > 0
}

// retry revives what failed of a batch, by id.
func (s *stepping) retry() (over bool, err error) {
	for s.left > 0 {
		var ids []task.ID
		err := s.query(scanIDs(&ids), s.sql.FailedOfBatch,
			arg("batch", int64(s.batch)), arg("after_id", int64(s.afterID)), arg("limit", s.left+1))
		if err != nil {
			return false, err
		}
		over = len(ids) <= s.left
		rows := make([]revival, min(len(ids), s.left))
		for i := range rows {
			rows[i] = revival{ids[i], stamp(s.now)}
			s.afterID = ids[i]
		}
		if err := s.revive("retry", rows); err != nil || over {
			return over, err
		}
	}
	return false, nil
}

// revival is a task to revive, and when it is due then.
type revival struct {
	id  task.ID
	due string
}

// MarshalJSON writes it as the statement revive reads it.
func (r revival) MarshalJSON() ([]byte, error) { return json.Marshal([]any{r.id, r.due}) }

// revive takes tasks out of the archive. Those whose key a live task has by now stay there, and are counted as refused.
func (s *stepping) revive(verb string, rows []revival) error {
	if len(rows) == 0 {
		return nil
	}
	list, err := json.Marshal(rows)
	if err != nil {
		return fmt.Errorf("encode task ids: %w", err)
	}
	if _, err := s.exec(s.sql.Revive, arg("verb", verb), arg("rows", string(list))); err != nil {
		return err
	}
	revived := 0
	if err := s.row([]any{&revived}, s.sql.CountRevived, arg("rows", string(list))); err != nil {
		return err
	}
	s.refused += int64(len(rows) - revived)
	s.moved = true
	s.change(revived)
	return nil
}

// one carries out the rollback of one task that ran when it was requested.
func (s *stepping) one() (over bool, err error) {
	var state task.State
	var canRollBack bool
	err = s.row([]any{&state, &canRollBack}, s.sql.TaskToRollBack, arg("id", int64(s.task)))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return true, nil
	case err != nil:
		return false, err
	case state == task.StateRunning:
		return false, nil
	case state.Waiting() && state.Phase() == task.Run:
		s.change(1)
		_, err := s.exec(s.sql.CancelWaiting, arg("by", null(s.requestedBy)), arg("rollback", true), arg("ids", fmt.Sprintf("[%d]", s.task)))
		return true, err
	case !canRollBack:
		return true, nil
	}
	if err := s.revive("rollback", []revival{{s.task, stamp(s.now)}}); err != nil || s.refused > 0 {
		return true, err
	}
	_, err = s.exec(s.sql.ReopenBatchOf, arg("id", int64(s.task)))
	return true, err
}
