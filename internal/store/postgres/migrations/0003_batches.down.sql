DROP FUNCTION {schema}.set_max_payload(bigint);
-- Who may look at tasks and enqueue has to be granted anew.
DROP FUNCTION {schema}.enqueue(text, jsonb, text, timestamptz, integer, text, integer, jsonb, text, text, bigint, jsonb);
CREATE FUNCTION {schema}.enqueue(
    type text, payload jsonb DEFAULT '{}', key text DEFAULT NULL, run_at timestamptz DEFAULT NULL,
    priority integer DEFAULT 0, region text DEFAULT NULL, max_attempts integer DEFAULT NULL, labels jsonb DEFAULT NULL,
    traceparent text DEFAULT NULL, created_by text DEFAULT NULL
) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$leasehold$
#variable_conflict use_column
DECLARE
    found_id bigint;
BEGIN
    FOR round IN 1..10 LOOP
        INSERT INTO {schema}.task AS t (type, payload, key, run_at, priority, region, max_attempts, labels,
                                        traceparent, created_by)
        VALUES (enqueue.type, coalesce(enqueue.payload, '{}'), enqueue.key, coalesce(enqueue.run_at, now()),
                coalesce(enqueue.priority, 0), enqueue.region, enqueue.max_attempts, enqueue.labels,
                enqueue.traceparent, enqueue.created_by)
        ON CONFLICT (type, key) WHERE key IS NOT NULL DO NOTHING
        RETURNING t.id INTO found_id;
        IF found_id IS NOT NULL THEN
            RETURN found_id;
        END IF;
        SELECT t.id INTO found_id FROM {schema}.task AS t WHERE t.type = enqueue.type AND t.key = enqueue.key;
        IF found_id IS NOT NULL THEN
            RETURN found_id;
        END IF;
    END LOOP;
    RAISE EXCEPTION 'task of type % with key % came and went ten times: try again', enqueue.type, enqueue.key
        USING ERRCODE = 'serialization_failure';
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.enqueue(text, jsonb, text, timestamptz, integer, text, integer, jsonb, text, text)
    FROM PUBLIC;
DROP FUNCTION {schema}.may_start(bigint, bigint);
DROP TRIGGER batch_stops ON {schema}.batch;
DROP FUNCTION {schema}.batch_stops();
DROP TABLE {schema}.batch_gate_0, {schema}.batch_gate_1, {schema}.batch_gate_2, {schema}.batch_gate_3,
    {schema}.batch_gate_4, {schema}.batch_gate_5, {schema}.batch_gate_6, {schema}.batch_gate_7;
DROP TRIGGER task_inserted ON {schema}.task;
CREATE OR REPLACE FUNCTION {schema}.task_inserted() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$leasehold$
BEGIN
    IF EXISTS (SELECT FROM {schema}.agent AS a WHERE a.idle AND a.present_until > now()) THEN
        PERFORM pg_notify({channel_literal}, '');
    END IF;
    RETURN NULL;
END
$leasehold$;
CREATE TRIGGER task_inserted AFTER INSERT ON {schema}.task
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.task_inserted();
DROP FUNCTION {schema}.admit(bigint);
DROP FUNCTION {schema}.count_step(bigint, text, text, boolean, boolean);
DROP VIEW {schema}.batches;
DROP VIEW {schema}.tasks;
DROP TABLE {schema}.audit, {schema}.operation, {schema}.batch_delta, {schema}.batch;
ALTER TABLE {schema}.task_archive
    DROP COLUMN batch_id, DROP COLUMN round, DROP COLUMN cause, DROP COLUMN rollback_payload;
ALTER TABLE {schema}.task
    DROP COLUMN batch_id, DROP COLUMN round, DROP COLUMN cause, DROP COLUMN rollback_payload;
CREATE VIEW {schema}.tasks AS
    SELECT id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
           created_at, attempt, deferrals, ever_started, fence, session, claim, policy, lease_until, claimed_at, deadline,
           outcome, error, result, NULL::text AS output, NULL::timestamptz AS started_at,
           NULL::timestamptz AS finished_at, progress, message, checkpoint, cancel_asked, cancel_by,
           coalesce(detached, false) AS detached
    FROM {schema}.task
    UNION ALL
    SELECT id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
           created_at, attempt, deferrals, ever_started, fence, session, claim, policy, lease_until, claimed_at, deadline,
           outcome, error, result, output, started_at, finished_at, progress, message, checkpoint, cancel_asked,
           cancel_by, false
    FROM {schema}.task_archive;
