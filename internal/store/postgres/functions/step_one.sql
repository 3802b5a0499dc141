-- Rolls back a task that ran when that was requested, once it has ended. Locks of others on it or its batch are not
-- waited for.
CREATE OR REPLACE FUNCTION {schema}.step_one(
    INOUT o {schema}.operation, OUT changed bigint, OUT over boolean
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS
$leasehold$
DECLARE
    t {schema}.task;
    a {schema}.task_archive;
    s record;
BEGIN
    changed := 0;
    over := false;
    IF o.batch_id IS NOT NULL THEN
        PERFORM FROM {schema}.batch AS b WHERE b.id = o.batch_id FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN;
        END IF;
    END IF;
    SELECT r.* INTO t FROM {schema}.task AS r WHERE r.id = o.task_id FOR NO KEY UPDATE SKIP LOCKED;
    IF t.state IN ('pending', 'retry_pending') THEN
        PERFORM {schema}.cancel_waiting(t, o.requested_by, {schema}.can_roll_back(t.type, t.policy));
        changed := 1;
    END IF;
    IF t.id IS NOT NULL THEN
        over := t.state <> 'running';
        RETURN;
    END IF;
    SELECT r.* INTO a FROM {schema}.task_archive AS r WHERE r.id = o.task_id FOR UPDATE SKIP LOCKED;
    IF a.id IS NULL THEN
        over := NOT EXISTS (SELECT FROM {schema}.tasks AS r WHERE r.id = o.task_id);
        RETURN;
    END IF;
    over := true;
    IF a.ever_started AND a.state IN ('succeeded', 'failed', 'cancelled') AND {schema}.can_roll_back(a.type, a.policy) THEN
        SELECT * INTO s FROM {schema}.step_revive(ARRAY[a.id], ARRAY[clock_timestamp()], 'rollback');
        changed := s.changed;
        o.refused := s.refused;
        over := NOT s.missed;
        IF changed > 0 THEN
            PERFORM {schema}.reopen_batch(a.batch_id);
        END IF;
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.step_one({schema}.operation) FROM PUBLIC;
