-- For enqueue, not for applications.
--
-- INSERT INTO meet_live (type, payload, …) gives the values to the live task of the type and the key, or to its follower, as enqueued
-- says, and notes the follower's id there. The values first become a task without the key, which is removed again: so they are
-- checked as those of any other, and a follower's id is given once. That also wakes agents, since the highest id rises.
CREATE VIEW meet_live AS
    SELECT type, payload, run_at, priority, key, region, max_attempts, labels, traceparent, created_by, rollback_payload,
           NULL AS debounce_max_s, lock, sequence, tenant
    FROM task;

CREATE TRIGGER meet_live_insert INSTEAD OF INSERT ON meet_live
BEGIN
    INSERT INTO task (type, payload, run_at, priority, region, max_attempts, labels, traceparent, created_by, rollback_payload,
        lock, sequence, tenant)
    VALUES (NEW.type, NEW.payload, NEW.run_at, NEW.priority, NEW.region, NEW.max_attempts, NEW.labels, NEW.traceparent,
            NEW.created_by, NEW.rollback_payload, NEW.lock, NEW.sequence, NEW.tenant);

    -- Others may wait for its lock behind one that is not held.
    INSERT INTO lock_note (name)
    SELECT lock FROM task WHERE id = (SELECT task_id FROM enqueued WHERE answer = 'replaced') AND lock IS NOT NULL AND held IS NULL;
    -- It may have been the head of a sequence.
    INSERT INTO sequence_note (type, name)
    SELECT type, sequence FROM task WHERE id = (SELECT task_id FROM enqueued WHERE answer = 'replaced') AND sequence IS NOT NULL;
    UPDATE task SET payload = NEW.payload, rollback_payload = NEW.rollback_payload, priority = NEW.priority, region = NEW.region, spilled_from = NULL, first_due = NULL,
        max_attempts = NEW.max_attempts, labels = NEW.labels, traceparent = NEW.traceparent, created_by = NEW.created_by,
        deadline = NULL, lock = NEW.lock, sequence = NEW.sequence, tenant = NEW.tenant, held = iif(held = 'after', held, NULL),
        run_at = iif(NEW.debounce_max_s IS NULL, NEW.run_at, min(NEW.run_at, {seconds_later of=created_at by=NEW.debounce_max_s}))
    WHERE id = (SELECT task_id FROM enqueued WHERE answer = 'replaced');

    INSERT INTO follow (id, type, key, priority, region, run_at, payload, labels, traceparent, created_by, max_attempts, created_at,
                        rollback_payload, lock, sequence, tenant)
    SELECT id, type, NEW.key, priority, region, run_at, payload, labels, traceparent, created_by, max_attempts, created_at,
           rollback_payload, lock, sequence, tenant
    FROM task WHERE id = (SELECT max(id) FROM task) AND (SELECT answer FROM enqueued) = 'follows'
    ON CONFLICT (type, key) DO UPDATE SET
        payload = excluded.payload, rollback_payload = excluded.rollback_payload, priority = excluded.priority,
        region = excluded.region, max_attempts = excluded.max_attempts, labels = excluded.labels,
        traceparent = excluded.traceparent, created_by = excluded.created_by, lock = excluded.lock,
        sequence = excluded.sequence, tenant = excluded.tenant,
        run_at = iif(NEW.debounce_max_s IS NULL, excluded.run_at,
            min(excluded.run_at, {seconds_later of=follow.created_at by=NEW.debounce_max_s}));
    UPDATE enqueued SET task_id = (SELECT id FROM follow WHERE type = NEW.type AND key = NEW.key) WHERE answer = 'follows';

    DELETE FROM task WHERE id = (SELECT max(id) FROM task);
END;
