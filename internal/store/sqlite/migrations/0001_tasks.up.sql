-- Times are UTC text with milliseconds, 2026-11-20T08:00:00.123Z, so that the order of the text is the order of time.
-- A constraint's name is the message that people see when they run into it. ('+0 days' makes strftime compute the date
-- anew, or it would hand back the 30th of February as it came.)

-- Live tasks only. Applications insert type, payload, run_at, priority, region, key, max_attempts, labels, traceparent
-- and created_by; the other columns belong to the agents.
CREATE TABLE task (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    type         TEXT NOT NULL
                 CONSTRAINT "type must not be empty" CHECK (type <> '')
                 CONSTRAINT "type must be 255 bytes at most" CHECK (length(CAST(type AS BLOB)) <= 255),
    state        TEXT NOT NULL DEFAULT 'pending'
                 CONSTRAINT "state must be that of a live task" CHECK (state IN
                     ('pending', 'running', 'retry_pending', 'rollback_pending', 'rollback_running')),
    priority     INTEGER NOT NULL DEFAULT 0
                 CONSTRAINT "priority must be between -10 and 10" CHECK (priority BETWEEN -10 AND 10),
    region       TEXT
                 CONSTRAINT "region must be 255 bytes at most" CHECK (length(CAST(region AS BLOB)) <= 255),
    key          TEXT
                 CONSTRAINT "key must not be empty: leave it out instead" CHECK (key <> '')
                 CONSTRAINT "key must be 1 KiB at most" CHECK (length(CAST(key AS BLOB)) <= 1024),
    run_at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
                 CONSTRAINT "run_at must be UTC text like 2026-11-20T08:00:00.123Z" CHECK (
                     run_at GLOB '????-??-??T??:??:??.???Z'
                     AND strftime('%Y-%m-%dT%H:%M:%fZ', run_at, '+0 days') IS run_at),
    payload      TEXT NOT NULL DEFAULT '{}'
                 CONSTRAINT "payload must be JSON" CHECK (json_valid(payload)),
    labels       TEXT
                 CONSTRAINT "labels must be a JSON object of strings" CHECK (
                     CASE WHEN json_valid(labels) THEN json_type(labels) = 'object' ELSE labels IS NULL END)
                 CONSTRAINT "labels must be 4 KiB at most" CHECK (length(CAST(labels AS BLOB)) <= 4096),
    traceparent  TEXT
                 CONSTRAINT "traceparent must be 512 bytes at most" CHECK (length(CAST(traceparent AS BLOB)) <= 512),
    created_by   TEXT
                 CONSTRAINT "created_by must be 512 bytes at most" CHECK (length(CAST(created_by AS BLOB)) <= 512),
    max_attempts INTEGER
                 CONSTRAINT "max_attempts must be between 1 and 1000" CHECK (max_attempts BETWEEN 1 AND 1000),
    created_at   TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
                 CONSTRAINT "created_at must be UTC text like 2026-11-20T08:00:00.123Z" CHECK (
                     created_at GLOB '????-??-??T??:??:??.???Z'
                     AND strftime('%Y-%m-%dT%H:%M:%fZ', created_at, '+0 days') IS created_at),

    attempt      INTEGER NOT NULL DEFAULT 0,
    deferrals   INTEGER NOT NULL DEFAULT 0,
    ever_started      INTEGER NOT NULL DEFAULT 0,
    fence        INTEGER NOT NULL DEFAULT 0,
    session      INTEGER,
    claim        INTEGER,
    policy       INTEGER,
    lease_until  TEXT,
    claimed_at   TEXT,
    deadline     TEXT,
    outcome      TEXT,
    error        TEXT,
    result       TEXT
) STRICT;

-- What is set for the whole store.
CREATE TABLE setting (
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    max_payload INTEGER NOT NULL -- bytes of a payload, and of a rollback payload, when it is inserted
) STRICT;
INSERT INTO setting (id, max_payload) VALUES (1, 1048576);

-- A claim walks one (type, region, priority) of these in order. With the state at the end neither looking for what is
-- due nor counting reads the rows themselves.
CREATE INDEX task_due ON task (type, ifnull(region, ''), priority DESC, run_at, id, state)
    WHERE state IN ('pending', 'retry_pending');
CREATE INDEX task_undo ON task (type, ifnull(region, ''), priority DESC, run_at, id, state)
    WHERE state = 'rollback_pending';
-- lease_until is in no index: a renewal touches nothing but its row.
CREATE INDEX task_running ON task (session)
    WHERE state IN ('running', 'rollback_running');
CREATE UNIQUE INDEX task_key ON task (type, key) WHERE key IS NOT NULL;

-- Finished tasks: the row as it was, and how it ended.
CREATE TABLE task_archive (
    id           INTEGER PRIMARY KEY,
    type         TEXT NOT NULL,
    state        TEXT NOT NULL
                 CONSTRAINT "state must be that of a finished task" CHECK (state IN
                     ('succeeded', 'failed', 'cancelled', 'rolled_back', 'rollback_failed')),
    priority     INTEGER NOT NULL,
    region       TEXT,
    key          TEXT,
    run_at       TEXT NOT NULL,
    payload      TEXT NOT NULL,
    labels       TEXT,
    traceparent  TEXT,
    created_by   TEXT,
    max_attempts INTEGER,
    created_at   TEXT NOT NULL,
    attempt      INTEGER NOT NULL,
    deferrals   INTEGER NOT NULL,
    ever_started      INTEGER NOT NULL,
    fence        INTEGER NOT NULL,
    session      INTEGER,
    claim        INTEGER,
    policy       INTEGER,
    lease_until  TEXT,
    claimed_at   TEXT,
    deadline     TEXT,
    outcome      TEXT,
    error        TEXT,
    result       TEXT,
    output       TEXT,
    started_at   TEXT,
    finished_at  TEXT NOT NULL
) STRICT;

CREATE INDEX task_archive_finished ON task_archive (finished_at);
CREATE INDEX task_archive_type ON task_archive (type);
CREATE INDEX task_archive_key ON task_archive (key) WHERE key IS NOT NULL;
-- Nearly every row succeeds: to find the others costs only them an index entry.
CREATE INDEX task_archive_unwell ON task_archive (id) WHERE state <> 'succeeded';

-- The history: one row for each hold that was settled, but for tasks that were done at first try.
CREATE TABLE attempt (
    task_id    INTEGER NOT NULL,
    fence      INTEGER NOT NULL, -- that the settlement carried
    ran_fence  INTEGER NOT NULL, -- that the task was given
    session    INTEGER NOT NULL,
    phase      TEXT NOT NULL,
    attempt    INTEGER NOT NULL,
    outcome    TEXT NOT NULL,
    error      TEXT,
    output     TEXT,
    result     TEXT,
    state      TEXT NOT NULL,    -- what the task became
    started_at TEXT,
    ended_at   TEXT NOT NULL,
    PRIMARY KEY (task_id, fence)
) STRICT;

-- Sessions: one row for each start of an agent.
CREATE TABLE agent (
    session       INTEGER PRIMARY KEY AUTOINCREMENT,
    name          TEXT NOT NULL,
    region        TEXT,
    version       TEXT NOT NULL,
    config        TEXT NOT NULL,
    workers       INTEGER NOT NULL,
    types         TEXT NOT NULL, -- JSON list
    started_at    TEXT NOT NULL,
    seen_at       TEXT NOT NULL,
    present_until TEXT NOT NULL,
    draining      INTEGER NOT NULL DEFAULT 0,
    running       INTEGER NOT NULL DEFAULT 0,
    done          INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE policy (
    hash INTEGER PRIMARY KEY,
    type TEXT NOT NULL,
    body TEXT NOT NULL
) STRICT;

-- Rises when rows that stood in the table already become due at once, so that idle agents look. Inserts need no sign:
-- AUTOINCREMENT keeps the highest id in sqlite_sequence.
CREATE TABLE sign (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    n  INTEGER NOT NULL
) STRICT;
INSERT INTO sign (id, n) VALUES (1, 0);

-- A CHECK may not look into a list, a trigger may.
CREATE TRIGGER task_labels AFTER INSERT ON task WHEN NEW.labels IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'labels must be a JSON object of strings')
    WHERE EXISTS (SELECT 1 FROM json_each(NEW.labels) AS label WHERE label.type <> 'text');
END;

-- An id given by hand may be that of a finished task, and then the two could never stand in the archive together.
CREATE TRIGGER task_id AFTER INSERT ON task WHEN EXISTS (SELECT 1 FROM task_archive WHERE id = NEW.id)
BEGIN
    SELECT RAISE(ABORT, 'id belongs to a finished task: leave it out, the table gives one');
END;

CREATE VIEW tasks AS
    SELECT id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
           created_at, attempt, deferrals, ever_started, fence, session, claim, policy, lease_until, claimed_at, deadline,
           outcome, error, result, NULL AS output, NULL AS started_at, NULL AS finished_at
    FROM task
    UNION ALL
    SELECT id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
           created_at, attempt, deferrals, ever_started, fence, session, claim, policy, lease_until, claimed_at, deadline,
           outcome, error, result, output, started_at, finished_at
    FROM task_archive;

-- INSERT INTO enqueue (type, payload, key, …) does nothing where a live task has the key; the id, new or live, is then
-- SELECT id FROM enqueue WHERE type = … AND key = ….
CREATE VIEW enqueue AS
    SELECT id, type, payload, run_at, priority, key, region, max_attempts, labels, traceparent, created_by FROM task;

CREATE TRIGGER enqueue_insert INSTEAD OF INSERT ON enqueue
BEGIN
    INSERT INTO task (type, payload, run_at, priority, key, region, max_attempts, labels, traceparent, created_by)
    VALUES (NEW.type, ifnull(NEW.payload, '{}'), ifnull(NEW.run_at, strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
            ifnull(NEW.priority, 0), NEW.key, NEW.region, NEW.max_attempts, NEW.labels, NEW.traceparent, NEW.created_by)
    ON CONFLICT (type, key) WHERE key IS NOT NULL DO NOTHING;
END;
