-- Returns the limits of row types that are to be in force by what sessions declare: of each name the newest declaration, and for each
-- type that of the newest. A session that has expired, and has not left, may be alive unless the caller vouches that
-- the clock has not jumped for its whole TTL (calm, microseconds; else 0): what it declares stays in force, but does not come into force.
CREATE OR REPLACE FUNCTION {schema}.wanted_limits(calm bigint)
    RETURNS TABLE (type text, name text, declared bigint, most integer, rate double precision, burst integer,
        tenant_most integer, tenant_rate double precision, tenant_burst integer)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
    SELECT DISTINCT ON (k.type) k.type, d.name, d.number, (d.spec->>'most')::integer, (d.spec->>'rate')::double precision,
        (d.spec->>'burst')::integer, coalesce((d.spec->'tenant'->>'most')::integer, 0),
        coalesce((d.spec->'tenant'->>'rate')::double precision, 0), coalesce((d.spec->'tenant'->>'burst')::integer, 0)
    FROM (
        SELECT e.name, max(e.number) AS number
        FROM {schema}.agent AS a
        JOIN {schema}.limit_declarer AS r ON r.session = a.session
        JOIN {schema}.limit_declaration AS e ON e.number = r.number
        WHERE a.present_until > now()
           OR a.present_until > a.seen_at AND a.present_until - a.seen_at > calm * interval '1 microsecond'
              AND EXISTS (SELECT FROM {schema}.type_limit AS l WHERE l.declared = e.number)
        GROUP BY e.name
    ) AS newest
    JOIN {schema}.limit_declaration AS d ON d.number = newest.number
    CROSS JOIN LATERAL jsonb_array_elements_text(d.spec->'types') AS k (type)
    ORDER BY k.type, d.number DESC
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.wanted_limits(bigint) FROM PUBLIC;

-- Notes the limits that a session declares, and no others, puts in force what is to be, and returns the row types that have a limit.
-- Where that is so already it only reads. One of several that change something does it at a time; what a session that declares nothing
-- new would change is left to the next heartbeat if another one is at it.
CREATE OR REPLACE FUNCTION {schema}.declare_limits(
    by bigint, names text[], hashes text[], specs text[], view_at timestamptz, calm bigint, tolerance bigint
) RETURNS SETOF text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off SET lock_timeout = '2s' AS
$leasehold$
DECLARE
    sure   bigint := CASE WHEN abs(extract(epoch FROM now() - view_at) * 1000000) <= tolerance THEN calm ELSE 0 END;
    own    boolean := EXISTS (
        SELECT FROM unnest(names, hashes) AS w (name, hash)
        FULL JOIN (
            SELECT d.name, d.hash FROM {schema}.limit_declarer AS r JOIN {schema}.limit_declaration AS d ON d.number = r.number
            WHERE r.session = by
        ) AS h ON h.name = w.name AND h.hash = w.hash
        WHERE w.name IS NULL OR h.name IS NULL);
    differ boolean := own OR EXISTS (
        SELECT FROM {schema}.wanted_limits(coalesce(sure, 0)) AS w
        FULL JOIN {schema}.type_limit AS l ON l.type = w.type AND l.declared = w.declared AND l.name = w.name
        WHERE w.type IS NULL OR l.type IS NULL);
BEGIN
    IF differ THEN
        BEGIN
            LOCK TABLE {schema}.limit_declaration IN SHARE ROW EXCLUSIVE MODE;
            PERFORM {schema}.settle_limits(by, names, hashes, specs, coalesce(sure, 0));
        EXCEPTION WHEN lock_not_available THEN
            IF own THEN
                RAISE;
            END IF;
        END;
    END IF;
    RETURN QUERY SELECT l.type FROM {schema}.type_limit AS l;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.declare_limits(bigint, text[], text[], text[], timestamptz, bigint, bigint) FROM PUBLIC;

-- Changes what declare_limits has found to differ, under its lock.
CREATE OR REPLACE FUNCTION {schema}.settle_limits(by bigint, names text[], hashes text[], specs text[], sure bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
BEGIN
    INSERT INTO {schema}.limit_declaration (name, hash, spec)
    SELECT w.name, w.hash, w.spec::jsonb FROM unnest(names, hashes, specs) AS w (name, hash, spec)
    WHERE NOT EXISTS (SELECT FROM {schema}.limit_declaration AS d WHERE d.name = w.name AND d.hash = w.hash)
    ORDER BY w.name;

    DELETE FROM {schema}.limit_declarer AS r
    WHERE r.session = by AND NOT EXISTS (
            SELECT FROM unnest(names, hashes) AS w (name, hash)
            JOIN {schema}.limit_declaration AS d ON d.name = w.name AND d.hash = w.hash WHERE d.number = r.number)
       OR NOT EXISTS (SELECT FROM {schema}.agent AS a WHERE a.session = r.session);

    INSERT INTO {schema}.limit_declarer (session, number)
    SELECT by, d.number FROM unnest(names, hashes) AS w (name, hash)
    JOIN {schema}.limit_declaration AS d ON d.name = w.name AND d.hash = w.hash
    ON CONFLICT (session, number) DO NOTHING;

    INSERT INTO {schema}.type_limit AS l (type, name, declared, most, rate, burst, tenant_most, tenant_rate, tenant_burst)
    SELECT w.type, w.name, w.declared, w.most, w.rate, w.burst, w.tenant_most, w.tenant_rate, w.tenant_burst FROM {schema}.wanted_limits(sure) AS w ORDER BY w.type
    ON CONFLICT (type) DO UPDATE SET
        name = excluded.name, declared = excluded.declared, most = excluded.most, rate = excluded.rate,
        burst = excluded.burst, tenant_most = excluded.tenant_most, tenant_rate = excluded.tenant_rate,
        tenant_burst = excluded.tenant_burst,
        counts_all = l.counts_all OR l.name <> excluded.name, crowded = true,
        since = CASE WHEN l.name <> excluded.name THEN now() ELSE l.since END
    WHERE l.declared <> excluded.declared OR l.name <> excluded.name;

    -- Of a type that joins a limit, rows may run that do not name it: the row that claims lock has to know.
    UPDATE {schema}.type_limit AS l SET counts_all = true, crowded = true, since = now()
    WHERE EXISTS (SELECT FROM {schema}.type_limit AS k WHERE k.name = l.type AND k.type <> l.type AND k.since = now());

    DELETE FROM {schema}.limit_place AS p WHERE p.until <= now();

    DELETE FROM {schema}.type_limit AS l
    WHERE NOT EXISTS (SELECT FROM {schema}.wanted_limits(sure) AS w WHERE w.type = l.type);
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.settle_limits(bigint, text[], text[], text[], bigint) FROM PUBLIC;
