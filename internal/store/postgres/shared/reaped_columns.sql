-- A row that was taken to be reaped, one of dead: its columns in the order of taskRow, without documents; then whether its
-- session is present, whether it is detached, whether its cancellation was requested, and the microseconds to its deadline.
t.id, t.type, nullif(t.state, 'running'), t.fence, nullif(t.attempt, 1), t.max_attempts, nullif(t.deferrals, 0),
    nullif(t.ever_started, false), NULL::jsonb, NULL::jsonb, NULL::jsonb, t.key, t.region, nullif(t.priority, 0),
    t.traceparent, t.created_by, t.outcome, t.error, t.policy, nullif(t.created_at, t.run_at), t.run_at, t.claimed_at, t.lease_until,
    t.deadline, NULL::jsonb, t.batch_id, t.round, NULL::jsonb, t.cause,
    t.id = ANY (ARRAY(SELECT id FROM dead WHERE present)), t.id = ANY (ARRAY(SELECT id FROM dead WHERE detached)),
    t.cancel_requested_at IS NOT NULL AND t.state = 'running',
    coalesce((extract(epoch FROM t.deadline - now()) * 1000000)::bigint, 0)
