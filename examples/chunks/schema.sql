-- The application's tables. The file works on PostgreSQL and SQLite.

CREATE TABLE IF NOT EXISTS event (
    id     integer PRIMARY KEY,         -- with gaps
    status integer NOT NULL DEFAULT 0,  -- 1: processed
    times  integer NOT NULL DEFAULT 0   -- how often it was marked as processed
);

-- One row for each request that marked events, written in the same transaction.
CREATE TABLE IF NOT EXISTS journal (
    task    bigint NOT NULL,
    attempt integer NOT NULL,
    events  integer NOT NULL -- that it marked
);
