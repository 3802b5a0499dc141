-- Locks the row until the caller's transaction ends, and raises unless the attempt still holds it. Renewals, pings and
-- cancellations are not blocked by this lock; whatever takes rows away skips them.
CREATE OR REPLACE FUNCTION {schema}.hold(id bigint, fence bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
BEGIN
    PERFORM FROM {schema}.task AS t
    WHERE t.id = hold.id AND t.fence = hold.fence AND t.claim > 0 AND t.lease_until > clock_timestamp()
    FOR KEY SHARE;
    IF NOT FOUND THEN
        PERFORM {schema}.raise_lease_lost(id, fence);
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.hold(bigint, bigint) FROM PUBLIC;
