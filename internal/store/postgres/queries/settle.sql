-- Settles attempts: rows that still match are locked, rows that another transaction has locked are skipped, and the
-- locked ones move to the archive or are released, with their history, all in one statement.
--
-- The arguments are the columns of a table that is sorted by id. Finding the rows is a loop over primary key lookups,
-- since a LATERAL with FOR UPDATE can be nothing else. Released rows find their values by width_bucket, a bisection of
-- the ids. So there is no join, and nothing that the planner could do differently on a bad day. The state is not in the
-- condition, since another index than the primary key's could serve it; a row without claim has no holder.
--
-- A row that is released keeps lease_until where something of the attempt may be at work until then. A first try that
-- succeeded has no row of the history, so the archived row says exactly what it resulted in: no result that an earlier,
-- released attempt left.
WITH hit AS MATERIALIZED (
    SELECT t.id, t.type, t.state, t.priority, t.region, t.key, t.run_at, t.payload, t.labels, t.traceparent, t.created_by,
        t.max_attempts, t.created_at, t.fence, t.session, t.policy, t.lease_until, t.claimed_at, t.deadline, t.result,
        t.cancel_asked, t.cancel_by, t.message, t.progress, t.checkpoint, t.batch_id, t.round, t.cause, t.rollback_payload,
        i.next, i.next_attempt, i.next_deferrals, i.next_ever_started, i.verdict, i.next_error, i.next_result, i.next_output,
        i.started, i.keep, i.phase, i.ran_attempt, i.ran_fence, i.ran_error, i.new_progress, i.new_message, i.new_checkpoint,
        i.silent, i.next IN ('succeeded', 'failed', 'cancelled', 'rolled_back', 'rollback_failed') AS finished
    FROM unnest(
        @ids::bigint[], @fences::bigint[], @states::text[], @attempts::integer[], @deferrals::integer[],
        @ever_started::boolean[], @outcomes::text[], @errors::text[], @results::text[], @outputs::text[],
        @started::bigint[], @keep::boolean[], @phases::text[], @ran_attempts::integer[], @ran_fences::bigint[],
        @ran_errors::text[], @cancel_unseen::boolean[], @progress::text[], @messages::text[], @checkpoints::text[],
        @silent::boolean[]
    ) AS i (
        i_id, i_fence, next, next_attempt, next_deferrals, next_ever_started, verdict, next_error, next_result,
        next_output, started, keep, phase, ran_attempt, ran_fence, ran_error, cancel_unseen, new_progress,
        new_message, new_checkpoint, silent
    )
    CROSS JOIN LATERAL (
        SELECT held.id, held.type, held.state, held.priority, held.region, held.key, held.run_at, held.payload, held.labels,
            held.traceparent, held.created_by, held.max_attempts, held.created_at, held.fence, held.session, held.policy,
            held.lease_until, held.claimed_at, held.deadline, held.result, held.cancel_asked, held.cancel_by, held.message,
            held.progress, held.checkpoint, held.batch_id, held.round, held.cause, held.rollback_payload
        FROM {schema}.task AS held
        WHERE held.id = i.i_id AND held.fence = i.i_fence AND held.session = @session AND held.claim IS NOT NULL
          AND NOT (i.cancel_unseen AND held.cancel_asked IS NOT NULL)
        FOR UPDATE SKIP LOCKED
    ) AS t
), archived AS (
    INSERT INTO {schema}.task_archive (
        id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
        created_at, attempt, deferrals, ever_started, fence, session, claim, policy, lease_until, claimed_at, deadline,
        outcome, error, result, output, started_at, finished_at, cancel_asked, cancel_by, message, progress, checkpoint,
        batch_id, round, cause, rollback_payload)
    SELECT id, type, next, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
        created_at, next_attempt, next_deferrals, next_ever_started, fence + 1, session, NULL, policy,
        CASE WHEN (@after_lease::boolean[])[width_bucket(id, @ids::bigint[])] THEN lease_until END,
        claimed_at, deadline, nullif(verdict, ''), nullif(next_error, ''),
        CASE WHEN state = 'rollback_running' THEN result WHEN keep OR silent THEN coalesce(nullif(next_result, '')::jsonb,
            result)
            ELSE nullif(next_result, '')::jsonb END,
        nullif(next_output, ''),
        CASE WHEN started >= 0 THEN now() - started * interval '1 microsecond' END, now(), cancel_asked, cancel_by,
        coalesce(nullif(new_message, ''), message), coalesce(nullif(new_progress, '')::jsonb, progress),
        coalesce(nullif(new_checkpoint, '')::jsonb, checkpoint), batch_id, round, cause, rollback_payload
    FROM hit WHERE finished
), deleted AS (
    DELETE FROM {schema}.task WHERE id = ANY (ARRAY(SELECT id FROM hit WHERE finished))
), released AS (
    UPDATE {schema}.task AS t SET
        state = (@states::text[])[width_bucket(t.id, @ids::bigint[])],
        run_at = CASE
            WHEN (@keep_due::boolean[])[width_bucket(t.id, @ids::bigint[])] THEN t.run_at
            WHEN (@after_lease::boolean[])[width_bucket(t.id, @ids::bigint[])] THEN greatest(t.lease_until,
                now() + (@delays::bigint[])[width_bucket(t.id, @ids::bigint[])] * interval '1 microsecond')
            ELSE now() + (@delays::bigint[])[width_bucket(t.id, @ids::bigint[])] * interval '1 microsecond' END,
        attempt = (@attempts::integer[])[width_bucket(t.id, @ids::bigint[])],
        deferrals = (@deferrals::integer[])[width_bucket(t.id, @ids::bigint[])],
        ever_started = (@ever_started::boolean[])[width_bucket(t.id, @ids::bigint[])],
        outcome = coalesce((@outcomes::text[])[width_bucket(t.id, @ids::bigint[])], t.outcome),
        error = CASE WHEN (@outcomes::text[])[width_bucket(t.id, @ids::bigint[])] IS NULL THEN t.error
            ELSE nullif((@errors::text[])[width_bucket(t.id, @ids::bigint[])], '') END,
        result = CASE WHEN t.state = 'rollback_running' THEN t.result
            ELSE coalesce(nullif((@results::text[])[width_bucket(t.id, @ids::bigint[])], '')::jsonb, t.result) END,
        cause = CASE
            WHEN t.state = 'rollback_running' OR (@states::text[])[width_bucket(t.id, @ids::bigint[])] <> 'rollback_pending'
                THEN t.cause
            WHEN t.cancel_asked IS NOT NULL THEN 'cancelled'
            ELSE (@causes::text[])[width_bucket(t.id, @ids::bigint[])] END,
        progress = coalesce(nullif((@progress::text[])[width_bucket(t.id, @ids::bigint[])], '')::jsonb, t.progress),
        message = coalesce(nullif((@messages::text[])[width_bucket(t.id, @ids::bigint[])], ''), t.message),
        checkpoint = coalesce(nullif((@checkpoints::text[])[width_bucket(t.id, @ids::bigint[])], '')::jsonb, t.checkpoint),
        lease_until = CASE WHEN (@after_lease::boolean[])[width_bucket(t.id, @ids::bigint[])] THEN t.lease_until END,
        fence = t.fence + 1, claim = NULL, claimed_at = NULL, cancel_asked = NULL, cancel_by = NULL, ping_due = NULL,
        detached = NULL
    WHERE t.id = ANY (ARRAY(SELECT id FROM hit WHERE NOT finished))
), history AS (
    INSERT INTO {schema}.attempt (
        task_id, fence, ran_fence, session, phase, attempt, outcome, error, output, result, state, started_at, ended_at)
    SELECT id, fence, ran_fence, session, phase, ran_attempt, verdict, nullif(ran_error, ''), nullif(next_output, ''),
        nullif(next_result, '')::jsonb, next,
        CASE WHEN started >= 0 THEN now() - started * interval '1 microsecond' END, now()
    FROM hit WHERE keep
), counted AS (
    INSERT INTO {schema}.batch_delta (
        batch_id, running, succeeded, failed, cancelled, undoing, rolled_back, rollback_failed, failures, attempts)
    SELECT batch_id, -count(*) FILTER (WHERE state = 'running'),
        count(*) FILTER (WHERE next = 'succeeded'), count(*) FILTER (WHERE next = 'failed'),
        count(*) FILTER (WHERE next = 'cancelled'),
        count(*) FILTER (WHERE next = 'rollback_pending') - count(*) FILTER (WHERE state = 'rollback_running'),
        count(*) FILTER (WHERE next = 'rolled_back'), count(*) FILTER (WHERE next = 'rollback_failed'),
        count(*) FILTER (WHERE next = 'failed'
            OR next = 'rollback_pending' AND state = 'running' AND cancel_asked IS NULL AND verdict <> 'cancelled'),
        count(*) FILTER (WHERE NOT silent)
    FROM hit WHERE batch_id IS NOT NULL GROUP BY batch_id
)
SELECT id FROM hit
