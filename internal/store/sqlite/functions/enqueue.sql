-- INSERT INTO enqueue (type, payload, key, …) inserts a task, and does nothing where a live task has the type and the key. The
-- id, new or existing, is then SELECT id FROM enqueue WHERE type = … AND key = ….
CREATE VIEW enqueue AS
    SELECT id, type, payload, run_at, priority, key, region, max_attempts, labels, traceparent, created_by, batch_id,
           rollback_payload
    FROM task;

CREATE TRIGGER enqueue_insert INSTEAD OF INSERT ON enqueue
BEGIN
    INSERT INTO task (type, payload, run_at, priority, key, region, max_attempts, labels, traceparent, created_by, batch_id,
                      rollback_payload)
    VALUES (NEW.type, ifnull(NEW.payload, '{}'), ifnull(NEW.run_at, strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
            ifnull(NEW.priority, 0), NEW.key, NEW.region, NEW.max_attempts, NEW.labels, NEW.traceparent, NEW.created_by,
            NEW.batch_id, NEW.rollback_payload)
    ON CONFLICT (type, key) WHERE key IS NOT NULL DO NOTHING;
END;
