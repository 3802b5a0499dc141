-- Has agents plan nothing more of a chunk plan; its chunks run as ever. Returns 'paused', or 'unchanged' where it was.
CREATE OR REPLACE FUNCTION {schema}.pause_chunks(name text, by text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS
$leasehold$
DECLARE
    who text := {schema}.requester(by);
    p   {schema}.chunk_plan := {schema}.lock_chunk_plan(name);
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

-- Has agents go on with a chunk plan. Where the batch of its pass accepts no more rows, the pass goes on in a new one. Returns
-- 'resumed', or 'unchanged' where nothing kept agents from planning.
CREATE OR REPLACE FUNCTION {schema}.resume_chunks(name text, by text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS
$leasehold$
DECLARE
    who text := {schema}.requester(by);
    p   {schema}.chunk_plan := {schema}.lock_chunk_plan(name);
BEGIN
    UPDATE {schema}.chunk_pass AS s SET batch_id = NULL, earlier = s.earlier || s.batch_id
    WHERE s.plan = p.name AND s.pass = p.pass AND s.sealed_at IS NULL AND s.batch_id IS NOT NULL
      AND NOT EXISTS (SELECT FROM {schema}.batch AS b
                      WHERE b.id = s.batch_id AND NOT b.sealed AND NOT b.stopping AND b.ended_at IS NULL);
    IF NOT FOUND AND p.paused_at IS NULL THEN
        RETURN 'unchanged';
    END IF;
    UPDATE {schema}.chunk_plan AS r SET paused_at = NULL, paused_by = NULL, version = r.version + 1 WHERE r.name = p.name;
    INSERT INTO {schema}.audit (requested_by, verb, chunks, answer) VALUES (who, 'resume', p.name, 'resumed');
    RETURN 'resumed';
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.resume_chunks(text, text) FROM PUBLIC;

-- Pauses a chunk plan, and cancels the batches of its newest pass and of its live chunks. Returns what cancel_batch does for the
-- newest, or 'paused' where there is none.
CREATE OR REPLACE FUNCTION {schema}.cancel_chunks(name text, by text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS
$leasehold$
DECLARE
    p      {schema}.chunk_plan := {schema}.lock_chunk_plan(name);
    one    bigint;
    answer text := 'paused';
BEGIN
    PERFORM {schema}.pause_chunks(p.name, by);
    FOR one IN
        SELECT b.id FROM {schema}.batch AS b WHERE b.id IN (
            SELECT t.batch_id FROM {schema}.chunk_range AS c JOIN {schema}.task AS t ON t.id = c.task_id
            WHERE c.plan = p.name AND c.state <> 'over'
            UNION SELECT s.batch_id FROM {schema}.chunk_pass AS s WHERE s.plan = p.name AND s.pass = p.pass)
        ORDER BY b.id
    LOOP
        answer := {schema}.cancel_batch(one, by);
    END LOOP;
    RETURN answer;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.cancel_chunks(text, text) FROM PUBLIC;

-- Retries the failed chunks of a plan's newest pass, and forgets how often ranges have failed before: the next pass plans those
-- again that it would have left out. Returns what retry_batch does, 'cleared', or 'unchanged'.
CREATE OR REPLACE FUNCTION {schema}.retry_chunks(name text, by text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS
$leasehold$
DECLARE
    who    text := {schema}.requester(by);
    p      {schema}.chunk_plan := {schema}.lock_chunk_plan(name);
    one    bigint;
    answer text := 'unchanged';
BEGIN
    UPDATE {schema}.chunk_range AS c SET failures = 0 WHERE c.plan = p.name AND c.state <> 'over' AND c.failures > 0;
    IF FOUND THEN
        answer := 'cleared';
        UPDATE {schema}.chunk_plan AS r SET version = r.version + 1 WHERE r.name = p.name;
        INSERT INTO {schema}.audit (requested_by, verb, chunks, answer) VALUES (who, 'retry', p.name, 'cleared');
    END IF;
    FOR one IN
        SELECT b.id FROM {schema}.chunk_pass AS s JOIN {schema}.batch AS b ON b.id = s.batch_id OR b.id = ANY (s.earlier)
        WHERE s.plan = p.name AND s.pass = p.pass ORDER BY b.id
    LOOP
        answer := {schema}.retry_batch(one, by);
    END LOOP;
    RETURN answer;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.retry_chunks(text, text) FROM PUBLIC;

-- Pauses a chunk plan, and rolls back the batches of a pass; NULL: of its newest. Returns what rollback_batch does for the newest,
-- or 'paused' where there is none.
CREATE OR REPLACE FUNCTION {schema}.rollback_chunks(name text, pass integer DEFAULT NULL, by text DEFAULT NULL,
    force boolean DEFAULT false) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS
$leasehold$
DECLARE
    p      {schema}.chunk_plan := {schema}.lock_chunk_plan(name);
    which  integer := coalesce(nullif(pass, 0), p.pass);
    one    bigint;
    answer text := 'paused';
BEGIN
    IF coalesce(pass, 0) <> 0 AND NOT EXISTS (SELECT FROM {schema}.chunk_pass AS s WHERE s.plan = p.name AND s.pass = which) THEN
        PERFORM {schema}.raise_conflict(format('chunk plan "%s" has no pass %s', p.name, which));
    END IF;
    PERFORM {schema}.pause_chunks(p.name, by);
    FOR one IN
        SELECT b.id FROM {schema}.chunk_pass AS s JOIN {schema}.batch AS b ON b.id = s.batch_id OR b.id = ANY (s.earlier)
        WHERE s.plan = p.name AND s.pass = which ORDER BY b.id
    LOOP
        answer := {schema}.rollback_batch(one, by, force);
    END LOOP;
    RETURN answer;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.rollback_chunks(text, integer, text, boolean) FROM PUBLIC;

-- Locks a chunk plan and returns it.
CREATE OR REPLACE FUNCTION {schema}.lock_chunk_plan(plan text) RETURNS {schema}.chunk_plan
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS
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
REVOKE ALL ON FUNCTION {schema}.lock_chunk_plan(text) FROM PUBLIC;
