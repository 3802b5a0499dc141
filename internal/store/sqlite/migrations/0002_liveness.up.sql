-- What tasks say of themselves while they run, and what is asked of them. All of it is NULL for a task that says nothing
-- and is asked nothing.
ALTER TABLE task ADD COLUMN checkpoint TEXT;      -- JSON, for the next attempt
ALTER TABLE task ADD COLUMN progress TEXT;        -- JSON: a number from 0 to 1, an object of done and total, or a string
ALTER TABLE task ADD COLUMN message TEXT;
ALTER TABLE task ADD COLUMN cancel_asked TEXT;    -- since when a running task is asked to stop
ALTER TABLE task ADD COLUMN cancel_by TEXT;
ALTER TABLE task ADD COLUMN detached INTEGER;     -- 1: it depends on its window alone, not on its session
ALTER TABLE task ADD COLUMN ping_due TEXT;        -- after a ping by another way than its session: when the next one is due
ALTER TABLE task ADD COLUMN marks TEXT;           -- JSON, of a type that requires progress: what the attempt with its fence has reported
ALTER TABLE task_archive ADD COLUMN checkpoint TEXT;
ALTER TABLE task_archive ADD COLUMN progress TEXT;
ALTER TABLE task_archive ADD COLUMN message TEXT;
ALTER TABLE task_archive ADD COLUMN cancel_asked TEXT;
ALTER TABLE task_archive ADD COLUMN cancel_by TEXT;

-- Rises when a running task is asked to stop, so that agents look.
ALTER TABLE sign ADD COLUMN asked INTEGER NOT NULL DEFAULT 0;

-- The key of ping URLs.
CREATE TABLE secret (
    id  INTEGER PRIMARY KEY CHECK (id = 1),
    key BLOB NOT NULL
) STRICT;
INSERT INTO secret (id, key) VALUES (1, randomblob(32));

DROP VIEW tasks;
CREATE VIEW tasks AS
    SELECT id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
           created_at, attempt, deferrals, ever_started, fence, session, claim, policy, lease_until, claimed_at, deadline,
           outcome, error, result, NULL AS output, NULL AS started_at, NULL AS finished_at,
           progress, message, checkpoint, cancel_asked, cancel_by, ifnull(detached, 0) AS detached
    FROM task
    UNION ALL
    SELECT id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
           created_at, attempt, deferrals, ever_started, fence, session, claim, policy, lease_until, claimed_at, deadline,
           outcome, error, result, output, started_at, finished_at,
           progress, message, checkpoint, cancel_asked, cancel_by, 0
    FROM task_archive;

-- The views below stand for functions: what is inserted into them is done, or raises. Applications bring their own
-- SQLite, and one that cannot read a single trigger can read nothing in the file: so they keep to what 3.37 knows, and
-- their messages are constants (RAISE takes no other before 3.47). SELECT RAISE is not reached where its WHERE is false.

-- What the policy of a running task says about its pings, in seconds. A rollback without lengths of its own has those of
-- the run. Without a policy there is no heartbeat, and the attempt ends with its lease.
CREATE VIEW lease_terms AS
    SELECT id, fence, state, lease_until, ping_due, progress, checkpoint, message, cancel_asked, cancel_by,
           iif(json_extract(marks, '$.fence') IS fence, marks, json_object('fence', fence)) AS marks,
           ifnull(json_extract(part, '$.heartbeat'), 0) / 1e9 AS heartbeat,
           ifnull(json_extract(part, '$.max_heartbeat'), 0) / 1e9 AS max_heartbeat,
           ifnull(json_extract(part, '$.require_progress'), 0) AS require_progress,
           json_extract(part, '$.stop') / 1e9 AS stop,
           -- The attempt's end: 1 s to wait inside the agent, the check, the timeout; in a run no later than the deadline.
           CASE WHEN state = 'running' THEN min(ends, ifnull(deadline, ends)) ELSE ends END AS ends
    FROM (SELECT *, CASE WHEN part IS NULL THEN lease_until ELSE strftime('%Y-%m-%dT%H:%M:%fZ', claimed_at,
                 printf('+%.3f seconds', 1 + json_extract(part, '$.timeout') / 1e9 +
                     CASE WHEN state = 'running' THEN ifnull(json_extract(part, '$.check'), 0) / 1e9 ELSE 0 END)) END AS ends
          FROM (SELECT task.*, CASE WHEN state = 'rollback_running'
                       THEN ifnull(json_extract(policy.body, '$.rollback'), policy.body) ELSE policy.body END AS part
                FROM task LEFT JOIN policy ON policy.hash = task.policy
                WHERE +state IN ('running', 'rollback_running'))); -- +: by id, however few rows seem to run

-- INSERT INTO hold (id, fence) raises unless the task is held with that fence. Inside a transaction for writing it stays
-- so until that ends. A row that is being judged (claim = 0) is held by no attempt.
CREATE VIEW hold AS
    SELECT id, fence FROM task WHERE state IN ('running', 'rollback_running');

CREATE TRIGGER hold_insert INSTEAD OF INSERT ON hold
BEGIN
    SELECT RAISE(ABORT, 'the task is not held with this fence any more: stop, and commit nothing')
    WHERE NOT EXISTS (SELECT 1 FROM task WHERE id = NEW.id AND fence = NEW.fence
                      AND state IN ('running', 'rollback_running') AND claim > 0
                      AND lease_until > strftime('%Y-%m-%dT%H:%M:%fZ', 'now'));
END;

-- INSERT INTO complete (id, fence, result) ends a run as succeeded, a rollback as rolled back, where the task is held
-- with that fence; once that is so, a repeat does nothing.
CREATE VIEW complete AS
    SELECT id, fence, result FROM task WHERE state IN ('running', 'rollback_running');

CREATE TRIGGER complete_insert INSTEAD OF INSERT ON complete
BEGIN
    SELECT RAISE(ABORT, 'result must be JSON') WHERE NEW.result IS NOT NULL AND NOT json_valid(NEW.result);
    SELECT RAISE(ABORT, 'result must be 64 KiB at most') WHERE length(CAST(NEW.result AS BLOB)) > 65536;
    SELECT RAISE(ABORT, 'the task is not held with this fence any more: stop, and commit nothing')
    WHERE NOT EXISTS (SELECT 1 FROM task WHERE id = NEW.id AND fence = NEW.fence
                      AND state IN ('running', 'rollback_running') AND claim > 0)
      AND NOT EXISTS (SELECT 1 FROM task_archive WHERE id = NEW.id AND fence = NEW.fence + 1 AND outcome = 'succeeded');
    -- As when an agent settles it: the archive tells all there is of a run that was done at first try.
    INSERT INTO attempt (task_id, fence, ran_fence, session, phase, attempt, outcome, result, state, started_at, ended_at)
    SELECT id, fence, fence, session, iif(state = 'running', 'run', 'rollback'), attempt, 'succeeded', json(NEW.result),
           iif(state = 'running', 'succeeded', 'rolled_back'), claimed_at, strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
    FROM task WHERE id = NEW.id AND fence = NEW.fence
      AND (state = 'rollback_running' OR state = 'running' AND attempt > 1);
    INSERT INTO task_archive (
           id, type, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts, created_at,
           session, claim, policy, lease_until, claimed_at, deadline, checkpoint, progress, message, cancel_asked, cancel_by,
           state, fence, attempt, deferrals, ever_started, outcome, result, started_at, finished_at)
    SELECT id, type, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts, created_at,
           session, claim, policy, lease_until, claimed_at, deadline, checkpoint, progress, message, cancel_asked, cancel_by,
           iif(state = 'running', 'succeeded', 'rolled_back'), fence + 1, attempt, 0, 1, 'succeeded',
           iif(state = 'running' AND attempt = 1, json(NEW.result), ifnull(json(NEW.result), result)), claimed_at,
           strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
    FROM task WHERE id = NEW.id AND fence = NEW.fence AND state IN ('running', 'rollback_running');
    DELETE FROM task WHERE id = NEW.id AND fence = NEW.fence AND state IN ('running', 'rollback_running');
END;

-- INSERT INTO ping (id, fence, progress, checkpoint, message, next_within_s) is a sign of life. What the task would be
-- told is read from the view: cancel, reason, remaining_s, and next_within_s, by when the next ping is due. Where the type
-- requires progress only a number, or done, above the highest of the attempt counts: JSON cannot be compared here by value.
CREATE VIEW ping AS
    SELECT id, fence, progress, checkpoint, message,
           round(max((julianday(ping_due) - julianday('now')) * 86400, 0), 3) AS next_within_s,
           state = 'running' AND cancel_asked IS NOT NULL AS cancel,
           CASE WHEN state = 'running' AND cancel_asked IS NOT NULL
                THEN 'a cancellation was asked for' || ifnull(' by ' || cancel_by, '') END AS reason,
           round(max((julianday(ends) - julianday('now')) * 86400, 0), 3) AS remaining_s
    FROM lease_terms;

CREATE TRIGGER ping_insert INSTEAD OF INSERT ON ping
BEGIN
    SELECT RAISE(ABORT, 'checkpoint must be JSON') WHERE NEW.checkpoint IS NOT NULL AND NOT json_valid(NEW.checkpoint);
    SELECT RAISE(ABORT, 'next_within_s must be positive') WHERE CAST(NEW.next_within_s AS REAL) <= 0;
    SELECT RAISE(ABORT, 'the task is not held with this fence any more: stop, and commit nothing')
    WHERE NOT EXISTS (SELECT 1 FROM task WHERE id = NEW.id AND fence = NEW.fence
                      AND state IN ('running', 'rollback_running') AND claim > 0
                      AND lease_until > strftime('%Y-%m-%dT%H:%M:%fZ', 'now'));
    UPDATE task SET (progress, checkpoint, message, marks, ping_due, lease_until) = (
        SELECT ifnull(said.progress, task.progress), ifnull(said.checkpoint, task.checkpoint),
               ifnull(said.message, task.message),
               CASE WHEN require_progress AND advances THEN json_set(said.marks, mark, number) ELSE task.marks END,
               CASE WHEN counts THEN due ELSE task.ping_due END,
               CASE WHEN counts THEN max(task.lease_until, strftime('%Y-%m-%dT%H:%M:%fZ', due, printf('+%.3f seconds', stop)))
                    ELSE task.lease_until END
        FROM (SELECT said.*, terms.stop, terms.marks, terms.require_progress,
                     ifnull(number > ifnull(json_extract(terms.marks, mark), -9e999), 0) AS advances,
                     terms.heartbeat > 0 AND (NOT terms.require_progress
                         OR ifnull(number > ifnull(json_extract(terms.marks, mark), -9e999), 0)) AS counts,
                     min(terms.ends, strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('+%.3f seconds',
                         max(terms.heartbeat, min(ifnull(said.next_within, 0), terms.max_heartbeat))))) AS due
              FROM lease_terms AS terms, (
                SELECT *, iif(json_type(progress) = 'object', '$.done', '$.number') AS mark,
                       -- As JSON writes it: json_set keeps no more digits, and what it drops must not count each time.
                       CASE WHEN json_type(progress) <> 'text'
                            THEN json_extract(json_array(json_extract(progress, iif(json_type(progress) = 'object', '$.done', '$'))), '$[0]')
                       END AS number
                FROM (
                  SELECT CASE -- a fraction, a count, or the text as it is
                             WHEN ifnull(NEW.progress, '') = '' THEN NULL
                             WHEN NOT json_valid(NEW.progress) THEN json_quote(CAST(NEW.progress AS TEXT))
                             WHEN json_type(NEW.progress) IN ('integer', 'real')
                                  AND json_extract(NEW.progress, '$') BETWEEN 0 AND 1 THEN json(NEW.progress)
                             WHEN json_type(NEW.progress, '$.done') IN ('integer', 'real')
                                  AND json_type(NEW.progress, '$.total') IN ('integer', 'real')
                                  AND (SELECT count(*) FROM json_each(NEW.progress)) = 2 THEN json(NEW.progress)
                             ELSE json_quote(CAST(NEW.progress AS TEXT))
                         END AS progress,
                         json(NEW.checkpoint) AS checkpoint,
                         CASE -- cut at 4 KiB, in the middle of no character
                             WHEN length(CAST(NEW.message AS BLOB)) <= 4096 THEN nullif(CAST(NEW.message AS TEXT), '')
                             ELSE substr(NEW.message, 1, length(CAST(substr(CAST(NEW.message AS BLOB), 1, 4096) AS TEXT)) - 1)
                         END AS message,
                         CAST(NEW.next_within_s AS REAL) AS next_within)) AS said
              WHERE terms.id = NEW.id) AS said)
    WHERE id = NEW.id AND fence = NEW.fence;
    SELECT RAISE(ABORT, 'progress must be 1 KiB at most') FROM task
    WHERE id = NEW.id AND length(CAST(progress AS BLOB)) > 1024;
    SELECT RAISE(ABORT, 'checkpoint must be 64 KiB at most') FROM task
    WHERE id = NEW.id AND length(CAST(checkpoint AS BLOB)) > 65536;
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

    UPDATE task SET cancel_asked = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), cancel_by = nullif(CAST(NEW.by AS TEXT), '')
    WHERE id = NEW.id AND state = 'running' AND cancel_asked IS NULL;
    UPDATE sign SET asked = asked + 1 WHERE changes() > 0; -- rows that the statement before has changed

    -- What was started and waits for its next attempt is undone, if it can be; its type's rollback counts from nought.
    UPDATE task SET state = 'rollback_pending', fence = fence + 1, attempt = 0, deferrals = 0,
        run_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), outcome = 'cancelled',
        error = 'cancelled while it waited' || ifnull(', by ' || nullif(CAST(NEW.by AS TEXT), ''), '')
    WHERE id = NEW.id AND state IN ('pending', 'retry_pending') AND ever_started
      AND EXISTS (SELECT 1 FROM policy WHERE hash = task.policy AND json_type(body, '$.rollback') = 'object');
    UPDATE sign SET n = n + 1 WHERE changes() > 0;

    INSERT INTO task_archive (
           id, type, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts, created_at,
           session, claim, policy, lease_until, claimed_at, deadline, checkpoint, progress, message, attempt, deferrals,
           ever_started, result, state, fence, outcome, error, cancel_asked, cancel_by, finished_at)
    SELECT id, type, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts, created_at,
           session, claim, policy, lease_until, claimed_at, deadline, checkpoint, progress, message, attempt, deferrals,
           ever_started, result, 'cancelled', fence + 1, 'cancelled',
           iif(ever_started, 'cancelled while it waited', 'cancelled before it started') ||
               ifnull(', by ' || nullif(CAST(NEW.by AS TEXT), ''), ''),
           strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), nullif(CAST(NEW.by AS TEXT), ''), strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
    FROM task WHERE id = NEW.id AND state IN ('pending', 'retry_pending');
    DELETE FROM task WHERE id = NEW.id AND state IN ('pending', 'retry_pending');
END;
