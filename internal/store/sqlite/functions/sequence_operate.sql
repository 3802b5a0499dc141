-- INSERT INTO sequence_skip (type, name, task_id, by) resolves the failure that blocks a sequence, so that the rows behind it go on. task_id
-- may be left out; else it is the failed task that is meant.
CREATE VIEW sequence_skip AS SELECT type, sequence AS name, task_id, NULL AS by FROM sequences WHERE state = 'blocked';

CREATE TRIGGER sequence_skip_insert INSTEAD OF INSERT ON sequence_skip
BEGIN
    SELECT RAISE(ABORT, 'by must be 512 bytes at most') WHERE length(CAST(NEW.by AS BLOB)) > 512;
    SELECT RAISE(ABORT, 'no failure blocks a sequence of this type and name')
    WHERE NOT EXISTS (SELECT 1 FROM sequences WHERE type = NEW.type AND sequence = NEW.name AND state = 'blocked');
    SELECT RAISE(ABORT, 'another task blocks the sequence')
    FROM sequences WHERE type = NEW.type AND sequence = NEW.name AND task_id <> NEW.task_id;
    INSERT INTO audit (requested_by, verb, task_id, answer)
    SELECT nullif(CAST(NEW.by AS TEXT), ''), 'skip', task_id, 'skipped' FROM sequences WHERE type = NEW.type AND sequence = NEW.name;
    INSERT INTO sequence_note (type, name) VALUES (NEW.type, NEW.name);
    DELETE FROM sequence_failure
    WHERE task_id = (SELECT s.task_id FROM sequences AS s WHERE s.type = NEW.type AND s.sequence = NEW.name AND s.state = 'blocked');
END;

-- INSERT INTO sequence_retry (type, name, task_id, by) retries the failed task that blocks a sequence.
CREATE VIEW sequence_retry AS SELECT type, sequence AS name, task_id, NULL AS by FROM sequences WHERE state = 'blocked';

CREATE TRIGGER sequence_retry_insert INSTEAD OF INSERT ON sequence_retry
BEGIN
    SELECT RAISE(ABORT, 'no failure blocks a sequence of this type and name')
    WHERE NOT EXISTS (SELECT 1 FROM sequences WHERE type = NEW.type AND sequence = NEW.name AND state = 'blocked');
    SELECT RAISE(ABORT, 'another task blocks the sequence')
    FROM sequences WHERE type = NEW.type AND sequence = NEW.name AND task_id <> NEW.task_id;
    SELECT RAISE(ABORT, 'the rollback of the failed task has failed: roll it back again, or skip it')
    FROM sequences AS s JOIN task_archive AS a ON a.id = s.task_id AND a.state = 'rollback_failed'
    WHERE s.type = NEW.type AND s.sequence = NEW.name;
    INSERT INTO retry (id, by) SELECT task_id, NEW.by FROM sequences WHERE type = NEW.type AND sequence = NEW.name AND state = 'blocked';
END;

-- INSERT INTO sequence_cancel (type, name, by) cancels the next thousand waiting tasks of a sequence, and resolves its failures, theirs included:
-- repeat it until none waits. What runs goes on, and so do rollbacks.
CREATE VIEW sequence_cancel AS SELECT type, sequence AS name, NULL AS by FROM sequences;

CREATE TRIGGER sequence_cancel_insert INSTEAD OF INSERT ON sequence_cancel
BEGIN
    INSERT INTO cancel (id, by)
    SELECT id, NEW.by FROM task INDEXED BY task_sequence
    WHERE sequence IS NOT NULL AND type = NEW.type AND sequence = NEW.name AND state IN ('pending', 'retry_pending') ORDER BY id LIMIT 1000;
    INSERT INTO sequence_note (type, name) SELECT NEW.type, NEW.name
    WHERE EXISTS (SELECT 1 FROM sequence_failure WHERE type = NEW.type AND name = NEW.name);
    DELETE FROM sequence_failure WHERE type = NEW.type AND name = NEW.name;
END;
