-- Settles tasks that are done at their first try, which is what most settlements are. The row leaves the hot table and
-- enters the archive as it was, so there is nothing to lock first and no history to write, at two thirds of what
-- settle.sql costs.
--
-- The arguments are sorted by id; a row finds its values by width_bucket, a bisection of the ids. Locks of others are
-- waited for, so that wait has a bound of its own: past it, settle.sql skips the rows. Rows of batches are left to
-- settle.sql, and counted there: to be spared that is a twentieth of it all. So are rows with a key, which may have a follower, rows
-- with a lock, and rows that others wait for. Where any of these are at work, settle_done_counted.sql runs.
WITH bound AS MATERIALIZED (
    SELECT set_config('lock_timeout', '40ms', true) IS NOT NULL AS set
), deleted AS (
    DELETE FROM {schema}.task AS t
    WHERE t.id = ANY (@ids::bigint[]) AND t.fence = (@fences::bigint[])[width_bucket(t.id, @ids::bigint[])]
        AND t.session = @session
      AND t.claim IS NOT NULL AND (SELECT set FROM bound) AND t.batch_id IS NULL
      AND t.key IS NULL AND t.lock IS NULL AND t.awaited IS NULL
    RETURNING {done_columns}
), leaving AS (
    {done_row}
)
{archive_row}
RETURNING id
