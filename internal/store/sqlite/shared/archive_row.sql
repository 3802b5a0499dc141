-- Copies live rows to the archive: the one statement that does, for every way in which a row ends. What follows says which
-- rows: FROM task, or a join with it. {new} is a list of a query, and NEW. in a function. {cancel_requested_at} and
-- {cancel_requested_by}: a row that waited has neither. {drops}: the documents are left out, and not read: to copy large ones
-- takes their size in memory, twice. An empty payload is no JSON, so nothing can retry the row by mistake. The fence: see
-- next_fence.
INSERT INTO task_archive (
    id, type, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts, created_at,
    session, claim, policy, claimed_at, deadline, checkpoint, progress, message, batch_id, rollback_payload, cause, round, lock, sequence, after, after_if, tenant,
    failed_task, state, fence, attempt, deferrals, ever_started, outcome, error, result, output, started_at, finished_at, lease_until,
    cancel_requested_at, cancel_requested_by)
SELECT task.id, task.type, task.priority, ifnull(task.spilled_from, task.region), task.key, task.run_at, iif({drops}, '', task.payload), task.labels,
    task.traceparent, task.created_by, task.max_attempts, task.created_at, task.session, task.claim, task.policy, task.claimed_at,
    task.deadline, iif({drops}, NULL, task.checkpoint), task.progress, task.message, task.batch_id,
    iif({drops}, NULL, task.rollback_payload), task.cause, task.round, task.lock, task.sequence, task.after, task.after_if, task.tenant,
    iif({new}on_failed IS NULL, task.failed_task, ifnull(task.failed_task, task.id)),
    {new}state, {next_fence}, {new}attempt, {new}deferrals, {new}ever_started, {new}outcome,
    {new}error, iif({new}new_result, {new}result, task.result), {new}output, {new}started_at, {new}finished_at,
    iif({new}after_lease, task.lease_until, NULL),
    {cancel_requested_at}, {cancel_requested_by}
