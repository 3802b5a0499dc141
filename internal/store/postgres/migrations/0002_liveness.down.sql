-- Who may look at tasks has to be granted anew.
DROP FUNCTION {schema}.cancel(bigint, text);
DROP FUNCTION {schema}.complete(bigint, bigint, jsonb);
DROP FUNCTION {schema}.take_complete(bigint, bigint, boolean, jsonb);
DROP FUNCTION {schema}.bury({schema}.task, timestamptz);
DROP FUNCTION {schema}.hold(bigint, bigint);
DROP FUNCTION {schema}.ping(bigint, bigint, text, jsonb, text, double precision);
DROP FUNCTION {schema}.take_pings(bigint[], bigint[], text[], text[], text[], double precision[]);
DROP FUNCTION {schema}.advance(jsonb, bigint, jsonb, jsonb);
DROP FUNCTION {schema}.merge_marks(jsonb, bigint, jsonb);
DROP FUNCTION {schema}.digest_of(text, jsonb);
DROP FUNCTION {schema}.length_in(jsonb, text);
DROP FUNCTION {schema}.length_of(jsonb);
DROP FUNCTION {schema}.gone(bigint, bigint);
DROP TABLE {schema}.secret;
DROP VIEW {schema}.tasks;
ALTER TABLE {schema}.task_archive
    DROP COLUMN cancel_asked, DROP COLUMN cancel_by, DROP COLUMN message, DROP COLUMN progress, DROP COLUMN checkpoint;
ALTER TABLE {schema}.task
    DROP COLUMN cancel_asked, DROP COLUMN ping_due, DROP COLUMN detached, DROP COLUMN cancel_by, DROP COLUMN message,
    DROP COLUMN progress, DROP COLUMN checkpoint, DROP COLUMN marks;
CREATE VIEW {schema}.tasks AS
    SELECT id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
           created_at, attempt, deferrals, ever_started, fence, session, claim, policy, lease_until, claimed_at, deadline,
           outcome, error, result, NULL::text AS output, NULL::timestamptz AS started_at,
           NULL::timestamptz AS finished_at
    FROM {schema}.task
    UNION ALL
    SELECT id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
           created_at, attempt, deferrals, ever_started, fence, session, claim, policy, lease_until, claimed_at, deadline,
           outcome, error, result, output, started_at, finished_at
    FROM {schema}.task_archive;
