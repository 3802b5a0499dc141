-- What a claim reads of a row, as it will be once it is claimed, and the agent does not know: in the order of record.unclaimed.
task.id, {next_fence}, {next_attempt}, task.max_attempts, task.deferrals, task.ever_started, task.payload, task.result, task.labels,
    task.key, ifnull(task.spilled_from, task.region), task.traceparent, task.created_by, task.outcome, task.error, task.created_at, task.run_at, {next_deadline},
    task.checkpoint, task.rollback_payload,
    CASE WHEN task.batch_id IS NULL AND task.cause IS NULL AND task.round = 0 AND task.lock IS NULL
        AND task.tenant IS NULL AND task.sequence IS NULL AND task.after IS NULL AND task.spilled_from IS NULL THEN NULL
        ELSE json_array(task.batch_id, task.cause, task.round, task.lock, task.sequence, task.tenant,
            json(iif(task.after IS NULL, 'false', 'true')), json(iif(task.spilled_from IS NULL, 'false', 'true'))) END
