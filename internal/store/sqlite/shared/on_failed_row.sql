-- Inserts the row of on_failed for a live task that ends by the same change: of the type {new}on_failed, with what has become of the task
-- as its payload. What follows says which task, and has to leave out one with a failed_task: FROM task WHERE …, or a join with it. The row
-- is due no earlier than the lease's end where something of the task may be at work until then.
--
-- Of a task that was rolled back, outcome and error are those of its last run. A value that an application has written past every check
-- must not keep its task from ending, nor data with which the row would be too large, or nested too deeply for JSON: these are left
-- out. The row has a fence, as revived rows do: what it has was checked when the task came.
INSERT INTO task (type, run_at, payload, labels, region, tenant, traceparent, created_by, failed_task, fence)
SELECT {new}on_failed, max({new}finished_at, iif({new}after_lease, ifnull(task.lease_until, ''), '')),
    json_object('id', task.id, 'type', task.type, 'state', {new}state,
        'outcome', iif({new}state = 'failed', {new}outcome, task.cause),
        'error', iif({new}state = 'failed', {new}error,
            (SELECT a.error FROM attempt AS a WHERE a.task_id = task.id AND a.phase = 'run' ORDER BY a.fence DESC LIMIT 1)),
        'rollback_error', iif({new}state = 'rollback_failed', {new}error, NULL),
        'data', CASE WHEN length(CAST(task.payload AS BLOB)) <= 66060288 AND json_valid(task.payload) AND json_valid('[' || task.payload || ']')
            THEN json(task.payload) END),
    CASE WHEN json_valid(task.labels) THEN CASE WHEN length(CAST(task.labels AS BLOB)) <= 4096 AND json_type(task.labels) = 'object'
        AND NOT EXISTS (SELECT 1 FROM json_each(task.labels) AS label WHERE label.type <> 'text') THEN task.labels END END,
    iif(length(CAST(ifnull(task.spilled_from, task.region) AS BLOB)) <= 255, ifnull(task.spilled_from, task.region), NULL),
    iif(task.tenant <> '' AND length(CAST(task.tenant AS BLOB)) <= 1024, task.tenant, NULL),
    iif(length(CAST(task.traceparent AS BLOB)) <= 512, task.traceparent, NULL), 'leasehold', task.id, 1
