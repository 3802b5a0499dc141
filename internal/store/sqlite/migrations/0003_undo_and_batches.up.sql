-- What a rollback is told, how often an operator has retried a task, and which batch it belongs to. Applications insert
-- batch_id and rollback_payload.
ALTER TABLE task ADD COLUMN batch_id INTEGER;
-- json_valid of NULL is 0 before 3.42, and NULL since.
ALTER TABLE task ADD COLUMN rollback_payload TEXT
    CONSTRAINT "rollback_payload must be JSON" CHECK (rollback_payload IS NULL OR json_valid(rollback_payload));
ALTER TABLE task ADD COLUMN cause TEXT;                       -- how the forward life ended of what is, or was, undone
ALTER TABLE task ADD COLUMN round INTEGER NOT NULL DEFAULT 0; -- operators' retries
ALTER TABLE task_archive ADD COLUMN batch_id INTEGER;
ALTER TABLE task_archive ADD COLUMN rollback_payload TEXT;
ALTER TABLE task_archive ADD COLUMN cause TEXT;
ALTER TABLE task_archive ADD COLUMN round INTEGER NOT NULL DEFAULT 0;

-- Only rows of batches stand in these. Newest started first is the order in which a batch is rolled back.
CREATE INDEX task_batch ON task (batch_id, state) WHERE batch_id IS NOT NULL;
CREATE INDEX task_archive_batch ON task_archive (batch_id) WHERE batch_id IS NOT NULL;
CREATE INDEX task_archive_started ON task_archive (batch_id, ifnull(started_at, '') DESC, id) WHERE batch_id IS NOT NULL;
CREATE INDEX task_archive_batch_unwell ON task_archive (batch_id) WHERE batch_id IS NOT NULL AND state <> 'succeeded';

CREATE INDEX policy_undo ON policy (type) WHERE json_type(body, '$.rollback') = 'object';

-- Groups of tasks. Applications insert name, on_failure, finish_type, finish_payload, labels, created_by and sealed; the
-- other columns belong to the agents. The counters are exact in every transaction: there is one writer, so nobody waits for
-- the row.
CREATE TABLE batch (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    name           TEXT NOT NULL DEFAULT ''
                   CONSTRAINT "name must be 255 bytes at most" CHECK (length(CAST(name AS BLOB)) <= 255),
    on_failure     TEXT NOT NULL DEFAULT 'continue'
                   CONSTRAINT "on_failure must be continue, cancel or rollback" CHECK (on_failure IN ('continue', 'cancel', 'rollback')),
    finish_type    TEXT
                   CONSTRAINT "finish_type must not be empty: leave it out instead" CHECK (finish_type <> '')
                   CONSTRAINT "finish_type must be 255 bytes at most" CHECK (length(CAST(finish_type AS BLOB)) <= 255),
    finish_payload TEXT NOT NULL DEFAULT '{}'
                   CONSTRAINT "finish_payload must be a JSON object" CHECK (
                       CASE WHEN json_valid(finish_payload) THEN json_type(finish_payload) = 'object' ELSE 0 END)
                   -- with what is added to it at the batch's end it is below the least bound on payloads
                   CONSTRAINT "finish_payload must be 64 KiB at most" CHECK (length(CAST(finish_payload AS BLOB)) <= 65536),
    labels         TEXT
                   CONSTRAINT "labels must be a JSON object of strings" CHECK (
                       CASE WHEN json_valid(labels) THEN json_type(labels) = 'object' ELSE labels IS NULL END)
                   CONSTRAINT "labels must be 4 KiB at most" CHECK (length(CAST(labels AS BLOB)) <= 4096),
    created_by     TEXT
                   CONSTRAINT "created_by must be 512 bytes at most" CHECK (length(CAST(created_by AS BLOB)) <= 512),
    sealed         INTEGER NOT NULL DEFAULT 1 -- no further rows, but for those that come before an agent has seen it
                   CONSTRAINT "sealed must be true or false" CHECK (sealed IN (0, 1)),

    created_at     TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    seen           INTEGER NOT NULL DEFAULT 0, -- by an agent
    round          INTEGER NOT NULL DEFAULT 0, -- how often it was opened again
    ended_at       TEXT,
    stopping       INTEGER NOT NULL DEFAULT 0, -- nothing of it is claimed any more, but to be undone
    requested           TEXT CHECK (requested IN ('cancel', 'rollback')), -- of this round
    requested_by        TEXT,
    by_failure     INTEGER NOT NULL DEFAULT 0, -- the request follows a failure
    failures_seen  INTEGER NOT NULL DEFAULT 0, -- of failures, those that were acted on

    total           INTEGER NOT NULL DEFAULT 0,
    succeeded       INTEGER NOT NULL DEFAULT 0,
    failed          INTEGER NOT NULL DEFAULT 0,
    cancelled       INTEGER NOT NULL DEFAULT 0,
    undoing         INTEGER NOT NULL DEFAULT 0, -- waiting to be rolled back, or being so
    rolled_back     INTEGER NOT NULL DEFAULT 0,
    rollback_failed INTEGER NOT NULL DEFAULT 0,
    failures        INTEGER NOT NULL DEFAULT 0, -- times that a task was given up as failed
    attempts        INTEGER NOT NULL DEFAULT 0, -- that have ended, but silent ones
    removed         INTEGER NOT NULL DEFAULT 0  -- rows past their retention; the counters above keep them
) STRICT;

CREATE INDEX batch_open ON batch (id) WHERE ended_at IS NULL;
CREATE INDEX batch_stopping ON batch (id) WHERE stopping = 1 AND ended_at IS NULL;
CREATE INDEX batch_ended ON batch (ended_at) WHERE ended_at IS NOT NULL;

CREATE TRIGGER batch_labels AFTER INSERT ON batch WHEN NEW.labels IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'labels must be a JSON object of strings')
    WHERE EXISTS (SELECT 1 FROM json_each(NEW.labels) AS label WHERE label.type <> 'text');
END;

-- What somebody wants of a whole batch, or of one task once it has ended. Agents carry it on in steps.
CREATE TABLE operation (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    verb       TEXT NOT NULL CHECK (verb IN ('cancel', 'retry', 'rollback')),
    batch_id   INTEGER, -- NULL: it is about a task
    task_id    INTEGER, -- NULL: it is about a batch
    asked_at   TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    who        TEXT,
    force      INTEGER NOT NULL DEFAULT 0,
    -- How far it is: of a retry the last id; of a rollback also when that one had started, and since when, and of how many
    -- rows, it takes them in that order.
    at_id      INTEGER,
    at_started TEXT,
    since      TEXT,
    goal       INTEGER,
    taken      INTEGER NOT NULL DEFAULT 0,
    done       INTEGER NOT NULL DEFAULT 0, -- tasks that it changed
    refused    INTEGER NOT NULL DEFAULT 0, -- tasks that it had to leave as they were
    ended_at   TEXT,
    superseded INTEGER NOT NULL DEFAULT 0  -- another took its place
) STRICT;

CREATE INDEX operation_open ON operation (id) WHERE ended_at IS NULL;
CREATE INDEX operation_batch ON operation (batch_id) WHERE batch_id IS NOT NULL;
CREATE INDEX operation_task ON operation (task_id) WHERE task_id IS NOT NULL;

-- Who did what: one row for each request that changed something. who is the name that the caller gave. role is the database role of
-- the session on PostgreSQL, and NULL here: SQLite has no roles, and does not know which process or user has written.
CREATE TABLE audit (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    who      TEXT,
    role     TEXT,
    verb     TEXT NOT NULL,
    task_id  INTEGER,
    batch_id INTEGER,
    answer   TEXT NOT NULL
) STRICT;

-- Rows with a fence are tasks that come back out of the archive, in this same transaction.
DROP TRIGGER task_id;
CREATE TRIGGER task_id AFTER INSERT ON task WHEN NEW.fence = 0 AND EXISTS (SELECT 1 FROM task_archive WHERE id = NEW.id)
BEGIN
    SELECT RAISE(ABORT, 'id belongs to a finished task: leave it out, the table gives one');
END;

-- A row is within the store's bounds when it is inserted. A trigger, since a CHECK cannot be changed: a change of
-- max_payload makes it anew. Rows with a fence come back from the archive, and stay possible. The id is read first, so that
-- of most rows sqlite_sequence is not.
{bounds}
-- A row joins its batch, if that takes any more. All that becomes of it later is counted by whoever does it, many rows at
-- once: a trigger on what finishes would cost rows without a batch as well.
CREATE TRIGGER task_joins_batch AFTER INSERT ON task WHEN NEW.batch_id IS NOT NULL AND NEW.fence = 0
BEGIN
    UPDATE batch SET total = total + 1
    WHERE id = NEW.batch_id AND (NOT sealed OR NOT seen) AND NOT stopping AND ended_at IS NULL;
    SELECT CASE
        WHEN NOT EXISTS (SELECT 1 FROM batch WHERE id = NEW.batch_id)
            THEN RAISE(ABORT, 'there is no batch with this batch_id')
        WHEN EXISTS (SELECT 1 FROM batch WHERE id = NEW.batch_id AND stopping AND requested = 'rollback')
            THEN RAISE(ABORT, 'the batch was rolled back: create another')
        WHEN EXISTS (SELECT 1 FROM batch WHERE id = NEW.batch_id AND stopping)
            THEN RAISE(ABORT, 'the batch was cancelled: create another')
        ELSE RAISE(ABORT, 'the batch is sealed: insert its rows in the transaction that creates it, or create it with sealed = false')
    END
    WHERE changes() = 0;
END;

-- The views with the new columns. Those that stand for functions come last: see 0002 about what they keep to.
DROP VIEW cancel;
DROP VIEW complete;
DROP VIEW enqueue;
DROP VIEW tasks;

CREATE VIEW tasks AS
    SELECT id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
           created_at, attempt, deferrals, ever_started, fence, session, claim, policy, lease_until, claimed_at, deadline,
           outcome, error, result, NULL AS output, NULL AS started_at, NULL AS finished_at,
           progress, message, checkpoint, cancel_asked, cancel_by, ifnull(detached, 0) AS detached,
           batch_id, rollback_payload, cause, round
    FROM task
    UNION ALL
    SELECT id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
           created_at, attempt, deferrals, ever_started, fence, session, claim, policy, lease_until, claimed_at, deadline,
           outcome, error, result, output, started_at, finished_at,
           progress, message, checkpoint, cancel_asked, cancel_by, 0,
           batch_id, rollback_payload, cause, round
    FROM task_archive;

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

-- Where a batch stands is derived from its rows.
CREATE VIEW batches AS
    SELECT id, name,
           CASE
               WHEN ended_at IS NULL AND (requested IS 'rollback' OR undoing > 0 AND live = undoing) THEN 'rolling_back'
               WHEN ended_at IS NULL AND (attempts > 0 OR running > 0 OR undoing > 0 OR live < total) THEN 'running'
               WHEN ended_at IS NULL THEN 'pending'
               WHEN rollback_failed > 0 THEN 'rollback_failed'
               WHEN requested IS 'rollback' THEN 'rolled_back'
               WHEN requested IS 'cancel' AND NOT by_failure AND cancelled > 0 THEN 'cancelled'
               WHEN total > 0 AND rolled_back = total THEN 'rolled_back'
               WHEN failed + rolled_back > 0 THEN iif(succeeded > 0, 'partially_failed', 'failed')
               WHEN cancelled > 0 THEN 'cancelled'
               ELSE 'succeeded'
           END AS state,
           on_failure, sealed, stopping, round, total, live, max(live - running - undoing, 0) AS waiting, running, undoing,
           succeeded, failed, cancelled, rolled_back, rollback_failed, failures,
           CASE WHEN total > 0 THEN (total - live) * 1.0 / total END AS progress,
           finish_type, labels, created_by, created_at, ended_at,
           (SELECT verb FROM operation WHERE batch_id = counted.id AND ended_at IS NULL) AS operation, requested_by
    FROM (SELECT batch.*, total - succeeded - failed - cancelled - rolled_back - rollback_failed AS live,
                 (SELECT count(*) FROM task INDEXED BY task_batch WHERE batch_id = batch.id AND state = 'running') AS running
          FROM batch) AS counted;

CREATE VIEW complete AS
    SELECT id, fence, result FROM task WHERE state IN ('running', 'rollback_running');

-- As in 0002; and what a rollback results in stands in the history only, and a run that was completed, and is undone
-- since, is completed still.
CREATE TRIGGER complete_insert INSTEAD OF INSERT ON complete
BEGIN
    SELECT RAISE(ABORT, 'result must be JSON') WHERE NEW.result IS NOT NULL AND NOT json_valid(NEW.result);
    SELECT RAISE(ABORT, 'result must be 64 KiB at most') WHERE length(CAST(NEW.result AS BLOB)) > 65536;
    SELECT RAISE(ABORT, 'the task is not held with this fence any more: stop, and commit nothing')
    WHERE NOT EXISTS (SELECT 1 FROM task WHERE id = NEW.id AND fence = NEW.fence
                      AND state IN ('running', 'rollback_running') AND claim > 0)
      AND NOT EXISTS (SELECT 1 FROM task_archive WHERE id = NEW.id AND fence = NEW.fence + 1 AND outcome = 'succeeded')
      AND NOT EXISTS (SELECT 1 FROM attempt WHERE task_id = NEW.id AND fence = NEW.fence AND outcome = 'succeeded');
    -- As when an agent settles it: the archive tells all there is of a run that was done at first try.
    INSERT INTO attempt (task_id, fence, ran_fence, session, phase, attempt, outcome, result, state, started_at, ended_at)
    SELECT id, fence, fence, session, iif(state = 'running', 'run', 'rollback'), attempt, 'succeeded', json(NEW.result),
           iif(state = 'running', 'succeeded', 'rolled_back'), claimed_at, strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
    FROM task WHERE id = NEW.id AND fence = NEW.fence
      AND (state = 'rollback_running' OR state = 'running' AND attempt > 1);
    INSERT INTO task_archive (
           id, type, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts, created_at,
           session, claim, policy, claimed_at, deadline, checkpoint, progress, message, cancel_asked, cancel_by,
           batch_id, rollback_payload, cause, round,
           state, fence, attempt, deferrals, ever_started, outcome, result, started_at, finished_at)
    SELECT id, type, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts, created_at,
           session, claim, policy, claimed_at, deadline, checkpoint, progress, message, cancel_asked, cancel_by,
           batch_id, rollback_payload, cause, round,
           iif(state = 'running', 'succeeded', 'rolled_back'), fence + 1, attempt, 0, 1, 'succeeded',
           CASE WHEN state <> 'running' THEN result WHEN attempt = 1 THEN json(NEW.result)
                ELSE ifnull(json(NEW.result), result) END, claimed_at,
           strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
    FROM task WHERE id = NEW.id AND fence = NEW.fence AND state IN ('running', 'rollback_running');
    UPDATE batch SET (succeeded, rolled_back, undoing, attempts) = (
        SELECT succeeded + (task.state = 'running'), rolled_back + (task.state <> 'running'),
               undoing - (task.state <> 'running'), attempts + 1
        FROM task WHERE task.id = NEW.id)
    WHERE id = (SELECT batch_id FROM task
                WHERE id = NEW.id AND fence = NEW.fence AND state IN ('running', 'rollback_running'));
    DELETE FROM task WHERE id = NEW.id AND fence = NEW.fence AND state IN ('running', 'rollback_running');
END;

-- The next two are for the others and for the agents, and not for applications.

-- INSERT INTO call_off (id, by, undo) ends a task that waits; or has it undone, where it was ever started and can be: by
-- what its last attempt started with or, if undo is 1, by any declaration of its type; and not before nothing of it is at
-- work any more.
CREATE VIEW call_off AS SELECT id, cancel_by AS by, 0 AS undo FROM task;

CREATE TRIGGER call_off_insert INSTEAD OF INSERT ON call_off
BEGIN
    UPDATE task SET state = 'rollback_pending', fence = fence + 1, attempt = 0, deferrals = 0, cause = 'cancelled',
        run_at = max(strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), ifnull(lease_until, '')), outcome = 'cancelled',
        error = 'cancelled while it waited' || ifnull(', by ' || NEW.by, '')
    WHERE id = NEW.id AND state IN ('pending', 'retry_pending') AND ever_started
      AND (EXISTS (SELECT 1 FROM policy WHERE hash = task.policy AND json_type(body, '$.rollback') = 'object')
           OR NEW.undo AND EXISTS (SELECT 1 FROM policy WHERE type = task.type AND json_type(body, '$.rollback') = 'object'));
    UPDATE sign SET n = n + 1 WHERE changes() > 0; -- rows that the statement before has changed
    UPDATE batch SET undoing = undoing + 1
    WHERE changes() > 0 AND id = (SELECT batch_id FROM task WHERE id = NEW.id);

    INSERT INTO task_archive (
           id, type, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts, created_at,
           session, claim, policy, lease_until, claimed_at, deadline, checkpoint, progress, message, attempt, deferrals,
           ever_started, result, batch_id, rollback_payload, round, state, fence, outcome, error, cancel_asked, cancel_by,
           finished_at)
    SELECT id, type, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts, created_at,
           session, claim, policy, lease_until, claimed_at, deadline, checkpoint, progress, message, attempt, deferrals,
           ever_started, result, batch_id, rollback_payload, round, 'cancelled', fence + 1, 'cancelled',
           iif(ever_started, 'cancelled while it waited', 'cancelled before it started') || ifnull(', by ' || NEW.by, ''),
           strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), NEW.by, strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
    FROM task WHERE id = NEW.id AND state IN ('pending', 'retry_pending');
    UPDATE batch SET cancelled = cancelled + 1
    WHERE changes() > 0 AND id = (SELECT batch_id FROM task WHERE id = NEW.id);
    DELETE FROM task WHERE id = NEW.id AND state IN ('pending', 'retry_pending');
END;

-- INSERT INTO bring_back (id, verb, run_at) takes a finished task out of the archive: to run again with a fresh budget
-- (retry), or to be undone (rollback); not before nothing of it is at work any more. One whose key is another's by now
-- stays where it is.
CREATE VIEW bring_back AS SELECT id, '' AS verb, run_at FROM task_archive;

CREATE TRIGGER bring_back_insert INSTEAD OF INSERT ON bring_back
BEGIN
    INSERT INTO task (id, type, priority, region, key, payload, labels, traceparent, created_by, max_attempts, created_at,
                      deferrals, attempt, fence, session, policy, outcome, error, checkpoint, batch_id, rollback_payload,
                      lease_until, run_at, state, ever_started, deadline, cause, round, result, progress, message)
    SELECT id, type, priority, region, key, payload, labels, traceparent, created_by, max_attempts, created_at,
           0, 0, fence + 1, session, policy, outcome, error, checkpoint, batch_id, rollback_payload,
           lease_until, max(NEW.run_at, ifnull(lease_until, '')), 'pending', ever_started AND state <> 'rolled_back', NULL, NULL, round + 1, NULL, NULL, NULL
    FROM task_archive WHERE id = NEW.id AND NEW.verb = 'retry'
    UNION ALL
    SELECT id, type, priority, region, key, payload, labels, traceparent, created_by, max_attempts, created_at,
           0, 0, fence + 1, session, policy, outcome, error, checkpoint, batch_id, rollback_payload,
           lease_until, max(NEW.run_at, ifnull(lease_until, '')), 'rollback_pending', ever_started, deadline,
           CASE
               WHEN state = 'rollback_failed' THEN cause
               WHEN state = 'cancelled' THEN 'cancelled'
               WHEN outcome IN ('deferred', 'superseded', 'undelivered', 'drained') THEN 'failed'
               ELSE outcome
           END, round, result, progress, message
    FROM task_archive WHERE id = NEW.id AND NEW.verb = 'rollback'
    ON CONFLICT (type, key) WHERE key IS NOT NULL DO NOTHING;

    -- A run that succeeded at its first try gets its row of the history now; all others have theirs since they were settled.
    INSERT INTO attempt (task_id, fence, ran_fence, session, phase, attempt, outcome, error, output, result, state,
                         started_at, ended_at)
    SELECT id, fence - 1, fence - 1, session, 'run', 1, 'succeeded', NULL, output, result, 'succeeded',
           started_at, finished_at
    FROM task_archive AS done
    WHERE id = NEW.id AND state = 'succeeded' AND attempt = 1
      AND EXISTS (SELECT 1 FROM task WHERE id = NEW.id)
      AND NOT EXISTS (SELECT 1 FROM attempt WHERE task_id = NEW.id AND fence = done.fence - 1);
    UPDATE batch SET (succeeded, failed, cancelled, rolled_back, rollback_failed, undoing) = (
        SELECT succeeded - (done.state = 'succeeded'), failed - (done.state = 'failed'), cancelled - (done.state = 'cancelled'),
               rolled_back - (done.state = 'rolled_back'), rollback_failed - (done.state = 'rollback_failed'),
               undoing + (NEW.verb = 'rollback')
        FROM task_archive AS done WHERE done.id = NEW.id)
    WHERE id = (SELECT batch_id FROM task_archive WHERE id = NEW.id) AND EXISTS (SELECT 1 FROM task WHERE id = NEW.id);
    DELETE FROM task_archive WHERE id = NEW.id AND EXISTS (SELECT 1 FROM task WHERE id = NEW.id);
    UPDATE sign SET n = n + 1 WHERE changes() > 0;
END;

-- INSERT INTO cancel (id, by) calls a task off: what waits never starts (again), what runs is told to stop, what is
-- finished or being rolled back stays as it is. What became of that is then SELECT answer FROM cancel WHERE id = …:
-- cancelling, or the state in which the task stands now.
CREATE VIEW cancel AS
    SELECT id, cancel_by AS by, iif(state = 'running' AND cancel_asked IS NOT NULL, 'cancelling', state) AS answer
    FROM tasks;

CREATE TRIGGER cancel_insert INSTEAD OF INSERT ON cancel
BEGIN
    SELECT RAISE(ABORT, 'there is no task with this id') WHERE NOT EXISTS (SELECT 1 FROM tasks WHERE id = NEW.id);
    SELECT RAISE(ABORT, 'by must be 512 bytes at most') WHERE length(CAST(NEW.by AS BLOB)) > 512;

    INSERT INTO audit (who, verb, task_id, answer)
    SELECT nullif(CAST(NEW.by AS TEXT), ''), 'cancel', id,
           CASE
               WHEN state = 'running' THEN 'cancelling'
               WHEN ever_started AND EXISTS (SELECT 1 FROM policy
                                        WHERE hash = task.policy AND json_type(body, '$.rollback') = 'object')
                   THEN 'rollback_pending'
               ELSE 'cancelled'
           END
    FROM task WHERE id = NEW.id AND (state IN ('pending', 'retry_pending') OR state = 'running' AND cancel_asked IS NULL);

    UPDATE task SET cancel_asked = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), cancel_by = nullif(CAST(NEW.by AS TEXT), '')
    WHERE id = NEW.id AND state = 'running' AND cancel_asked IS NULL;
    UPDATE sign SET asked = asked + 1 WHERE changes() > 0;

    INSERT INTO call_off (id, by, undo) VALUES (NEW.id, nullif(CAST(NEW.by AS TEXT), ''), 0);
END;

-- INSERT INTO retry (id, by) revives a task that has failed, was cancelled or rolled back: it waits again, with a fresh
-- budget. SELECT answer FROM retry WHERE id = … is the state in which the task stands now.
CREATE VIEW retry AS SELECT id, cancel_by AS by, state AS answer FROM tasks;

CREATE TRIGGER retry_insert INSTEAD OF INSERT ON retry
BEGIN
    SELECT RAISE(ABORT, 'there is no task with this id') WHERE NOT EXISTS (SELECT 1 FROM tasks WHERE id = NEW.id);
    SELECT RAISE(ABORT, 'by must be 512 bytes at most') WHERE length(CAST(NEW.by AS BLOB)) > 512;
    SELECT RAISE(ABORT, 'the task is to be rolled back: wait for that')
    FROM task_archive WHERE id = NEW.id AND state IN ('failed', 'cancelled', 'rolled_back')
      AND EXISTS (SELECT 1 FROM operation WHERE task_id = NEW.id AND ended_at IS NULL);
    SELECT RAISE(ABORT, 'the batch of the task is being cancelled or rolled back: wait until the batch has ended')
    FROM task_archive WHERE id = NEW.id AND state IN ('failed', 'cancelled', 'rolled_back')
      AND EXISTS (SELECT 1 FROM batch WHERE id = task_archive.batch_id AND requested IS NOT NULL AND ended_at IS NULL);
    SELECT RAISE(ABORT, 'another task is live with the key of this one: wait for it or cancel it')
    FROM task_archive AS done WHERE id = NEW.id AND state IN ('failed', 'cancelled', 'rolled_back')
      AND EXISTS (SELECT 1 FROM task WHERE type = done.type AND key = done.key);

    INSERT INTO audit (who, verb, task_id, answer)
    SELECT nullif(CAST(NEW.by AS TEXT), ''), 'retry', id, 'pending'
    FROM task_archive WHERE id = NEW.id AND state IN ('failed', 'cancelled', 'rolled_back');
    UPDATE batch SET ended_at = NULL, round = round + 1, requested = NULL, requested_by = NULL, by_failure = 0, stopping = 0,
        failures_seen = failures
    WHERE ended_at IS NOT NULL
      AND id = (SELECT batch_id FROM task_archive WHERE id = NEW.id AND state IN ('failed', 'cancelled', 'rolled_back'));
    INSERT INTO bring_back (id, verb, run_at)
    SELECT id, 'retry', strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
    FROM task_archive WHERE id = NEW.id AND state IN ('failed', 'cancelled', 'rolled_back');
END;

-- INSERT INTO rollback (id, by) undoes what a task has done, if its type can; one that runs is told to stop first. SELECT
-- answer FROM rollback WHERE id = … is cancelling then, or the state in which the task stands now.
CREATE VIEW rollback AS
    SELECT id, cancel_by AS by, iif(state = 'running' AND cancel_asked IS NOT NULL, 'cancelling', state) AS answer
    FROM tasks;

CREATE TRIGGER rollback_insert INSTEAD OF INSERT ON rollback
BEGIN
    SELECT RAISE(ABORT, 'there is no task with this id') WHERE NOT EXISTS (SELECT 1 FROM tasks WHERE id = NEW.id);
    SELECT RAISE(ABORT, 'by must be 512 bytes at most') WHERE length(CAST(NEW.by AS BLOB)) > 512;
    SELECT RAISE(ABORT, 'the type of the task has no rollback')
    FROM tasks WHERE id = NEW.id AND state NOT IN ('rollback_pending', 'rollback_running', 'rolled_back')
      AND NOT EXISTS (SELECT 1 FROM policy WHERE hash = tasks.policy AND json_type(body, '$.rollback') = 'object')
      AND NOT EXISTS (SELECT 1 FROM policy WHERE type = tasks.type AND json_type(body, '$.rollback') = 'object');
    SELECT RAISE(ABORT, 'another task is live with the key of this one: wait for it or cancel it')
    FROM task_archive AS done
    WHERE id = NEW.id AND ever_started AND state IN ('succeeded', 'failed', 'cancelled', 'rollback_failed')
      AND EXISTS (SELECT 1 FROM task WHERE type = done.type AND key = done.key);

    INSERT INTO audit (who, verb, task_id, answer)
    SELECT nullif(CAST(NEW.by AS TEXT), ''), 'rollback', id,
           CASE WHEN state = 'running' THEN 'cancelling' WHEN ever_started THEN 'rollback_pending' ELSE 'cancelled' END
    FROM tasks
    WHERE id = NEW.id
      AND (state IN ('pending', 'retry_pending')
           OR state = 'running' AND NOT EXISTS (SELECT 1 FROM operation WHERE task_id = NEW.id AND ended_at IS NULL)
           OR ever_started AND state IN ('succeeded', 'failed', 'cancelled', 'rollback_failed'));

    -- What runs: the request is carried out once the attempt has ended.
    INSERT INTO operation (verb, task_id, who)
    SELECT 'rollback', id, nullif(CAST(NEW.by AS TEXT), '') FROM task
    WHERE id = NEW.id AND state = 'running'
      AND NOT EXISTS (SELECT 1 FROM operation WHERE task_id = NEW.id AND ended_at IS NULL);
    UPDATE task SET cancel_asked = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), cancel_by = nullif(CAST(NEW.by AS TEXT), '')
    WHERE id = NEW.id AND state = 'running' AND cancel_asked IS NULL;
    UPDATE sign SET asked = asked + 1 WHERE changes() > 0;
    -- What waits, and what has finished: one of the two does nothing.
    INSERT INTO call_off (id, by, undo) VALUES (NEW.id, nullif(CAST(NEW.by AS TEXT), ''), 1);
    UPDATE batch SET ended_at = NULL, round = round + 1, requested = NULL, requested_by = NULL, by_failure = 0, stopping = 0,
        failures_seen = failures
    WHERE ended_at IS NOT NULL
      AND id = (SELECT batch_id FROM task_archive
                WHERE id = NEW.id AND ever_started AND state IN ('succeeded', 'failed', 'cancelled', 'rollback_failed'));
    INSERT INTO bring_back (id, verb, run_at)
    SELECT id, 'rollback', strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
    FROM task_archive
    WHERE id = NEW.id AND ever_started AND state IN ('succeeded', 'failed', 'cancelled', 'rollback_failed');
END;

-- The next four are for agents to carry on, who are told as of a task that is to stop.

-- INSERT INTO seal_batch (id): no more rows will come. SELECT answer FROM seal_batch WHERE id = … is sealed, or the state
-- of a batch that has ended.
CREATE VIEW seal_batch AS SELECT id, iif(sealed AND ended_at IS NULL, 'sealed', state) AS answer FROM batches;

CREATE TRIGGER seal_batch_insert INSTEAD OF INSERT ON seal_batch
BEGIN
    SELECT RAISE(ABORT, 'there is no batch with this id') WHERE NOT EXISTS (SELECT 1 FROM batch WHERE id = NEW.id);
    UPDATE batch SET sealed = 1, seen = 1 WHERE id = NEW.id AND ended_at IS NULL AND NOT (sealed AND seen);
    UPDATE sign SET asked = asked + 1 WHERE changes() > 0;
END;

-- INSERT INTO cancel_batch (id, by): nothing of the batch is claimed any more, and agents stop what runs. SELECT answer FROM
-- cancel_batch WHERE id = … is cancelling, or the state of the batch.
CREATE VIEW cancel_batch AS
    SELECT id, requested_by AS by,
           iif(ended_at IS NULL AND (SELECT requested FROM batch WHERE id = batches.id) IS 'cancel', 'cancelling', state) AS answer
    FROM batches;

CREATE TRIGGER cancel_batch_insert INSTEAD OF INSERT ON cancel_batch
BEGIN
    SELECT RAISE(ABORT, 'there is no batch with this id') WHERE NOT EXISTS (SELECT 1 FROM batch WHERE id = NEW.id);
    SELECT RAISE(ABORT, 'by must be 512 bytes at most') WHERE length(CAST(NEW.by AS BLOB)) > 512;
    UPDATE batch SET requested = 'cancel', requested_by = nullif(CAST(NEW.by AS TEXT), ''), by_failure = 0, stopping = 1, sealed = 1,
        failures_seen = failures
    WHERE id = NEW.id AND ended_at IS NULL AND requested IS NULL;
    -- From here on: where the statement before changed a row.
    INSERT INTO audit (who, verb, batch_id, answer)
    SELECT nullif(CAST(NEW.by AS TEXT), ''), 'cancel', NEW.id, 'cancelling' WHERE changes() > 0;
    INSERT INTO operation (verb, batch_id, who)
    SELECT 'cancel', NEW.id, nullif(CAST(NEW.by AS TEXT), '') WHERE changes() > 0;
    UPDATE sign SET asked = asked + 1 WHERE changes() > 0;
    UPDATE operation SET ended_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), superseded = 1
    WHERE changes() > 0 AND batch_id = NEW.id AND ended_at IS NULL AND verb <> 'cancel';
END;

-- INSERT INTO retry_batch (id, by) retries the failed tasks of a batch. SELECT answer FROM retry_batch WHERE id = … is
-- retrying, or the state of the batch.
CREATE VIEW retry_batch AS SELECT id, requested_by AS by, iif(operation IS 'retry', 'retrying', state) AS answer FROM batches;

CREATE TRIGGER retry_batch_insert INSTEAD OF INSERT ON retry_batch
BEGIN
    SELECT RAISE(ABORT, 'there is no batch with this id') WHERE NOT EXISTS (SELECT 1 FROM batch WHERE id = NEW.id);
    SELECT RAISE(ABORT, 'by must be 512 bytes at most') WHERE length(CAST(NEW.by AS BLOB)) > 512;
    SELECT RAISE(ABORT, 'the batch is being cancelled or rolled back: wait until it has ended')
    FROM batch WHERE id = NEW.id AND requested IS NOT NULL AND ended_at IS NULL;
    INSERT INTO operation (verb, batch_id, who)
    SELECT 'retry', NEW.id, nullif(CAST(NEW.by AS TEXT), '')
    WHERE NOT EXISTS (SELECT 1 FROM operation WHERE batch_id = NEW.id AND ended_at IS NULL)
      AND EXISTS (SELECT 1 FROM task_archive WHERE batch_id = NEW.id AND state <> 'succeeded'
                  AND (state = 'failed' OR state = 'rolled_back' AND cause NOT IN ('succeeded', 'cancelled')));
    INSERT INTO audit (who, verb, batch_id, answer)
    SELECT nullif(CAST(NEW.by AS TEXT), ''), 'retry', NEW.id, 'retrying' WHERE changes() > 0;
    UPDATE sign SET asked = asked + 1 WHERE changes() > 0;
    UPDATE batch SET ended_at = NULL, round = round + 1, requested = NULL, requested_by = NULL, by_failure = 0, stopping = 0,
        failures_seen = failures
    WHERE id = NEW.id AND ended_at IS NOT NULL
      AND EXISTS (SELECT 1 FROM operation WHERE batch_id = NEW.id AND ended_at IS NULL);
END;

-- INSERT INTO rollback_batch (id, by, force) calls off what waits, stops what runs and undoes what was done. Where rows
-- are past their retention it raises, unless force is 1: then what is left is undone. SELECT answer FROM rollback_batch
-- WHERE id = … is rolling_back, or the state of the batch.
CREATE VIEW rollback_batch AS SELECT id, requested_by AS by, 0 AS force, state AS answer FROM batches;

CREATE TRIGGER rollback_batch_insert INSTEAD OF INSERT ON rollback_batch
BEGIN
    SELECT RAISE(ABORT, 'there is no batch with this id') WHERE NOT EXISTS (SELECT 1 FROM batch WHERE id = NEW.id);
    SELECT RAISE(ABORT, 'by must be 512 bytes at most') WHERE length(CAST(NEW.by AS BLOB)) > 512;
    SELECT RAISE(ABORT, 'some tasks of the batch are past their retention and cannot be rolled back: force = 1 rolls back what is left')
    FROM batch WHERE id = NEW.id AND removed > 0 AND NOT ifnull(NEW.force, 0) AND NOT (ended_at IS NULL AND requested IS 'rollback');
    INSERT INTO operation (verb, batch_id, who, force)
    SELECT 'rollback', id, nullif(CAST(NEW.by AS TEXT), ''), ifnull(NEW.force, 0) <> 0
    FROM batch
    WHERE id = NEW.id
      AND (ended_at IS NULL AND requested IS NOT 'rollback'
           OR ended_at IS NOT NULL AND EXISTS (
               SELECT 1 FROM task_archive AS done
               WHERE batch_id = NEW.id AND state IN ('succeeded', 'failed', 'cancelled') AND ever_started
                 AND (EXISTS (SELECT 1 FROM policy WHERE hash = done.policy AND json_type(body, '$.rollback') = 'object')
                      OR EXISTS (SELECT 1 FROM policy WHERE type = done.type AND json_type(body, '$.rollback') = 'object'))));
    -- From here on: where the statement before changed a row.
    INSERT INTO audit (who, verb, batch_id, answer)
    SELECT nullif(CAST(NEW.by AS TEXT), ''), 'rollback', NEW.id, 'rolling_back' WHERE changes() > 0;
    UPDATE batch SET requested = 'rollback', requested_by = nullif(CAST(NEW.by AS TEXT), ''), by_failure = 0, stopping = 1, sealed = 1,
        failures_seen = failures, round = round + (ended_at IS NOT NULL), ended_at = NULL
    WHERE changes() > 0 AND id = NEW.id;
    UPDATE sign SET asked = asked + 1 WHERE changes() > 0;
    UPDATE operation SET ended_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), superseded = 1
    WHERE changes() > 0 AND batch_id = NEW.id AND ended_at IS NULL AND verb <> 'rollback';
END;
