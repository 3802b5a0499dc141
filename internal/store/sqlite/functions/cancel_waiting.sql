-- For agents and the other functions, not for applications.
--
-- INSERT INTO cancel_waiting (id, by, rollback) ends a waiting task as cancelled or, where rollback is true, has it wait for its
-- rollback instead, which is due once its last attempt is certainly over. The caller decides which: internal/batch by
-- task.RollsBack, and the functions cancel and rollback by the same rule.
CREATE VIEW cancel_waiting AS SELECT id, cancel_requested_by AS by, 0 AS rollback FROM task;

CREATE TRIGGER cancel_waiting_insert INSTEAD OF INSERT ON cancel_waiting
BEGIN
    INSERT INTO lock_note (name)
    SELECT lock FROM task
    WHERE id = NEW.id AND state IN ('pending', 'retry_pending') AND NEW.rollback AND lock IS NOT NULL AND held IS NULL;
    UPDATE task SET state = 'rollback_pending', held = NULL, fence = fence + 1, attempt = 0, deferrals = 0, cause = 'cancelled',
        run_at = max(strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), ifnull(lease_until, '')), first_due = NULL, outcome = 'cancelled',
        error = 'cancelled while it waited' || ifnull(', by ' || NEW.by, '')
    WHERE id = NEW.id AND state IN ('pending', 'retry_pending') AND NEW.rollback;
    UPDATE wakeup SET due = due + 1 WHERE changes() > 0; -- rows that the statement before has changed
    UPDATE batch SET rolling_back = rolling_back + 1
    WHERE changes() > 0 AND id = (SELECT batch_id FROM task WHERE id = NEW.id);

    UPDATE batch SET cancelled = cancelled + 1
    WHERE id = (SELECT batch_id FROM task WHERE id = NEW.id AND state IN ('pending', 'retry_pending'));
    INSERT INTO archive (id, state, attempt, deferrals, ever_started, outcome, error, finished_at, after_lease,
        cancel_requested_at, cancel_requested_by)
    SELECT id, 'cancelled', attempt, deferrals, ever_started, 'cancelled',
           iif(ever_started, 'cancelled while it waited', 'cancelled before it started') || ifnull(', by ' || NEW.by, ''),
           strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), 1, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), NEW.by
    FROM task WHERE id = NEW.id AND state IN ('pending', 'retry_pending');
END;
