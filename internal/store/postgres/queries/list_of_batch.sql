-- Returns tasks of a batch as list.sql does. An index has rows that wait by their ids. Those that run, which are few, and
-- those that are finished are sorted ("+ 0"): to look for them by id could take the planner through the whole table.
SELECT t.id, t.type, t.state, t.priority, coalesce(t.region, ''), coalesce(t.key, ''), t.labels,
    t.payload, t.result, coalesce(t.error, ''), coalesce(t.outcome, ''), t.attempt,
    coalesce(t.max_attempts, 0), t.deferrals, t.ever_started, t.fence, coalesce(t.session, 0), coalesce(a.name, ''),
        coalesce(t.created_by, ''),
    coalesce(t.traceparent, ''), t.created_at, t.run_at, t.claimed_at, t.lease_until, t.deadline, t.finished_at, t.progress,
    coalesce(t.message, ''), t.checkpoint, t.cancel_requested_at, coalesce(t.cancel_requested_by, ''), t.detached,
    coalesce(t.batch_id, 0),
    coalesce(t.round, 0), t.rollback_payload, coalesce(t.cause, '') FROM (
    (SELECT id, type, state, priority, region, key, labels, payload, result, error, outcome, attempt,
    max_attempts, deferrals, ever_started, fence, session, created_by, traceparent, created_at, run_at, claimed_at,
    lease_until, deadline, progress, message, checkpoint, cancel_requested_at, cancel_requested_by, batch_id, round,
    rollback_payload, cause, NULL::timestamptz AS finished_at, coalesce(detached, false) AS detached
     FROM {schema}.task WHERE {where} AND state IN ('pending', 'retry_pending', 'rollback_pending')
     ORDER BY id DESC LIMIT @limit)
    UNION ALL
    (SELECT id, type, state, priority, region, key, labels, payload, result, error, outcome, attempt,
    max_attempts, deferrals, ever_started, fence, session, created_by, traceparent, created_at, run_at, claimed_at,
    lease_until, deadline, progress, message, checkpoint, cancel_requested_at, cancel_requested_by, batch_id, round,
    rollback_payload, cause, NULL, coalesce(detached, false)
     FROM {schema}.task WHERE {where} AND state IN ('running', 'rollback_running') ORDER BY id + 0 DESC LIMIT @limit)
    UNION ALL
    (SELECT id, type, state, priority, region, key, labels, payload, result, error, outcome, attempt,
    max_attempts, deferrals, ever_started, fence, session, created_by, traceparent, created_at, run_at, claimed_at,
    lease_until, deadline, progress, message, checkpoint, cancel_requested_at, cancel_requested_by, batch_id, round,
    rollback_payload, cause, finished_at, false
     FROM {schema}.task_archive WHERE {where} ORDER BY id + 0 DESC LIMIT @limit)
    ORDER BY id DESC LIMIT @limit
) AS t LEFT JOIN {schema}.agent AS a ON a.session = t.session
ORDER BY t.id DESC
