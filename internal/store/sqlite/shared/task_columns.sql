-- The columns of a row in the order of record.fields, with its {region}, the {error} that is to be read, and whether it is {spilled}.
id, fence, attempt, max_attempts, deferrals, ever_started, payload, result, labels, key, {region}, traceparent, created_by,
    outcome, {{error} of={of}}, created_at, run_at, deadline, checkpoint, rollback_payload,
    CASE WHEN batch_id IS NULL AND cause IS NULL AND round = 0 AND lock IS NULL AND sequence IS NULL AND tenant IS NULL AND after IS NULL AND NOT {spilled} THEN NULL
        ELSE json_array(batch_id, cause, round, lock, sequence, tenant,
            json(iif(after IS NULL, 'false', 'true')), json(iif({spilled}, 'true', 'false'))) END,
    type, state, priority, policy, claimed_at, lease_until
