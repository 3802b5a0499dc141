-- Starts rows that a promotion has locked and would make candidates of: those that the claim would take, and returns
-- them. ids are all rows that are promoted, may those that get their lock, or have their turn. ask is the claim: session, number, wants (each a
-- type, of which rows without a region are to be run), low-water marks, and how many bytes the documents may have.
--
-- So those rows start that the claim would have taken among all that are due: the candidates before a row count towards what is wanted, and
-- towards the bytes. Where one of the promoted rows comes first that only a claim starts, those behind it are left to claims, too: rows of
-- batches, which are counted before; with a tenant or of a type with a limit, which take turns; with both a lock and a sequence; and with
-- large documents.
CREATE OR REPLACE FUNCTION {schema}.start_first(ids bigint[], may bigint[], ask jsonb) RETURNS bigint[]
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    low_times timestamptz[] := ARRAY(SELECT e.at::timestamptz FROM jsonb_array_elements_text(ask -> 'low_times') WITH ORDINALITY AS e (at, n) ORDER BY e.n);
    low_ids   bigint[] := ARRAY(SELECT e.id::bigint FROM jsonb_array_elements_text(ask -> 'low_ids') WITH ORDINALITY AS e (id, n) ORDER BY e.n);
    chosen    bigint[];
BEGIN
    WITH want AS MATERIALIZED (
        SELECT w.type, w.n, e.place
        FROM jsonb_array_elements(ask -> 'wants') WITH ORDINALITY AS e (want, place)
        CROSS JOIN LATERAL jsonb_to_record(e.want) AS w (type text, n bigint)
        WHERE NOT EXISTS (SELECT FROM {schema}.type_limit AS l WHERE l.type = w.type)
    ), line AS MATERIALIZED (
        SELECT w.n, w.place, r.type, r.priority, r.run_at, r.id, r.bytes,
            r.plain AND r.bytes <= 65536 AND u.id IN (SELECT m.id FROM unnest(may) AS m (id)) AS fit
        FROM unnest(ids) AS u (id) CROSS JOIN LATERAL (
            SELECT t.id, t.type, t.priority, t.run_at,
                t.tenant IS NULL AND t.batch_id IS NULL AND (t.lock IS NULL OR t.sequence IS NULL) AS plain, {row_bytes} AS bytes
            FROM {schema}.task AS t
            WHERE t.id = u.id AND coalesce(t.region, '') = '' AND t.state IN ('pending', 'retry_pending') AND t.run_at <= now() LIMIT 1
        ) AS r JOIN want AS w ON w.type = r.type
    ), candidate AS MATERIALIZED ( -- in proportion to what is promoted: a row behind all that are looked at is left to claims
        SELECT w.n, w.place, w.seen, c.priority, c.run_at, c.id, c.bytes FROM (
            SELECT l.n, l.type, l.place, least(l.n, 4 * count(*)) AS seen FROM line AS l GROUP BY l.n, l.type, l.place
        ) AS w CROSS JOIN LATERAL (
            SELECT p.priority, r.run_at, r.id, r.bytes
            FROM {priorities states='pending','retry_pending' region=''} CROSS JOIN LATERAL (
                SELECT t.run_at, t.id, {row_bytes} AS bytes FROM {schema}.task AS t
                WHERE t.state IN ('pending','retry_pending') AND t.held IS NULL AND t.tenant IS NULL AND t.type = w.type
                  AND coalesce(t.region, '') = '' AND t.priority = p.priority AND t.run_at <= now()
                  AND (t.run_at, t.id) > (coalesce(low_times[(w.place-1)*21+11-p.priority], '-infinity'),
                                          coalesce(low_ids[(w.place-1)*21+11-p.priority], 0))
                ORDER BY t.run_at, t.id LIMIT w.seen
            ) AS r LIMIT w.seen
        ) AS c
    )
    SELECT array_agg(o.id) INTO chosen FROM (
        SELECT u.id, u.n, u.promoted, row_number() OVER before AS rank, sum(u.bytes) OVER all_before AS bytes,
            bool_and(u.fit) OVER before AND (u.seen >= u.n OR count(*) FILTER (WHERE NOT u.promoted) OVER before < u.seen) AS first
        FROM (
            SELECT l.n, l.place, l.priority, l.run_at, l.id, l.bytes, l.fit, true AS promoted,
                least(l.n, 4 * count(*) OVER (PARTITION BY l.place)) AS seen FROM line AS l
            UNION ALL SELECT c.n, c.place, c.priority, c.run_at, c.id, c.bytes, true, false, c.seen FROM candidate AS c
        ) AS u
        WINDOW before AS (PARTITION BY u.place ORDER BY u.priority DESC, u.run_at, u.id ROWS UNBOUNDED PRECEDING),
            all_before AS (ORDER BY u.place, u.priority DESC, u.run_at, u.id ROWS UNBOUNDED PRECEDING)
    ) AS o WHERE o.promoted AND o.first AND o.rank <= o.n AND o.bytes <= coalesce((ask ->> 'bytes')::float8, 'infinity');
    IF chosen IS NULL THEN
        RETURN '{}';
    END IF;
    UPDATE {schema}.task AS t SET
        state = 'running', held = NULL, session = (ask ->> 'session')::bigint, claim = (ask ->> 'number')::bigint,
        fence = greatest(least(t.fence, 4611686018426339328), 0) + 1, attempt = greatest(least(t.attempt, 1000000), 0) + 1,
        policy = w.policy, claimed_at = now(), lease_until = now() + w.length * interval '1 microsecond',
        deadline = coalesce(t.deadline, t.run_at + nullif(w.deadline, 0) * interval '1 microsecond')
    FROM jsonb_to_recordset(ask -> 'wants') AS w (type text, length bigint, policy bigint, deadline bigint)
    WHERE t.id = ANY (chosen) AND w.type = t.type;
    RETURN chosen;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.start_first(bigint[], bigint[], jsonb) FROM PUBLIC;
