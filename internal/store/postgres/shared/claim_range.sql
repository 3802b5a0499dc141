-- The due rows of one want, priority and region, in order. place is that of its low-water mark (lowwater.go).
--
-- Nothing of a batch that is being stopped starts, but its rollbacks do. The range skips the batches that this statement's snapshot knows of; that is
-- looked up once, and only if a row of a batch comes by.
SELECT t.id, t.run_at, t.batch_id, t.lock, t.sequence,
                {row_bytes} AS bytes
            FROM {schema}.task AS t
            WHERE t.state IN ({states}) AND t.held IS NULL AND t.tenant {of_tenant} AND t.type = w.type AND coalesce(t.region, '') = {region}
              AND t.priority = p.priority AND t.run_at <= now()
              AND (t.run_at, t.id) > (coalesce((@low_times::timestamptz[])[{place}], '-infinity'),
                                      coalesce((@low_ids::bigint[])[{place}], 0))
              AND (t.batch_id IS NULL OR t.state = 'rollback_pending' OR t.batch_id <> ALL (ARRAY(
                  SELECT b.id FROM {schema}.batch AS b WHERE b.stopping AND b.ended_at IS NULL)))
            ORDER BY t.run_at, t.id LIMIT w.n
            FOR UPDATE OF t SKIP LOCKED
