package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/leasehold/leasehold/internal/batch"
	"github.com/leasehold/leasehold/internal/task"
)

// BatchFailpoints names the points at which Options.Fail is called in a Fold that ends a batch, and in a Step.
func (*Store) BatchFailpoints() []string { return []string{failBegun, failCommit, failCommitted} }

const anyOperationQuery = "SELECT EXISTS (SELECT 1 FROM operation INDEXED BY operation_open WHERE ended_at IS NULL)"

const operationsQuery = `
	SELECT id, verb, ifnull(batch_id, 0), ifnull(task_id, 0), ifnull(who, ''), done, refused, ifnull(at_id, 0),
		ifnull(at_started, '~'), ifnull(since, ''), ifnull(goal, 0), taken
	FROM operation INDEXED BY operation_open WHERE ended_at IS NULL ORDER BY id`

const keepOperation = `
	UPDATE operation SET done = ?2, refused = ?3, at_id = ?4, at_started = ?5, since = ?6, goal = ?7, taken = ?8, ended_at = ?9
	WHERE id = ?1`

// operation is what somebody wants of many tasks, or of one that runs.
type operation struct {
	id            int64
	verb          string
	batch         task.BatchID // 0: it is about a task
	task          task.ID      // 0: it is about a batch
	who           string
	done, refused int64

	// How far it is: the last row that it looked at, by id or, in a rollback, by when it had started. "~" is after any time.
	atID      task.ID
	atStarted string
	// Of a rollback that has come to what is finished: when it did, how many rows there were at the most, and how many it
	// has taken since.
	since       string
	goal, taken int64
}

// Step carries on the oldest operation that need not wait.
func (s *Store) Step(ctx context.Context, rows int) (did batch.Stepped, err error) {
	if found, err := s.any(ctx, "look for operations", anyOperationQuery); err != nil || !found {
		return did, err
	}
	err = s.change(ctx, "carry on an operation", func(t *tx) error {
		list, err := t.operations()
		if err != nil {
			return err
		}
		did = batch.Stepped{Found: len(list) > 0}
		for i := range list {
			st := stepping{tx: t, operation: &list[i], left: rows}
			if did.Ended, err = st.carryOn(); err != nil {
				return fmt.Errorf("%s of batch %d, task %d: %w", st.verb, st.batch, st.task, err)
			}
			if did.Rows = rows - st.left; did.Rows > 0 || did.Ended {
				st.done += int64(did.Rows)
				did.Verb, did.Batch, did.Task, did.Done, did.Refused = st.verb, st.batch, st.task, st.done, st.refused
				return st.keep(did.Ended)
			}
			if err := st.keep(false); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return batch.Stepped{}, err
	}
	return did, nil
}

func (t *tx) operations() (list []operation, err error) {
	err = t.query(func(r *sql.Rows) error {
		var o operation
		err := r.Scan(&o.id, &o.verb, &o.batch, &o.task, &o.who, &o.done, &o.refused, &o.atID, &o.atStarted, &o.since, &o.goal, &o.taken)
		list = append(list, o)
		return err
	}, operationsQuery)
	return list, err
}

// stepping is one step of an operation.
type stepping struct {
	*tx
	*operation
	left  int // tasks that it may still change
	moved bool
}

// keep writes down how far the operation is.
func (s *stepping) keep(over bool) error {
	if !over && !s.moved {
		return nil
	}
	var ended, started any
	if over {
		ended = stamp(s.now)
	}
	if s.atStarted != "~" {
		started = s.atStarted
	}
	_, err := s.exec(keepOperation, s.id, s.done, s.refused, int64(s.atID), started, null(s.since), s.goal, s.taken, ended)
	return err
}

// carryOn does a part of what is wanted, and reports whether nothing is left to do.
func (s *stepping) carryOn() (over bool, err error) {
	switch {
	case s.task != 0:
		return s.one()
	case s.verb == "retry":
		return s.retry()
	}
	over, err = s.callOff()
	if err != nil || !over || s.verb == "cancel" {
		return over, err
	}
	return s.undo()
}

const (
	waitingQuery = `SELECT id FROM task INDEXED BY task_batch WHERE batch_id = ? AND state IN ('pending', 'retry_pending') LIMIT ?`
	callOffQuery = "INSERT INTO call_off (id, by, undo) SELECT value, ?2, ?3 FROM json_each(?1)"
	askQuery     = `
	UPDATE task SET cancel_asked = ?3, cancel_by = ?4 WHERE id IN (
		SELECT id FROM task INDEXED BY task_batch WHERE batch_id = ?1 AND state = 'running' AND cancel_asked IS NULL LIMIT ?2)`
	goesOnQuery = `
	SELECT EXISTS (SELECT 1 FROM task INDEXED BY task_batch WHERE batch_id = ? AND state IN ('pending', 'retry_pending', 'running'))`
)

// callOff calls off what waits of a batch and asks what runs to stop. It is over when nothing does either.
func (s *stepping) callOff() (over bool, err error) {
	by := fmt.Sprintf("batch %d", s.batch)
	if s.who != "" {
		by += fmt.Sprintf(" (%s by %s)", s.verb, s.who)
	}
	var ids []task.ID
	if err := s.query(scanIDs(&ids), waitingQuery, int64(s.batch), s.left); err != nil {
		return false, err
	}
	if len(ids) > 0 {
		list, err := json.Marshal(ids)
		if err != nil {
			return false, fmt.Errorf("encode task ids: %w", err)
		}
		if _, err := s.exec(callOffQuery, string(list), by, s.verb == "rollback"); err != nil {
			return false, err
		}
		s.change(len(ids))
	}
	n, err := s.exec(askQuery, int64(s.batch), s.left, stamp(s.now), by)
	if err != nil {
		return false, err
	}
	if n > 0 {
		s.change(int(n))
		if err := s.run("UPDATE sign SET asked = asked + 1"); err != nil {
			return false, err
		}
	}
	if s.left == 0 {
		return false, nil
	}
	goesOn := false
	err = s.row([]any{&goesOn}, goesOnQuery, int64(s.batch))
	return !goesOn, err
}

// change counts tasks that were changed.
func (s *stepping) change(n int) {
	s.left -= n
	s.moved = s.moved || n > 0
}

const failedQuery = `
	SELECT id FROM task_archive INDEXED BY task_archive_batch_unwell
	WHERE batch_id = ? AND state <> 'succeeded' AND id > ?
		AND (state = 'failed' OR state = 'rolled_back' AND cause NOT IN ('succeeded', 'cancelled'))
	ORDER BY id LIMIT ?`

// retry brings back what failed of a batch, by id.
func (s *stepping) retry() (over bool, err error) {
	for s.left > 0 {
		var ids []task.ID
		if err := s.query(scanIDs(&ids), failedQuery, int64(s.batch), int64(s.atID), s.left+1); err != nil {
			return false, err
		}
		over = len(ids) <= s.left
		rows := make([]comeback, min(len(ids), s.left))
		for i := range rows {
			rows[i] = comeback{ids[i], stamp(s.now)}
			s.atID = ids[i]
		}
		if err := s.bringBack("retry", rows); err != nil || over {
			return over, err
		}
	}
	return false, nil
}

// comeback is a task that comes back out of the archive, and when it is due then.
type comeback struct {
	id  task.ID
	due string
}

// MarshalJSON writes it as bringBackQuery reads it.
func (c comeback) MarshalJSON() ([]byte, error) { return json.Marshal([]any{c.id, c.due}) }

const (
	bringBackQuery = `
	INSERT INTO bring_back (id, verb, run_at)
	SELECT json_extract(value, '$[0]'), ?2, json_extract(value, '$[1]') FROM json_each(?1)`
	backQuery = "SELECT count(*) FROM task WHERE id IN (SELECT json_extract(value, '$[0]') FROM json_each(?))"
)

// bringBack takes tasks out of the archive. Those whose key is another's by now stay there, and are counted.
func (s *stepping) bringBack(verb string, rows []comeback) error {
	if len(rows) == 0 {
		return nil
	}
	list, err := json.Marshal(rows)
	if err != nil {
		return fmt.Errorf("encode task ids: %w", err)
	}
	if _, err := s.exec(bringBackQuery, string(list), verb); err != nil {
		return err
	}
	back := 0
	if err := s.row([]any{&back}, backQuery, string(list)); err != nil {
		return err
	}
	s.refused += int64(len(rows) - back)
	s.moved = true
	s.change(back)
	return nil
}

const taskQuery = `
	SELECT state, state IN ('succeeded', 'failed', 'cancelled') AND ever_started AND ` + undoable + ` FROM tasks WHERE id = ?`

// one carries on the rollback of one task that ran when it was wanted.
func (s *stepping) one() (over bool, err error) {
	var state task.State
	var canUndo bool
	err = s.row([]any{&state, &canUndo}, taskQuery, int64(s.task))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return true, nil
	case err != nil:
		return false, err
	case state == task.StateRunning:
		return false, nil
	case state.Waiting() && state.Phase() == task.Run:
		s.change(1)
		_, err := s.exec("INSERT INTO call_off (id, by, undo) VALUES (?, ?, 1)", int64(s.task), null(s.who))
		return true, err
	case !canUndo:
		return true, nil
	}
	if err := s.bringBack("rollback", []comeback{{s.task, stamp(s.now)}}); err != nil || s.refused > 0 {
		return true, err
	}
	_, err = s.exec(reopenQuery, int64(s.task))
	return true, err
}

// reopenQuery begins a new round of the batch of a task that came back, if that had ended.
const reopenQuery = `
	UPDATE batch SET ended_at = NULL, round = round + 1, requested = NULL, requested_by = NULL, by_failure = 0, stopping = 0,
		failures_seen = failures
	WHERE ended_at IS NOT NULL AND id = (SELECT batch_id FROM task WHERE id = ?)`
