-- Inserts a task and returns its id, or the id of the live task with the same type and key. That one may finish between
-- the two statements, hence the loop: ten tries fail only if that happens ten times in a row. With on_live or debounce it is
-- enqueue_result.
CREATE OR REPLACE FUNCTION {schema}.enqueue(
    type text, payload jsonb DEFAULT '{}', key text DEFAULT NULL, run_at timestamptz DEFAULT NULL,
    priority integer DEFAULT 0, region text DEFAULT NULL, max_attempts integer DEFAULT NULL, labels jsonb DEFAULT NULL,
    traceparent text DEFAULT NULL, created_by text DEFAULT NULL, batch_id bigint DEFAULT NULL,
    rollback_payload jsonb DEFAULT NULL, on_live text DEFAULT NULL, debounce interval DEFAULT NULL,
    debounce_max interval DEFAULT NULL, lock text DEFAULT NULL, sequence text DEFAULT NULL,
    after bigint[] DEFAULT NULL, after_if text DEFAULT NULL, tenant text DEFAULT NULL
) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$leasehold$
#variable_conflict use_column
DECLARE
    found_id bigint;
BEGIN
    IF enqueue.on_live <> 'keep' OR enqueue.debounce IS NOT NULL OR enqueue.debounce_max IS NOT NULL THEN
        RETURN (SELECT r.id FROM {schema}.enqueue_result(enqueue.type, enqueue.payload, enqueue.key, enqueue.run_at,
            enqueue.priority, enqueue.region, enqueue.max_attempts, enqueue.labels, enqueue.traceparent, enqueue.created_by,
            enqueue.batch_id, enqueue.rollback_payload, enqueue.on_live, enqueue.debounce, enqueue.debounce_max, enqueue.lock,
            enqueue.sequence,
            enqueue.after, enqueue.after_if,
            enqueue.tenant) AS r);
    END IF;
    FOR round IN 1..10 LOOP
        INSERT INTO {schema}.task AS t (type, payload, key, run_at, priority, region, max_attempts, labels,
                                        traceparent, created_by, batch_id, rollback_payload, lock, sequence, after, after_if, tenant)
        VALUES (enqueue.type, coalesce(enqueue.payload, '{}'), enqueue.key, coalesce(enqueue.run_at, now()),
                coalesce(enqueue.priority, 0), enqueue.region, enqueue.max_attempts, enqueue.labels,
                enqueue.traceparent, enqueue.created_by, enqueue.batch_id, enqueue.rollback_payload, enqueue.lock,
                enqueue.sequence, enqueue.after, enqueue.after_if,
                enqueue.tenant)
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
REVOKE ALL ON FUNCTION {schema}.enqueue(text, jsonb, text, timestamptz, integer, text, integer, jsonb, text, text, bigint,
    jsonb, text, interval, interval, text, text, bigint[], text, text)
    FROM PUBLIC;
