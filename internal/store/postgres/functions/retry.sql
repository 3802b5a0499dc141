-- Revives a task that has failed, was cancelled or was rolled back, and returns its state. payload, unless it is NULL, takes the place of
-- the task's from then on; then a task in any other state is an error, because it does not get it.
CREATE OR REPLACE FUNCTION {schema}.retry(id bigint, by text DEFAULT NULL, payload jsonb DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    seen record;
    b    {schema}.batch;
    a    {schema}.task_archive;
    who  text := {schema}.requester(by);
BEGIN
    FOR try IN 1..10 LOOP
        SELECT r.state, r.batch_id INTO seen FROM {schema}.tasks AS r WHERE r.id = retry.id;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'there is no task %', id USING ERRCODE = 'no_data_found';
        ELSIF seen.state NOT IN ('failed', 'cancelled', 'rolled_back') THEN
            IF payload IS NOT NULL THEN
                PERFORM {schema}.raise_conflict(format('only a task that failed, was cancelled or was rolled back can be retried with '
                    'another payload: this one is %s', seen.state));
            END IF;
            RETURN seen.state;
        END IF;
        SELECT r.* INTO b FROM {schema}.batch AS r WHERE r.id = seen.batch_id FOR NO KEY UPDATE;
        SELECT r.* INTO a FROM {schema}.task_archive AS r WHERE r.id = retry.id FOR UPDATE;
        EXIT WHEN a.id IS NOT NULL; -- else another has just revived it, or it is being removed
        PERFORM {schema}.limit_tries(retry.id, try);
    END LOOP;
    IF EXISTS (SELECT FROM {schema}.operation AS o WHERE o.task_id = retry.id AND o.ended_at IS NULL) THEN
        PERFORM {schema}.raise_conflict(format('task %s is to be rolled back: wait for that', id));
    ELSIF b.requested IS NOT NULL AND b.ended_at IS NULL THEN
        PERFORM {schema}.raise_conflict(format('task %s belongs to batch %s, of which a %s is under way: wait until the batch has '
            'ended', id, b.id, b.requested));
    END IF;
    IF payload IS NOT NULL THEN
        PERFORM {schema}.replace_payload(a.id, payload);
    END IF;
    PERFORM {schema}.revive_one(a, 'retry');
    INSERT INTO {schema}.audit (requested_by, verb, task_id, reason, answer)
    VALUES (who, 'retry', retry.id, CASE WHEN payload IS NOT NULL THEN 'with another payload' END, 'pending');
    RETURN 'pending';
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.retry(bigint, text, jsonb) FROM PUBLIC;

-- Gives an archived task another payload, within the bound on new ones. The caller has locked it. A chunk's payload is its range.
CREATE OR REPLACE FUNCTION {schema}.replace_payload(of bigint, document jsonb) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    bytes bigint := (SELECT s.max_payload FROM {schema}.setting AS s);
BEGIN
    IF EXISTS (SELECT FROM {schema}.chunk_range AS c WHERE c.task_id = of) THEN
        PERFORM {schema}.raise_conflict(format('task %s is a chunk, and its payload is its range: retry it without another payload', of));
    ELSIF pg_column_size(document) > bytes THEN
        RAISE EXCEPTION 'the payload is too large' USING ERRCODE = 'check_violation', CONSTRAINT = format(
            'payload must be %s at most: see migrate --max-payload', CASE WHEN bytes % 1048576 = 0 THEN bytes / 1048576 || ' MiB'
                WHEN bytes % 1024 = 0 THEN bytes / 1024 || ' KiB' ELSE bytes || ' bytes' END);
    END IF;
    UPDATE {schema}.task_archive AS r SET payload = document WHERE r.id = of;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.replace_payload(bigint, jsonb) FROM PUBLIC;
