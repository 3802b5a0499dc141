-- Named leases that have lapsed: they have expired, and that is not the effect of a jump of the clock. Either an agent that had
-- seen no jump for its session's whole TTL has written a heartbeat since the expiry. Or, without such an agent, another that
-- asked for the lease saw it expired one session TTL ago, 15 s at least, and it was not renewed in that time.
CREATE VIEW lapsed_lease AS
    SELECT fence FROM lease
    WHERE expires_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
        AND (EXISTS (SELECT 1 FROM agent
                     WHERE calm_at BETWEEN lease.expires_at AND strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
            OR expiry_seen_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('-%.3f seconds', max(15, ifnull(
                (SELECT max(julianday(present_until) - julianday(seen_at)) * 86400 FROM agent), 0)))));
