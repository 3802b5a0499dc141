DROP VIEW cancel;
DROP VIEW ping;
DROP VIEW complete;
DROP VIEW hold;
DROP VIEW lease_terms;
DROP VIEW tasks;
DROP TABLE secret;
ALTER TABLE sign DROP COLUMN asked;
ALTER TABLE task_archive DROP COLUMN cancel_by;
ALTER TABLE task_archive DROP COLUMN cancel_asked;
ALTER TABLE task_archive DROP COLUMN message;
ALTER TABLE task_archive DROP COLUMN progress;
ALTER TABLE task_archive DROP COLUMN checkpoint;
ALTER TABLE task DROP COLUMN marks;
ALTER TABLE task DROP COLUMN ping_due;
ALTER TABLE task DROP COLUMN detached;
ALTER TABLE task DROP COLUMN cancel_by;
ALTER TABLE task DROP COLUMN cancel_asked;
ALTER TABLE task DROP COLUMN message;
ALTER TABLE task DROP COLUMN progress;
ALTER TABLE task DROP COLUMN checkpoint;
CREATE VIEW tasks AS
    SELECT id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
           created_at, attempt, deferrals, ever_started, fence, session, claim, policy, lease_until, claimed_at, deadline,
           outcome, error, result, NULL AS output, NULL AS started_at, NULL AS finished_at
    FROM task
    UNION ALL
    SELECT id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
           created_at, attempt, deferrals, ever_started, fence, session, claim, policy, lease_until, claimed_at, deadline,
           outcome, error, result, output, started_at, finished_at
    FROM task_archive;
