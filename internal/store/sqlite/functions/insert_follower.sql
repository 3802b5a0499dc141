-- For agents and the other functions, not for applications.
--
-- INSERT INTO insert_follower (type, key, until) makes a task of the follower of one that has ended for good; it does nothing where
-- there is none. It is due no earlier than until: something of the other may be at work until then. The task gets a fence, as
-- a revived one does: its values were checked when it came.
CREATE VIEW insert_follower AS SELECT type, key, run_at AS until FROM follow;

CREATE TRIGGER insert_follower_insert INSTEAD OF INSERT ON insert_follower
BEGIN
    INSERT INTO task (id, type, key, priority, region, run_at, payload, labels, traceparent, created_by, max_attempts, created_at,
                      rollback_payload, lock, sequence, awaited, tenant, fence)
    SELECT id, type, key, priority, region, max(run_at, ifnull(NEW.until, '')), payload, labels, traceparent, created_by, max_attempts,
           created_at, rollback_payload, lock, sequence, awaited, tenant, 1
    FROM follow WHERE type = NEW.type AND key = NEW.key;
    UPDATE wakeup SET due = due + 1 WHERE changes() > 0; -- the id is not the highest
    DELETE FROM follow WHERE type = NEW.type AND key = NEW.key;
END;
