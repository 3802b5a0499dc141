-- INSERT INTO acquire (name, holder, ttl_s) takes a named lease for a holder, for ttl_s seconds. SELECT fence FROM acquire WHERE
-- name = … AND holder = … is then its fence; no row: another holds it, ask again later. The holder of a lease that asks for it
-- again keeps its fence, and the lease lasts for ttl_s from now: it may not have learnt whether its first request was committed.
--
-- A lease that has expired is taken once it has lapsed. Otherwise the request is noted in the lease.
CREATE VIEW acquire AS
    SELECT name, holder, ttl_s, fence, expires_at FROM lease WHERE expires_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now');

CREATE TRIGGER acquire_insert INSTEAD OF INSERT ON acquire
BEGIN
    SELECT RAISE(ABORT, 'name must be text of 1 to 255 bytes, none of them 0')
    WHERE typeof(NEW.name) <> 'text' OR length(CAST(NEW.name AS BLOB)) NOT BETWEEN 1 AND 255
        OR instr(CAST(NEW.name AS BLOB), x'00') > 0;
    SELECT RAISE(ABORT, 'holder must be text of 1 to 255 bytes, none of them 0')
    WHERE typeof(NEW.holder) <> 'text' OR length(CAST(NEW.holder AS BLOB)) NOT BETWEEN 1 AND 255
        OR instr(CAST(NEW.holder AS BLOB), x'00') > 0;
    -- Some drivers bind numbers as text.
    SELECT RAISE(ABORT, 'ttl_s must be a number of seconds, 1 to 86400')
    WHERE CASE typeof(NEW.ttl_s) WHEN 'integer' THEN 1 WHEN 'real' THEN 1
          WHEN 'text' THEN CASE WHEN json_valid(NEW.ttl_s) THEN json_type(NEW.ttl_s) IN ('integer', 'real') ELSE 0 END
          ELSE 0 END = 0
        OR CAST(NEW.ttl_s AS REAL) NOT BETWEEN 1 AND 86400;

    UPDATE lease SET ttl_s = CAST(NEW.ttl_s AS REAL), expiry_seen_at = NULL,
        expires_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('+%.3f seconds', CAST(NEW.ttl_s AS REAL)))
    WHERE name = NEW.name AND holder = NEW.holder AND NOT {lease_lapsed of=lease.};
    UPDATE lease SET expiry_seen_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
    WHERE name = NEW.name AND holder <> NEW.holder AND expires_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
        AND (expiry_seen_at IS NULL OR expiry_seen_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now'));
    -- The clock was set back: no lease lasts longer than its ttl.
    UPDATE lease SET expires_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('+%.3f seconds', ttl_s))
    WHERE name = NEW.name AND expires_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('+%.3f seconds', ttl_s));
    DELETE FROM lease WHERE name = NEW.name AND {lease_lapsed of=lease.};
    INSERT INTO lease (name, holder, ttl_s, acquired_at, expires_at)
    SELECT NEW.name, NEW.holder, CAST(NEW.ttl_s AS REAL), strftime('%Y-%m-%dT%H:%M:%fZ', 'now'),
        strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('+%.3f seconds', CAST(NEW.ttl_s AS REAL)))
    WHERE NOT EXISTS (SELECT 1 FROM lease WHERE name = NEW.name);
END;
