-- Deletes the tasks that settle_done.sql and exchange.sql settle. Locks of others are waited for, so that wait has a bound of its own: past it,
-- settle.sql skips the rows.
bound AS MATERIALIZED (
    SELECT set_config('lock_timeout', '40ms', true) IS NOT NULL AS set
), deleted AS (
    DELETE FROM {schema}.task AS t
    WHERE t.id = ANY (@ids::bigint[]) AND t.fence = (@fences::bigint[])[width_bucket(t.id, @ids::bigint[])]
        AND t.session = @session
      AND t.claim IS NOT NULL AND (SELECT set FROM bound) AND t.batch_id IS NULL
      AND t.key IS NULL AND t.lock IS NULL AND t.awaited IS NULL
    RETURNING {done_columns}, t.limited
)
