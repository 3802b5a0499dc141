-- The due rows of one want, priority and region, in order. place is that of its low-water mark (lowwater.go).
--
-- Nothing of a batch that is being stopped starts, but its rollbacks do. The range skips the batches that this statement's snapshot knows of; that is
-- looked up once, and only if a row of a batch comes by.
--
-- bytes is how long the documents of a row are together, or more: what is compressed counts 32 times, a rollback payload always,
-- and results and checkpoints count as the most that they may be.
SELECT t.id, t.run_at, t.batch_id, t.lock, t.sequence,
                CASE WHEN pg_column_compression(t.payload) IS NULL THEN 1::float8 ELSE 32 END
                    * pg_column_size(t.payload)
                + CASE WHEN t.rollback_payload IS NULL AND t.result IS NULL AND t.checkpoint IS NULL THEN 0
                    ELSE 131072 + 32 * coalesce(pg_column_size(t.rollback_payload), 0)::float8 END AS bytes
            FROM {schema}.task AS t
            WHERE t.state IN ({states}) AND t.held IS NULL AND t.tenant {of_tenant} AND t.type = w.type AND coalesce(t.region, '') = {region}
              AND t.priority = p.priority AND t.run_at <= now()
              AND (t.run_at, t.id) > (coalesce((@low_times::timestamptz[])[{place}], '-infinity'),
                                      coalesce((@low_ids::bigint[])[{place}], 0))
              AND (t.batch_id IS NULL OR t.state = 'rollback_pending' OR t.batch_id <> ALL (ARRAY(
                  SELECT b.id FROM {schema}.batch AS b WHERE b.stopping AND b.ended_at IS NULL)))
            ORDER BY t.run_at, t.id LIMIT w.n
            FOR UPDATE OF t SKIP LOCKED
