-- INSERT INTO cancel (id, by) cancels a task. A waiting task never starts (again), a running one is asked to stop, one that is
-- finished or being rolled back does not change. SELECT answer FROM cancel WHERE id = … is then cancelling, or the task's state.
CREATE VIEW cancel AS
    SELECT id, cancel_requested_by AS by, iif(state = 'running' AND cancel_requested_at IS NOT NULL, 'cancelling',
        state) AS answer
    FROM tasks;

CREATE TRIGGER cancel_insert INSTEAD OF INSERT ON cancel
BEGIN
    SELECT RAISE(ABORT, 'there is no task with this id') WHERE NOT EXISTS (SELECT 1 FROM tasks WHERE id = NEW.id);
    SELECT RAISE(ABORT, 'by must be 512 bytes at most') WHERE length(CAST(NEW.by AS BLOB)) > 512;

    INSERT INTO audit (requested_by, verb, task_id, answer) -- the answer is entered below
    SELECT nullif(CAST(NEW.by AS TEXT), ''), 'cancel', id, ''
    FROM task WHERE id = NEW.id
      AND (state IN ('pending', 'retry_pending') OR state = 'running' AND cancel_requested_at IS NULL)
    UNION ALL
    SELECT nullif(CAST(NEW.by AS TEXT), ''), 'cancel', id, '' FROM follow WHERE id = NEW.id;

    UPDATE task SET cancel_requested_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'),
        cancel_requested_by = nullif(CAST(NEW.by AS TEXT), '')
    WHERE id = NEW.id AND state = 'running' AND cancel_requested_at IS NULL;
    UPDATE wakeup SET cancel = cancel + 1 WHERE changes() > 0;

    -- What is rolled back is task.RollsBack's rule; the check "what is rolled back when it is cancelled" compares the two.
    INSERT INTO cancel_waiting (id, by, rollback)
    SELECT id, nullif(CAST(NEW.by AS TEXT), ''), ever_started AND {own_rollback of=task} FROM task WHERE id = NEW.id;
    INSERT INTO cancel_follower (id, by) SELECT id, nullif(CAST(NEW.by AS TEXT), '') FROM follow WHERE id = NEW.id;
    UPDATE audit SET answer = (SELECT answer FROM cancel WHERE id = NEW.id)
    WHERE id = (SELECT max(id) FROM audit) AND answer = '';
END;
