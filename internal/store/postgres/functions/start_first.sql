-- Starts rows that a promotion has locked and would make candidates of: those that the claim would take before all candidates, and returns
-- them. ids are all rows that are promoted, may those that get their lock, or have their turn. ask is the claim: session, number, wants (each a
-- type, of which rows without a region are to be run), low-water marks, and how many bytes the documents may have.
--
-- So rows start in the order in which claims would have taken them, as far as those know it: where a candidate is due that comes first, or
-- one of the promoted rows that only a claim starts, those behind it are left to claims, too. Claims alone start rows of batches, which are
-- counted before; with a tenant or of a type with a limit, which take turns; with both a lock and a sequence; and with large documents.
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
    ), head AS MATERIALIZED (
        SELECT w.type, c.priority, c.run_at, c.id FROM want AS w CROSS JOIN LATERAL (
            SELECT p.priority, r.run_at, r.id
            FROM {priorities states='pending','retry_pending' region=''} CROSS JOIN LATERAL (
                SELECT t.run_at, t.id FROM {schema}.task AS t
                WHERE t.state IN ('pending','retry_pending') AND t.held IS NULL AND t.tenant IS NULL AND t.type = w.type
                  AND coalesce(t.region, '') = '' AND t.priority = p.priority AND t.run_at <= now()
                  AND (t.run_at, t.id) > (coalesce(low_times[(w.place-1)*21+11-p.priority], '-infinity'),
                                          coalesce(low_ids[(w.place-1)*21+11-p.priority], 0))
                ORDER BY t.run_at, t.id LIMIT 1
            ) AS r LIMIT 1
        ) AS c
    ), line AS MATERIALIZED (
        SELECT w.n, r.type, r.priority, r.run_at, r.id, r.bytes,
            r.plain AND r.bytes <= 65536 AND u.id IN (SELECT m.id FROM unnest(may) AS m (id)) AS fit
        FROM unnest(ids) AS u (id) CROSS JOIN LATERAL (
            SELECT t.id, t.type, t.priority, t.run_at,
                t.tenant IS NULL AND t.batch_id IS NULL AND (t.lock IS NULL OR t.sequence IS NULL) AS plain,
                CASE WHEN pg_column_compression(t.payload) IS NULL THEN 1::float8 ELSE 32 END * pg_column_size(t.payload)
                    + CASE WHEN t.rollback_payload IS NULL AND t.result IS NULL AND t.checkpoint IS NULL THEN 0 ELSE 131072 END AS bytes
            FROM {schema}.task AS t
            WHERE t.id = u.id AND coalesce(t.region, '') = '' AND t.state IN ('pending', 'retry_pending') AND t.run_at <= now() LIMIT 1
        ) AS r JOIN want AS w ON w.type = r.type
    )
    SELECT array_agg(l.id) INTO chosen FROM (
        SELECT k.id, k.n, row_number() OVER before AS place, sum(k.bytes) OVER before AS bytes,
            bool_and(k.fit AND coalesce((-k.priority, k.run_at, k.id) < (-h.priority, h.run_at, h.id), true)) OVER before AS first
        FROM line AS k LEFT JOIN head AS h ON h.type = k.type
        WINDOW before AS (PARTITION BY k.type ORDER BY k.priority DESC, k.run_at, k.id)
    ) AS l WHERE l.first AND l.place <= l.n AND l.bytes <= coalesce((ask ->> 'bytes')::float8, 'infinity');
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
