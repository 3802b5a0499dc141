-- INSERT INTO renew_lease (name, fence) renews a named lease for the ttl that it was acquired with, and raises unless it is held
-- with that fence. SELECT expires_at FROM renew_lease WHERE name = … is then when it expires.
CREATE VIEW renew_lease AS
    SELECT name, fence, expires_at FROM lease;

CREATE TRIGGER renew_lease_insert INSTEAD OF INSERT ON renew_lease
BEGIN
    {lease_is_held};
    UPDATE lease SET expires_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('+%.3f seconds', ttl_s)), expiry_seen_at = NULL
    WHERE fence = NEW.fence;
END;
