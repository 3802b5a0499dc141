-- The application's tables. The file works on PostgreSQL and SQLite.

CREATE TABLE IF NOT EXISTS zone (
    name    text PRIMARY KEY,
    network text NOT NULL,
    room    integer NOT NULL,           -- capacity in units
    used    integer NOT NULL DEFAULT 0, -- units taken by services
    CHECK (used BETWEEN 0 AND room)
);

CREATE TABLE IF NOT EXISTS service (
    name    text PRIMARY KEY,
    number  integer NOT NULL,
    size    integer NOT NULL, -- units that it needs
    zone    text NOT NULL REFERENCES zone,
    address text NOT NULL
);

-- The new zone of each service, and its zone and address when the plan was made.
CREATE TABLE IF NOT EXISTS plan (
    service text PRIMARY KEY REFERENCES service,
    to_zone text NOT NULL REFERENCES zone,
    zone    text NOT NULL,
    address text NOT NULL
);

-- Each batch of moves, and the notifications of its end.
CREATE TABLE IF NOT EXISTS relocation (
    batch   bigint PRIMARY KEY,
    to_zone text NOT NULL,
    notified    integer NOT NULL DEFAULT 0, -- number of notifications
    report  text
);

-- Every effect of a task, in order.
CREATE TABLE IF NOT EXISTS journal (
    n       integer PRIMARY KEY,
    task    bigint NOT NULL,
    fence   bigint NOT NULL,
    phase   text NOT NULL, -- run or rollback
    service text NOT NULL,
    zone    text NOT NULL  -- its zone after the effect
);

-- 200 services, all in the first zone, at addresses that cannot be derived from anything else. One of them is large: it fits into
-- the second zone only while that is half empty.
INSERT INTO zone (name, network, room) VALUES ('az1', '10.1.0.', 300), ('az2', '10.2.0.', 210) ON CONFLICT DO NOTHING;

INSERT INTO service (name, number, size, zone, address)
WITH RECURSIVE numbers (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i < 200)
SELECT 'svc-' || substr(CAST(1000 + i AS text), 2), i, CASE i WHEN 160 THEN 100 ELSE 1 END, 'az1',
       '10.1.' || (i * 37 % 251) || '.' || (i * 91 % 241)
FROM numbers WHERE NOT EXISTS (SELECT 1 FROM service)
ON CONFLICT DO NOTHING;

UPDATE zone SET used = (SELECT coalesce(sum(size), 0) FROM service WHERE service.zone = zone.name)
WHERE NOT EXISTS (SELECT 1 FROM zone WHERE used > 0);
