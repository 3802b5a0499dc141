-- Rows with a tenant: a claim finds the tenants one after another (next_tenant), and in each the priorities (head_tenant), as claim.sql does
-- of rows without one. Statements on rows that wait to be run pass over those of batches that are being stopped, as claim_startable does.

-- name: next_tenant_due
-- The next tenant behind one: one step in the index, however many rows it has.
SELECT tenant FROM task INDEXED BY task_tenant
WHERE state IN ('pending', 'retry_pending') AND held IS NULL AND tenant IS NOT NULL AND type = @type AND ifnull(region, '') = @region
    AND tenant > @after
ORDER BY tenant LIMIT 1;

-- name: next_tenant_rollback
SELECT tenant FROM task INDEXED BY task_tenant_rollback
WHERE state = 'rollback_pending' AND held IS NULL AND tenant IS NOT NULL AND type = @type AND ifnull(region, '') = @region
    AND tenant > @after
ORDER BY tenant LIMIT 1;

-- name: head_tenant_due
SELECT priority, run_at FROM task INDEXED BY task_tenant
WHERE state IN ('pending', 'retry_pending') AND held IS NULL AND tenant = @tenant AND type = @type AND ifnull(region, '') = @region
    AND priority < @below
ORDER BY priority DESC, run_at, id LIMIT 1;

-- name: head_tenant_rollback
SELECT priority, run_at FROM task INDEXED BY task_tenant_rollback
WHERE state = 'rollback_pending' AND held IS NULL AND tenant = @tenant AND type = @type AND ifnull(region, '') = @region
    AND priority < @below
ORDER BY priority DESC, run_at, id LIMIT 1;

-- name: count_level
-- How many rows without a tenant of one type and priority are due, @limit at most.
SELECT count(*) FROM (SELECT 1 FROM ({level_of index=task_due of_tenant=ISNULL}) LIMIT @limit);

-- name: count_level_rollback
SELECT count(*) FROM (SELECT 1 FROM ({rollback_level_of index=task_rollback of_tenant=ISNULL}) LIMIT @limit);

-- name: count_tenant_level
SELECT count(*) FROM (SELECT 1 FROM ({level_of index=task_tenant of_tenant==@tenant}) LIMIT @limit);

-- name: count_tenant_level_rollback
SELECT count(*) FROM (SELECT 1 FROM ({rollback_level_of index=task_tenant_rollback of_tenant==@tenant}) LIMIT @limit);

-- name: claim_tenant_due
SELECT {claimable_columns}
FROM (SELECT id FROM ({level_of index=task_tenant of_tenant==@tenant}) ORDER BY run_at, id LIMIT @limit) AS due
CROSS JOIN task NOT INDEXED ON task.id = due.id WHERE {small_documents};

-- name: claim_tenant_rollback
SELECT {claimable_columns}
FROM (SELECT id FROM ({rollback_level_of index=task_tenant_rollback of_tenant==@tenant} ORDER BY run_at, id LIMIT @limit)) AS due
CROSS JOIN task NOT INDEXED ON task.id = due.id WHERE {small_documents};

-- name: too_large_tenant_due
SELECT task.id, octet_length(payload), ifnull(octet_length(rollback_payload), 0), ifnull(octet_length(result), 0),
    ifnull(octet_length(checkpoint), 0)
FROM ({level_of index=task_tenant of_tenant==@tenant}) AS due
CROSS JOIN task NOT INDEXED ON task.id = due.id WHERE NOT ({small_documents})
LIMIT 100;

-- name: too_large_tenant_rollback
SELECT task.id, octet_length(payload), ifnull(octet_length(rollback_payload), 0), ifnull(octet_length(result), 0),
    ifnull(octet_length(checkpoint), 0)
FROM ({rollback_level_of index=task_tenant_rollback of_tenant==@tenant}) AS due
CROSS JOIN task NOT INDEXED ON task.id = due.id WHERE NOT ({small_documents})
LIMIT 100;

-- name: soonest_tenant
-- As soonest, of one tenant.
SELECT run_at FROM (
    SELECT id, run_at, batch_id FROM task INDEXED BY task_tenant
    WHERE state IN ('pending', 'retry_pending') AND held IS NULL AND tenant = @tenant AND type = @type AND ifnull(region, '') = ''
        AND priority = @priority
    UNION ALL
    SELECT id, run_at, batch_id FROM task INDEXED BY task_tenant
    WHERE state IN ('pending', 'retry_pending') AND held IS NULL AND tenant = @tenant AND type = @type
        AND ifnull(region, '') = nullif(@region, '') AND priority = @priority
    ORDER BY run_at, id LIMIT @look_past)
WHERE batch_id IS NULL OR batch_id NOT IN (
    SELECT id FROM batch INDEXED BY batch_stopping WHERE stopping = 1 AND ended_at IS NULL)
ORDER BY run_at LIMIT 1;
