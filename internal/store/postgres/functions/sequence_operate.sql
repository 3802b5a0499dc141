-- What operators do with the sequences of a type. None of these functions locks the sequence's row: an operator's transaction that stays open
-- must not keep rows from starting. They leave notes, and agents go on from there.

-- Returns the failed row that blocks a sequence; NULL where none does.
CREATE OR REPLACE FUNCTION {schema}.sequence_blocked(of_type text, of_name text) RETURNS bigint
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    failed bigint := (SELECT f.task_id FROM {schema}.sequence_failure AS f WHERE f.type = of_type AND f.name = of_name
        ORDER BY f.type, f.name, f.task_id LIMIT 1);
BEGIN
    IF failed IS NULL
       OR EXISTS (SELECT FROM {schema}.sequence_rule AS p WHERE p.type = of_type AND p.on_failure = 'continue')
       OR EXISTS (SELECT FROM {schema}.sequence_holder AS h JOIN {schema}.task AS t ON t.id = h.task_id
            WHERE h.type = of_type AND h.name = of_name AND t.type = of_type AND t.sequence = of_name)
       OR EXISTS (SELECT FROM {schema}.task AS t WHERE t.type = of_type AND t.sequence = of_name AND t.state = 'rollback_pending')
       OR (SELECT t.id FROM {schema}.task AS t WHERE t.type = of_type AND t.sequence = of_name
            ORDER BY t.type, t.sequence, t.id LIMIT 1) < failed THEN
        RETURN NULL;
    END IF;
    RETURN failed;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.sequence_blocked(text, text) FROM PUBLIC;

-- Returns the failed row that blocks a sequence, and raises where none does, or not the one that is meant.
CREATE OR REPLACE FUNCTION {schema}.blocking_failure(of_type text, of_name text, meant bigint) RETURNS bigint
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    failed bigint := {schema}.sequence_blocked(of_type, of_name);
BEGIN
    IF failed IS NULL THEN
        PERFORM FROM {schema}.task AS t WHERE t.type = of_type AND t.sequence = of_name
        UNION ALL SELECT FROM {schema}.sequence_failure AS f WHERE f.type = of_type AND f.name = of_name;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'there is no sequence % of type %', to_json(of_name), to_json(of_type) USING ERRCODE = 'no_data_found';
        END IF;
        PERFORM {schema}.raise_conflict(format('no failure blocks the sequence %s of type %s', to_json(of_name), to_json(of_type)));
    ELSIF failed <> meant THEN
        PERFORM {schema}.raise_conflict(format('it is not task %s that blocks the sequence %s, but task %s', meant, to_json(of_name), failed));
    END IF;
    RETURN failed;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.blocking_failure(text, text, bigint) FROM PUBLIC;

-- Resolves the failure that blocks a sequence, so that the rows behind it go on, and returns the failed row. task_id is the one that is meant;
-- NULL is whichever it is.
CREATE OR REPLACE FUNCTION {schema}.sequence_skip(type text, name text, task_id bigint DEFAULT NULL, by text DEFAULT NULL) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    who    text := {schema}.requester(by);
    failed bigint := {schema}.blocking_failure(type, name, task_id);
BEGIN
    DELETE FROM {schema}.sequence_failure AS f
    WHERE f.type = sequence_skip.type AND f.name = sequence_skip.name AND f.task_id = failed;
    IF NOT FOUND THEN
        PERFORM {schema}.raise_conflict(format('the failure of task %s has just been resolved', failed));
    END IF;
    INSERT INTO {schema}.sequence_note (type, name) VALUES (sequence_skip.type, sequence_skip.name);
    INSERT INTO {schema}.audit (requested_by, verb, task_id, answer) VALUES (who, 'skip', failed, 'skipped');
    RETURN failed;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.sequence_skip(text, text, bigint, text) FROM PUBLIC;

-- Retries the failed row that blocks a sequence, and returns it.
CREATE OR REPLACE FUNCTION {schema}.sequence_retry(type text, name text, task_id bigint DEFAULT NULL, by text DEFAULT NULL) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    failed bigint := {schema}.blocking_failure(type, name, task_id);
BEGIN
    IF {schema}.retry(failed, by) = 'rollback_failed' THEN
        PERFORM {schema}.raise_conflict(format('the rollback of task %s has failed: roll it back again, or skip it', failed));
    END IF;
    RETURN failed;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.sequence_retry(text, text, bigint, text) FROM PUBLIC;

-- Cancels waiting rows of a sequence, so many at most, and resolves its failures, theirs included. Returns how many rows it has cancelled: call
-- it until there are none. What runs goes on, and so do rollbacks.
CREATE OR REPLACE FUNCTION {schema}.sequence_cancel(type text, name text, most integer DEFAULT 1000, by text DEFAULT NULL) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    who text := {schema}.requester(by);
    hit record;
BEGIN
    PERFORM {schema}.ensure_partition(clock_timestamp()); -- it may wait, and no row is locked yet
    SELECT coalesce(array_agg(t.id), '{}') AS ids,
        coalesce(array_agg(t.ever_started AND {schema}.can_roll_back(NULL, t.policy)), '{}') AS rolls_back INTO hit
    FROM (
        SELECT r.id, r.ever_started, r.policy FROM {schema}.task AS r
        WHERE r.type = sequence_cancel.type AND r.sequence = sequence_cancel.name AND r.state IN ('pending', 'retry_pending')
        ORDER BY r.type, r.sequence, r.id LIMIT least(greatest(most, 1), 1000) FOR UPDATE SKIP LOCKED
    ) AS t;
    PERFORM {schema}.cancel_rows(hit.ids, hit.rolls_back, who);
    DELETE FROM {schema}.sequence_failure AS f WHERE f.type = sequence_cancel.type AND f.name = sequence_cancel.name;
    INSERT INTO {schema}.sequence_note (type, name) SELECT sequence_cancel.type, sequence_cancel.name WHERE FOUND;
    INSERT INTO {schema}.audit (requested_by, verb, task_id, answer)
    SELECT who, 'cancel', u.id, CASE WHEN u.back THEN 'rollback_pending' ELSE 'cancelled' END FROM unnest(hit.ids, hit.rolls_back) AS u (id, back);
    RETURN cardinality(hit.ids);
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.sequence_cancel(text, text, integer, text) FROM PUBLIC;
