-- Renews leases as renew.sql does, where any of the tasks reports something, has to advance, or goes on without its
-- session.
WITH held AS MATERIALIZED (
    SELECT t.id FROM {schema}.task AS t
    WHERE t.id = ANY (@ids::bigint[]) AND t.session = @session AND t.claim IS NOT NULL
      AND t.fence = (@fences::bigint[])[width_bucket(t.id, @ids::bigint[])]
    FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE {schema}.task AS t SET 
    detached = nullif(coalesce((@detach::boolean[])[width_bucket(t.id, @ids::bigint[])] OR t.detached, t.detached), false),
    progress = coalesce(nullif((@progress::text[])[width_bucket(t.id, @ids::bigint[])], '')::jsonb, t.progress),
    message = coalesce(nullif((@messages::text[])[width_bucket(t.id, @ids::bigint[])], ''), t.message),
    checkpoint = coalesce(nullif((@checkpoints::text[])[width_bucket(t.id, @ids::bigint[])], '')::jsonb, t.checkpoint),
    marks = CASE WHEN nullif((@marks::text[])[width_bucket(t.id, @ids::bigint[])], '') IS NULL THEN t.marks
        ELSE {schema}.merge_marks(t.marks, t.fence, (@marks::text[])[width_bucket(t.id, @ids::bigint[])]::jsonb) END,
    lease_until = least(
    greatest(t.lease_until, now() + (@least::bigint[])[width_bucket(t.id, @ids::bigint[])] * interval '1 microsecond'),
    now() + (@most::bigint[])[width_bucket(t.id, @ids::bigint[])] * interval '1 microsecond')
WHERE t.id = ANY (ARRAY(SELECT id FROM held))
RETURNING t.id
