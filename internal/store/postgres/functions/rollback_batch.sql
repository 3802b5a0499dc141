-- Cancels the waiting rows of a batch, stops the running ones and rolls back the finished ones. Where rows are past their
-- retention that is refused, unless force says to roll back the rows that are left.
CREATE OR REPLACE FUNCTION {schema}.rollback_batch(id bigint, by text DEFAULT NULL, force boolean DEFAULT false) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    who  text := {schema}.requester(by);
    b    {schema}.batch := {schema}.lock_batch(id);
    v    record;
    here bigint;
BEGIN
    IF b.requested = 'rollback' AND b.ended_at IS NULL THEN
        RETURN 'rolling_back';
    END IF;
    SELECT r.state, r.total, r.live INTO v FROM {schema}.batches AS r WHERE r.id = rollback_batch.id;
    IF b.rows_expired AND force IS NOT TRUE THEN
        SELECT v.live + count(*) INTO here FROM {schema}.task_archive AS a WHERE a.batch_id = rollback_batch.id;
        PERFORM {schema}.raise_conflict(CASE WHEN here < v.total
            THEN format('%s of the %s tasks of batch %s are past their retention and cannot be rolled back: use force to '
                'roll back the %s that are left', v.total - here, v.total, id, here)
            ELSE format('some of the %s tasks of batch %s are past their retention and are being removed: use force to roll '
                'back what is left of the %s', v.total, id, here) END);
    ELSIF b.ended_at IS NOT NULL AND NOT EXISTS (
        SELECT FROM {schema}.task_archive AS a, {schema}.with_rollback() AS u
        WHERE a.batch_id = rollback_batch.id
          AND {began of=a.} IS NOT NULL
          AND (a.policy = ANY (u.hashes) OR a.type = ANY (u.types))
    ) THEN
        RETURN v.state;
    END IF;
    RETURN {schema}.start_operation(id, 'rollback', who, coalesce(force, false), 'rolling_back');
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.rollback_batch(bigint, text, boolean) FROM PUBLIC;
