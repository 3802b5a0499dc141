-- Takes a named lease for a holder and returns its fence, or NULL where another holds it: then ask again later. The holder of
-- a lease that asks for it again gets the same fence, and the lease lasts for ttl from now: it may not have learnt whether its
-- first request was committed. Call it in a transaction of its own: until the commit the lease protects nothing, and others
-- that ask get NULL after a wait of 1 s at most. The time is the server's clock, not the transaction's.
--
-- A lease that has expired is taken once it has lapsed (lease_lapsed). Otherwise the request is noted in the lease. A lease
-- that is held in an open transaction (hold_lease) is not taken, and not waited for.
CREATE OR REPLACE FUNCTION {schema}.acquire(name text, holder text, ttl interval) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off
        SET lock_timeout = '1s' AS
$leasehold$
DECLARE
    l    {schema}.lease;
    seen bigint;
    span interval;
BEGIN
    IF (octet_length(name) BETWEEN 1 AND 255) IS NOT TRUE THEN
        RAISE EXCEPTION 'name must be 1 to 255 bytes' USING ERRCODE = 'invalid_parameter_value';
    ELSIF (octet_length(holder) BETWEEN 1 AND 255) IS NOT TRUE THEN
        RAISE EXCEPTION 'holder must be 1 to 255 bytes' USING ERRCODE = 'invalid_parameter_value';
    ELSIF (ttl BETWEEN interval '1 second' AND interval '1 day') IS NOT TRUE THEN
        RAISE EXCEPTION 'ttl must be 1 second to 1 day' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    span := make_interval(secs => extract(epoch FROM ttl)::double precision); -- a day of 24 hours, wherever it is
    -- An application may have turned it off. A lease that a crash takes back would hand its fence out twice.
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    FOR try IN 1 .. 10 LOOP
        SELECT r.* INTO l FROM {schema}.lease AS r WHERE r.name = acquire.name;
        IF NOT FOUND THEN
            INSERT INTO {schema}.lease (name, holder, fence, ttl, acquired_at, expires_at)
            VALUES (acquire.name, acquire.holder, 0, span, clock_timestamp(), clock_timestamp()) ON CONFLICT DO NOTHING;
            CONTINUE WHEN NOT FOUND;
        ELSE
            seen := l.fence;
            IF l.holder = acquire.holder THEN
                SELECT r.* INTO l FROM {schema}.lease AS r WHERE r.name = acquire.name AND r.fence = seen FOR NO KEY UPDATE;
                CONTINUE WHEN NOT FOUND;
                IF NOT {schema}.lease_lapsed(l.expires_at, l.expiry_seen_at) THEN
                    UPDATE {schema}.lease AS r SET ttl = span, expires_at = clock_timestamp() + span, expiry_seen_at = NULL
                    WHERE r.name = acquire.name;
                    RETURN seen;
                END IF;
            ELSIF l.expires_at > clock_timestamp() + l.ttl THEN -- the clock was set back: no lease lasts longer than its ttl
                UPDATE {schema}.lease AS r SET expires_at = clock_timestamp() + r.ttl
                WHERE r.name = (
                    SELECT s.name FROM {schema}.lease AS s
                    WHERE s.name = acquire.name AND s.fence = seen AND s.expires_at > clock_timestamp() + s.ttl
                    FOR NO KEY UPDATE SKIP LOCKED);
                RETURN NULL;
            ELSIF l.expires_at > clock_timestamp() THEN
                RETURN NULL;
            ELSIF NOT {schema}.lease_lapsed(l.expires_at, l.expiry_seen_at) THEN
                UPDATE {schema}.lease AS r SET expiry_seen_at = clock_timestamp()
                WHERE r.name = (
                    SELECT s.name FROM {schema}.lease AS s
                    WHERE s.name = acquire.name AND s.fence = seen AND s.expires_at <= clock_timestamp()
                      AND (s.expiry_seen_at IS NULL OR s.expiry_seen_at > clock_timestamp())
                    FOR NO KEY UPDATE SKIP LOCKED);
                RETURN NULL;
            END IF;
            SELECT r.* INTO l FROM {schema}.lease AS r WHERE r.name = acquire.name AND r.fence = seen FOR UPDATE SKIP LOCKED;
            IF NOT FOUND THEN
                PERFORM FROM {schema}.lease AS r WHERE r.name = acquire.name AND r.fence = seen;
                IF FOUND THEN
                    RETURN NULL; -- it is held in a transaction, or another takes it now
                END IF;
                CONTINUE;
            END IF;
            CONTINUE WHEN NOT {schema}.lease_lapsed(l.expires_at, l.expiry_seen_at); -- it has just been renewed
        END IF;
        -- The number is drawn by the one who has the row: so those of a name rise in the order in which it is held.
        UPDATE {schema}.lease AS r SET
            holder = acquire.holder, fence = DEFAULT, ttl = span, acquired_at = clock_timestamp(),
            expires_at = clock_timestamp() + span, expiry_seen_at = NULL
        WHERE r.name = acquire.name
        RETURNING r.fence INTO seen;
        RETURN seen;
    END LOOP;
    RETURN NULL;
EXCEPTION WHEN lock_not_available THEN
    RETURN NULL; -- another transaction takes it, or renews it, and has not ended
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.acquire(text, text, interval) FROM PUBLIC;
