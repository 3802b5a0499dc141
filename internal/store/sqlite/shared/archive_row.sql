-- Copies a live row to the archive: the one statement that does, for every way in which a row ends. What follows says which
-- row. {new} is @ in a query, and NEW. in a function. {cancel_requested_at} and {cancel_requested_by}: a row that
-- waited has neither. {drops}: the documents are left out, and not read: to copy large ones takes their size in memory, twice.
-- An empty payload is no JSON, so nothing can retry the row by mistake. The fence: see claim_due.
INSERT INTO task_archive (
    id, type, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts, created_at,
    session, claim, policy, claimed_at, deadline, checkpoint, progress, message, batch_id, rollback_payload, cause, round,
    state, fence, attempt, deferrals, ever_started, outcome, error, result, output, started_at, finished_at, lease_until,
    cancel_requested_at, cancel_requested_by)
SELECT id, type, priority, region, key, run_at, iif({drops}, '', payload), labels, traceparent, created_by, max_attempts,
    created_at, session, claim, policy, claimed_at, deadline, iif({drops}, NULL, checkpoint), progress, message, batch_id,
    iif({drops}, NULL, rollback_payload), cause, round,
    {new}state, max(min(fence, 4611686018426339328), 0) + 1, {new}attempt, {new}deferrals, {new}ever_started, {new}outcome, {new}error,
    iif({new}new_result, {new}result, result), {new}output, {new}started_at, {new}finished_at,
    iif({new}after_lease, lease_until, NULL),
    {cancel_requested_at}, {cancel_requested_by}
FROM task
