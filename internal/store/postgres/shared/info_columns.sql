-- A task as an operator sees it, without its output: the columns in the order of infoTargets. The agent: see ran_on. The error is
-- looked up once more for a task of the view, with the same result.
t.id, t.type, t.state, t.priority, coalesce(t.region, ''), coalesce(t.key, ''), t.labels, t.payload, t.result,
    coalesce({shown_error of=t.}, ''), coalesce(t.outcome, ''), t.attempt, coalesce(t.max_attempts, 0), t.deferrals, t.ever_started,
    t.fence, coalesce(h.ran_session, t.session, 0), coalesce(a.name, ''), coalesce(t.created_by, ''), coalesce(t.traceparent, ''),
    t.created_at, t.run_at, t.claimed_at, t.lease_until, t.deadline, t.finished_at, t.progress, coalesce(t.message, ''),
    t.checkpoint, t.cancel_requested_at, coalesce(t.cancel_requested_by, ''), t.detached, coalesce(t.batch_id, 0),
    coalesce(t.round, 0), t.rollback_payload, coalesce(t.cause, ''), coalesce(t.follows, 0), coalesce(t.lock, ''),
    coalesce(t.held, ''), coalesce(t.sequence, ''), coalesce(t.tenant, ''), t.spilled, coalesce(t.failed_task, 0)
