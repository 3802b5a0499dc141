-- INSERT INTO enqueue (type, payload, key, …) inserts a task, and does nothing where a live task has the type and the key. The
-- id, new or existing, is then SELECT id FROM enqueue WHERE type = … AND key = ….
--
-- on_live, keep, replace or again, says what becomes of such a live task; with debounce_s, seconds, it is replace, and the task is due
-- so long from now, at most debounce_max_s after it was first inserted. Where one of these is given, SELECT id, answer FROM
-- enqueue_result in the same transaction has the id, and what was done: inserted, kept, replaced or follows. Go:
-- store.EnqueueRequest.
CREATE VIEW enqueue AS
    SELECT id, type, payload, run_at, priority, key, region, max_attempts, labels, traceparent, created_by, batch_id,
           rollback_payload, NULL AS on_live, NULL AS debounce_s, NULL AS debounce_max_s, lock, sequence, after, after_if, tenant
    FROM task;

CREATE VIEW enqueue_result AS SELECT task_id AS id, answer FROM enqueued;

CREATE TRIGGER enqueue_insert INSTEAD OF INSERT ON enqueue
BEGIN
    SELECT RAISE(ABORT, 'on_live must be keep, replace or again') WHERE NEW.on_live NOT IN ('keep', 'replace', 'again');
    SELECT RAISE(ABORT, 'debounce_s must be a number of seconds above 0') WHERE NOT {positive of=NEW.debounce_s};
    SELECT RAISE(ABORT, 'debounce_max_s must be a number of seconds above 0') WHERE NOT {positive of=NEW.debounce_max_s};
    SELECT RAISE(ABORT, 'debounce_max_s needs a debounce_s') WHERE NEW.debounce_max_s IS NOT NULL AND NEW.debounce_s IS NULL;
    SELECT RAISE(ABORT, 'debounce_max_s must be debounce_s at least')
    WHERE CAST(NEW.debounce_max_s AS REAL) < CAST(NEW.debounce_s AS REAL);
    SELECT RAISE(ABORT, 'debounce_s replaces the live row: on_live must be replace, or left out')
    WHERE NEW.debounce_s IS NOT NULL AND NEW.on_live <> 'replace';
    SELECT RAISE(ABORT, 'debounce_s sets the due time: run_at must be left out')
    WHERE NEW.debounce_s IS NOT NULL AND NEW.run_at IS NOT NULL;
    SELECT RAISE(ABORT, 'on_live and debounce_s need a key')
    WHERE NEW.key IS NULL AND (NEW.debounce_s IS NOT NULL OR NEW.on_live <> 'keep');
    SELECT RAISE(ABORT, 'a row of a batch replaces and follows none: on_live must be keep')
    WHERE NEW.batch_id IS NOT NULL AND (NEW.debounce_s IS NOT NULL OR NEW.on_live <> 'keep');

    SELECT RAISE(ABORT, 'a row that waits for others replaces and follows none: on_live must be keep')
    WHERE NEW.after <> '[]' AND (NEW.debounce_s IS NOT NULL OR NEW.on_live <> 'keep');

    -- What is to be done. A live task that was ever started is not changed, nor one with a follower, which is later than the task.
    UPDATE enqueued SET (task_id, answer) = (
        SELECT live.id, CASE
            WHEN live.id IS NULL THEN 'inserted'
            WHEN NEW.on_live = 'keep' THEN 'kept'
            WHEN NEW.on_live IS NOT 'again' AND live.state = 'pending' AND NOT live.ever_started
                AND NOT EXISTS (SELECT 1 FROM follow WHERE type = NEW.type AND key = NEW.key) THEN 'replaced'
            ELSE 'follows' END
        FROM (SELECT 1) LEFT JOIN task AS live ON live.type = NEW.type AND live.key = NEW.key)
    WHERE NEW.on_live IS NOT NULL OR NEW.debounce_s IS NOT NULL;

    INSERT INTO task (type, payload, run_at, priority, key, region, max_attempts, labels, traceparent, created_by, batch_id,
                      rollback_payload, lock, sequence, after, after_if, tenant)
    VALUES (NEW.type, ifnull(NEW.payload, '{}'), ifnull(NEW.run_at, {seconds_from_now of=NEW.debounce_s}),
            ifnull(NEW.priority, 0), NEW.key, NEW.region, NEW.max_attempts, NEW.labels, NEW.traceparent, NEW.created_by,
            NEW.batch_id, NEW.rollback_payload, NEW.lock, NEW.sequence, NEW.after, NEW.after_if, NEW.tenant)
    ON CONFLICT (type, key) WHERE key IS NOT NULL DO NOTHING;

    INSERT INTO meet_live (type, payload, run_at, priority, key, region, max_attempts, labels, traceparent, created_by,
                           rollback_payload, debounce_max_s, lock, sequence, tenant)
    SELECT NEW.type, ifnull(NEW.payload, '{}'), ifnull(NEW.run_at, {seconds_from_now of=NEW.debounce_s}), ifnull(NEW.priority, 0),
           NEW.key, NEW.region, NEW.max_attempts, NEW.labels, NEW.traceparent, NEW.created_by, NEW.rollback_payload,
           NEW.debounce_max_s, NEW.lock, NEW.sequence, NEW.tenant
    FROM enqueued WHERE (NEW.on_live <> 'keep' OR NEW.debounce_s IS NOT NULL) AND answer IN ('replaced', 'follows');
    UPDATE enqueued SET task_id = (SELECT max(id) FROM task)
    WHERE answer = 'inserted' AND (NEW.on_live IS NOT NULL OR NEW.debounce_s IS NOT NULL);
END;
