-- What a queue of this kind needs at the least on SQLite, in the form that Leasehold's tables have. It does not change
-- with the product.
CREATE TABLE task (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    type        TEXT NOT NULL,
    state       TEXT NOT NULL DEFAULT 'pending',
    priority    INTEGER NOT NULL DEFAULT 0,
    region      TEXT,
    key         TEXT,
    run_at      TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    payload     TEXT NOT NULL DEFAULT '{}',
    created_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    attempt     INTEGER NOT NULL DEFAULT 0,
    fence       INTEGER NOT NULL DEFAULT 0,
    session     INTEGER,
    claim       INTEGER,
    lease_until TEXT,
    claimed_at  TEXT
) STRICT;
CREATE INDEX task_due ON task (type, ifnull(region, ''), priority DESC, run_at, id, state) WHERE state = 'pending';
CREATE INDEX task_running ON task (session) WHERE state = 'running';
CREATE UNIQUE INDEX task_key ON task (type, key) WHERE key IS NOT NULL;

CREATE TABLE archive (
    id          INTEGER PRIMARY KEY,
    type        TEXT NOT NULL,
    state       TEXT NOT NULL,
    priority    INTEGER NOT NULL,
    region      TEXT,
    key         TEXT,
    run_at      TEXT NOT NULL,
    payload     TEXT NOT NULL,
    created_at  TEXT NOT NULL,
    attempt     INTEGER NOT NULL,
    fence       INTEGER NOT NULL,
    session     INTEGER,
    claim       INTEGER,
    lease_until TEXT,
    claimed_at  TEXT,
    started_at  TEXT,
    finished_at TEXT NOT NULL
) STRICT;
CREATE INDEX archive_finished ON archive (finished_at);
CREATE INDEX archive_type ON archive (type);
