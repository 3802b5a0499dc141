-- Settles as settle_done.sql does, rows of batches included: it counts them.
WITH bound AS MATERIALIZED (
    SELECT set_config('lock_timeout', '40ms', true) IS NOT NULL AS set
), deleted AS (
    DELETE FROM {schema}.task AS t
    WHERE t.id = ANY (@ids::bigint[]) AND t.fence = (@fences::bigint[])[width_bucket(t.id, @ids::bigint[])]
        AND t.session = @session
      AND t.claim IS NOT NULL AND (SELECT set FROM bound)
    RETURNING {done_columns}
), counted AS (
    INSERT INTO {schema}.batch_delta (batch_id, running, succeeded, attempts)
    SELECT batch_id, -count(*), count(*), count(*) FROM deleted WHERE batch_id IS NOT NULL GROUP BY batch_id
), leaving AS (
    {done_row}
)
{archive_row}
RETURNING id
