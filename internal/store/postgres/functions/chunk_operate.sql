-- Has agents plan nothing more of a chunk plan; its tasks are run as ever. Returns 'paused', or 'unchanged' where it was.
CREATE OR REPLACE FUNCTION {schema}.pause_chunks(name text, by text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    who text := {schema}.requester(by);
    p   {schema}.chunk_plan := {schema}.lock_chunks(name);
BEGIN
    IF p.paused_at IS NOT NULL THEN
        RETURN 'unchanged';
    END IF;
    UPDATE {schema}.chunk_plan AS r SET paused_at = date_trunc('milliseconds', now()), paused_by = who, version = r.version + 1
    WHERE r.name = p.name;
    INSERT INTO {schema}.audit (requested_by, verb, chunks, answer) VALUES (who, 'pause', p.name, 'paused');
    RETURN 'paused';
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.pause_chunks(text, text) FROM PUBLIC;

-- Has agents go on with a chunk plan. Where the batch of its pass accepts no more rows, the next chunk of the pass gets a new one.
-- Returns 'resumed', or 'unchanged' where nothing kept agents from planning.
CREATE OR REPLACE FUNCTION {schema}.resume_chunks(name text, by text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    who  text := {schema}.requester(by);
    plan {schema}.chunk_plan := {schema}.lock_chunks(name);
BEGIN
    UPDATE {schema}.chunk_pass AS r SET batch_id = NULL
    FROM {schema}.chunk_plan AS p
    JOIN {schema}.chunk_pass AS s ON s.plan = p.name AND s.pass = p.pass
    LEFT JOIN {schema}.batch AS b ON b.id = s.batch_id
    WHERE p.name = plan.name AND r.plan = s.plan AND r.pass = s.pass AND {chunk_stopped};
    IF NOT FOUND AND plan.paused_at IS NULL THEN
        RETURN 'unchanged';
    END IF;
    UPDATE {schema}.chunk_plan AS r SET paused_at = NULL, paused_by = NULL, version = r.version + 1 WHERE r.name = plan.name;
    INSERT INTO {schema}.audit (requested_by, verb, chunks, answer) VALUES (who, 'resume', plan.name, 'resumed');
    RETURN 'resumed';
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.resume_chunks(text, text) FROM PUBLIC;

-- Locks a chunk plan and returns it.
CREATE OR REPLACE FUNCTION {schema}.lock_chunks(plan text) RETURNS {schema}.chunk_plan
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    p {schema}.chunk_plan;
BEGIN
    SELECT r.* INTO p FROM {schema}.chunk_plan AS r WHERE r.name = plan FOR NO KEY UPDATE;
    IF p.name IS NULL THEN
        RAISE EXCEPTION 'there is no chunk plan "%"', plan USING ERRCODE = 'no_data_found';
    END IF;
    RETURN p;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.lock_chunks(text) FROM PUBLIC;
