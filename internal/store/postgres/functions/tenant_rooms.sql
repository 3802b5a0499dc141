-- Returns, in order, how many rows of each of these tenants a claim may take of a row type, as far as the bounds of each tenant go, and where it
-- is the rate that lets none start, in how many microseconds one may (wait; else NULL). It returns nothing where tenants have no bounds. It is called
-- after limit_rooms in the same transaction, so the limit's row is locked: that is the lock of all its tenants, and what the claims before have
-- taken is seen. The claim (claim_limited_tenants.sql) follows and finds the rooms in the setting leasehold.tenant_rooms; 'none': no bounds.
CREATE OR REPLACE FUNCTION {schema}.tenant_rooms(kind text, tenants text[]) RETURNS TABLE (rooms bigint, wait bigint)
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off
        SET plan_cache_mode = force_generic_plan AS
$leasehold$
DECLARE
    held    record;
    unnamed jsonb := '{}'; -- by tenant: rows that run and do not name the limit
    frees   bigint[];
    waits   bigint[];
BEGIN
    PERFORM set_config('leasehold.tenant_rooms', 'none', true);
    SELECT l.type, l.most, l.rate, l.since, l.counts_all, l.tenant_most, l.tenant_rate, l.tenant_burst INTO held
    FROM {schema}.type_limit AS k JOIN {schema}.type_limit AS l ON l.type = k.name WHERE k.type = kind;
    IF NOT FOUND OR held.tenant_most = 0 AND held.tenant_rate = 0 OR EXISTS ( -- the limit leaves no room, or is not locked
        SELECT FROM jsonb_to_recordset(current_setting('leasehold.rooms')::jsonb) AS r (kind text, name text, rooms bigint)
        WHERE r.kind = tenant_rooms.kind AND r.name IS NOT NULL AND coalesce(r.rooms, 0) = 0
    ) THEN
        RETURN;
    END IF;
    IF held.tenant_most > 0 THEN
        IF EXISTS (SELECT FROM {schema}.limit_place AS p WHERE p.name = held.type) THEN
            PERFORM {schema}.kept_places(held.type);
        END IF;
        IF held.counts_all THEN
            PERFORM {schema}.limit_unnamed(held.type, held.since);
            unnamed := coalesce((
                SELECT jsonb_object_agg(r.tenant, r.n) FROM (
                    SELECT t.tenant, count(*) AS n FROM {schema}.task AS t
                    WHERE t.state IN ('running', 'rollback_running') AND t.tenant IN (SELECT u.tenant FROM unnest(tenants) AS u (tenant))
                      AND t.limited IS DISTINCT FROM held.type
                      AND t.type = ANY (ARRAY(SELECT k.type FROM {schema}.type_limit AS k WHERE k.name = held.type))
                    GROUP BY t.tenant) AS r), '{}');
        END IF;
    END IF;
    IF held.tenant_rate > 0 THEN
        IF held.rate = 0 THEN -- else limit_rooms has done it
            PERFORM {schema}.returned_tokens(held.type);
        END IF;
        UPDATE {schema}.tenant_bucket AS b SET counted_at = clock_timestamp() -- the clock was set back
        WHERE b.name = held.type AND b.tenant = ANY (tenants) AND b.counted_at > clock_timestamp();
    END IF;
    SELECT array_agg(CASE WHEN held.tenant_rate > 0 THEN least(m.free, floor(greatest(m.tokens, 0))::bigint, held.tenant_burst) ELSE m.free END
            ORDER BY m.place),
        array_agg(CASE WHEN held.tenant_rate > 0 AND m.free > 0 AND m.tokens < 1
            THEN greatest(((1 - m.tokens) / held.tenant_rate * 1000000)::bigint, 1) END ORDER BY m.place)
    INTO frees, waits
    FROM (
        SELECT u.place, CASE WHEN held.tenant_most > 0 THEN greatest(held.tenant_most - coalesce((unnamed->>u.tenant)::bigint, 0) - (
                SELECT count(*) FROM (
                    SELECT FROM {schema}.task AS t
                    WHERE t.limited IS NOT NULL AND t.limited = held.type AND t.tenant = u.tenant AND t.state IN ('running', 'rollback_running')
                    LIMIT held.tenant_most) AS r) - (
                SELECT count(*) FROM {schema}.limit_place AS p WHERE p.name = held.type AND p.tenant = u.tenant), 0)
            ELSE 1000000000 END AS free,
            CASE WHEN held.tenant_rate > 0 THEN coalesce((
                SELECT least(b.tokens + greatest(extract(epoch FROM clock_timestamp() - b.counted_at), 0)::double precision * held.tenant_rate,
                    held.tenant_burst + held.tenant_rate * 0.025)
                FROM {schema}.tenant_bucket AS b WHERE b.name = held.type AND b.tenant = u.tenant LIMIT 1), held.tenant_burst) END AS tokens
        FROM unnest(tenants) WITH ORDINALITY AS u (tenant, place)
    ) AS m;
    PERFORM set_config('leasehold.tenant_rooms', frees::text, true);
    RETURN QUERY SELECT f.rooms, f.wait FROM unnest(frees, waits) WITH ORDINALITY AS f (rooms, wait, place) ORDER BY f.place;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.tenant_rooms(text, text[]) FROM PUBLIC;

-- Takes tokens of tenants for rows that a claim starts; it has locked the limit. The rule is that of store.Bucket.
CREATE OR REPLACE FUNCTION {schema}.spend_tenant_tokens(limit_name text, tenants text[], ns bigint[]) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    per   double precision;
    burst integer;
BEGIN
    SELECT l.tenant_rate, l.tenant_burst INTO per, burst FROM {schema}.type_limit AS l WHERE l.type = limit_name;
    IF per > 0 THEN
        INSERT INTO {schema}.tenant_bucket AS b (name, tenant, tokens, counted_at, full_at)
        SELECT limit_name, m.tenant, m.tokens, clock_timestamp(), clock_timestamp() + make_interval(secs => (burst - m.tokens) / per + 0.025)
        FROM (
            SELECT u.tenant, coalesce((
                SELECT least(k.tokens + greatest(extract(epoch FROM clock_timestamp() - k.counted_at), 0)::double precision * per,
                    burst + per * 0.025)
                FROM {schema}.tenant_bucket AS k WHERE k.name = limit_name AND k.tenant = u.tenant LIMIT 1), burst) - u.n AS tokens
            FROM unnest(tenants, ns) AS u (tenant, n)
        ) AS m ORDER BY m.tenant COLLATE "C"
        ON CONFLICT (name, tenant) DO UPDATE SET tokens = excluded.tokens, counted_at = excluded.counted_at, full_at = excluded.full_at;
    END IF;
    RETURN true;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.spend_tenant_tokens(text, text[], bigint[]) FROM PUBLIC;

-- Takes the notes of tokens of a limit that were returned, whose attempts are over, and returns how many they were. The tenants get theirs
-- here; a bucket that is full has no row, and gets none. The caller has locked the limit.
CREATE OR REPLACE FUNCTION {schema}.returned_tokens(limit_name text) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    back bigint;
BEGIN
    WITH gone AS (
        DELETE FROM {schema}.limit_token AS n WHERE n.name = limit_name AND NOT EXISTS (
            SELECT FROM {schema}.task AS t
            WHERE t.id = n.task_id AND t.fence = n.fence AND t.state IN ('running', 'rollback_running'))
        RETURNING n.tenant
    ), returned AS (
        UPDATE {schema}.tenant_bucket AS b SET tokens = b.tokens + r.n
        FROM (SELECT g.tenant, count(*) AS n FROM gone AS g WHERE g.tenant IS NOT NULL GROUP BY g.tenant) AS r
        WHERE b.name = limit_name AND b.tenant = r.tenant
    )
    SELECT count(*) INTO back FROM gone;
    RETURN back;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.returned_tokens(text) FROM PUBLIC;
