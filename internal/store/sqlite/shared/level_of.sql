-- Due rows of one type, tenant and priority that wait to be run, without those of batches that are being stopped, among the first @look_past.
SELECT id, run_at FROM (
        SELECT id, run_at, batch_id FROM task INDEXED BY {index}
        WHERE state IN ('pending', 'retry_pending') AND held IS NULL AND tenant {of_tenant} AND type = @type AND ifnull(region, '') = ''
            AND priority = @priority AND run_at <= @now
        UNION ALL
        SELECT id, run_at, batch_id FROM task INDEXED BY {index}
        WHERE state IN ('pending', 'retry_pending') AND held IS NULL AND tenant {of_tenant} AND type = @type
            AND ifnull(region, '') = nullif(@region, '') AND priority = @priority AND run_at <= @now
        ORDER BY run_at, id LIMIT @look_past)
    WHERE batch_id IS NULL OR batch_id NOT IN (
        SELECT id FROM batch INDEXED BY batch_stopping WHERE stopping = 1 AND ended_at IS NULL)
