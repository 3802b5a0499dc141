-- Has agents leave a schedule alone. Returns 'paused', or 'unchanged' where it was.
CREATE OR REPLACE FUNCTION {schema}.pause_schedule(name text, by text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    who text := {schema}.requester(by);
    s   {schema}.schedule := {schema}.lock_schedule(name);
BEGIN
    IF s.paused_at IS NOT NULL THEN
        RETURN 'unchanged';
    END IF;
    UPDATE {schema}.schedule AS r SET paused_at = date_trunc('milliseconds', now()), paused_by = who, version = r.version + 1
    WHERE r.name = s.name;
    INSERT INTO {schema}.audit (requested_by, verb, schedule, answer) VALUES (who, 'pause', s.name, 'paused');
    RETURN 'paused';
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.pause_schedule(text, text) FROM PUBLIC;

-- Has agents go on with a schedule: slots that came meanwhile were missed, and an agent decides about them at once. Returns
-- 'resumed', or 'unchanged' where it was not paused.
CREATE OR REPLACE FUNCTION {schema}.resume_schedule(name text, by text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    who text := {schema}.requester(by);
    s   {schema}.schedule := {schema}.lock_schedule(name);
BEGIN
    IF s.paused_at IS NULL THEN
        RETURN 'unchanged';
    END IF;
    UPDATE {schema}.schedule AS r SET paused_at = NULL, paused_by = NULL, version = r.version + 1,
        next_at = CASE WHEN r.invalid IS NULL THEN date_trunc('milliseconds', now()) END
    WHERE r.name = s.name;
    INSERT INTO {schema}.audit (requested_by, verb, schedule, answer) VALUES (who, 'resume', s.name, 'resumed');
    RETURN 'resumed';
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.resume_schedule(text, text) FROM PUBLIC;

-- Deletes a schedule; its tasks stay. Returns 'removed', or 'unchanged' where there is none. Refused where a present agent
-- declares it, since it would be inserted again at once. Applications delete by this function: who has the right to DELETE may
-- also lock the table.
CREATE OR REPLACE FUNCTION {schema}.remove_schedule(name text, by text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    who text := {schema}.requester(by);
BEGIN
    DELETE FROM {schema}.schedule AS s WHERE s.name = remove_schedule.name;
    IF NOT FOUND THEN
        RETURN 'unchanged';
    END IF;
    INSERT INTO {schema}.audit (requested_by, verb, schedule, answer) VALUES (who, 'remove', remove_schedule.name, 'removed');
    RETURN 'removed';
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.remove_schedule(text, text) FROM PUBLIC;

-- Locks a schedule and returns it.
CREATE OR REPLACE FUNCTION {schema}.lock_schedule(schedule text) RETURNS {schema}.schedule
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    s {schema}.schedule;
BEGIN
    SELECT r.* INTO s FROM {schema}.schedule AS r WHERE r.name = schedule FOR NO KEY UPDATE;
    IF s.name IS NULL THEN
        RAISE EXCEPTION 'there is no schedule "%"', schedule USING ERRCODE = 'no_data_found';
    END IF;
    RETURN s;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.lock_schedule(text) FROM PUBLIC;
