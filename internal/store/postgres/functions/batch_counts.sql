-- Counters of batches: whatever moves a row of a batch adds a delta, and a fold sums them.

-- Counts one row's transition between two states. gave_up: the row has failed by it. tried: an attempt has ended.
CREATE OR REPLACE FUNCTION {schema}.count_transition(batch bigint, was text, became text, gave_up boolean, tried boolean)
    RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$leasehold$
BEGIN
    IF batch IS NULL THEN
        RETURN;
    END IF;
    INSERT INTO {schema}.batch_delta (
        batch_id, running, succeeded, failed, cancelled, rolling_back, rolled_back, rollback_failed, failures, attempts)
    VALUES (batch, (became = 'running')::int - (was = 'running')::int,
        (became = 'succeeded')::int - (was = 'succeeded')::int, (became = 'failed')::int - (was = 'failed')::int,
        (became = 'cancelled')::int - (was = 'cancelled')::int,
        (became LIKE 'rollback\_%ing')::int - (was LIKE 'rollback\_%ing')::int,
        (became = 'rolled_back')::int - (was = 'rolled_back')::int,
        (became = 'rollback_failed')::int - (was = 'rollback_failed')::int, gave_up::int, tried::int);
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.count_transition(bigint, text, text, boolean, boolean) FROM PUBLIC;

-- Adds deltas of a batch, which the caller has locked, to its row, so many at most, and reports whether those were all.
CREATE OR REPLACE FUNCTION {schema}.sum_deltas(batch bigint, most bigint) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    n bigint;
BEGIN
    WITH deleted AS (
        DELETE FROM {schema}.batch_delta AS d WHERE d.ctid = ANY (ARRAY(
            SELECT e.ctid FROM {schema}.batch_delta AS e WHERE e.batch_id = batch LIMIT most))
        RETURNING d.*
    ), s AS (
        SELECT count(*) AS n, sum(g.total) AS total, sum(g.running) AS running, sum(g.succeeded) AS succeeded,
            sum(g.failed) AS failed,
            sum(g.cancelled) AS cancelled, sum(g.rolling_back) AS rolling_back, sum(g.rolled_back) AS rolled_back,
            sum(g.rollback_failed) AS rollback_failed, sum(g.failures) AS failures, sum(g.attempts) AS attempts,
            min(g.first_id) AS first_id, max(g.last_id) AS last_id
        FROM deleted AS g
    ), summed AS (
        UPDATE {schema}.batch AS b SET
            total = b.total + s.total, running = b.running + s.running, succeeded = b.succeeded + s.succeeded,
                failed = b.failed + s.failed,
            cancelled = b.cancelled + s.cancelled, rolling_back = b.rolling_back + s.rolling_back,
            rolled_back = b.rolled_back + s.rolled_back, rollback_failed = b.rollback_failed + s.rollback_failed,
            failures = b.failures + s.failures, attempts = b.attempts + s.attempts,
            first_id = least(b.first_id, s.first_id), last_id = greatest(b.last_id, s.last_id)
        FROM s WHERE b.id = batch AND s.n > 0
    )
    SELECT s.n INTO n FROM s;
    RETURN n < most OR NOT EXISTS (SELECT FROM {schema}.batch_delta AS d WHERE d.batch_id = batch);
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.sum_deltas(bigint, bigint) FROM PUBLIC;
