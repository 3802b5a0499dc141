-- Revives a task that has failed, was cancelled or was rolled back, and returns its state.
CREATE OR REPLACE FUNCTION {schema}.retry(id bigint, by text DEFAULT NULL) RETURNS text
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
    PERFORM {schema}.revive_one(a, 'retry');
    INSERT INTO {schema}.audit (requested_by, verb, task_id, answer) VALUES (who, 'retry', retry.id, 'pending');
    RETURN 'pending';
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.retry(bigint, text) FROM PUBLIC;
