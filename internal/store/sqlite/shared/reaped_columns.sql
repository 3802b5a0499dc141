-- A row that was taken to be reaped: the columns in the order of record.fields, without documents, whether its cancellation was
-- requested, and the session that its attempt ran in, with the name of its agent.
id, fence, attempt, max_attempts, deferrals, ever_started, NULL AS payload, NULL AS result, NULL AS labels, key, ifnull(spilled_from, region),
    traceparent, created_by, outcome, error, created_at, run_at, deadline, NULL AS checkpoint, NULL AS rollback_payload,
    CASE WHEN batch_id IS NULL AND cause IS NULL AND round = 0 AND lock IS NULL AND sequence IS NULL AND tenant IS NULL AND after IS NULL AND spilled_from IS NULL THEN NULL
        ELSE json_array(batch_id, cause, round, lock, sequence, tenant,
            json(iif(after IS NULL, 'false', 'true')), json(iif(spilled_from IS NULL, 'false', 'true'))) END,
    type, state, priority, policy, claimed_at, lease_until, cancel_requested_at IS NOT NULL
    AND state = 'running',
    ifnull(ran_session, 0), ifnull((SELECT name FROM agent WHERE session = task.ran_session), '')
