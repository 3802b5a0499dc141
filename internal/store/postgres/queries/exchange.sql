-- Settles tasks that are done at their first try as settle_done.sql does, and has the places that they leave in limits be the room of the claim
-- (claim_limited.sql) that follows in the same transaction. What runs of a limit becomes no more by the two together, at whatever moment
-- others count it: so this locks no limit, and exchanges of several agents go on beside each other.
--
-- A place is left by a row that names the limit which its type has now. There is no room where more may run than the limit says (crowded), or
-- where a rate would have to be asked. A note that another session wants a place does not count for longer after the clock was set back. Where the agent leaves
-- places of types (leaves) to who wants them, the session that wants one is notified. Returns the ids that were settled, and the rooms, which
-- the claim finds in a setting.
WITH {done_deleted}, leaving AS (
    {done_row}
), archived AS (
    {archive_row}
    RETURNING id
), room AS MATERIALIZED (
    SELECT k.kind, k.kind = ANY (@types::text[]) AS asked, k.kind = ANY (@leaves::text[]) AS leaves, l.name,
        (SELECT count(*) FROM deleted AS d WHERE d.limited = l.name) AS n, b.most > 0 AND b.rate = 0 AND NOT b.crowded AS free,
        b.wanted_until > now() AND b.wanted_until < now() + interval '1 second' AS wanted, b.wanted_by
    FROM (SELECT unnest(@types::text[]) UNION SELECT unnest(@leaves::text[])) AS k (kind)
    JOIN {schema}.type_limit AS l ON l.type = k.kind
    JOIN {schema}.type_limit AS b ON b.type = l.name AND b.name = l.name
)
SELECT ARRAY(SELECT a.id FROM archived AS a), set_config('leasehold.rooms', coalesce((
    SELECT jsonb_agg(jsonb_build_object('kind', r.kind, 'name', r.name, 'rooms', CASE WHEN r.free THEN r.n ELSE 0 END, 'rated', false, 'wanted', r.wanted))
    FROM room AS r WHERE r.asked), '[]')::text, true),
    ARRAY(SELECT pg_notify({channel_literal}, 'place ' || r.wanted_by)::text FROM room AS r WHERE r.leaves AND r.wanted AND r.free AND r.n > 0)
