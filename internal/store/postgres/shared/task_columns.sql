-- A row without its documents: taskRow reads the columns in this order. What nearly every row has in common is NULL.
t.id, t.type, nullif(t.state, 'running'), t.fence, nullif(t.attempt, 1), t.max_attempts, nullif(t.deferrals, 0),
    nullif(t.ever_started, false), t.key, coalesce(t.spilled_from, t.region), nullif(t.priority, 0), t.traceparent, t.created_by, t.outcome, t.error,
    t.policy, nullif(t.created_at, t.run_at), t.run_at, t.claimed_at, t.lease_until, t.deadline, t.batch_id, t.round, t.cause, t.lock, t.sequence, t.tenant,
    nullif(t.after IS NOT NULL, false), nullif(t.spilled_from IS NOT NULL, false)
