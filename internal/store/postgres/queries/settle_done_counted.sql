-- Settles as settle_done.sql does, rows of batches, with a key, with a lock and such that others wait for included: it counts the first,
-- notes that the locks are free and which rows have ended, and inserts the followers of the second once all rows are deleted.
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
), followed AS MATERIALIZED (
    SELECT {schema}.insert_followers(array_agg(type), array_agg(key), array_agg(NULL::timestamptz)) AS n
    FROM deleted WHERE key IS NOT NULL
), noted AS (
    INSERT INTO {schema}.lock_note (name) SELECT lock FROM deleted WHERE lock IS NOT NULL
), ended AS (
    INSERT INTO {schema}.ended_note (id) SELECT id FROM deleted WHERE awaited
), leaving AS (
    {done_row}
)
{archive_row}
RETURNING id, (SELECT n FROM followed)
