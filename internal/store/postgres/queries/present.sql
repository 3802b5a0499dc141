-- Writes a session's heartbeat and returns what it holds. A session whose row has been removed gets it back under its
-- number; fresh says so. The next column says whether types have limits (declare_limits), and the one after
-- it whether any has a rule for its sequences (declare_sequences). calm_at is the time if the session
-- (@now, @calm: see sweep) has known the clock without a jump for its whole TTL.
WITH noted AS (
    {note_redactions}
), seen AS (
    INSERT INTO {schema}.agent (session, name, region, version, config, workers, types, redact, present_until, draining,
                                running, done, minute, ordered, condition, calm_at)
    VALUES (@session, @name, nullif(@region, ''), @version, @config, @workers, @types::text[], @redact::jsonb,
        now() + @presence::bigint * interval '1 microsecond', @draining, @running, @done, @minute, nullif(@order, ''), nullif(@condition, ''),
        CASE WHEN @calm::bigint >= @presence::bigint
             AND now() BETWEEN @now::timestamptz - @tolerance::bigint * interval '1 microsecond'
                 AND @now::timestamptz + @tolerance::bigint * interval '1 microsecond' THEN now() END)
    ON CONFLICT (session) DO UPDATE SET
        name = excluded.name, region = excluded.region, version = excluded.version, config = excluded.config,
        workers = excluded.workers, types = excluded.types, redact = excluded.redact, seen_at = now(), present_until = excluded.present_until,
        draining = excluded.draining, running = excluded.running, done = excluded.done,
        minute = excluded.minute, condition = excluded.condition, calm_at = excluded.calm_at
    RETURNING xmax = 0 AS fresh, agent.ordered, agent.ordered_by
)
SELECT now(), seen.fresh, EXISTS (SELECT FROM {schema}.type_limit), EXISTS (SELECT FROM {schema}.sequence_rule), coalesce(seen.ordered, ''), coalesce(seen.ordered_by, ''),
    t.id, t.fence, t.claim, t.detached, t.cancel_requested_at IS NOT NULL AND t.state = 'running',
    CASE t.state WHEN 'running' THEN t.cancel_requested_by END, t.ping_due - now(), t.lease_until - now(),
    CASE WHEN t.ping_due IS NOT NULL THEN t.marks END
FROM seen LEFT JOIN {schema}.task AS t
    ON t.session = @session AND t.state IN ('running', 'rollback_running')
