-- What a claim returns of a row, which the agent does not know, in the order of record.unclaimed. RETURNING keeps its rows three
-- times over until the statement ends, so a large payload is read afterwards (payload).
id, fence, attempt, max_attempts, deferrals, ever_started,
    iif(octet_length(payload) <= 1048576, payload, NULL), result, labels, key, region, traceparent, created_by, outcome, error,
    created_at, run_at, deadline, checkpoint, rollback_payload,
    CASE WHEN batch_id IS NULL AND cause IS NULL AND round = 0 THEN NULL ELSE json_array(batch_id, cause, round) END
