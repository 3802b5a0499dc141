-- What the holder of a named lease does with it. Each of these raises unless (name, fence) is held: no one has taken the
-- lease, and it has not lapsed. They wait 5 s at most for another transaction that has locked the row.

-- Reports whether a lease has lapsed: it has expired, and that is not the effect of a jump of the clock. Either an agent that
-- had seen no jump for its session's whole TTL has written a heartbeat since the expiry. Or, without such an agent, another
-- that asked for the lease saw it expired one session TTL ago, 15 s at least, and it was not renewed in that time.
CREATE OR REPLACE FUNCTION {schema}.lease_lapsed(expires_at timestamptz, expiry_seen_at timestamptz) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    clock timestamptz := clock_timestamp();
BEGIN
    IF expires_at > clock THEN
        RETURN false;
    END IF;
    RETURN EXISTS (SELECT FROM {schema}.agent AS a WHERE a.calm_at BETWEEN expires_at AND clock)
        OR coalesce(expiry_seen_at <= clock - greatest(interval '15 seconds',
            (SELECT max(a.present_until - a.seen_at) FROM {schema}.agent AS a)), false);
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.lease_lapsed(timestamptz, timestamptz) FROM PUBLIC;

-- Raises the error of a holder that has lost its lease, which names who has it now.
CREATE OR REPLACE FUNCTION {schema}.raise_named_lease_lost(of text, with_fence bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    l      {schema}.lease;
    became text;
BEGIN
    SELECT r.* INTO l FROM {schema}.lease AS r WHERE r.name = of;
    became := CASE
        WHEN l.name IS NULL THEN 'is free'
        WHEN l.fence = with_fence THEN format('of "%s" expired at %s', l.holder,
            to_char(l.expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))
        ELSE format('is held by "%s" with fence %s until %s', l.holder, l.fence,
            to_char(l.expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')) END;
    RAISE EXCEPTION 'lease "%" %, and is not held with fence % any more: stop, and commit nothing', of, became, with_fence
        USING ERRCODE = 'LH410';
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.raise_named_lease_lost(text, bigint) FROM PUBLIC;

-- Renews a lease for the ttl that it was acquired with, and returns when it expires now. Call it in a transaction of its own.
CREATE OR REPLACE FUNCTION {schema}.renew_lease(name text, fence bigint) RETURNS timestamptz
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off
        SET lock_timeout = '5s' AS
$leasehold$
DECLARE
    l {schema}.lease;
BEGIN
    SELECT r.* INTO l FROM {schema}.lease AS r WHERE r.name = renew_lease.name AND r.fence = renew_lease.fence
    FOR NO KEY UPDATE;
    IF NOT FOUND OR {schema}.lease_lapsed(l.expires_at, l.expiry_seen_at) THEN
        PERFORM {schema}.raise_named_lease_lost(name, fence);
    END IF;
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true); -- see acquire
    END IF;
    UPDATE {schema}.lease AS r SET expires_at = clock_timestamp() + r.ttl, expiry_seen_at = NULL
    WHERE r.name = renew_lease.name
    RETURNING r.expires_at INTO l.expires_at;
    RETURN l.expires_at;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.renew_lease(text, bigint) FROM PUBLIC;

-- Gives a lease up: once this is committed, the next who asks gets it.
CREATE OR REPLACE FUNCTION {schema}.release_lease(name text, fence bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off
        SET lock_timeout = '5s' AS
$leasehold$
DECLARE
    l {schema}.lease;
BEGIN
    SELECT r.* INTO l FROM {schema}.lease AS r WHERE r.name = release_lease.name AND r.fence = release_lease.fence
    FOR UPDATE;
    IF NOT FOUND OR {schema}.lease_lapsed(l.expires_at, l.expiry_seen_at) THEN
        PERFORM {schema}.raise_named_lease_lost(name, fence);
    END IF;
    DELETE FROM {schema}.lease AS r WHERE r.name = release_lease.name;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.release_lease(text, bigint) FROM PUBLIC;

-- Keeps a lease until the caller's transaction ends: until then no one takes it, even if it expires. Renewals are not blocked
-- by this lock; those who take leases skip it.
CREATE OR REPLACE FUNCTION {schema}.hold_lease(name text, fence bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off
        SET lock_timeout = '5s' AS
$leasehold$
DECLARE
    l {schema}.lease;
BEGIN
    SELECT r.* INTO l FROM {schema}.lease AS r WHERE r.name = hold_lease.name AND r.fence = hold_lease.fence
    FOR KEY SHARE;
    IF NOT FOUND OR {schema}.lease_lapsed(l.expires_at, l.expiry_seen_at) THEN
        PERFORM {schema}.raise_named_lease_lost(name, fence);
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.hold_lease(text, bigint) FROM PUBLIC;
