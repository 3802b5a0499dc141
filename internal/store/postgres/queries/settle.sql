-- Settles attempts: rows that still match are locked, rows that another transaction has locked are skipped, and the
-- locked ones move to the archive or are released, with their history, all in one statement.
--
-- The arguments are the columns of a table that is sorted by id. Finding the rows is a loop over primary key lookups,
-- since a LATERAL with FOR UPDATE can be nothing else. Released rows find their values by width_bucket, a bisection of
-- the ids. So there is no join, and nothing that the planner could do differently on a bad day. The state is not in the
-- condition, since another index than the primary key's could serve it; a row without claim has no holder.
--
-- What is written follows from the settlement alone, and store.Settlement decides it. Only three things are for the row to
-- say: until when its lease lasts, whether its cancellation was requested, and, where the attempt was reaped
-- (Settlement.Reaped), in which session it ran and when that claimed it.
WITH hit AS MATERIALIZED (
    SELECT t.id, t.type, t.state, t.priority, coalesce(t.spilled_from, t.region) AS region, t.key, t.run_at, t.payload, t.labels, t.traceparent, t.created_by,
        t.max_attempts, t.created_at, t.fence, t.session, t.policy, t.lease_until, t.claimed_at, t.deadline, t.result,
        t.cancel_requested_at, t.cancel_requested_by, t.message, t.progress, t.checkpoint, t.batch_id, t.round,
        t.cause, t.rollback_payload, t.lock, t.sequence, t.after, t.after_if, t.awaited, t.tenant, t.failed_task,
        CASE WHEN i.ran_fence < i.i_fence THEN t.ran_session END AS ran_session,
        CASE WHEN i.started >= 0 THEN now() - i.started * interval '1 microsecond'
            WHEN i.ran_fence < i.i_fence THEN t.claimed_at END AS started_at,
        i.next, i.next_attempt, i.next_deferrals, i.next_ever_started, i.verdict, i.next_error, i.next_result, i.next_output,
        i.keep, i.phase, i.ran_attempt, i.ran_fence, i.ran_error, i.new_progress, i.new_message, i.new_checkpoint,
        i.silent, i.finished, i.new_result, i.new_cause, CASE WHEN t.failed_task IS NULL THEN nullif(i.on_failed, '') END AS on_failed
    FROM unnest(
        @ids::bigint[], @fences::bigint[], @states::text[], @attempts::integer[], @deferrals::integer[],
        @ever_started::boolean[], @outcomes::text[], @errors::text[], @results::text[], @outputs::text[],
        @started::bigint[], @keep::boolean[], @phases::text[], @ran_attempts::integer[], @ran_fences::bigint[],
        @ran_errors::text[], @cancel_unseen::boolean[], @progress::text[], @messages::text[], @checkpoints::text[],
        @silent::boolean[], @finished::boolean[], @new_result::boolean[], @causes::text[], @on_failed::text[]
    ) AS i (
        i_id, i_fence, next, next_attempt, next_deferrals, next_ever_started, verdict, next_error, next_result,
        next_output, started, keep, phase, ran_attempt, ran_fence, ran_error, cancel_unseen, new_progress,
        new_message, new_checkpoint, silent, finished, new_result, new_cause,
        on_failed
    )
    CROSS JOIN LATERAL (
        SELECT held.id, held.type, held.state, held.priority, held.region, held.spilled_from, held.key, held.run_at, held.payload, held.labels,
            held.traceparent, held.created_by, held.max_attempts, held.created_at, held.fence, held.session, held.policy,
            held.lease_until, held.claimed_at, held.deadline, held.result, held.cancel_requested_at,
            held.cancel_requested_by, held.message,
            held.progress, held.checkpoint, held.batch_id, held.round, held.cause, held.rollback_payload,
            held.lock, held.sequence, held.after, held.after_if, held.awaited, held.tenant,
            held.failed_task, held.ran_session
        FROM {schema}.task AS held
        WHERE held.id = i.i_id AND held.fence = i.i_fence AND held.session = @session AND held.claim IS NOT NULL
          AND NOT (i.cancel_unseen AND held.cancel_requested_at IS NOT NULL)
        FOR UPDATE SKIP LOCKED
    ) AS t
), leaving AS (
    SELECT id, type, priority, region AS end_region, key, run_at, payload, rollback_payload, labels, traceparent, created_by, max_attempts,
        created_at, session, policy, claimed_at, deadline, batch_id, round, cause, lock, sequence, after, after_if, tenant,
        CASE WHEN on_failed IS NULL THEN failed_task ELSE id END AS failed_task,
        next AS end_state, fence + 1 AS end_fence, next_attempt AS end_attempt, next_deferrals AS end_deferrals,
        next_ever_started AS end_ever_started, nullif(verdict, '') AS end_outcome, nullif(next_error, '') AS end_error,
        CASE WHEN new_result THEN nullif(next_result, '')::jsonb ELSE result END AS end_result,
        nullif(next_output, '') AS end_output,
        started_at AS end_started_at, now() AS end_finished_at,
        CASE WHEN (@after_lease::boolean[])[width_bucket(id, @ids::bigint[])] THEN lease_until END AS end_lease_until,
        cancel_requested_at AS end_cancel_requested_at, cancel_requested_by AS end_cancel_requested_by,
        coalesce(nullif(new_message, ''), message) AS end_message,
        coalesce(nullif(new_progress, '')::jsonb, progress) AS end_progress,
        coalesce(nullif(new_checkpoint, '')::jsonb, checkpoint) AS end_checkpoint
    FROM hit WHERE finished
), archived AS (
    {archive_row}
), deleted AS (
    DELETE FROM {schema}.task WHERE id = ANY (ARRAY(SELECT id FROM hit WHERE finished))
    RETURNING type, key, CASE WHEN (@after_lease::boolean[])[width_bucket(id, @ids::bigint[])] THEN lease_until END AS until
), followed AS MATERIALIZED ( -- once all rows are deleted
    SELECT {schema}.insert_followers(array_agg(type), array_agg(key), array_agg(until)) AS n FROM deleted WHERE key IS NOT NULL
), released AS (
    UPDATE {schema}.task AS t SET
        state = (@states::text[])[width_bucket(t.id, @ids::bigint[])],
        run_at = CASE
            WHEN (@keep_due::boolean[])[width_bucket(t.id, @ids::bigint[])] THEN t.run_at
            WHEN (@after_lease::boolean[])[width_bucket(t.id, @ids::bigint[])] THEN greatest(t.lease_until,
                now() + (@delays::bigint[])[width_bucket(t.id, @ids::bigint[])] * interval '1 microsecond')
            ELSE now() + (@delays::bigint[])[width_bucket(t.id, @ids::bigint[])] * interval '1 microsecond' END,
        first_due = CASE -- a row of no region, or of none any more, needs none
            WHEN t.region IS NULL OR (@due_anew::boolean[])[width_bucket(t.id, @ids::bigint[])] THEN NULL
            ELSE coalesce(t.first_due, t.run_at) END,
        attempt = (@attempts::integer[])[width_bucket(t.id, @ids::bigint[])],
        deferrals = (@deferrals::integer[])[width_bucket(t.id, @ids::bigint[])],
        ever_started = (@ever_started::boolean[])[width_bucket(t.id, @ids::bigint[])],
        outcome = coalesce((@outcomes::text[])[width_bucket(t.id, @ids::bigint[])], t.outcome),
        error = CASE WHEN (@outcomes::text[])[width_bucket(t.id, @ids::bigint[])] IS NULL THEN t.error
            ELSE nullif((@errors::text[])[width_bucket(t.id, @ids::bigint[])], '') END,
        result = CASE WHEN (@new_result::boolean[])[width_bucket(t.id, @ids::bigint[])]
            THEN nullif((@results::text[])[width_bucket(t.id, @ids::bigint[])], '')::jsonb ELSE t.result END,
        cause = CASE
            WHEN (@causes::text[])[width_bucket(t.id, @ids::bigint[])] = '' THEN t.cause
            WHEN t.cancel_requested_at IS NOT NULL THEN 'cancelled'
            ELSE (@causes::text[])[width_bucket(t.id, @ids::bigint[])] END,
        progress = coalesce(nullif((@progress::text[])[width_bucket(t.id, @ids::bigint[])], '')::jsonb, t.progress),
        message = coalesce(nullif((@messages::text[])[width_bucket(t.id, @ids::bigint[])], ''), t.message),
        checkpoint = coalesce(nullif((@checkpoints::text[])[width_bucket(t.id, @ids::bigint[])], '')::jsonb, t.checkpoint),
        lease_until = CASE WHEN (@after_lease::boolean[])[width_bucket(t.id, @ids::bigint[])] THEN t.lease_until END,
        fence = t.fence + 1, claim = NULL, claimed_at = NULL, cancel_requested_at = NULL, cancel_requested_by = NULL,
        ping_due = NULL,
        detached = NULL, ran_session = NULL
    WHERE t.id = ANY (ARRAY(SELECT id FROM hit WHERE NOT finished))
), history AS (
    INSERT INTO {schema}.attempt (
        task_id, fence, ran_fence, session, ran_session, policy, phase, attempt, outcome, error, output, result, state, started_at,
        ended_at)
    SELECT id, fence, ran_fence, session, nullif(ran_session, session), policy, phase, ran_attempt, verdict, nullif(ran_error, ''),
        nullif(next_output, ''), nullif(next_result, '')::jsonb, next, started_at, now()
    FROM hit WHERE keep
), counted AS (
    INSERT INTO {schema}.batch_delta (
        batch_id, running, succeeded, failed, cancelled, rolling_back, rolled_back, rollback_failed, failures, attempts)
    SELECT batch_id, -count(*) FILTER (WHERE state = 'running'),
        count(*) FILTER (WHERE next = 'succeeded'), count(*) FILTER (WHERE next = 'failed'),
        count(*) FILTER (WHERE next = 'cancelled'),
        count(*) FILTER (WHERE next = 'rollback_pending') - count(*) FILTER (WHERE state = 'rollback_running'),
        count(*) FILTER (WHERE next = 'rolled_back'), count(*) FILTER (WHERE next = 'rollback_failed'),
        count(*) FILTER (WHERE next = 'failed' OR new_cause NOT IN ('', 'cancelled') AND cancel_requested_at IS NULL),
        count(*) FILTER (WHERE NOT silent)
    FROM hit WHERE batch_id IS NOT NULL GROUP BY batch_id
), noted AS (
    INSERT INTO {schema}.lock_note (name, until)
    SELECT lock, CASE WHEN (@after_lease::boolean[])[width_bucket(id, @ids::bigint[])] THEN lease_until END
    FROM hit WHERE lock IS NOT NULL
), placed AS ( -- what may still be at work keeps its place in a limit; LIMIT: by the primary key
    INSERT INTO {schema}.limit_place (task_id, fence, name, tenant, until)
    SELECT hit.id, hit.fence, l.name, hit.tenant, hit.lease_until
    FROM hit CROSS JOIN LATERAL (SELECT k.name FROM {schema}.type_limit AS k WHERE k.type = hit.type LIMIT 1) AS l
    WHERE (@after_lease::boolean[])[width_bucket(hit.id, @ids::bigint[])] AND hit.lease_until > now()
), ended AS (
    INSERT INTO {schema}.ended_note (id) SELECT id FROM hit WHERE finished AND awaited
)
SELECT id, (SELECT n FROM followed),
    CASE WHEN on_failed IS NOT NULL THEN {schema}.insert_on_failed(on_failed, id, type, next, verdict, nullif(next_error, ''), cause,
        payload, labels, region, tenant, traceparent,
        CASE WHEN (@after_lease::boolean[])[width_bucket(id, @ids::bigint[])] THEN lease_until END) END
FROM hit
