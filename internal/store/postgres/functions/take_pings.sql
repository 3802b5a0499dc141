-- Records pings of attempts that are known by id and fence, each of which is listed once. An array that is NULL stands
-- for one of NULLs. answer: applied, lost, or busy where another transaction has the row locked. Only a row that a claim
-- holds can be pinged: one that is being reaped (claim 0) has no holder. However few pings the planner expects, rows have
-- to be found by the primary key, and the joins of the intermediate results must not be nested loops: hence the settings.
CREATE OR REPLACE FUNCTION {schema}.take_pings(
    ids bigint[], fences bigint[], progresses text[], messages text[], checkpoints text[], withins double precision[]
) RETURNS TABLE (
    place bigint, answer text, counted boolean, cancel boolean, reason text, remaining_s double precision
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_nestloop = off
    SET jit = off SET plan_cache_mode = force_generic_plan AS
$leasehold$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH said AS MATERIALIZED (
        SELECT u.place, u.id, u.fence, nullif(u.progress, '')::jsonb AS said_progress,
            nullif(u.message, '') AS said_message, nullif(u.checkpoint, '')::jsonb AS said_checkpoint, u.within
        FROM unnest(ids, fences, progresses, messages, checkpoints, withins)
            WITH ORDINALITY AS u (id, fence, progress, message, checkpoint, within, place)
    ), hit AS MATERIALIZED (
        SELECT i.*, t.* FROM said AS i LEFT JOIN LATERAL (
            SELECT r.id AS held, r.state, r.policy, r.claimed_at, r.lease_until, r.deadline, r.cancel_requested_by,
                r.progress,
                r.checkpoint,
                r.marks, r.state = 'running' AND r.cancel_requested_at IS NOT NULL AS asked, clock_timestamp() AS heard
            FROM {schema}.task AS r
            WHERE r.id = i.id AND r.fence = i.fence AND r.claim > 0 AND r.lease_until > clock_timestamp()
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS t ON true
    ), under AS MATERIALIZED ( -- the terms of the row's policy, for its phase; none where the policy is not there
        SELECT h.*, coalesce((p.terms ->> 'require_progress')::boolean, false) AS strict,
            {schema}.policy_interval(p.terms, 'heartbeat') AS beat, {schema}.policy_interval(p.terms, 'stop') AS stop,
            {schema}.policy_interval(p.terms, 'max_heartbeat') AS longest,
            -- 1 s: how long the row may wait inside its agent.
            least(coalesce(h.claimed_at + interval '1 second' + {schema}.policy_interval(p.terms, 'timeout')
                      + coalesce({schema}.policy_interval(p.terms, 'check'), '0'), h.lease_until),
                  CASE h.state WHEN 'running' THEN h.deadline END) AS ends
        FROM hit AS h LEFT JOIN LATERAL (
            SELECT CASE h.state WHEN 'running' THEN p.body ELSE coalesce(p.body -> 'rollback', p.body - 'check') END AS terms
            FROM {schema}.policy AS p WHERE p.hash = h.policy LIMIT 1
        ) AS p ON true
    ), moved AS MATERIALIZED (
        SELECT u.*, CASE WHEN u.strict AND u.held IS NOT NULL
            THEN {schema}.advance(u.marks, u.fence, u.said_progress, u.said_checkpoint) END AS advanced
        FROM under AS u
    ), decided AS MATERIALIZED (
        SELECT u.*, c.counted,
            -- A ping may request a longer window, never a shorter one.
            CASE WHEN c.counted AND u.held IS NOT NULL AND u.beat IS NOT NULL THEN least(u.ends, u.heard + greatest(u.beat,
                CASE WHEN u.within IS NOT NULL
                    THEN least(least(u.within, 1e9) * interval '1 second', coalesce(u.longest, '0')) END)) END AS due
        FROM moved AS u CROSS JOIN LATERAL (SELECT NOT u.strict OR u.advanced IS NOT NULL AS counted) AS c
    ), written AS (
        UPDATE {schema}.task AS r SET
            ping_due = coalesce(j.due, r.ping_due),
            lease_until = greatest(r.lease_until, j.due + coalesce(j.stop, '0')),
            progress = coalesce(j.said_progress, r.progress), message = coalesce(j.said_message, r.message),
            checkpoint = coalesce(j.said_checkpoint, r.checkpoint), marks = coalesce(j.advanced, r.marks)
        FROM decided AS j
        WHERE r.id = ANY (ARRAY(
            SELECT w.held FROM decided AS w WHERE w.due IS NOT NULL OR w.said_progress IS NOT NULL
                OR w.said_message IS NOT NULL OR w.said_checkpoint IS NOT NULL)) AND j.held = r.id
    )
    SELECT j.place, CASE WHEN j.held IS NOT NULL THEN 'applied' WHEN kept.id IS NOT NULL THEN 'busy' ELSE 'lost' END,
        j.held IS NOT NULL AND j.counted, coalesce(j.asked, false),
        CASE WHEN j.asked THEN 'cancellation requested' || coalesce(' by ' || j.cancel_requested_by, '')
             WHEN NOT j.counted THEN 'progress did not change' END,
        coalesce(greatest(extract(epoch FROM j.ends - j.heard), 0), 0)::double precision
    FROM decided AS j LEFT JOIN LATERAL (
        SELECT r.id FROM {schema}.task AS r
        WHERE j.held IS NULL AND r.id = j.id AND r.fence = j.fence AND r.claim > 0
          AND r.lease_until > clock_timestamp() LIMIT 1
    ) AS kept ON true
    ORDER BY j.place;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.take_pings(bigint[], bigint[], text[], text[], text[], double precision[]) FROM PUBLIC;
