-- Settles tasks that are done at their first try as settle_done.sql does, and has the places that they leave in limits be the room of the claim
-- (claim_limited.sql) that follows in the same transaction. What runs of a limit becomes no more by the two together, at whatever moment
-- others count it: so this locks no limit, and exchanges of several agents go on beside each other.
--
-- A place is left by a row that names the limit which its type has now. There is no room where more may run than the limit says (crowded), or
-- where a rate would have to be asked. A note that another session wants a place does not count for longer after the clock was set back. Returns the ids that were settled, and the rooms, which the claim finds in a setting.
WITH bound AS MATERIALIZED (
    SELECT set_config('lock_timeout', '40ms', true) IS NOT NULL AS set
), deleted AS (
    DELETE FROM {schema}.task AS t
    WHERE t.id = ANY (@ids::bigint[]) AND t.fence = (@fences::bigint[])[width_bucket(t.id, @ids::bigint[])]
        AND t.session = @session
      AND t.claim IS NOT NULL AND (SELECT set FROM bound) AND t.batch_id IS NULL
      AND t.key IS NULL AND t.lock IS NULL AND t.awaited IS NULL
    RETURNING {done_columns}, t.limited
), leaving AS (
    {done_row}
), archived AS (
    {archive_row}
    RETURNING id
), room AS MATERIALIZED (
    SELECT k.kind, l.name, CASE WHEN b.most > 0 AND b.rate = 0 AND NOT b.crowded
        THEN (SELECT count(*) FROM deleted AS d WHERE d.limited = l.name) ELSE 0 END AS n, b.wanted_until > now() AND b.wanted_until < now() + interval '1 second' AS wanted
    FROM unnest(@types::text[]) AS k (kind)
    JOIN {schema}.type_limit AS l ON l.type = k.kind
    JOIN {schema}.type_limit AS b ON b.type = l.name AND b.name = l.name
)
SELECT ARRAY(SELECT a.id FROM archived AS a), set_config('leasehold.rooms', coalesce((
    SELECT jsonb_agg(jsonb_build_object('kind', r.kind, 'name', r.name, 'rooms', r.n, 'rated', false, 'wanted', r.wanted)) FROM room AS r), '[]')::text, true)
