-- Due rows of one type, tenant and priority that wait to be rolled back.
SELECT id, run_at FROM task INDEXED BY {index}
        WHERE state = 'rollback_pending' AND held IS NULL AND tenant {of_tenant} AND type = @type AND ifnull(region, '') = ''
            AND priority = @priority AND run_at <= @now
        UNION ALL
        SELECT id, run_at FROM task INDEXED BY {index}
        WHERE state = 'rollback_pending' AND held IS NULL AND tenant {of_tenant} AND type = @type
            AND ifnull(region, '') = nullif(@region, '') AND priority = @priority AND run_at <= @now
