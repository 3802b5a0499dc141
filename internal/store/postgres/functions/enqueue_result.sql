-- Does what enqueue does, and says what that was: inserted, kept (the live task with the same type and key), replaced (that task's
-- values, since it has never started) or follows (it becomes a task once that one has ended for good; id is the follower's).
CREATE OR REPLACE FUNCTION {schema}.enqueue_result(
    type text, payload jsonb DEFAULT '{}', key text DEFAULT NULL, run_at timestamptz DEFAULT NULL,
    priority integer DEFAULT 0, region text DEFAULT NULL, max_attempts integer DEFAULT NULL, labels jsonb DEFAULT NULL,
    traceparent text DEFAULT NULL, created_by text DEFAULT NULL, batch_id bigint DEFAULT NULL,
    rollback_payload jsonb DEFAULT NULL, on_live text DEFAULT NULL, debounce interval DEFAULT NULL,
    debounce_max interval DEFAULT NULL, lock text DEFAULT NULL, sequence text DEFAULT NULL,
    after bigint[] DEFAULT NULL, after_if text DEFAULT NULL,
    tenant text DEFAULT NULL, OUT id bigint, OUT answer text
)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
#variable_conflict use_column
DECLARE
    live  text := {schema}.check_on_live(key, batch_id, run_at, on_live, debounce, debounce_max, after);
    due   timestamptz := CASE WHEN debounce IS NULL THEN coalesce(run_at, now()) ELSE clock_timestamp() + debounce END;
    got   bigint;
BEGIN
    FOR round IN 1..10 LOOP
        INSERT INTO {schema}.task AS t (type, payload, key, run_at, priority, region, max_attempts, labels,
                                        traceparent, created_by, batch_id, rollback_payload, lock, sequence, after, after_if, tenant)
        VALUES (enqueue_result.type, coalesce(enqueue_result.payload, '{}'), enqueue_result.key, due,
                coalesce(enqueue_result.priority, 0), enqueue_result.region, enqueue_result.max_attempts, enqueue_result.labels,
                enqueue_result.traceparent, enqueue_result.created_by, enqueue_result.batch_id, enqueue_result.rollback_payload,
                enqueue_result.lock, enqueue_result.sequence, enqueue_result.after, enqueue_result.after_if, enqueue_result.tenant)
        ON CONFLICT (type, key) WHERE key IS NOT NULL DO NOTHING
        RETURNING t.id INTO got;
        IF got IS NOT NULL THEN
            id := got;
            answer := 'inserted';
            RETURN;
        END IF;
        IF live = 'replace' THEN
            got := {schema}.replace_live(enqueue_result.type, enqueue_result.payload, enqueue_result.key, due,
                enqueue_result.priority, enqueue_result.region, enqueue_result.max_attempts, enqueue_result.labels,
                enqueue_result.traceparent, enqueue_result.created_by, enqueue_result.rollback_payload, enqueue_result.debounce_max,
                enqueue_result.lock, enqueue_result.sequence, enqueue_result.tenant);
            IF got IS NOT NULL THEN
                id := got;
                answer := 'replaced';
                RETURN;
            END IF;
        END IF;
        -- The lock of a row that is to be followed lasts until the caller's transaction ends: the row does not end before. It keeps
        -- no renewal from being written.
        IF live = 'keep' THEN
            SELECT t.id INTO got FROM {schema}.task AS t WHERE t.type = enqueue_result.type AND t.key = enqueue_result.key;
        ELSE
            SELECT t.id INTO got FROM {schema}.task AS t WHERE t.type = enqueue_result.type AND t.key = enqueue_result.key
            FOR KEY SHARE;
        END IF;
        CONTINUE WHEN got IS NULL; -- it has just ended
        id := got;
        answer := 'kept';
        IF live <> 'keep' THEN
            INSERT INTO {schema}.follow AS f (id, type, payload, key, run_at, priority, region, max_attempts, labels, traceparent,
                                              created_by, rollback_payload, lock, sequence, tenant)
            VALUES (nextval(pg_get_serial_sequence({schema_literal} || '.task', 'id')), enqueue_result.type,
                    coalesce(enqueue_result.payload, '{}'), enqueue_result.key, due, coalesce(enqueue_result.priority, 0),
                    enqueue_result.region, enqueue_result.max_attempts, enqueue_result.labels, enqueue_result.traceparent,
                    enqueue_result.created_by, enqueue_result.rollback_payload, enqueue_result.lock, enqueue_result.sequence,
                    enqueue_result.tenant)
            ON CONFLICT (type, key) DO UPDATE SET
                payload = excluded.payload, rollback_payload = excluded.rollback_payload, priority = excluded.priority,
                region = excluded.region, max_attempts = excluded.max_attempts, labels = excluded.labels,
                traceparent = excluded.traceparent, created_by = excluded.created_by, lock = excluded.lock,
                sequence = excluded.sequence,
                tenant = excluded.tenant,
                run_at = least(excluded.run_at, f.created_at + enqueue_result.debounce_max)
            RETURNING f.id INTO got;
            id := got;
            answer := 'follows';
        END IF;
        RETURN;
    END LOOP;
    RAISE EXCEPTION 'task of type % with key % came and went ten times: try again', enqueue_result.type, enqueue_result.key
        USING ERRCODE = 'serialization_failure';
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.enqueue_result(text, jsonb, text, timestamptz, integer, text, integer, jsonb, text, text, bigint,
    jsonb, text, interval, interval, text, text, bigint[], text, text)
    FROM PUBLIC;

-- Returns what is to become of a live row, keep, replace or again, and raises where the request contradicts itself. Go:
-- store.EnqueueRequest.Check.
CREATE OR REPLACE FUNCTION {schema}.check_on_live(
    key text, batch_id bigint, run_at timestamptz, on_live text, debounce interval, debounce_max interval, after bigint[]
) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS
$leasehold$
DECLARE
    refusal text;
    live    text := coalesce(on_live, CASE WHEN debounce IS NULL THEN 'keep' ELSE 'replace' END);
BEGIN
    IF live NOT IN ('keep', 'replace', 'again') THEN
        refusal := 'on_live must be keep, replace or again';
    ELSIF debounce_max IS NOT NULL AND debounce IS NULL THEN
        refusal := 'debounce_max needs a debounce';
    ELSIF debounce <= interval '0' THEN
        refusal := 'debounce must be positive';
    ELSIF debounce_max < debounce THEN
        refusal := 'debounce_max must be debounce at least';
    ELSIF debounce IS NOT NULL AND live <> 'replace' THEN
        refusal := 'debounce replaces the live row: on_live must be replace, or left out';
    ELSIF debounce IS NOT NULL AND run_at IS NOT NULL THEN
        refusal := 'debounce sets the due time: run_at must be left out';
    ELSIF live <> 'keep' AND key IS NULL THEN
        refusal := 'on_live and debounce need a key';
    ELSIF live <> 'keep' AND cardinality(after) > 0 THEN
        refusal := 'a row that waits for others replaces and follows none: on_live must be keep';
    ELSIF live <> 'keep' AND batch_id IS NOT NULL THEN
        refusal := 'a row of a batch replaces and follows none: on_live must be keep';
    END IF;
    IF refusal IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = refusal;
    END IF;
    RETURN live;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.check_on_live(text, bigint, timestamptz, text, interval, interval, bigint[]) FROM PUBLIC;

-- Gives the live row of a type and key the values of a new one, and returns its id; NULL where there is none, it was ever
-- started, or it has a follower, which is later than the row. One that a claim has locked is waited for, and runs by then. The
-- values were checked by the INSERT that met the row.
CREATE OR REPLACE FUNCTION {schema}.replace_live(
    of_type text, payload jsonb, of_key text, due timestamptz, priority integer, region text, max_attempts integer, labels jsonb,
    traceparent text, created_by text, rollback_payload jsonb, debounce_max interval, lock text,
    sequence text, tenant text
) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
#variable_conflict use_column
DECLARE
    replaced bigint;
BEGIN
    WITH was AS MATERIALIZED (
        SELECT t.id, t.lock, t.held, t.type, t.sequence FROM {schema}.task AS t
        WHERE t.type = of_type AND t.key = of_key AND t.state = 'pending' AND NOT t.ever_started
          AND NOT EXISTS (SELECT FROM {schema}.follow AS f WHERE f.type = of_type AND f.key = of_key)
        FOR NO KEY UPDATE
    ), noted AS ( -- others may wait for the lock behind one that is not held
        INSERT INTO {schema}.lock_note (name) SELECT w.lock FROM was AS w WHERE w.lock IS NOT NULL AND w.held IS NULL
    ), passed_on AS ( -- it may have been the head of a sequence
        INSERT INTO {schema}.sequence_note (type, name) SELECT w.type, w.sequence FROM was AS w WHERE w.sequence IS NOT NULL
    ), changed AS (
        UPDATE {schema}.task AS t SET
            payload = coalesce(replace_live.payload, '{}'), rollback_payload = replace_live.rollback_payload,
            run_at = least(due, t.created_at + debounce_max),
            priority = coalesce(replace_live.priority, 0), region = replace_live.region, spilled_from = NULL, first_due = NULL,
            max_attempts = replace_live.max_attempts, labels = replace_live.labels, traceparent = replace_live.traceparent, created_by = replace_live.created_by, deadline = NULL,
            lock = replace_live.lock, sequence = replace_live.sequence, tenant = replace_live.tenant, held = CASE WHEN w.held = 'after' THEN w.held END
        FROM was AS w WHERE t.id = w.id
        RETURNING t.id
    )
    SELECT c.id INTO replaced FROM changed AS c;
    -- As after an insert: the row may be due sooner now.
    IF replaced IS NOT NULL AND EXISTS (SELECT FROM {schema}.agent AS a WHERE a.idle AND a.present_until > now()) THEN
        PERFORM pg_notify({channel_literal}, '');
    END IF;
    RETURN replaced;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.replace_live(text, jsonb, text, timestamptz, integer, text, integer, jsonb, text, text, jsonb, interval,
    text, text, text) FROM PUBLIC;
