-- What the policy of a running task says about its pings, in seconds. A rollback uses the run's settings where it has none of
-- its own. Without a policy there is no heartbeat, and the attempt ends with its lease.
CREATE VIEW lease_terms AS
    SELECT id, fence, state, lease_until, ping_due, progress, checkpoint, message, cancel_requested_at,
        cancel_requested_by,
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

-- INSERT INTO ping (id, fence, progress, checkpoint, message, next_within_s) reports that a task is alive. The view then has
-- the reply: cancel, reason, remaining_s, and next_within_s, by when the next ping is due. Where the type requires progress,
-- only a number, or done, above the highest of the attempt counts: SQL cannot compare JSON by value.
CREATE VIEW ping AS
    SELECT id, fence, progress, checkpoint, message,
           round(max((julianday(ping_due) - julianday('now')) * 86400, 0), 3) AS next_within_s,
           state = 'running' AND cancel_requested_at IS NOT NULL AS cancel,
           CASE WHEN state = 'running' AND cancel_requested_at IS NOT NULL
                THEN 'cancellation requested' || ifnull(' by ' || cancel_requested_by, '') END AS reason,
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
