BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS schema_version (
    version    INTEGER PRIMARY KEY,
    name       TEXT NOT NULL,
    applied_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    oldest     INTEGER NOT NULL
               CONSTRAINT "oldest must be between 1 and the version" CHECK (oldest BETWEEN 1 AND version)
) STRICT;

-- schema
-- The tables of a store as they are. functions/ has the views that applications and agents call like functions, and
-- task_bounds.sql the one trigger whose text depends on a setting.
--
-- Times are UTC text with milliseconds, 2026-11-20T08:00:00.123Z: the order of the text is the order of time. The name of a
-- constraint is the message that a user sees who violates it.
--
-- Applications bring their own SQLite, and one that cannot parse a single trigger can read nothing in the file. So all of this
-- keeps to what SQLite 3.37 knows, and messages are constants (RAISE takes no other before 3.47). SELECT RAISE … WHERE raises
-- where the condition is true.

-- Settings of the whole store.
CREATE TABLE setting (
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    max_payload INTEGER NOT NULL -- bytes of a payload, and of a rollback payload, when it is inserted
) STRICT;
INSERT INTO setting (id, max_payload) VALUES (1, 1048576);

-- The key that signs ping URLs.
CREATE TABLE secret (
    id  INTEGER PRIMARY KEY CHECK (id = 1),
    key BLOB NOT NULL
) STRICT;
INSERT INTO secret (id, key) VALUES (1, randomblob(32));

-- Counters that idle agents watch. An insert needs none: AUTOINCREMENT keeps the highest id in sqlite_sequence.
CREATE TABLE wakeup (
    id     INTEGER PRIMARY KEY CHECK (id = 1),
    due    INTEGER NOT NULL DEFAULT 0, -- rises when existing rows become due at once
    after  INTEGER NOT NULL DEFAULT 0, -- rises when a row comes that waits for others
    cancel INTEGER NOT NULL DEFAULT 0  -- rises when running tasks are to be cancelled, and when a batch or an operation needs an agent
) STRICT;
INSERT INTO wakeup (id) VALUES (1);

-- A CHECK on hot rows compares a column with each value: for an IN with more than two, SQLite fills a table of them for each row.
--
-- Live tasks. Applications insert type, payload, run_at, priority, region, key, max_attempts, labels, traceparent,
-- created_by, batch_id, rollback_payload, lock, sequence, after and after_if; agents write the other columns. ('+0 days' makes strftime compute the date
-- anew: without it, it would return the 30th of February unchanged.)
CREATE TABLE task (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    type             TEXT NOT NULL
                     CONSTRAINT "type must not be empty" CHECK (type <> '')
                     CONSTRAINT "type must be 255 bytes at most" CHECK (length(CAST(type AS BLOB)) <= 255),
    state            TEXT NOT NULL DEFAULT 'pending'
                     CONSTRAINT "state must be that of a live task" CHECK (
                         state = 'pending' OR state = 'running' OR state = 'retry_pending' OR state = 'rollback_pending'
                         OR state = 'rollback_running'),
    priority         INTEGER NOT NULL DEFAULT 0
                     CONSTRAINT "priority must be between -10 and 10" CHECK (priority BETWEEN -10 AND 10),
    region           TEXT                        -- whose agents claim it; NULL: all do
                     CONSTRAINT "region must be 255 bytes at most" CHECK (length(CAST(region AS BLOB)) <= 255),
    key              TEXT
                     CONSTRAINT "key must not be empty: leave it out instead" CHECK (key <> '')
                     CONSTRAINT "key must be 1 KiB at most" CHECK (length(CAST(key AS BLOB)) <= 1024),
    run_at           TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
                     CONSTRAINT "run_at must be UTC text like 2026-11-20T08:00:00.123Z" CHECK (
                         run_at GLOB '????-??-??T??:??:??.???Z'
                         AND strftime('%Y-%m-%dT%H:%M:%fZ', run_at, '+0 days') IS run_at),
    payload          TEXT NOT NULL DEFAULT '{}'
                     CONSTRAINT "payload must be JSON" CHECK (json_valid(payload)),
    labels           TEXT
                     CONSTRAINT "labels must be a JSON object of strings" CHECK (
                         CASE WHEN json_valid(labels) THEN json_type(labels) = 'object' ELSE labels IS NULL END)
                     CONSTRAINT "labels must be 4 KiB at most" CHECK (length(CAST(labels AS BLOB)) <= 4096),
    traceparent      TEXT
                     CONSTRAINT "traceparent must be 512 bytes at most" CHECK (length(CAST(traceparent AS BLOB)) <= 512),
    created_by       TEXT
                     CONSTRAINT "created_by must be 512 bytes at most" CHECK (length(CAST(created_by AS BLOB)) <= 512),
    max_attempts     INTEGER
                     CONSTRAINT "max_attempts must be between 1 and 1000" CHECK (max_attempts BETWEEN 1 AND 1000),
    created_at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
                     CONSTRAINT "created_at must be UTC text like 2026-11-20T08:00:00.123Z" CHECK (
                         created_at GLOB '????-??-??T??:??:??.???Z'
                         AND strftime('%Y-%m-%dT%H:%M:%fZ', created_at, '+0 days') IS created_at),

    attempt          INTEGER NOT NULL DEFAULT 0, -- attempts that count
    deferrals        INTEGER NOT NULL DEFAULT 0, -- consecutive ones
    ever_started     INTEGER NOT NULL DEFAULT 0,
    fence            INTEGER NOT NULL DEFAULT 0, -- rises on each claim and each release
    session          INTEGER,                    -- that holds the row, or held it last
    claim            INTEGER,                    -- number of the claim within the session; 0: a reaper holds the row
    policy           INTEGER,                    -- hash of the policy that the attempt began with
    lease_until      TEXT,
    claimed_at       TEXT,
    deadline         TEXT,
    outcome          TEXT,                       -- of the last attempt
    error            TEXT,
    result           TEXT,                       -- JSON

    -- What a task reports while it runs, and whether it is to be cancelled. NULL for most rows.
    checkpoint       TEXT,                       -- JSON, for the next attempt
    progress         TEXT,                       -- JSON: a number from 0 to 1, an object of done and total, or a string
    message          TEXT,
    cancel_requested_at TEXT,                       -- when cancellation of a running task was requested
    cancel_requested_by TEXT,
    detached         INTEGER,                    -- 1: the lease depends on its window only, not on the session
    ping_due         TEXT,                       -- after a ping from outside the session: when the next one is due
    marks            TEXT,                       -- JSON, of a type that requires progress: the best reports of the attempt with its fence

    batch_id         INTEGER,
    -- json_valid of NULL is 0 before SQLite 3.42, and NULL since.
    rollback_payload TEXT
                     CONSTRAINT "rollback_payload must be JSON" CHECK (rollback_payload IS NULL OR json_valid(rollback_payload)),
    cause            TEXT,                       -- of a rollback: how the run had ended
    round            INTEGER NOT NULL DEFAULT 0, -- retries by operators
    limited          TEXT,                       -- of a running row: name of the limit that its claim obeyed; NULL: there was none
    lock             TEXT                        -- rows with the same one never run at once
                     CONSTRAINT "lock must not be empty: leave it out instead" CHECK (lock <> '')
                     CONSTRAINT "lock must be 1 KiB at most" CHECK (length(CAST(lock AS BLOB)) <= 1024),
    sequence         TEXT                        -- rows of the type with the same one run one after another
                     CONSTRAINT "sequence must not be empty: leave it out instead" CHECK (sequence <> '')
                     CONSTRAINT "sequence must be 1 KiB at most" CHECK (length(CAST(sequence AS BLOB)) <= 1024),
    tenant           TEXT                        -- rows of a type take turns by it
                     CONSTRAINT "tenant must not be empty: leave it out instead" CHECK (tenant <> '')
                     CONSTRAINT "tenant must be 1 KiB at most" CHECK (length(CAST(tenant AS BLOB)) <= 1024),
    held             TEXT,                       -- what it waits for, so that no claim looks at it: 'lock', 'sequence', 'after'; NULL: nothing, as far as is known
    after            TEXT,                       -- JSON: ids of tasks that have to end before it starts (task_waits checks them)
    after_if         TEXT                        -- how these have to end; NULL: succeeded
                     CONSTRAINT "after_if must be succeeded or any" CHECK (after_if = 'succeeded' OR after_if = 'any'),
    awaited          INTEGER,                    -- 1: others wait for its end, which leaves a note (ended_note)
    failed_task      INTEGER,                    -- for which it was inserted (on_failed); its own id: its own failure has its row; NULL: neither
    ran_session      INTEGER,                    -- of a row that is being reaped: the session that its attempt ran in
    first_due        TEXT,                       -- of a row of a region that is retried: when it was due before; NULL: run_at
    spilled_from     TEXT                        -- the region that it was of until it had waited too long for that (spill_after)
) STRICT;

-- A claim reads one (type, region, priority) of these in order. With what the condition names in the last columns, neither finding
-- due rows nor counting them reads the rows themselves.
CREATE INDEX task_due ON task (type, ifnull(region, ''), priority DESC, run_at, id, state, held, tenant)
    WHERE state IN ('pending', 'retry_pending') AND held IS NULL AND tenant IS NULL;
CREATE INDEX task_rollback ON task (type, ifnull(region, ''), priority DESC, run_at, id, state, held, tenant)
    WHERE state = 'rollback_pending' AND held IS NULL AND tenant IS NULL;
-- Rows with a tenant: a claim reads one (type, region, tenant, priority) of these in order, and finds tenants one after another.
CREATE INDEX task_tenant ON task (type, ifnull(region, ''), tenant, priority DESC, run_at, id, state, held)
    WHERE state IN ('pending', 'retry_pending') AND held IS NULL AND tenant IS NOT NULL;
CREATE INDEX task_tenant_rollback ON task (type, ifnull(region, ''), tenant, priority DESC, run_at, id, state, held)
    WHERE state = 'rollback_pending' AND held IS NULL AND tenant IS NOT NULL;
-- Rows that wait for their lock, by class: a claim may want one class of them and not another. A promotion takes the first of each.
CREATE INDEX task_held ON task (lock, type, ifnull(region, ''), (state = 'rollback_pending'), priority DESC, run_at, id)
    WHERE held = 'lock';
-- Rows of regions, by how long they have waited: agents of other regions may take what has waited too long.
CREATE INDEX task_spill ON task (type, region, ifnull(first_due, run_at), id, state, held)
    WHERE region IS NOT NULL AND held IS NULL AND state IN ('pending', 'retry_pending', 'rollback_pending');
-- Rows with a sequence, in its order; those that are to be rolled back go first, the last one before the others.
CREATE INDEX task_sequence ON task (type, sequence, id) WHERE sequence IS NOT NULL;
CREATE INDEX task_sequence_rollback ON task (type, sequence, id) WHERE sequence IS NOT NULL AND state = 'rollback_pending';
CREATE INDEX task_turns ON task (type) WHERE held = 'sequence';
-- Rows that wait for others, which are counted.
CREATE INDEX task_after ON task (type, state, held) WHERE held = 'after';
-- No index has lease_until: a renewal changes the row and nothing else.
CREATE INDEX task_running ON task (session)
    WHERE state IN ('running', 'rollback_running');
-- What runs of types with a limit, and of each tenant of these: claims of them count it.
CREATE INDEX task_limited ON task (limited, tenant, state)
    WHERE limited IS NOT NULL AND state IN ('running', 'rollback_running');
CREATE UNIQUE INDEX task_key ON task (type, key) WHERE key IS NOT NULL;
CREATE INDEX task_batch ON task (batch_id, state) WHERE batch_id IS NOT NULL;

-- A CHECK may not read the elements of a list, a trigger may.
CREATE TRIGGER task_labels AFTER INSERT ON task WHEN NEW.labels IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'labels must be a JSON object of strings')
    WHERE EXISTS (SELECT 1 FROM json_each(NEW.labels) AS label WHERE label.type <> 'text');
END;

-- An explicit id may be that of a finished task, and then the two could not both be archived. A row with a fence is revived
-- from the archive, by a statement that deletes it there next.
CREATE TRIGGER task_id AFTER INSERT ON task WHEN NEW.fence = 0 AND EXISTS (SELECT 1 FROM task_archive WHERE id = NEW.id)
BEGIN
    SELECT RAISE(ABORT, 'id belongs to a finished task: leave it out, the table gives one');
END;

-- A row joins its batch, if that accepts more rows. Later changes are counted by the statements that make them, many rows
-- at once: a trigger for them would also cost rows without a batch.
CREATE TRIGGER task_joins_batch AFTER INSERT ON task WHEN NEW.batch_id IS NOT NULL AND NEW.fence = 0
BEGIN
    UPDATE batch SET total = total + 1
    WHERE id = NEW.batch_id AND (NOT sealed OR NOT seen) AND NOT stopping AND ended_at IS NULL;
    SELECT CASE
        WHEN NOT EXISTS (SELECT 1 FROM batch WHERE id = NEW.batch_id)
            THEN RAISE(ABORT, 'there is no batch with this batch_id')
        WHEN EXISTS (SELECT 1 FROM batch WHERE id = NEW.batch_id AND stopping AND requested = 'rollback')
            THEN RAISE(ABORT, 'the batch was rolled back: create another')
        WHEN EXISTS (SELECT 1 FROM batch WHERE id = NEW.batch_id AND stopping)
            THEN RAISE(ABORT, 'the batch was cancelled: create another')
        ELSE RAISE(ABORT, 'the batch is sealed: insert its rows in the transaction that creates it, or create it with sealed = false')
    END
    WHERE changes() = 0;
END;

-- A row that names others (after) waits for them. It can only name rows that were there before it, so there are no cycles. A revived
-- row (fence > 0) was checked when it first came.
CREATE TRIGGER task_waits AFTER INSERT ON task WHEN NEW.after IS NOT NULL AND (NEW.fence = 0 OR NEW.held = 'after')
BEGIN
    SELECT RAISE(ABORT, 'after must be a JSON array of ids')
    WHERE NOT CASE WHEN json_valid(NEW.after) THEN json_type(NEW.after) = 'array' ELSE 0 END
       OR EXISTS (SELECT 1 FROM json_each(NEW.after) AS a WHERE a.type <> 'integer');
    SELECT RAISE(ABORT, 'after must have 100000 ids at most: put a task between that waits for a part of them')
    WHERE json_array_length(NEW.after) > 100000;
    SELECT RAISE(ABORT, 'after names a task that does not exist: insert it first, in this transaction or one that has committed')
    WHERE NEW.fence = 0 AND EXISTS (SELECT 1 FROM json_each(NEW.after) AS a
        WHERE a.value >= NEW.id OR NOT EXISTS (SELECT 1 FROM task WHERE id = a.value)
            AND NOT EXISTS (SELECT 1 FROM task_archive WHERE id = a.value) AND NOT EXISTS (SELECT 1 FROM follow WHERE id = a.value));

    UPDATE task SET awaited = 1 WHERE id IN (SELECT value FROM json_each(NEW.after)) AND awaited IS NULL;
    UPDATE follow SET awaited = 1 WHERE id IN (SELECT value FROM json_each(NEW.after)) AND awaited IS NULL;
    INSERT INTO dependency (on_id, task_id, ended)
    SELECT DISTINCT a.value, NEW.id, NOT EXISTS (SELECT 1 FROM task WHERE id = a.value) AND NOT EXISTS (SELECT 1 FROM follow WHERE id = a.value)
    FROM json_each(NEW.after) AS a;
    INSERT INTO dependent (task_id, unfinished)
    SELECT NEW.id, (SELECT count(*) FROM dependency WHERE task_id = NEW.id AND NOT ended) WHERE json_array_length(NEW.after) > 0;
    UPDATE task SET held = 'after' WHERE id = NEW.id AND json_array_length(NEW.after) > 0;
    UPDATE wakeup SET after = after + 1;
END;

-- task_bounds bounds what is inserted. No UPDATE of an agent names these columns.
CREATE TRIGGER task_bounds_kept AFTER UPDATE OF id, payload, rollback_payload ON task
WHEN NEW.id <> OLD.id OR length(CAST(NEW.payload AS BLOB)) > 67108864 OR length(CAST(NEW.rollback_payload AS BLOB)) > 67108864
BEGIN
    SELECT RAISE(ABORT, 'id, and payloads beyond 64 MiB, cannot be set by an update');
END;

-- Followers: rows that wait until the live task of their type and key has ended for good, one for each. They become tasks then
-- (insert_follower). Their values were checked by task, into which each was inserted first (enqueue).
CREATE TABLE follow (
    id               INTEGER PRIMARY KEY, -- that the task gets
    type             TEXT NOT NULL,
    key              TEXT NOT NULL,
    priority         INTEGER NOT NULL,
    region           TEXT,
    run_at           TEXT NOT NULL,
    payload          TEXT NOT NULL,
    labels           TEXT,
    traceparent      TEXT,
    created_by       TEXT,
    max_attempts     INTEGER,
    created_at       TEXT NOT NULL,
    rollback_payload TEXT,
    lock             TEXT,
    sequence         TEXT,
    awaited          INTEGER,
    tenant           TEXT
) STRICT;
CREATE UNIQUE INDEX follow_key ON follow (type, key);

-- What the last INSERT INTO enqueue with on_live or debounce_s did, for the transaction that it was in.
CREATE TABLE enqueued (
    one     INTEGER PRIMARY KEY CHECK (one = 1),
    task_id INTEGER,
    answer  TEXT
) STRICT;
INSERT INTO enqueued (one) VALUES (1);

-- Finished tasks: the row as it was, and how it ended.
CREATE TABLE task_archive (
    id               INTEGER PRIMARY KEY,
    type             TEXT NOT NULL,
    state            TEXT NOT NULL
                     CONSTRAINT "state must be that of a finished task" CHECK (
                         state = 'succeeded' OR state = 'failed' OR state = 'cancelled' OR state = 'split' OR state = 'rolled_back'
                         OR state = 'rollback_failed'),
    priority         INTEGER NOT NULL,
    region           TEXT,
    key              TEXT,
    run_at           TEXT NOT NULL,
    payload          TEXT NOT NULL,
    labels           TEXT,
    traceparent      TEXT,
    created_by       TEXT,
    max_attempts     INTEGER,
    created_at       TEXT NOT NULL,
    attempt          INTEGER NOT NULL,
    deferrals        INTEGER NOT NULL,
    ever_started     INTEGER NOT NULL,
    fence            INTEGER NOT NULL,
    session          INTEGER,
    claim            INTEGER,
    policy           INTEGER,
    lease_until      TEXT, -- NULL unless the attempt may have gone on until then
    claimed_at       TEXT,
    deadline         TEXT,
    outcome          TEXT,
    error            TEXT,
    result           TEXT,
    output           TEXT,
    started_at       TEXT,
    finished_at      TEXT NOT NULL,
    checkpoint       TEXT,
    progress         TEXT,
    message          TEXT,
    cancel_requested_at TEXT,
    cancel_requested_by TEXT,
    batch_id         INTEGER,
    rollback_payload TEXT,
    cause            TEXT,
    round            INTEGER NOT NULL DEFAULT 0,
    lock             TEXT,
    sequence         TEXT,
    after            TEXT,
    after_if         TEXT,
    cancelled_for    INTEGER, -- the task on account of which it was cancelled, as that did not succeed
    tenant           TEXT,
    failed_task      INTEGER
) STRICT;

CREATE INDEX task_archive_finished ON task_archive (finished_at);
CREATE INDEX task_archive_type ON task_archive (type);
CREATE INDEX task_archive_key ON task_archive (key) WHERE key IS NOT NULL;
-- Nearly all rows succeed: only the others pay for the index that finds them.
CREATE INDEX task_archive_unsuccessful ON task_archive (id) WHERE state <> 'succeeded';
CREATE INDEX task_archive_rollback_failed ON task_archive (id) WHERE state = 'rollback_failed';
-- Rows that were cancelled on account of another, which a retry of that one revives, too.
CREATE INDEX task_archive_cancelled_for ON task_archive (cancelled_for, id) WHERE cancelled_for IS NOT NULL;
CREATE INDEX task_archive_batch ON task_archive (batch_id) WHERE batch_id IS NOT NULL;
CREATE INDEX task_archive_batch_unsuccessful ON task_archive (batch_id) WHERE batch_id IS NOT NULL AND state <> 'succeeded';
-- The order in which a batch is rolled back: newest started first.
CREATE INDEX task_archive_started ON task_archive (batch_id, ifnull(started_at, '') DESC, id) WHERE batch_id IS NOT NULL;

-- Rows that wait for others (after), and for which. A row and what it waits for stay here until it is freed or ends.
CREATE TABLE dependent (
    task_id    INTEGER PRIMARY KEY,
    unfinished INTEGER NOT NULL -- how many of its rows in dependency have not ended
) STRICT;
CREATE INDEX dependent_ready ON dependent (task_id) WHERE unfinished = 0;
CREATE TABLE dependency (
    on_id   INTEGER NOT NULL,
    task_id INTEGER NOT NULL,
    ended   INTEGER NOT NULL, -- counted down
    PRIMARY KEY (on_id, task_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX dependency_task ON dependency (task_id);
CREATE INDEX dependency_open ON dependency (on_id, task_id) WHERE NOT ended;

-- Rows that have ended for good and that others wait for.
CREATE TABLE ended_note (
    number INTEGER PRIMARY KEY,
    id     INTEGER NOT NULL
) STRICT;

-- Rows that were retried, and of which others have to be revived that were cancelled on account of them.
CREATE TABLE revived_note (
    number   INTEGER PRIMARY KEY,
    id       INTEGER NOT NULL,
    place    INTEGER NOT NULL DEFAULT 0, -- those with ids up to this one have been looked at
    batch_id INTEGER                     -- the row's batch, which does not end before they are back
) STRICT;
CREATE INDEX revived_note_batch ON revived_note (batch_id) WHERE batch_id IS NOT NULL;

-- The history: one row for each settled attempt. A success at the first try has none: its row in the archive says it all.
CREATE TABLE attempt (
    task_id     INTEGER NOT NULL,
    fence       INTEGER NOT NULL, -- that the settlement carried
    ran_fence   INTEGER NOT NULL, -- that the task was given
    session     INTEGER NOT NULL, -- that settled it
    ran_session INTEGER,          -- that it ran in, where another session reaped it; NULL: the one that settled it
    policy      INTEGER,          -- that it began with: policy.hash
    phase       TEXT NOT NULL,
    attempt     INTEGER NOT NULL,
    outcome     TEXT NOT NULL,
    error       TEXT,
    output      TEXT,
    result      TEXT,
    state       TEXT NOT NULL,    -- of the task afterwards
    started_at  TEXT,             -- of one that was reaped, when its row was claimed; NULL: it never started
    ended_at    TEXT NOT NULL,
    PRIMARY KEY (task_id, fence)
) STRICT;

-- Groups of tasks that complete as a unit. Applications insert name, on_failure, finish_type, finish_payload, labels,
-- created_by and sealed; agents write the other columns. The counters are exact in every transaction: SQLite has one
-- writer, so nothing waits for the row.
CREATE TABLE batch (
    id              INTEGER PRIMARY KEY AUTOINCREMENT,
    name            TEXT NOT NULL DEFAULT ''
                    CONSTRAINT "name must be 255 bytes at most" CHECK (length(CAST(name AS BLOB)) <= 255),
    on_failure      TEXT NOT NULL DEFAULT 'continue'
                    CONSTRAINT "on_failure must be continue, cancel or rollback" CHECK (on_failure IN ('continue', 'cancel', 'rollback')),
    finish_type     TEXT
                    CONSTRAINT "finish_type must not be empty: leave it out instead" CHECK (finish_type <> '')
                    CONSTRAINT "finish_type must be 255 bytes at most" CHECK (length(CAST(finish_type AS BLOB)) <= 255),
    finish_payload  TEXT NOT NULL DEFAULT '{}'
                    CONSTRAINT "finish_payload must be a JSON object" CHECK (
                        CASE WHEN json_valid(finish_payload) THEN json_type(finish_payload) = 'object' ELSE 0 END)
                    -- with what is added to it at the batch's end it is below the least bound on payloads
                    CONSTRAINT "finish_payload must be 64 KiB at most" CHECK (length(CAST(finish_payload AS BLOB)) <= 65536),
    labels          TEXT
                    CONSTRAINT "labels must be a JSON object of strings" CHECK (
                        CASE WHEN json_valid(labels) THEN json_type(labels) = 'object' ELSE labels IS NULL END)
                    CONSTRAINT "labels must be 4 KiB at most" CHECK (length(CAST(labels AS BLOB)) <= 4096),
    created_by      TEXT
                    CONSTRAINT "created_by must be 512 bytes at most" CHECK (length(CAST(created_by AS BLOB)) <= 512),
    sealed          INTEGER NOT NULL DEFAULT 1 -- accepts no more rows, except those inserted before an agent has seen it
                    CONSTRAINT "sealed must be true or false" CHECK (sealed IN (0, 1)),

    created_at      TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    seen            INTEGER NOT NULL DEFAULT 0, -- by an agent
    round           INTEGER NOT NULL DEFAULT 0, -- how often it was reopened
    ended_at        TEXT,
    stopping        INTEGER NOT NULL DEFAULT 0, -- none of its tasks is claimed, except for rollback
    requested       TEXT CHECK (requested IN ('cancel', 'rollback')), -- in this round
    requested_by    TEXT,
    by_failure      INTEGER NOT NULL DEFAULT 0, -- the request follows a failure
    failures_seen   INTEGER NOT NULL DEFAULT 0, -- of failures, those before the round or the request

    total           INTEGER NOT NULL DEFAULT 0,
    succeeded       INTEGER NOT NULL DEFAULT 0,
    failed          INTEGER NOT NULL DEFAULT 0,
    cancelled       INTEGER NOT NULL DEFAULT 0,
    rolling_back    INTEGER NOT NULL DEFAULT 0, -- rollback_pending or rollback_running
    rolled_back     INTEGER NOT NULL DEFAULT 0,
    rollback_failed INTEGER NOT NULL DEFAULT 0,
    failures        INTEGER NOT NULL DEFAULT 0, -- how often a task failed for good
    attempts        INTEGER NOT NULL DEFAULT 0, -- that have ended
    removed         INTEGER NOT NULL DEFAULT 0  -- expired rows; the counters above still include them
) STRICT;

CREATE INDEX batch_open ON batch (id) WHERE ended_at IS NULL;
CREATE INDEX batch_stopping ON batch (id) WHERE stopping = 1 AND ended_at IS NULL;
CREATE INDEX batch_ended ON batch (ended_at) WHERE ended_at IS NOT NULL;

CREATE TRIGGER batch_labels AFTER INSERT ON batch WHEN NEW.labels IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'labels must be a JSON object of strings')
    WHERE EXISTS (SELECT 1 FROM json_each(NEW.labels) AS label WHERE label.type <> 'text');
END;

-- Changes to a whole batch, or to one task that ran when they were requested. Agents carry them out in steps.
CREATE TABLE operation (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    verb         TEXT NOT NULL CHECK (verb IN ('cancel', 'retry', 'rollback')),
    batch_id     INTEGER,                    -- of a task too, where that belongs to one
    task_id      INTEGER,                    -- NULL: it is about the whole batch
    requested_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    requested_by TEXT,
    force        INTEGER NOT NULL DEFAULT 0,
    version      INTEGER NOT NULL DEFAULT 0, -- rises with each step: one that saw an older one is not applied
    stopped      INTEGER NOT NULL DEFAULT 0, -- everything has stopped; of a rollback, finished tasks come next
    missed       INTEGER NOT NULL DEFAULT 0, -- a task behind the cursor had changed: another pass is needed
    -- The cursor. A retry has handled the ids up to after_id. A rollback has handled what started after after_at and, of what
    -- started then, the ids up to after_id.
    after_at     TEXT,
    after_id     INTEGER,
    goal         INTEGER NOT NULL DEFAULT 0, -- of a rollback: tasks of the batch when it came to the finished ones
    taken        INTEGER NOT NULL DEFAULT 0, -- of a rollback: finished tasks that it has chosen
    done         INTEGER NOT NULL DEFAULT 0, -- tasks that it changed
    refused      INTEGER NOT NULL DEFAULT 0, -- tasks that it could not change
    superseded   INTEGER NOT NULL DEFAULT 0, -- another operation replaced it
    ended_at     TEXT
) STRICT;

CREATE INDEX operation_open ON operation (id) WHERE ended_at IS NULL;
CREATE INDEX operation_batch ON operation (batch_id, id) WHERE batch_id IS NOT NULL;
CREATE INDEX operation_task ON operation (task_id) WHERE task_id IS NOT NULL;

-- Changes of all tasks that match a filter. Agents look at tasks by rising ids, up to up_to, and move after_id in the transaction that
-- changes them. So each is changed once at most.
CREATE TABLE bulk_change (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    requested_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    ended_at     TEXT,
    again_until  TEXT,                        -- what had changed is looked at again until then
    from_id      INTEGER NOT NULL,            -- the tasks behind this one, up to up_to
    up_to        INTEGER NOT NULL,
    after_id     INTEGER NOT NULL,            -- the task that was looked at last
    version      INTEGER NOT NULL DEFAULT 0,  -- rises with each step: one that saw an older one is not applied
    looked       INTEGER NOT NULL DEFAULT 0,  -- tasks that were looked at
    done         INTEGER NOT NULL DEFAULT 0,  -- tasks that it changed
    refused      INTEGER NOT NULL DEFAULT 0,  -- tasks that match, and could not be changed
    skipped      INTEGER NOT NULL DEFAULT 0,  -- tasks that changed again and again
    again        TEXT NOT NULL DEFAULT '[]',  -- a JSON list of tasks that had changed: they are looked at again after the last one
    stopped      INTEGER NOT NULL DEFAULT 0,  -- an operator has stopped it
    verb         TEXT NOT NULL CHECK (verb IN ('cancel', 'retry', 'rollback')),
    filter       TEXT NOT NULL,
    requested_by TEXT,
    reason       TEXT
) STRICT;

CREATE INDEX bulk_change_open ON bulk_change (id) WHERE ended_at IS NULL;

-- The same with how far each is.
CREATE VIEW bulk_changes AS
    SELECT id, verb, filter, requested_at, requested_by, reason,
        CASE WHEN ended_at IS NULL THEN 'running' WHEN stopped THEN 'stopped' ELSE 'ended' END AS state,
        iif(ended_at IS NOT NULL AND NOT stopped OR up_to <= from_id, 1.0,
            CAST(after_id - from_id AS REAL) / (up_to - from_id)) AS progress,
        looked, done, refused, json_array_length(again) AS locked, skipped, from_id, up_to, after_id, ended_at
    FROM bulk_change;

-- Who changed what: one row for each request that changed something. requested_by is the name that the caller gave. role is
-- the database role of the session on PostgreSQL, and NULL here: SQLite has no roles, and does not know which process or user
-- has written.
CREATE TABLE audit (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    requested_by TEXT,
    role     TEXT,
    verb     TEXT NOT NULL,
    task_id  INTEGER,
    batch_id INTEGER,
    schedule TEXT,
    chunks   TEXT,
    agent    INTEGER,
    type     TEXT,
    reason   TEXT,
    answer   TEXT NOT NULL
) STRICT;
CREATE INDEX audit_task ON audit (task_id) WHERE task_id IS NOT NULL;
CREATE INDEX audit_batch ON audit (batch_id) WHERE batch_id IS NOT NULL;

-- Types that operators have paused: agents claim no rows of these. Each agent reads it more often than once a second.
CREATE TABLE type_pause (
    type      TEXT PRIMARY KEY CONSTRAINT "type must have 1 to 255 bytes" CHECK (length(CAST(type AS BLOB)) BETWEEN 1 AND 255),
    paused_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    paused_by TEXT,
    reason    TEXT
) STRICT, WITHOUT ROWID;

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
    done          INTEGER NOT NULL DEFAULT 0,
    minute        INTEGER NOT NULL DEFAULT 0, -- of these, those of the last minute
    ordered       TEXT,                       -- what an operator wants of it: 'cordon' or 'drain'
    ordered_by    TEXT,
    redact        TEXT NOT NULL DEFAULT '{}', -- a JSON object: names of the members that are masked, by row type
    condition     TEXT,                       -- store.Condition as JSON; NULL: nothing is the matter
    -- The last heartbeat, if by then the session had seen no jump of the clock for its whole TTL: what had expired by this
    -- time has expired indeed. Named leases depend on it (lapsed_lease).
    calm_at       TEXT
) STRICT;

-- Sessions as people see them.
CREATE VIEW agents AS
    SELECT session, name,
        CASE WHEN present_until <= seen_at THEN 'left' WHEN present_until <= strftime('%Y-%m-%dT%H:%M:%fZ','now') THEN 'absent'
             WHEN draining OR ordered = 'drain' THEN 'draining' WHEN workers = 0 THEN 'observer'
             WHEN ordered = 'cordon' THEN 'cordoned' ELSE 'working' END AS state,
        region, version, config, workers, running, done, minute AS done_per_minute, types, started_at, seen_at, ordered_by, condition
    FROM agent;

-- What configurations have declared, without secrets: the change log of definitions. A block that was never loaded before gets the next
-- number; the same one again is the same row.
CREATE TABLE declaration (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    kind     TEXT NOT NULL, -- task, schedule or chunks
    name     TEXT NOT NULL,
    hash     TEXT NOT NULL, -- of body
    body     TEXT NOT NULL, -- a JSON object: attributes by their paths, as HCL
    first_at TEXT NOT NULL,
    first_by TEXT NOT NULL, -- name of the agent that loaded it
    last_at  TEXT NOT NULL,
    last_by  TEXT NOT NULL,
    UNIQUE (kind, name, hash)
) STRICT;

-- Which sessions declare what. It counts while the session is present.
CREATE TABLE declarer (
    session INTEGER NOT NULL,
    number  INTEGER NOT NULL,
    PRIMARY KEY (session, number)
) STRICT, WITHOUT ROWID;

-- Members that are masked where documents of a row type are shown, as the configuration has it that was loaded last: of types that have ever had
-- some.
CREATE TABLE redaction (
    type  TEXT NOT NULL PRIMARY KEY,
    names TEXT NOT NULL -- JSON list
) STRICT, WITHOUT ROWID;

-- All that are masked: also what other present agents declare.
CREATE VIEW redactions AS
    SELECT r.type AS type, n.value AS name FROM redaction AS r, json_each(r.names) AS n
    UNION
    SELECT d.key, n.value FROM agent AS a, json_each(a.redact) AS d, json_each(d.value) AS n WHERE a.present_until > strftime('%Y-%m-%dT%H:%M:%fZ','now');

-- What each session has counted of the attempts of a type, by intervals of the store's clock: of one minute, kept for two hours, and of
-- an hour, kept for two days. A session sets its own rows and no others. So a write may be repeated, and two never meet.
CREATE TABLE activity (
    step     INTEGER NOT NULL, -- length of the interval in minutes: 1 or 60
    at       TEXT NOT NULL,    -- beginning of the interval
    type     TEXT NOT NULL,    -- as declared; '': all types beyond the 500 that a session tells apart
    session  INTEGER NOT NULL,
    started  INTEGER NOT NULL, -- attempts: the sum of latency
    ended    INTEGER NOT NULL, -- attempts: the sum of outcomes
    outcomes TEXT NOT NULL,    -- a JSON list: attempts that ended, by outcome (store.ActivityOutcomes); zeros at the end are left out
    latency  TEXT NOT NULL,    -- likewise, attempts that started, by the time since they were due (store.ActivityBounds)
    PRIMARY KEY (step, at, type, session)
) STRICT, WITHOUT ROWID;

-- The same, to be read.
CREATE VIEW activities AS
    SELECT step AS minutes, at, type, session, started, ended,
        coalesce(json_extract(outcomes, '$[0]'), 0) AS succeeded, coalesce(json_extract(outcomes, '$[1]'), 0) AS failed,
        coalesce(json_extract(outcomes, '$[2]'), 0) AS rejected, coalesce(json_extract(outcomes, '$[3]'), 0) AS stalled,
        coalesce(json_extract(outcomes, '$[4]'), 0) AS timed_out, coalesce(json_extract(outcomes, '$[5]'), 0) AS lost,
        coalesce(json_extract(outcomes, '$[6]'), 0) AS cancelled, coalesce(json_extract(outcomes, '$[7]'), 0) AS deferred,
        coalesce(json_extract(outcomes, '$[8]'), 0) AS superseded, coalesce(json_extract(outcomes, '$[9]'), 0) AS undelivered,
        coalesce(json_extract(outcomes, '$[10]'), 0) AS drained,
        latency
    FROM activity;

-- Rows of each type that may start now, but for limits, rates and breakers; paused types have none. For autoscalers.
CREATE VIEW backlog AS
    SELECT t.type, count(*) AS waiting FROM task AS t
    WHERE t.state IN ('pending', 'retry_pending', 'rollback_pending') AND t.held IS NULL AND t.run_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
        AND NOT EXISTS (SELECT 1 FROM type_pause AS p WHERE p.type = t.type)
    GROUP BY t.type;

-- Types of waiting rows that no present agent with workers declares, neither as the name of a task type nor as an alias. declared_at is when
-- one last did, and declared_as the name of the task type.
CREATE VIEW orphans AS
    SELECT o.type, o.waiting, o.running, o.oldest_at, d.last_at AS declared_at, d.last_by AS declared_by, d.name AS declared_as
    FROM (
        SELECT type, count(*) FILTER (WHERE state NOT IN ('running', 'rollback_running')) AS waiting,
            count(*) FILTER (WHERE state IN ('running', 'rollback_running')) AS running,
            min(created_at) FILTER (WHERE state NOT IN ('running', 'rollback_running')) AS oldest_at
        FROM task GROUP BY type
    ) AS o
    LEFT JOIN declaration AS d ON d.number = (
        SELECT e.number FROM declaration AS e
        WHERE e.kind = 'task' AND (e.name = o.type OR instr(json_extract(e.body, '$.aliases'), json_quote(o.type)) > 0)
        ORDER BY e.last_at DESC, e.number DESC LIMIT 1)
    WHERE o.waiting > 0 AND NOT EXISTS (
        SELECT 1 FROM agent AS a, json_each(a.types) AS k
        WHERE a.present_until > strftime('%Y-%m-%dT%H:%M:%fZ', 'now') AND a.workers > 0 AND k.value = o.type);

-- Named leases: one row for each name that is held, or was held and expired without a release. Applications write it by the
-- views acquire, renew_lease and release_lease.
CREATE TABLE lease (
    fence          INTEGER PRIMARY KEY AUTOINCREMENT, -- of one sequence for all names, which never falls
    name           TEXT NOT NULL,
    holder         TEXT NOT NULL,
    ttl_s          REAL NOT NULL, -- the length of each renewal
    acquired_at    TEXT NOT NULL,
    expires_at     TEXT NOT NULL,
    expiry_seen_at TEXT -- when another that asked for the lease first found it expired; NULL: not since its renewal
) STRICT;

CREATE UNIQUE INDEX lease_name ON lease (name);
-- Leases expire after they were acquired: what has expired for long is among the first.
CREATE INDEX lease_acquired ON lease (acquired_at);

CREATE VIEW leases AS
    SELECT name, holder, fence, acquired_at, expires_at FROM lease;

-- The policies of all declarations, by hash.
CREATE TABLE policy (
    hash INTEGER PRIMARY KEY,
    type TEXT NOT NULL,
    body TEXT NOT NULL -- JSON
) STRICT;

CREATE INDEX policy_rollback ON policy (type) WHERE json_type(body, '$.rollback') = 'object';

-- The policies with a rollback. A type can be rolled back if its last attempt began with one, or if it has one now.
CREATE VIEW rollback_policy AS
    SELECT hash, type FROM policy WHERE json_type(body, '$.rollback') = 'object';

-- Names of time zones that a schedule may have: those that Go embeds, so that agents know each of them.
-- An application that shares the file may well have a table `zone` of its own.
CREATE TABLE schedule_zone (name TEXT NOT NULL PRIMARY KEY) STRICT, WITHOUT ROWID;
INSERT INTO schedule_zone (name) VALUES
    ('Africa/Abidjan'),
    ('Africa/Accra'),
    ('Africa/Addis_Ababa'),
    ('Africa/Algiers'),
    ('Africa/Asmara'),
    ('Africa/Asmera'),
    ('Africa/Bamako'),
    ('Africa/Bangui'),
    ('Africa/Banjul'),
    ('Africa/Bissau'),
    ('Africa/Blantyre'),
    ('Africa/Brazzaville'),
    ('Africa/Bujumbura'),
    ('Africa/Cairo'),
    ('Africa/Casablanca'),
    ('Africa/Ceuta'),
    ('Africa/Conakry'),
    ('Africa/Dakar'),
    ('Africa/Dar_es_Salaam'),
    ('Africa/Djibouti'),
    ('Africa/Douala'),
    ('Africa/El_Aaiun'),
    ('Africa/Freetown'),
    ('Africa/Gaborone'),
    ('Africa/Harare'),
    ('Africa/Johannesburg'),
    ('Africa/Juba'),
    ('Africa/Kampala'),
    ('Africa/Khartoum'),
    ('Africa/Kigali'),
    ('Africa/Kinshasa'),
    ('Africa/Lagos'),
    ('Africa/Libreville'),
    ('Africa/Lome'),
    ('Africa/Luanda'),
    ('Africa/Lubumbashi'),
    ('Africa/Lusaka'),
    ('Africa/Malabo'),
    ('Africa/Maputo'),
    ('Africa/Maseru'),
    ('Africa/Mbabane'),
    ('Africa/Mogadishu'),
    ('Africa/Monrovia'),
    ('Africa/Nairobi'),
    ('Africa/Ndjamena'),
    ('Africa/Niamey'),
    ('Africa/Nouakchott'),
    ('Africa/Ouagadougou'),
    ('Africa/Porto-Novo'),
    ('Africa/Sao_Tome'),
    ('Africa/Timbuktu'),
    ('Africa/Tripoli'),
    ('Africa/Tunis'),
    ('Africa/Windhoek'),
    ('America/Adak'),
    ('America/Anchorage'),
    ('America/Anguilla'),
    ('America/Antigua'),
    ('America/Araguaina'),
    ('America/Argentina/Buenos_Aires'),
    ('America/Argentina/Catamarca'),
    ('America/Argentina/ComodRivadavia'),
    ('America/Argentina/Cordoba'),
    ('America/Argentina/Jujuy'),
    ('America/Argentina/La_Rioja'),
    ('America/Argentina/Mendoza'),
    ('America/Argentina/Rio_Gallegos'),
    ('America/Argentina/Salta'),
    ('America/Argentina/San_Juan'),
    ('America/Argentina/San_Luis'),
    ('America/Argentina/Tucuman'),
    ('America/Argentina/Ushuaia'),
    ('America/Aruba'),
    ('America/Asuncion'),
    ('America/Atikokan'),
    ('America/Atka'),
    ('America/Bahia'),
    ('America/Bahia_Banderas'),
    ('America/Barbados'),
    ('America/Belem'),
    ('America/Belize'),
    ('America/Blanc-Sablon'),
    ('America/Boa_Vista'),
    ('America/Bogota'),
    ('America/Boise'),
    ('America/Buenos_Aires'),
    ('America/Cambridge_Bay'),
    ('America/Campo_Grande'),
    ('America/Cancun'),
    ('America/Caracas'),
    ('America/Catamarca'),
    ('America/Cayenne'),
    ('America/Cayman'),
    ('America/Chicago'),
    ('America/Chihuahua'),
    ('America/Ciudad_Juarez'),
    ('America/Coral_Harbour'),
    ('America/Cordoba'),
    ('America/Costa_Rica'),
    ('America/Coyhaique'),
    ('America/Creston'),
    ('America/Cuiaba'),
    ('America/Curacao'),
    ('America/Danmarkshavn'),
    ('America/Dawson'),
    ('America/Dawson_Creek'),
    ('America/Denver'),
    ('America/Detroit'),
    ('America/Dominica'),
    ('America/Edmonton'),
    ('America/Eirunepe'),
    ('America/El_Salvador'),
    ('America/Ensenada'),
    ('America/Fort_Nelson'),
    ('America/Fort_Wayne'),
    ('America/Fortaleza'),
    ('America/Glace_Bay'),
    ('America/Godthab'),
    ('America/Goose_Bay'),
    ('America/Grand_Turk'),
    ('America/Grenada'),
    ('America/Guadeloupe'),
    ('America/Guatemala'),
    ('America/Guayaquil'),
    ('America/Guyana'),
    ('America/Halifax'),
    ('America/Havana'),
    ('America/Hermosillo'),
    ('America/Indiana/Indianapolis'),
    ('America/Indiana/Knox'),
    ('America/Indiana/Marengo'),
    ('America/Indiana/Petersburg'),
    ('America/Indiana/Tell_City'),
    ('America/Indiana/Vevay'),
    ('America/Indiana/Vincennes'),
    ('America/Indiana/Winamac'),
    ('America/Indianapolis'),
    ('America/Inuvik'),
    ('America/Iqaluit'),
    ('America/Jamaica'),
    ('America/Jujuy'),
    ('America/Juneau'),
    ('America/Kentucky/Louisville'),
    ('America/Kentucky/Monticello'),
    ('America/Knox_IN'),
    ('America/Kralendijk'),
    ('America/La_Paz'),
    ('America/Lima'),
    ('America/Los_Angeles'),
    ('America/Louisville'),
    ('America/Lower_Princes'),
    ('America/Maceio'),
    ('America/Managua'),
    ('America/Manaus'),
    ('America/Marigot'),
    ('America/Martinique'),
    ('America/Matamoros'),
    ('America/Mazatlan'),
    ('America/Mendoza'),
    ('America/Menominee'),
    ('America/Merida'),
    ('America/Metlakatla'),
    ('America/Mexico_City'),
    ('America/Miquelon'),
    ('America/Moncton'),
    ('America/Monterrey'),
    ('America/Montevideo'),
    ('America/Montreal'),
    ('America/Montserrat'),
    ('America/Nassau'),
    ('America/New_York'),
    ('America/Nipigon'),
    ('America/Nome'),
    ('America/Noronha'),
    ('America/North_Dakota/Beulah'),
    ('America/North_Dakota/Center'),
    ('America/North_Dakota/New_Salem'),
    ('America/Nuuk'),
    ('America/Ojinaga'),
    ('America/Panama'),
    ('America/Pangnirtung'),
    ('America/Paramaribo'),
    ('America/Phoenix'),
    ('America/Port-au-Prince'),
    ('America/Port_of_Spain'),
    ('America/Porto_Acre'),
    ('America/Porto_Velho'),
    ('America/Puerto_Rico'),
    ('America/Punta_Arenas'),
    ('America/Rainy_River'),
    ('America/Rankin_Inlet'),
    ('America/Recife'),
    ('America/Regina'),
    ('America/Resolute'),
    ('America/Rio_Branco'),
    ('America/Rosario'),
    ('America/Santa_Isabel'),
    ('America/Santarem'),
    ('America/Santiago'),
    ('America/Santo_Domingo'),
    ('America/Sao_Paulo'),
    ('America/Scoresbysund'),
    ('America/Shiprock'),
    ('America/Sitka'),
    ('America/St_Barthelemy'),
    ('America/St_Johns'),
    ('America/St_Kitts'),
    ('America/St_Lucia'),
    ('America/St_Thomas'),
    ('America/St_Vincent'),
    ('America/Swift_Current'),
    ('America/Tegucigalpa'),
    ('America/Thule'),
    ('America/Thunder_Bay'),
    ('America/Tijuana'),
    ('America/Toronto'),
    ('America/Tortola'),
    ('America/Vancouver'),
    ('America/Virgin'),
    ('America/Whitehorse'),
    ('America/Winnipeg'),
    ('America/Yakutat'),
    ('America/Yellowknife'),
    ('Antarctica/Casey'),
    ('Antarctica/Davis'),
    ('Antarctica/DumontDUrville'),
    ('Antarctica/Macquarie'),
    ('Antarctica/Mawson'),
    ('Antarctica/McMurdo'),
    ('Antarctica/Palmer'),
    ('Antarctica/Rothera'),
    ('Antarctica/South_Pole'),
    ('Antarctica/Syowa'),
    ('Antarctica/Troll'),
    ('Antarctica/Vostok'),
    ('Arctic/Longyearbyen'),
    ('Asia/Aden'),
    ('Asia/Almaty'),
    ('Asia/Amman'),
    ('Asia/Anadyr'),
    ('Asia/Aqtau'),
    ('Asia/Aqtobe'),
    ('Asia/Ashgabat'),
    ('Asia/Ashkhabad'),
    ('Asia/Atyrau'),
    ('Asia/Baghdad'),
    ('Asia/Bahrain'),
    ('Asia/Baku'),
    ('Asia/Bangkok'),
    ('Asia/Barnaul'),
    ('Asia/Beirut'),
    ('Asia/Bishkek'),
    ('Asia/Brunei'),
    ('Asia/Calcutta'),
    ('Asia/Chita'),
    ('Asia/Choibalsan'),
    ('Asia/Chongqing'),
    ('Asia/Chungking'),
    ('Asia/Colombo'),
    ('Asia/Dacca'),
    ('Asia/Damascus'),
    ('Asia/Dhaka'),
    ('Asia/Dili'),
    ('Asia/Dubai'),
    ('Asia/Dushanbe'),
    ('Asia/Famagusta'),
    ('Asia/Gaza'),
    ('Asia/Harbin'),
    ('Asia/Hebron'),
    ('Asia/Ho_Chi_Minh'),
    ('Asia/Hong_Kong'),
    ('Asia/Hovd'),
    ('Asia/Irkutsk'),
    ('Asia/Istanbul'),
    ('Asia/Jakarta'),
    ('Asia/Jayapura'),
    ('Asia/Jerusalem'),
    ('Asia/Kabul'),
    ('Asia/Kamchatka'),
    ('Asia/Karachi'),
    ('Asia/Kashgar'),
    ('Asia/Kathmandu'),
    ('Asia/Katmandu'),
    ('Asia/Khandyga'),
    ('Asia/Kolkata'),
    ('Asia/Krasnoyarsk'),
    ('Asia/Kuala_Lumpur'),
    ('Asia/Kuching'),
    ('Asia/Kuwait'),
    ('Asia/Macao'),
    ('Asia/Macau'),
    ('Asia/Magadan'),
    ('Asia/Makassar'),
    ('Asia/Manila'),
    ('Asia/Muscat'),
    ('Asia/Nicosia'),
    ('Asia/Novokuznetsk'),
    ('Asia/Novosibirsk'),
    ('Asia/Omsk'),
    ('Asia/Oral'),
    ('Asia/Phnom_Penh'),
    ('Asia/Pontianak'),
    ('Asia/Pyongyang'),
    ('Asia/Qatar'),
    ('Asia/Qostanay'),
    ('Asia/Qyzylorda'),
    ('Asia/Rangoon'),
    ('Asia/Riyadh'),
    ('Asia/Saigon'),
    ('Asia/Sakhalin'),
    ('Asia/Samarkand'),
    ('Asia/Seoul'),
    ('Asia/Shanghai'),
    ('Asia/Singapore'),
    ('Asia/Srednekolymsk'),
    ('Asia/Taipei'),
    ('Asia/Tashkent'),
    ('Asia/Tbilisi'),
    ('Asia/Tehran'),
    ('Asia/Tel_Aviv'),
    ('Asia/Thimbu'),
    ('Asia/Thimphu'),
    ('Asia/Tokyo'),
    ('Asia/Tomsk'),
    ('Asia/Ujung_Pandang'),
    ('Asia/Ulaanbaatar'),
    ('Asia/Ulan_Bator'),
    ('Asia/Urumqi'),
    ('Asia/Ust-Nera'),
    ('Asia/Vientiane'),
    ('Asia/Vladivostok'),
    ('Asia/Yakutsk'),
    ('Asia/Yangon'),
    ('Asia/Yekaterinburg'),
    ('Asia/Yerevan'),
    ('Atlantic/Azores'),
    ('Atlantic/Bermuda'),
    ('Atlantic/Canary'),
    ('Atlantic/Cape_Verde'),
    ('Atlantic/Faeroe'),
    ('Atlantic/Faroe'),
    ('Atlantic/Jan_Mayen'),
    ('Atlantic/Madeira'),
    ('Atlantic/Reykjavik'),
    ('Atlantic/South_Georgia'),
    ('Atlantic/St_Helena'),
    ('Atlantic/Stanley'),
    ('Australia/ACT'),
    ('Australia/Adelaide'),
    ('Australia/Brisbane'),
    ('Australia/Broken_Hill'),
    ('Australia/Canberra'),
    ('Australia/Currie'),
    ('Australia/Darwin'),
    ('Australia/Eucla'),
    ('Australia/Hobart'),
    ('Australia/LHI'),
    ('Australia/Lindeman'),
    ('Australia/Lord_Howe'),
    ('Australia/Melbourne'),
    ('Australia/NSW'),
    ('Australia/North'),
    ('Australia/Perth'),
    ('Australia/Queensland'),
    ('Australia/South'),
    ('Australia/Sydney'),
    ('Australia/Tasmania'),
    ('Australia/Victoria'),
    ('Australia/West'),
    ('Australia/Yancowinna'),
    ('Brazil/Acre'),
    ('Brazil/DeNoronha'),
    ('Brazil/East'),
    ('Brazil/West'),
    ('CET'),
    ('CST6CDT'),
    ('Canada/Atlantic'),
    ('Canada/Central'),
    ('Canada/Eastern'),
    ('Canada/Mountain'),
    ('Canada/Newfoundland'),
    ('Canada/Pacific'),
    ('Canada/Saskatchewan'),
    ('Canada/Yukon'),
    ('Chile/Continental'),
    ('Chile/EasterIsland'),
    ('Cuba'),
    ('EET'),
    ('EST'),
    ('EST5EDT'),
    ('Egypt'),
    ('Eire'),
    ('Etc/GMT'),
    ('Etc/GMT+0'),
    ('Etc/GMT+1'),
    ('Etc/GMT+10'),
    ('Etc/GMT+11'),
    ('Etc/GMT+12'),
    ('Etc/GMT+2'),
    ('Etc/GMT+3'),
    ('Etc/GMT+4'),
    ('Etc/GMT+5'),
    ('Etc/GMT+6'),
    ('Etc/GMT+7'),
    ('Etc/GMT+8'),
    ('Etc/GMT+9'),
    ('Etc/GMT-0'),
    ('Etc/GMT-1'),
    ('Etc/GMT-10'),
    ('Etc/GMT-11'),
    ('Etc/GMT-12'),
    ('Etc/GMT-13'),
    ('Etc/GMT-14'),
    ('Etc/GMT-2'),
    ('Etc/GMT-3'),
    ('Etc/GMT-4'),
    ('Etc/GMT-5'),
    ('Etc/GMT-6'),
    ('Etc/GMT-7'),
    ('Etc/GMT-8'),
    ('Etc/GMT-9'),
    ('Etc/GMT0'),
    ('Etc/Greenwich'),
    ('Etc/UCT'),
    ('Etc/UTC'),
    ('Etc/Universal'),
    ('Etc/Zulu'),
    ('Europe/Amsterdam'),
    ('Europe/Andorra'),
    ('Europe/Astrakhan'),
    ('Europe/Athens'),
    ('Europe/Belfast'),
    ('Europe/Belgrade'),
    ('Europe/Berlin'),
    ('Europe/Bratislava'),
    ('Europe/Brussels'),
    ('Europe/Bucharest'),
    ('Europe/Budapest'),
    ('Europe/Busingen'),
    ('Europe/Chisinau'),
    ('Europe/Copenhagen'),
    ('Europe/Dublin'),
    ('Europe/Gibraltar'),
    ('Europe/Guernsey'),
    ('Europe/Helsinki'),
    ('Europe/Isle_of_Man'),
    ('Europe/Istanbul'),
    ('Europe/Jersey'),
    ('Europe/Kaliningrad'),
    ('Europe/Kiev'),
    ('Europe/Kirov'),
    ('Europe/Kyiv'),
    ('Europe/Lisbon'),
    ('Europe/Ljubljana'),
    ('Europe/London'),
    ('Europe/Luxembourg'),
    ('Europe/Madrid'),
    ('Europe/Malta'),
    ('Europe/Mariehamn'),
    ('Europe/Minsk'),
    ('Europe/Monaco'),
    ('Europe/Moscow'),
    ('Europe/Nicosia'),
    ('Europe/Oslo'),
    ('Europe/Paris'),
    ('Europe/Podgorica'),
    ('Europe/Prague'),
    ('Europe/Riga'),
    ('Europe/Rome'),
    ('Europe/Samara'),
    ('Europe/San_Marino'),
    ('Europe/Sarajevo'),
    ('Europe/Saratov'),
    ('Europe/Simferopol'),
    ('Europe/Skopje'),
    ('Europe/Sofia'),
    ('Europe/Stockholm'),
    ('Europe/Tallinn'),
    ('Europe/Tirane'),
    ('Europe/Tiraspol'),
    ('Europe/Ulyanovsk'),
    ('Europe/Uzhgorod'),
    ('Europe/Vaduz'),
    ('Europe/Vatican'),
    ('Europe/Vienna'),
    ('Europe/Vilnius'),
    ('Europe/Volgograd'),
    ('Europe/Warsaw'),
    ('Europe/Zagreb'),
    ('Europe/Zaporozhye'),
    ('Europe/Zurich'),
    ('Factory'),
    ('GB'),
    ('GB-Eire'),
    ('GMT'),
    ('GMT+0'),
    ('GMT-0'),
    ('GMT0'),
    ('Greenwich'),
    ('HST'),
    ('Hongkong'),
    ('Iceland'),
    ('Indian/Antananarivo'),
    ('Indian/Chagos'),
    ('Indian/Christmas'),
    ('Indian/Cocos'),
    ('Indian/Comoro'),
    ('Indian/Kerguelen'),
    ('Indian/Mahe'),
    ('Indian/Maldives'),
    ('Indian/Mauritius'),
    ('Indian/Mayotte'),
    ('Indian/Reunion'),
    ('Iran'),
    ('Israel'),
    ('Jamaica'),
    ('Japan'),
    ('Kwajalein'),
    ('Libya'),
    ('MET'),
    ('MST'),
    ('MST7MDT'),
    ('Mexico/BajaNorte'),
    ('Mexico/BajaSur'),
    ('Mexico/General'),
    ('NZ'),
    ('NZ-CHAT'),
    ('Navajo'),
    ('PRC'),
    ('PST8PDT'),
    ('Pacific/Apia'),
    ('Pacific/Auckland'),
    ('Pacific/Bougainville'),
    ('Pacific/Chatham'),
    ('Pacific/Chuuk'),
    ('Pacific/Easter'),
    ('Pacific/Efate'),
    ('Pacific/Enderbury'),
    ('Pacific/Fakaofo'),
    ('Pacific/Fiji'),
    ('Pacific/Funafuti'),
    ('Pacific/Galapagos'),
    ('Pacific/Gambier'),
    ('Pacific/Guadalcanal'),
    ('Pacific/Guam'),
    ('Pacific/Honolulu'),
    ('Pacific/Johnston'),
    ('Pacific/Kanton'),
    ('Pacific/Kiritimati'),
    ('Pacific/Kosrae'),
    ('Pacific/Kwajalein'),
    ('Pacific/Majuro'),
    ('Pacific/Marquesas'),
    ('Pacific/Midway'),
    ('Pacific/Nauru'),
    ('Pacific/Niue'),
    ('Pacific/Norfolk'),
    ('Pacific/Noumea'),
    ('Pacific/Pago_Pago'),
    ('Pacific/Palau'),
    ('Pacific/Pitcairn'),
    ('Pacific/Pohnpei'),
    ('Pacific/Ponape'),
    ('Pacific/Port_Moresby'),
    ('Pacific/Rarotonga'),
    ('Pacific/Saipan'),
    ('Pacific/Samoa'),
    ('Pacific/Tahiti'),
    ('Pacific/Tarawa'),
    ('Pacific/Tongatapu'),
    ('Pacific/Truk'),
    ('Pacific/Wake'),
    ('Pacific/Wallis'),
    ('Pacific/Yap'),
    ('Poland'),
    ('Portugal'),
    ('ROC'),
    ('ROK'),
    ('Singapore'),
    ('Turkey'),
    ('UCT'),
    ('US/Alaska'),
    ('US/Aleutian'),
    ('US/Arizona'),
    ('US/Central'),
    ('US/East-Indiana'),
    ('US/Eastern'),
    ('US/Hawaii'),
    ('US/Indiana-Starke'),
    ('US/Michigan'),
    ('US/Mountain'),
    ('US/Pacific'),
    ('US/Samoa'),
    ('UTC'),
    ('Universal'),
    ('W-SU'),
    ('WET'),
    ('Zulu');

-- What inserts tasks again and again, and where each of them stands. NULL and '' are the default of a declared column.
-- Applications insert name, task, cron, every, after, timezone, payload, jitter, from_at, until_at, missed, catch_up and
-- overlap, and change all of these but name. The triggers below check them, and have the schedule go on from a change.
CREATE TABLE schedule (
    name         TEXT NOT NULL PRIMARY KEY
                 CONSTRAINT "name must not be empty" CHECK (name <> '')
                 CONSTRAINT "name must be 255 bytes at most" CHECK (length(CAST(name AS BLOB)) <= 255),
    task         TEXT NOT NULL                   -- type of the rows
                 CONSTRAINT "task must not be empty" CHECK (task <> '')
                 CONSTRAINT "task must be 255 bytes at most" CHECK (length(CAST(task AS BLOB)) <= 255),
    cron         TEXT,
    every        TEXT,
    after        TEXT,
    timezone     TEXT,
    payload      TEXT NOT NULL DEFAULT '{}'
                 CONSTRAINT "payload must be a JSON object" CHECK (
                     CASE WHEN json_valid(payload) THEN json_type(payload) = 'object' ELSE 0 END),
    jitter       TEXT,
    from_at      TEXT,
    until_at     TEXT,
    missed       TEXT,
    catch_up     TEXT,
    overlap      TEXT,
    source       TEXT NOT NULL DEFAULT 'sql' CHECK (source IN ('sql', 'hcl')), -- an agent checks what HCL declares
    created_at   TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    cursor_at    TEXT,                           -- all slots through this one are decided
    last_slot    TEXT,                           -- of last_task
    last_task    INTEGER,
    last_by      TEXT,                           -- name of the agent that inserted it
    queued_slot  TEXT,                           -- it is to fire, and waits for the end of last_task
    missed_slots INTEGER NOT NULL DEFAULT 0,
    next_at      TEXT DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')), -- when an agent is to look again; NULL: never
    -- Rises with each change: a firing that saw an older one is not applied. It begins anywhere, so that this is true also of a
    -- schedule that was deleted and inserted again.
    version      INTEGER NOT NULL DEFAULT (random() & 281474976710655),
    declared     INTEGER,                        -- of source 'hcl': number of the declaration in force; NULL: of source 'sql'
    paused_at    TEXT,                           -- by an operator
    paused_by    TEXT,
    parked_at    TEXT,                           -- no present agent declares it
    invalid      TEXT                            -- why agents cannot use the row
) STRICT;
CREATE INDEX schedule_next ON schedule (next_at, name)
    WHERE next_at IS NOT NULL AND paused_at IS NULL AND parked_at IS NULL AND invalid IS NULL;

-- An agent has checked what HCL declares, by rules that may be newer than these.
CREATE TRIGGER schedule_inserted BEFORE INSERT ON schedule WHEN NEW.source = 'sql'
BEGIN
    SELECT CASE
    WHEN instr(NEW.name || NEW.task || ifnull(NEW.cron, '') || ifnull(NEW.every, '') || ifnull(NEW.after, '') || ifnull(NEW.jitter, '')
        || ifnull(NEW.from_at, '') || ifnull(NEW.until_at, '') || ifnull(NEW.catch_up, ''), char(0)) > 0
    THEN RAISE(ABORT, 'text must be UTF-8 without NUL')
    WHEN kinds = 0 THEN RAISE(ABORT, 'cron: none of cron, every and after is set: set one of them')
    WHEN kinds > 1 THEN RAISE(ABORT, 'cron: more than one of cron, every and after is set: a schedule has one of them')
    WHEN NEW.timezone <> '' AND ifnull(NEW.cron, '') = '' THEN RAISE(ABORT, 'timezone: it has an effect only with cron: leave it out')
    WHEN NEW.timezone <> '' AND NOT EXISTS (SELECT 1 FROM schedule_zone WHERE name = NEW.timezone)
    THEN RAISE(ABORT, 'timezone: there is no such time zone: use an IANA name, as in Asia/Singapore or UTC')
    WHEN length(CAST(NEW.payload AS BLOB)) > (SELECT max_payload FROM setting)
    THEN RAISE(ABORT, 'payload: it is larger than the bound on payloads: see option max-payload of leasehold migrate')
    WHEN NEW.missed NOT IN ('', 'one', 'all', 'none') THEN RAISE(ABORT, 'missed: use one, all or none')
    WHEN NEW.overlap NOT IN ('', 'skip', 'queue') THEN RAISE(ABORT, 'overlap: use skip or queue')
    WHEN NEW.every <> '' AND every IS NULL OR NEW.after <> '' AND after IS NULL OR NEW.jitter <> '' AND jitter IS NULL
        OR NEW.catch_up <> '' AND catch_up IS NULL
    THEN RAISE(ABORT, 'every, after, jitter and catch_up: use whole numbers of d, h, m, s and ms, in this order, as in 1h30m')
    WHEN every NOT BETWEEN 1000 AND 31622400000 OR after NOT BETWEEN 1000 AND 31622400000 OR jitter > 31622400000
        OR catch_up > 31622400000
    THEN RAISE(ABORT, 'every and after must be from 1s to 366d, jitter and catch_up from 0s to 366d')
    WHEN NEW.from_at <> '' AND begins IS NULL OR NEW.until_at <> '' AND ends IS NULL
    THEN RAISE(ABORT, 'from_at and until_at: write RFC 3339 with milliseconds at most, as in 2026-12-01T00:00:00Z or 2026-12-01T08:00:00+08:00')
    WHEN begins NOT BETWEEN 0 AND 253402300799999 OR ends NOT BETWEEN 0 AND 253402300799999
    THEN RAISE(ABORT, 'from_at and until_at: use a year from 1970 to 9999')
    WHEN begins >= ends THEN RAISE(ABORT, 'until_at: it is not after from_at: no slot is between them')
    WHEN jitter > 0 AND jitter >= ifnull(every, after) THEN RAISE(ABORT, 'jitter: it is not shorter than the time between two slots')
    WHEN length(CAST(NEW.cron AS BLOB)) > 512 THEN RAISE(ABORT, 'cron: the expression must be 512 bytes at most')
    END
FROM (
    SELECT DISTINCT (ifnull(NEW.cron, '') <> '') + (ifnull(NEW.every, '') <> '') + (ifnull(NEW.after, '') <> '') AS kinds,
        (WITH RECURSIVE scan (n, rest, total) AS (
    SELECT 0, CASE WHEN NEW.every GLOB '*[^0-9dhms]*' THEN '!' ELSE replace(NEW.every, 'ms', 'x') END, 0
    UNION ALL
    SELECT n + 1,
        CASE
            WHEN instr(rest, substr('dhmsx', n + 1, 1)) = 0 THEN rest
            WHEN instr(rest, substr('dhmsx', n + 1, 1)) = 1
                OR substr(rest, 1, instr(rest, substr('dhmsx', n + 1, 1)) - 1) GLOB '*[^0-9]*' THEN '!'
            ELSE substr(rest, instr(rest, substr('dhmsx', n + 1, 1)) + 1)
        END,
        total + CASE n WHEN 0 THEN 86400000 WHEN 1 THEN 3600000 WHEN 2 THEN 60000 WHEN 3 THEN 1000 ELSE 1 END
            * iif(instr(rest, substr('dhmsx', n + 1, 1)) > 1,
                CAST(substr(rest, 1, instr(rest, substr('dhmsx', n + 1, 1)) - 1) AS INTEGER), 0)
    FROM scan WHERE n < 5
) SELECT total FROM scan WHERE n = 5 AND rest = '') AS every, (WITH RECURSIVE scan (n, rest, total) AS (
    SELECT 0, CASE WHEN NEW.after GLOB '*[^0-9dhms]*' THEN '!' ELSE replace(NEW.after, 'ms', 'x') END, 0
    UNION ALL
    SELECT n + 1,
        CASE
            WHEN instr(rest, substr('dhmsx', n + 1, 1)) = 0 THEN rest
            WHEN instr(rest, substr('dhmsx', n + 1, 1)) = 1
                OR substr(rest, 1, instr(rest, substr('dhmsx', n + 1, 1)) - 1) GLOB '*[^0-9]*' THEN '!'
            ELSE substr(rest, instr(rest, substr('dhmsx', n + 1, 1)) + 1)
        END,
        total + CASE n WHEN 0 THEN 86400000 WHEN 1 THEN 3600000 WHEN 2 THEN 60000 WHEN 3 THEN 1000 ELSE 1 END
            * iif(instr(rest, substr('dhmsx', n + 1, 1)) > 1,
                CAST(substr(rest, 1, instr(rest, substr('dhmsx', n + 1, 1)) - 1) AS INTEGER), 0)
    FROM scan WHERE n < 5
) SELECT total FROM scan WHERE n = 5 AND rest = '') AS after, (WITH RECURSIVE scan (n, rest, total) AS (
    SELECT 0, CASE WHEN NEW.jitter GLOB '*[^0-9dhms]*' THEN '!' ELSE replace(NEW.jitter, 'ms', 'x') END, 0
    UNION ALL
    SELECT n + 1,
        CASE
            WHEN instr(rest, substr('dhmsx', n + 1, 1)) = 0 THEN rest
            WHEN instr(rest, substr('dhmsx', n + 1, 1)) = 1
                OR substr(rest, 1, instr(rest, substr('dhmsx', n + 1, 1)) - 1) GLOB '*[^0-9]*' THEN '!'
            ELSE substr(rest, instr(rest, substr('dhmsx', n + 1, 1)) + 1)
        END,
        total + CASE n WHEN 0 THEN 86400000 WHEN 1 THEN 3600000 WHEN 2 THEN 60000 WHEN 3 THEN 1000 ELSE 1 END
            * iif(instr(rest, substr('dhmsx', n + 1, 1)) > 1,
                CAST(substr(rest, 1, instr(rest, substr('dhmsx', n + 1, 1)) - 1) AS INTEGER), 0)
    FROM scan WHERE n < 5
) SELECT total FROM scan WHERE n = 5 AND rest = '') AS jitter,
        (WITH RECURSIVE scan (n, rest, total) AS (
    SELECT 0, CASE WHEN NEW.catch_up GLOB '*[^0-9dhms]*' THEN '!' ELSE replace(NEW.catch_up, 'ms', 'x') END, 0
    UNION ALL
    SELECT n + 1,
        CASE
            WHEN instr(rest, substr('dhmsx', n + 1, 1)) = 0 THEN rest
            WHEN instr(rest, substr('dhmsx', n + 1, 1)) = 1
                OR substr(rest, 1, instr(rest, substr('dhmsx', n + 1, 1)) - 1) GLOB '*[^0-9]*' THEN '!'
            ELSE substr(rest, instr(rest, substr('dhmsx', n + 1, 1)) + 1)
        END,
        total + CASE n WHEN 0 THEN 86400000 WHEN 1 THEN 3600000 WHEN 2 THEN 60000 WHEN 3 THEN 1000 ELSE 1 END
            * iif(instr(rest, substr('dhmsx', n + 1, 1)) > 1,
                CAST(substr(rest, 1, instr(rest, substr('dhmsx', n + 1, 1)) - 1) AS INTEGER), 0)
    FROM scan WHERE n < 5
) SELECT total FROM scan WHERE n = 5 AND rest = '') AS catch_up, (SELECT CASE
    WHEN day GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]' AND strftime('%Y-%m-%d', day, '+0 days') IS day
        AND clock GLOB 'T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]' AND clock < 'T24'
        AND (fraction = '' OR fraction GLOB '.[0-9]' OR fraction GLOB '.[0-9][0-9]' OR fraction GLOB '.[0-9][0-9][0-9]')
        AND (place = 'Z' OR place GLOB '[-+][01][0-9]:[0-5][0-9]' AND substr(place, 2, 2) <= '14')
    THEN CAST(strftime('%s', day || ' ' || substr(clock, 2)) AS INTEGER) * 1000 + CAST(substr(fraction || '000', 2, 3) AS INTEGER)
        - CASE substr(place, 1, 1) WHEN '+' THEN 60000 WHEN '-' THEN -60000 ELSE 0 END
            * (CAST(substr(place, 2, 2) AS INTEGER) * 60 + CAST(substr(place, 5, 2) AS INTEGER))
    END
FROM (
    SELECT substr(NEW.from_at, 1, 10) AS day, substr(NEW.from_at, 11, 9) AS clock,
        iif(substr(NEW.from_at, -1) = 'Z', 'Z', substr(NEW.from_at, -6)) AS place,
        substr(NEW.from_at, 20, max(length(NEW.from_at) - 19 - iif(substr(NEW.from_at, -1) = 'Z', 1, 6), 0)) AS fraction
    WHERE length(NEW.from_at) >= 20
)) AS begins, (SELECT CASE
    WHEN day GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]' AND strftime('%Y-%m-%d', day, '+0 days') IS day
        AND clock GLOB 'T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]' AND clock < 'T24'
        AND (fraction = '' OR fraction GLOB '.[0-9]' OR fraction GLOB '.[0-9][0-9]' OR fraction GLOB '.[0-9][0-9][0-9]')
        AND (place = 'Z' OR place GLOB '[-+][01][0-9]:[0-5][0-9]' AND substr(place, 2, 2) <= '14')
    THEN CAST(strftime('%s', day || ' ' || substr(clock, 2)) AS INTEGER) * 1000 + CAST(substr(fraction || '000', 2, 3) AS INTEGER)
        - CASE substr(place, 1, 1) WHEN '+' THEN 60000 WHEN '-' THEN -60000 ELSE 0 END
            * (CAST(substr(place, 2, 2) AS INTEGER) * 60 + CAST(substr(place, 5, 2) AS INTEGER))
    END
FROM (
    SELECT substr(NEW.until_at, 1, 10) AS day, substr(NEW.until_at, 11, 9) AS clock,
        iif(substr(NEW.until_at, -1) = 'Z', 'Z', substr(NEW.until_at, -6)) AS place,
        substr(NEW.until_at, 20, max(length(NEW.until_at) - 19 - iif(substr(NEW.until_at, -1) = 'Z', 1, 6), 0)) AS fraction
    WHERE length(NEW.until_at) >= 20
)) AS ends
);
SELECT CASE mistake
    WHEN 0 THEN RAISE(ABORT, 'cron: write five fields, as in 0 3 * * mon-fri: minute, hour, day of month, month and day of week; or @yearly, @annually, @monthly, @weekly, @daily, @midnight or @hourly')
    WHEN 1 THEN RAISE(ABORT, 'cron: minute must be a list of *, */n, a, a-b and a-b/n, with values from 0 to 59 and steps to 60')
    WHEN 2 THEN RAISE(ABORT, 'cron: hour must be a list of *, */n, a, a-b and a-b/n, with values from 0 to 23 and steps to 24')
    WHEN 3 THEN RAISE(ABORT, 'cron: day of month must be a list of *, */n, a, a-b and a-b/n, with values from 1 to 31 and steps to 31')
    WHEN 4 THEN RAISE(ABORT, 'cron: month must be a list of *, */n, a, a-b and a-b/n, with values from 1 to 12 or jan to dec, and steps to 12')
    WHEN 5 THEN RAISE(ABORT, 'cron: day of week must be a list of *, */n, a, a-b and a-b/n, with values from 0 to 7 or sun to sat, and steps to 7')
    WHEN 6 THEN RAISE(ABORT, 'cron: the expression never fires: none of its months has such a day')
    WHEN 7 THEN RAISE(ABORT, 'jitter: it is not shorter than the shortest time between two of its times of day')
    END
FROM (SELECT DISTINCT (WITH RECURSIVE
line (text) AS (
    SELECT CASE
        WHEN substr(t, 1, 1) <> '@' THEN t
        WHEN t IN ('@yearly', '@annually') THEN '0 0 1 1 *'
        WHEN t = '@monthly' THEN '0 0 1 * *'
        WHEN t = '@weekly' THEN '0 0 * * 0'
        WHEN t IN ('@daily', '@midnight') THEN '0 0 * * *'
        WHEN t = '@hourly' THEN '0 * * * *'
        ELSE '' END
    FROM (SELECT lower(trim(replace(NEW.cron, char(9), ' '))) AS t)
),
word (n, text, rest) AS MATERIALIZED (
    SELECT 0, '', text || ' ' FROM line
    UNION ALL
    SELECT n + 1, substr(rest, 1, instr(rest, ' ') - 1), ltrim(substr(rest, instr(rest, ' ') + 1))
    FROM word WHERE rest <> '' AND n < 6
),
field (n, lo, hi, steps, names) AS (
    VALUES (1, 0, 59, 60, ''), (2, 0, 23, 24, ''), (3, 1, 31, 31, ''), (4, 1, 12, 12, 'janfebmaraprmayjunjulaugsepoctnovdec'),
        (5, 0, 7, 7, 'sunmontuewedthufrisat')
),
item (n, k, text, rest) AS MATERIALIZED (
    SELECT n, 0, '', text || ',' FROM word WHERE n > 0
    UNION ALL
    SELECT n, k + 1, substr(rest, 1, instr(rest, ',') - 1), substr(rest, instr(rest, ',') + 1) FROM item WHERE rest <> ''
),
part (n, span, step) AS MATERIALIZED ( -- step is NULL where there is none
    SELECT n, iif(instr(text, '/') > 0, substr(text, 1, instr(text, '/') - 1), text),
        iif(instr(text, '/') > 0, substr(text, instr(text, '/') + 1), NULL)
    FROM item WHERE k > 0
),
bound (n, upper, text, span, step) AS MATERIALIZED ( -- both ends of each part: the one value is its first and its last
    SELECT n, 0, iif(instr(span, '-') > 0, substr(span, 1, instr(span, '-') - 1), span), span, step FROM part
    UNION ALL
    SELECT n, 1, substr(span, instr(span, '-') + 1), span, step FROM part
),
value (n, upper, v, span, step) AS MATERIALIZED (
    SELECT n, upper, CASE WHEN span = '*' THEN iif(upper, min(hi, iif(n = 5, 6, hi)), lo) WHEN v BETWEEN lo AND hi THEN v END, span, step
    FROM (
        SELECT bound.n, upper, lo, hi, span, step, CASE
            WHEN text GLOB '[0-9]' OR text GLOB '[0-9][0-9]' THEN CAST(text AS INTEGER)
            WHEN length(text) = 3 AND instr(names, text) % 3 = 1 THEN lo + instr(names, text) / 3 END AS v
        FROM bound JOIN field ON field.n = bound.n
    )
),
ends (n, a, b, s) AS MATERIALIZED (
    SELECT a.n, a.v, b.v, CASE
        WHEN a.step IS NULL THEN 1
        WHEN (a.step GLOB '[0-9]' OR a.step GLOB '[0-9][0-9]') AND (a.span = '*' OR instr(a.span, '-') > 0)
            AND CAST(a.step AS INTEGER) BETWEEN 1 AND steps THEN CAST(a.step AS INTEGER) END
    FROM value AS a JOIN value AS b ON b.n = a.n AND b.span = a.span AND b.step IS a.step JOIN field ON field.n = a.n
    WHERE NOT a.upper AND b.upper
),
wrong (n) AS MATERIALIZED (
    SELECT min(n) FROM (
        SELECT 0 AS n WHERE (SELECT max(n) FROM word) <> 5
        UNION ALL
        SELECT n FROM ends WHERE a IS NULL OR b IS NULL OR s IS NULL OR a > b
    )
),
chosen (n, v, b, s) AS MATERIALIZED (
    SELECT n, a, b, s FROM ends WHERE (SELECT n FROM wrong) IS NULL
    UNION
    SELECT n, v + s, b, s FROM chosen WHERE v + s <= b
),
listed (n, v) AS MATERIALIZED (SELECT DISTINCT n, iif(n = 5, v % 7, v) FROM chosen),
needs_both (yes) AS MATERIALIZED (SELECT EXISTS (SELECT 1 FROM word WHERE n IN (3, 5) AND substr(text, 1, 1) = '*')), -- both day fields must hit
minute (at) AS MATERIALIZED (
    SELECT DISTINCT h.v * 60 + m.v FROM listed AS h JOIN listed AS m ON m.n = 1 WHERE h.n = 2
),
jitter (ms) AS MATERIALIZED (SELECT (WITH RECURSIVE scan (n, rest, total) AS (
    SELECT 0, CASE WHEN NEW.jitter GLOB '*[^0-9dhms]*' THEN '!' ELSE replace(NEW.jitter, 'ms', 'x') END, 0
    UNION ALL
    SELECT n + 1,
        CASE
            WHEN instr(rest, substr('dhmsx', n + 1, 1)) = 0 THEN rest
            WHEN instr(rest, substr('dhmsx', n + 1, 1)) = 1
                OR substr(rest, 1, instr(rest, substr('dhmsx', n + 1, 1)) - 1) GLOB '*[^0-9]*' THEN '!'
            ELSE substr(rest, instr(rest, substr('dhmsx', n + 1, 1)) + 1)
        END,
        total + CASE n WHEN 0 THEN 86400000 WHEN 1 THEN 3600000 WHEN 2 THEN 60000 WHEN 3 THEN 1000 ELSE 1 END
            * iif(instr(rest, substr('dhmsx', n + 1, 1)) > 1,
                CAST(substr(rest, 1, instr(rest, substr('dhmsx', n + 1, 1)) - 1) AS INTEGER), 0)
    FROM scan WHERE n < 5
) SELECT total FROM scan WHERE n = 5 AND rest = '') WHERE NEW.jitter <> ''),
gap (minutes) AS ( -- as if it fired on every day
    SELECT min(at - prior) FROM (SELECT at, lag(at) OVER (ORDER BY at) AS prior FROM minute)
    UNION ALL
    SELECT 1440 + min(at) - max(at) FROM minute
)
SELECT CASE
    WHEN (SELECT n FROM wrong) IS NOT NULL THEN (SELECT n FROM wrong)
    WHEN (SELECT yes FROM needs_both) AND NOT EXISTS (
        SELECT 1 FROM listed AS m JOIN listed AS d ON d.n = 3
        WHERE m.n = 4 AND d.v <= CASE WHEN m.v = 2 THEN 29 WHEN m.v IN (4, 6, 9, 11) THEN 30 ELSE 31 END) THEN 6
    WHEN (SELECT ms FROM jitter) >= (SELECT min(minutes) FROM gap) * 60000 THEN 7
END) AS mistake WHERE NEW.cron <> '');
END;

CREATE TRIGGER schedule_updated BEFORE UPDATE OF name, task, cron, every, after, timezone, payload, jitter, from_at, until_at,
    missed, catch_up, overlap, source ON schedule WHEN NEW.source = 'sql'
BEGIN
    SELECT CASE
    WHEN instr(NEW.name || NEW.task || ifnull(NEW.cron, '') || ifnull(NEW.every, '') || ifnull(NEW.after, '') || ifnull(NEW.jitter, '')
        || ifnull(NEW.from_at, '') || ifnull(NEW.until_at, '') || ifnull(NEW.catch_up, ''), char(0)) > 0
    THEN RAISE(ABORT, 'text must be UTF-8 without NUL')
    WHEN kinds = 0 THEN RAISE(ABORT, 'cron: none of cron, every and after is set: set one of them')
    WHEN kinds > 1 THEN RAISE(ABORT, 'cron: more than one of cron, every and after is set: a schedule has one of them')
    WHEN NEW.timezone <> '' AND ifnull(NEW.cron, '') = '' THEN RAISE(ABORT, 'timezone: it has an effect only with cron: leave it out')
    WHEN NEW.timezone <> '' AND NOT EXISTS (SELECT 1 FROM schedule_zone WHERE name = NEW.timezone)
    THEN RAISE(ABORT, 'timezone: there is no such time zone: use an IANA name, as in Asia/Singapore or UTC')
    WHEN length(CAST(NEW.payload AS BLOB)) > (SELECT max_payload FROM setting)
    THEN RAISE(ABORT, 'payload: it is larger than the bound on payloads: see option max-payload of leasehold migrate')
    WHEN NEW.missed NOT IN ('', 'one', 'all', 'none') THEN RAISE(ABORT, 'missed: use one, all or none')
    WHEN NEW.overlap NOT IN ('', 'skip', 'queue') THEN RAISE(ABORT, 'overlap: use skip or queue')
    WHEN NEW.every <> '' AND every IS NULL OR NEW.after <> '' AND after IS NULL OR NEW.jitter <> '' AND jitter IS NULL
        OR NEW.catch_up <> '' AND catch_up IS NULL
    THEN RAISE(ABORT, 'every, after, jitter and catch_up: use whole numbers of d, h, m, s and ms, in this order, as in 1h30m')
    WHEN every NOT BETWEEN 1000 AND 31622400000 OR after NOT BETWEEN 1000 AND 31622400000 OR jitter > 31622400000
        OR catch_up > 31622400000
    THEN RAISE(ABORT, 'every and after must be from 1s to 366d, jitter and catch_up from 0s to 366d')
    WHEN NEW.from_at <> '' AND begins IS NULL OR NEW.until_at <> '' AND ends IS NULL
    THEN RAISE(ABORT, 'from_at and until_at: write RFC 3339 with milliseconds at most, as in 2026-12-01T00:00:00Z or 2026-12-01T08:00:00+08:00')
    WHEN begins NOT BETWEEN 0 AND 253402300799999 OR ends NOT BETWEEN 0 AND 253402300799999
    THEN RAISE(ABORT, 'from_at and until_at: use a year from 1970 to 9999')
    WHEN begins >= ends THEN RAISE(ABORT, 'until_at: it is not after from_at: no slot is between them')
    WHEN jitter > 0 AND jitter >= ifnull(every, after) THEN RAISE(ABORT, 'jitter: it is not shorter than the time between two slots')
    WHEN length(CAST(NEW.cron AS BLOB)) > 512 THEN RAISE(ABORT, 'cron: the expression must be 512 bytes at most')
    END
FROM (
    SELECT DISTINCT (ifnull(NEW.cron, '') <> '') + (ifnull(NEW.every, '') <> '') + (ifnull(NEW.after, '') <> '') AS kinds,
        (WITH RECURSIVE scan (n, rest, total) AS (
    SELECT 0, CASE WHEN NEW.every GLOB '*[^0-9dhms]*' THEN '!' ELSE replace(NEW.every, 'ms', 'x') END, 0
    UNION ALL
    SELECT n + 1,
        CASE
            WHEN instr(rest, substr('dhmsx', n + 1, 1)) = 0 THEN rest
            WHEN instr(rest, substr('dhmsx', n + 1, 1)) = 1
                OR substr(rest, 1, instr(rest, substr('dhmsx', n + 1, 1)) - 1) GLOB '*[^0-9]*' THEN '!'
            ELSE substr(rest, instr(rest, substr('dhmsx', n + 1, 1)) + 1)
        END,
        total + CASE n WHEN 0 THEN 86400000 WHEN 1 THEN 3600000 WHEN 2 THEN 60000 WHEN 3 THEN 1000 ELSE 1 END
            * iif(instr(rest, substr('dhmsx', n + 1, 1)) > 1,
                CAST(substr(rest, 1, instr(rest, substr('dhmsx', n + 1, 1)) - 1) AS INTEGER), 0)
    FROM scan WHERE n < 5
) SELECT total FROM scan WHERE n = 5 AND rest = '') AS every, (WITH RECURSIVE scan (n, rest, total) AS (
    SELECT 0, CASE WHEN NEW.after GLOB '*[^0-9dhms]*' THEN '!' ELSE replace(NEW.after, 'ms', 'x') END, 0
    UNION ALL
    SELECT n + 1,
        CASE
            WHEN instr(rest, substr('dhmsx', n + 1, 1)) = 0 THEN rest
            WHEN instr(rest, substr('dhmsx', n + 1, 1)) = 1
                OR substr(rest, 1, instr(rest, substr('dhmsx', n + 1, 1)) - 1) GLOB '*[^0-9]*' THEN '!'
            ELSE substr(rest, instr(rest, substr('dhmsx', n + 1, 1)) + 1)
        END,
        total + CASE n WHEN 0 THEN 86400000 WHEN 1 THEN 3600000 WHEN 2 THEN 60000 WHEN 3 THEN 1000 ELSE 1 END
            * iif(instr(rest, substr('dhmsx', n + 1, 1)) > 1,
                CAST(substr(rest, 1, instr(rest, substr('dhmsx', n + 1, 1)) - 1) AS INTEGER), 0)
    FROM scan WHERE n < 5
) SELECT total FROM scan WHERE n = 5 AND rest = '') AS after, (WITH RECURSIVE scan (n, rest, total) AS (
    SELECT 0, CASE WHEN NEW.jitter GLOB '*[^0-9dhms]*' THEN '!' ELSE replace(NEW.jitter, 'ms', 'x') END, 0
    UNION ALL
    SELECT n + 1,
        CASE
            WHEN instr(rest, substr('dhmsx', n + 1, 1)) = 0 THEN rest
            WHEN instr(rest, substr('dhmsx', n + 1, 1)) = 1
                OR substr(rest, 1, instr(rest, substr('dhmsx', n + 1, 1)) - 1) GLOB '*[^0-9]*' THEN '!'
            ELSE substr(rest, instr(rest, substr('dhmsx', n + 1, 1)) + 1)
        END,
        total + CASE n WHEN 0 THEN 86400000 WHEN 1 THEN 3600000 WHEN 2 THEN 60000 WHEN 3 THEN 1000 ELSE 1 END
            * iif(instr(rest, substr('dhmsx', n + 1, 1)) > 1,
                CAST(substr(rest, 1, instr(rest, substr('dhmsx', n + 1, 1)) - 1) AS INTEGER), 0)
    FROM scan WHERE n < 5
) SELECT total FROM scan WHERE n = 5 AND rest = '') AS jitter,
        (WITH RECURSIVE scan (n, rest, total) AS (
    SELECT 0, CASE WHEN NEW.catch_up GLOB '*[^0-9dhms]*' THEN '!' ELSE replace(NEW.catch_up, 'ms', 'x') END, 0
    UNION ALL
    SELECT n + 1,
        CASE
            WHEN instr(rest, substr('dhmsx', n + 1, 1)) = 0 THEN rest
            WHEN instr(rest, substr('dhmsx', n + 1, 1)) = 1
                OR substr(rest, 1, instr(rest, substr('dhmsx', n + 1, 1)) - 1) GLOB '*[^0-9]*' THEN '!'
            ELSE substr(rest, instr(rest, substr('dhmsx', n + 1, 1)) + 1)
        END,
        total + CASE n WHEN 0 THEN 86400000 WHEN 1 THEN 3600000 WHEN 2 THEN 60000 WHEN 3 THEN 1000 ELSE 1 END
            * iif(instr(rest, substr('dhmsx', n + 1, 1)) > 1,
                CAST(substr(rest, 1, instr(rest, substr('dhmsx', n + 1, 1)) - 1) AS INTEGER), 0)
    FROM scan WHERE n < 5
) SELECT total FROM scan WHERE n = 5 AND rest = '') AS catch_up, (SELECT CASE
    WHEN day GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]' AND strftime('%Y-%m-%d', day, '+0 days') IS day
        AND clock GLOB 'T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]' AND clock < 'T24'
        AND (fraction = '' OR fraction GLOB '.[0-9]' OR fraction GLOB '.[0-9][0-9]' OR fraction GLOB '.[0-9][0-9][0-9]')
        AND (place = 'Z' OR place GLOB '[-+][01][0-9]:[0-5][0-9]' AND substr(place, 2, 2) <= '14')
    THEN CAST(strftime('%s', day || ' ' || substr(clock, 2)) AS INTEGER) * 1000 + CAST(substr(fraction || '000', 2, 3) AS INTEGER)
        - CASE substr(place, 1, 1) WHEN '+' THEN 60000 WHEN '-' THEN -60000 ELSE 0 END
            * (CAST(substr(place, 2, 2) AS INTEGER) * 60 + CAST(substr(place, 5, 2) AS INTEGER))
    END
FROM (
    SELECT substr(NEW.from_at, 1, 10) AS day, substr(NEW.from_at, 11, 9) AS clock,
        iif(substr(NEW.from_at, -1) = 'Z', 'Z', substr(NEW.from_at, -6)) AS place,
        substr(NEW.from_at, 20, max(length(NEW.from_at) - 19 - iif(substr(NEW.from_at, -1) = 'Z', 1, 6), 0)) AS fraction
    WHERE length(NEW.from_at) >= 20
)) AS begins, (SELECT CASE
    WHEN day GLOB '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]' AND strftime('%Y-%m-%d', day, '+0 days') IS day
        AND clock GLOB 'T[0-2][0-9]:[0-5][0-9]:[0-5][0-9]' AND clock < 'T24'
        AND (fraction = '' OR fraction GLOB '.[0-9]' OR fraction GLOB '.[0-9][0-9]' OR fraction GLOB '.[0-9][0-9][0-9]')
        AND (place = 'Z' OR place GLOB '[-+][01][0-9]:[0-5][0-9]' AND substr(place, 2, 2) <= '14')
    THEN CAST(strftime('%s', day || ' ' || substr(clock, 2)) AS INTEGER) * 1000 + CAST(substr(fraction || '000', 2, 3) AS INTEGER)
        - CASE substr(place, 1, 1) WHEN '+' THEN 60000 WHEN '-' THEN -60000 ELSE 0 END
            * (CAST(substr(place, 2, 2) AS INTEGER) * 60 + CAST(substr(place, 5, 2) AS INTEGER))
    END
FROM (
    SELECT substr(NEW.until_at, 1, 10) AS day, substr(NEW.until_at, 11, 9) AS clock,
        iif(substr(NEW.until_at, -1) = 'Z', 'Z', substr(NEW.until_at, -6)) AS place,
        substr(NEW.until_at, 20, max(length(NEW.until_at) - 19 - iif(substr(NEW.until_at, -1) = 'Z', 1, 6), 0)) AS fraction
    WHERE length(NEW.until_at) >= 20
)) AS ends
);
SELECT CASE mistake
    WHEN 0 THEN RAISE(ABORT, 'cron: write five fields, as in 0 3 * * mon-fri: minute, hour, day of month, month and day of week; or @yearly, @annually, @monthly, @weekly, @daily, @midnight or @hourly')
    WHEN 1 THEN RAISE(ABORT, 'cron: minute must be a list of *, */n, a, a-b and a-b/n, with values from 0 to 59 and steps to 60')
    WHEN 2 THEN RAISE(ABORT, 'cron: hour must be a list of *, */n, a, a-b and a-b/n, with values from 0 to 23 and steps to 24')
    WHEN 3 THEN RAISE(ABORT, 'cron: day of month must be a list of *, */n, a, a-b and a-b/n, with values from 1 to 31 and steps to 31')
    WHEN 4 THEN RAISE(ABORT, 'cron: month must be a list of *, */n, a, a-b and a-b/n, with values from 1 to 12 or jan to dec, and steps to 12')
    WHEN 5 THEN RAISE(ABORT, 'cron: day of week must be a list of *, */n, a, a-b and a-b/n, with values from 0 to 7 or sun to sat, and steps to 7')
    WHEN 6 THEN RAISE(ABORT, 'cron: the expression never fires: none of its months has such a day')
    WHEN 7 THEN RAISE(ABORT, 'jitter: it is not shorter than the shortest time between two of its times of day')
    END
FROM (SELECT DISTINCT (WITH RECURSIVE
line (text) AS (
    SELECT CASE
        WHEN substr(t, 1, 1) <> '@' THEN t
        WHEN t IN ('@yearly', '@annually') THEN '0 0 1 1 *'
        WHEN t = '@monthly' THEN '0 0 1 * *'
        WHEN t = '@weekly' THEN '0 0 * * 0'
        WHEN t IN ('@daily', '@midnight') THEN '0 0 * * *'
        WHEN t = '@hourly' THEN '0 * * * *'
        ELSE '' END
    FROM (SELECT lower(trim(replace(NEW.cron, char(9), ' '))) AS t)
),
word (n, text, rest) AS MATERIALIZED (
    SELECT 0, '', text || ' ' FROM line
    UNION ALL
    SELECT n + 1, substr(rest, 1, instr(rest, ' ') - 1), ltrim(substr(rest, instr(rest, ' ') + 1))
    FROM word WHERE rest <> '' AND n < 6
),
field (n, lo, hi, steps, names) AS (
    VALUES (1, 0, 59, 60, ''), (2, 0, 23, 24, ''), (3, 1, 31, 31, ''), (4, 1, 12, 12, 'janfebmaraprmayjunjulaugsepoctnovdec'),
        (5, 0, 7, 7, 'sunmontuewedthufrisat')
),
item (n, k, text, rest) AS MATERIALIZED (
    SELECT n, 0, '', text || ',' FROM word WHERE n > 0
    UNION ALL
    SELECT n, k + 1, substr(rest, 1, instr(rest, ',') - 1), substr(rest, instr(rest, ',') + 1) FROM item WHERE rest <> ''
),
part (n, span, step) AS MATERIALIZED ( -- step is NULL where there is none
    SELECT n, iif(instr(text, '/') > 0, substr(text, 1, instr(text, '/') - 1), text),
        iif(instr(text, '/') > 0, substr(text, instr(text, '/') + 1), NULL)
    FROM item WHERE k > 0
),
bound (n, upper, text, span, step) AS MATERIALIZED ( -- both ends of each part: the one value is its first and its last
    SELECT n, 0, iif(instr(span, '-') > 0, substr(span, 1, instr(span, '-') - 1), span), span, step FROM part
    UNION ALL
    SELECT n, 1, substr(span, instr(span, '-') + 1), span, step FROM part
),
value (n, upper, v, span, step) AS MATERIALIZED (
    SELECT n, upper, CASE WHEN span = '*' THEN iif(upper, min(hi, iif(n = 5, 6, hi)), lo) WHEN v BETWEEN lo AND hi THEN v END, span, step
    FROM (
        SELECT bound.n, upper, lo, hi, span, step, CASE
            WHEN text GLOB '[0-9]' OR text GLOB '[0-9][0-9]' THEN CAST(text AS INTEGER)
            WHEN length(text) = 3 AND instr(names, text) % 3 = 1 THEN lo + instr(names, text) / 3 END AS v
        FROM bound JOIN field ON field.n = bound.n
    )
),
ends (n, a, b, s) AS MATERIALIZED (
    SELECT a.n, a.v, b.v, CASE
        WHEN a.step IS NULL THEN 1
        WHEN (a.step GLOB '[0-9]' OR a.step GLOB '[0-9][0-9]') AND (a.span = '*' OR instr(a.span, '-') > 0)
            AND CAST(a.step AS INTEGER) BETWEEN 1 AND steps THEN CAST(a.step AS INTEGER) END
    FROM value AS a JOIN value AS b ON b.n = a.n AND b.span = a.span AND b.step IS a.step JOIN field ON field.n = a.n
    WHERE NOT a.upper AND b.upper
),
wrong (n) AS MATERIALIZED (
    SELECT min(n) FROM (
        SELECT 0 AS n WHERE (SELECT max(n) FROM word) <> 5
        UNION ALL
        SELECT n FROM ends WHERE a IS NULL OR b IS NULL OR s IS NULL OR a > b
    )
),
chosen (n, v, b, s) AS MATERIALIZED (
    SELECT n, a, b, s FROM ends WHERE (SELECT n FROM wrong) IS NULL
    UNION
    SELECT n, v + s, b, s FROM chosen WHERE v + s <= b
),
listed (n, v) AS MATERIALIZED (SELECT DISTINCT n, iif(n = 5, v % 7, v) FROM chosen),
needs_both (yes) AS MATERIALIZED (SELECT EXISTS (SELECT 1 FROM word WHERE n IN (3, 5) AND substr(text, 1, 1) = '*')), -- both day fields must hit
minute (at) AS MATERIALIZED (
    SELECT DISTINCT h.v * 60 + m.v FROM listed AS h JOIN listed AS m ON m.n = 1 WHERE h.n = 2
),
jitter (ms) AS MATERIALIZED (SELECT (WITH RECURSIVE scan (n, rest, total) AS (
    SELECT 0, CASE WHEN NEW.jitter GLOB '*[^0-9dhms]*' THEN '!' ELSE replace(NEW.jitter, 'ms', 'x') END, 0
    UNION ALL
    SELECT n + 1,
        CASE
            WHEN instr(rest, substr('dhmsx', n + 1, 1)) = 0 THEN rest
            WHEN instr(rest, substr('dhmsx', n + 1, 1)) = 1
                OR substr(rest, 1, instr(rest, substr('dhmsx', n + 1, 1)) - 1) GLOB '*[^0-9]*' THEN '!'
            ELSE substr(rest, instr(rest, substr('dhmsx', n + 1, 1)) + 1)
        END,
        total + CASE n WHEN 0 THEN 86400000 WHEN 1 THEN 3600000 WHEN 2 THEN 60000 WHEN 3 THEN 1000 ELSE 1 END
            * iif(instr(rest, substr('dhmsx', n + 1, 1)) > 1,
                CAST(substr(rest, 1, instr(rest, substr('dhmsx', n + 1, 1)) - 1) AS INTEGER), 0)
    FROM scan WHERE n < 5
) SELECT total FROM scan WHERE n = 5 AND rest = '') WHERE NEW.jitter <> ''),
gap (minutes) AS ( -- as if it fired on every day
    SELECT min(at - prior) FROM (SELECT at, lag(at) OVER (ORDER BY at) AS prior FROM minute)
    UNION ALL
    SELECT 1440 + min(at) - max(at) FROM minute
)
SELECT CASE
    WHEN (SELECT n FROM wrong) IS NOT NULL THEN (SELECT n FROM wrong)
    WHEN (SELECT yes FROM needs_both) AND NOT EXISTS (
        SELECT 1 FROM listed AS m JOIN listed AS d ON d.n = 3
        WHERE m.n = 4 AND d.v <= CASE WHEN m.v = 2 THEN 29 WHEN m.v IN (4, 6, 9, 11) THEN 30 ELSE 31 END) THEN 6
    WHEN (SELECT ms FROM jitter) >= (SELECT min(minutes) FROM gap) * 60000 THEN 7
END) AS mistake WHERE NEW.cron <> '');
END;

-- Only agents change what HCL declares. They write another number of a declaration with it.
CREATE TRIGGER schedule_kept BEFORE UPDATE OF name, task, cron, every, after, timezone, payload, jitter, from_at, until_at,
    missed, catch_up, overlap, source ON schedule WHEN OLD.source = 'hcl' AND NEW.declared IS OLD.declared
BEGIN
    SELECT RAISE(ABORT, 'the schedule is declared in HCL: change it there');
END;

-- It would be inserted again at once.
CREATE TRIGGER schedule_deleted BEFORE DELETE ON schedule WHEN OLD.source = 'hcl' AND EXISTS (
    SELECT 1 FROM schedule_declaration
    JOIN schedule_declarer ON schedule_declarer.number = schedule_declaration.number
    JOIN agent ON agent.session = schedule_declarer.session
    WHERE schedule_declaration.name = OLD.name AND json_extract(schedule_declaration.spec, '$.task') = OLD.task
      AND agent.present_until > strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
BEGIN
    SELECT RAISE(ABORT, 'an agent that is present declares the schedule: take it out of its configuration first');
END;

-- A firing that was decided before the change is not applied, an agent looks at the schedule at once, and where its slots
-- changed, those of the new declaration count from now on.
CREATE TRIGGER schedule_changed AFTER UPDATE OF task, cron, every, after, timezone, payload, jitter, from_at, until_at, missed,
    catch_up, overlap, source ON schedule
BEGIN
    UPDATE schedule SET version = OLD.version + 1, invalid = NULL, next_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'),
        cursor_at = iif((NEW.cron, NEW.every, NEW.after, NEW.timezone, NEW.from_at, NEW.until_at)
            IS (OLD.cron, OLD.every, OLD.after, OLD.timezone, OLD.from_at, OLD.until_at), OLD.cursor_at,
            max(ifnull(OLD.cursor_at, ''), strftime('%Y-%m-%dT%H:%M:%fZ', 'now')))
    WHERE name = NEW.name;
END;

-- What configurations declare: one row for each schedule and each of its declarations that was ever loaded. The highest number
-- is the newest one.
CREATE TABLE schedule_declaration (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    name     TEXT NOT NULL,
    hash     TEXT NOT NULL,                      -- of spec
    spec     TEXT NOT NULL,
    first_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    UNIQUE (name, hash)
) STRICT;

-- Which sessions declare what. It counts while the session is present.
CREATE TABLE schedule_declarer (
    session INTEGER NOT NULL,
    number  INTEGER NOT NULL,
    PRIMARY KEY (session, number)
) STRICT, WITHOUT ROWID;

-- Schedules for operators and applications. The end of last_task is in tasks.
CREATE VIEW schedules AS
    SELECT name, task, cron, every, after, timezone, payload, jitter, from_at, until_at, missed, catch_up, overlap, source,
           created_at, next_at, last_slot, last_task, last_by, queued_slot, missed_slots, paused_at, paused_by, parked_at, invalid
    FROM schedule;

-- Plans that cut a big table into ranges of its key (chunks), each of which becomes a task. The
-- names of its columns are those of store.ChunkPlan. Agents declare them, and an agent checks what is declared.
CREATE TABLE chunk_plan (
    name       TEXT NOT NULL PRIMARY KEY
               CONSTRAINT "name must not be empty" CHECK (name <> '')
               CONSTRAINT "name must be 200 bytes at most" CHECK (length(CAST(name AS BLOB)) <= 200),
    task       TEXT NOT NULL,               -- type of the rows
    table_name TEXT NOT NULL,
    key_name   TEXT NOT NULL,
    declared   INTEGER NOT NULL,            -- number of the declaration in force
    source     TEXT NOT NULL DEFAULT '{}',  -- store.ChunkSource, human-readable
    size_start INTEGER NOT NULL,
    size_min   INTEGER NOT NULL DEFAULT 0,
    size_max   INTEGER NOT NULL DEFAULT 0,
    target_us  INTEGER NOT NULL DEFAULT 0,  -- microseconds that a chunk should take; 0: chunks keep their size
    ahead      INTEGER NOT NULL,
    follow_us  INTEGER NOT NULL DEFAULT 0,  -- how often to look for new rows; 0: one pass
    created_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    paused_at  TEXT,                        -- by an operator
    paused_by  TEXT,
    version    INTEGER NOT NULL DEFAULT (abs(random()) >> 15), -- as of schedule
    pass       INTEGER NOT NULL DEFAULT 0,  -- the newest; 0: none
    high       TEXT,                        -- the end of all that was ever planned
    over       INTEGER NOT NULL DEFAULT 0,  -- no pass follows
    grow_at    TEXT,                        -- when to look for rows behind high
    repeat_at  TEXT,                        -- when to begin with the table again
    rest_us    INTEGER NOT NULL DEFAULT 0,  -- how far away grow_at may be, although follow_us is less
    size       INTEGER NOT NULL DEFAULT 0,  -- rows of the next chunk
    per_row    REAL NOT NULL DEFAULT 0,     -- seconds, smoothed
    sampled    TEXT NOT NULL DEFAULT '',
    done_rows  INTEGER NOT NULL DEFAULT 0,  -- of chunks that succeeded, as far as noted, and their microseconds
    done_us    INTEGER NOT NULL DEFAULT 0,
    holder     TEXT,                        -- the agent that plans now, its name and something of its own
    held_until TEXT
) STRICT;

-- Declarations of chunk plans, and the sessions that declare them, as those of schedules.
CREATE TABLE chunk_declaration (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    first_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    name     TEXT NOT NULL,
    hash     TEXT NOT NULL,                 -- of spec
    spec     TEXT NOT NULL,                 -- JSON
    UNIQUE (name, hash)
) STRICT;
CREATE TABLE chunk_declarer (
    session INTEGER NOT NULL,
    number  INTEGER NOT NULL,
    PRIMARY KEY (session, number)
) STRICT, WITHOUT ROWID;

-- Limits of task types over all agents, as the present ones declare them: a row for each row type that has one. The types of one
-- declaration share its limit, whose name is one of them.
CREATE TABLE type_limit (
    type     TEXT PRIMARY KEY,
    name     TEXT NOT NULL,
    declared INTEGER NOT NULL,              -- number of the declaration in force
    most     INTEGER NOT NULL,              -- attempts at once; 0: no bound
    rate     REAL NOT NULL,                 -- starts in a second; 0: no bound
    burst    INTEGER NOT NULL,              -- starts at once
    tenant_most  INTEGER NOT NULL,          -- the same for each tenant
    tenant_rate  REAL NOT NULL,
    tenant_burst INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What a rate allows to start, by the name of its limit (store.Bucket). It stays when the limit goes, so that one which comes back brings no
-- new burst.
CREATE TABLE limit_bucket (
    name       TEXT PRIMARY KEY,
    tokens     REAL NOT NULL,
    counted_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- What a rate of tenants allows to start, by limit and tenant. A bucket that is not here is full, so what is full again is removed.
CREATE TABLE tenant_bucket (
    name       TEXT NOT NULL,               -- of the limit
    tenant     TEXT NOT NULL,
    tokens     REAL NOT NULL,
    counted_at TEXT NOT NULL,
    full_at    TEXT NOT NULL,               -- when it will be full if nothing starts
    PRIMARY KEY (name, tenant)
) STRICT, WITHOUT ROWID;

-- Places that attempts keep which have been settled and may still be at work, until their leases end.
CREATE TABLE limit_place (
    task_id INTEGER NOT NULL,
    fence   INTEGER NOT NULL,
    name    TEXT NOT NULL,                  -- of the limit
    kept_at TEXT NOT NULL,
    until   TEXT NOT NULL,
    tenant  TEXT,
    PRIMARY KEY (task_id, fence)
) STRICT, WITHOUT ROWID;
CREATE INDEX limit_place_name ON limit_place (name, tenant);

-- Declarations of limits, and the sessions that declare them, as those of schedules.
CREATE TABLE limit_declaration (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    first_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    name     TEXT NOT NULL,
    hash     TEXT NOT NULL,                 -- of spec
    spec     TEXT NOT NULL,                 -- JSON
    UNIQUE (name, hash)
) STRICT;
CREATE TABLE limit_declarer (
    session INTEGER NOT NULL,
    number  INTEGER NOT NULL,
    PRIMARY KEY (session, number)
) STRICT, WITHOUT ROWID;

-- The ledger: the passes of plans. A pass has cut the table behind from_key and up to through_key without a gap, since a step is
-- applied only where its ranges continue those before. A pass without chunks goes when it ends, the others stay for ever.
CREATE TABLE chunk_pass (
    plan        TEXT NOT NULL,
    pass        INTEGER NOT NULL,
    whole       INTEGER NOT NULL,           -- it began with the table
    from_key    TEXT,
    through_key TEXT,
    ranges      INTEGER NOT NULL DEFAULT 0, -- chunks, those left to earlier passes, and those without rows
    chunks      INTEGER NOT NULL DEFAULT 0,
    rows        INTEGER NOT NULL DEFAULT 0, -- of its chunks
    cost_us     INTEGER NOT NULL DEFAULT 0, -- for which the source was read
    sizes       TEXT NOT NULL DEFAULT '[]', -- rows of a chunk as they changed
    first_key   TEXT,                       -- of the table, when the pass began
    last_key    TEXT,
    batch_id    INTEGER,                    -- NULL: the next chunk gets a new one
    began_at    TEXT NOT NULL,
    sealed_at   TEXT,                       -- NULL: it is being planned
    PRIMARY KEY (plan, pass)
) STRICT, WITHOUT ROWID;

-- Chunks. What became of one that is open its task shows. A step notes that it has finished, and revive opens it again; so what
-- failed is known when its task is past its retention. One goes with its batch, unless it has failed.
CREATE TABLE chunk_range (
    task_id     INTEGER PRIMARY KEY,
    plan        TEXT NOT NULL,
    state       TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'failed', 'over')),
    pass        INTEGER NOT NULL,           -- the newest that came by it
    step        INTEGER NOT NULL,           -- version of the plan; step, item and part give the order of the key within the pass
    item        INTEGER NOT NULL,
    part        TEXT NOT NULL DEFAULT '',   -- of a chunk that was split
    planned     INTEGER NOT NULL,           -- the pass that inserted it
    after_key   TEXT,
    through_key TEXT NOT NULL,
    rows        INTEGER NOT NULL,           -- when it was cut
    failures    INTEGER NOT NULL            -- earlier passes in a row in which the range failed
) STRICT;
CREATE INDEX chunk_range_place ON chunk_range (plan, pass, step, item, part) WHERE state <> 'over';

-- Followers as tasks that wait.
CREATE VIEW followers AS
    SELECT id, type, 'pending' AS state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
           created_at, 0 AS attempt, 0 AS deferrals, 0 AS ever_started, 0 AS fence, NULL AS session, NULL AS claim, NULL AS policy,
           NULL AS lease_until, NULL AS claimed_at, NULL AS deadline, NULL AS outcome, NULL AS error, NULL AS result,
           NULL AS checkpoint, NULL AS batch_id, rollback_payload, NULL AS cause, 0 AS round, lock, sequence, tenant, NULL AS after, 0 AS spilled,
           (SELECT live.id FROM task AS live WHERE live.type = follow.type AND live.key = follow.key) AS follows
    FROM follow;

-- All tasks, live and finished, and followers.
CREATE VIEW tasks AS
    SELECT id, type, state, priority, ifnull(spilled_from, region) AS region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
           created_at, attempt, deferrals, ever_started, fence, session, claim, policy, lease_until, claimed_at, deadline,
           outcome, CASE WHEN task.state IN ('rollback_pending', 'rollback_running', 'rolled_back')
        AND (SELECT h.phase FROM attempt AS h WHERE h.task_id = task.id ORDER BY h.fence DESC LIMIT 1) = 'rollback'
    THEN (SELECT h.error FROM attempt AS h WHERE h.task_id = task.id AND h.phase = 'run' ORDER BY h.fence DESC LIMIT 1)
    ELSE task.error END AS error, result, NULL AS output, NULL AS started_at, NULL AS finished_at,
           progress, message, checkpoint, cancel_requested_at, cancel_requested_by, ifnull(detached, 0) AS detached,
           batch_id, rollback_payload, cause, round, NULL AS follows, lock, held, sequence, after,
           iif(after IS NULL, NULL, ifnull(after_if, 'succeeded')) AS after_if, NULL AS cancelled_for, tenant,
           spilled_from IS NOT NULL AS spilled, nullif(failed_task, id) AS failed_task
    FROM task
    UNION ALL
    SELECT id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
           created_at, attempt, deferrals, ever_started, fence, session, claim, policy, lease_until, claimed_at, deadline,
           outcome, CASE WHEN task_archive.state IN ('rollback_pending', 'rollback_running', 'rolled_back')
        AND (SELECT h.phase FROM attempt AS h WHERE h.task_id = task_archive.id ORDER BY h.fence DESC LIMIT 1) = 'rollback'
    THEN (SELECT h.error FROM attempt AS h WHERE h.task_id = task_archive.id AND h.phase = 'run' ORDER BY h.fence DESC LIMIT 1)
    ELSE task_archive.error END, result, output, started_at, finished_at,
           progress, message, checkpoint, cancel_requested_at, cancel_requested_by, 0,
           batch_id, rollback_payload, cause, round, NULL, lock, NULL, sequence, after,
           iif(after IS NULL, NULL, ifnull(after_if, 'succeeded')), cancelled_for, tenant, 0,
           nullif(failed_task, id)
    FROM task_archive
    UNION ALL
    SELECT id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
           created_at, attempt, deferrals, ever_started, fence, session, claim, policy, lease_until, claimed_at, deadline,
           outcome, error, result, NULL, NULL, NULL,
           NULL, NULL, checkpoint, NULL, NULL, 0,
           batch_id, rollback_payload, cause, round, follows, lock, NULL, sequence, NULL, NULL, NULL, tenant, 0, NULL
    FROM followers;

-- Locks that are held, each by a row that runs, or has ended and not been followed yet. Claims and promotions write it.
CREATE TABLE lock_holder (
    name    TEXT PRIMARY KEY,
    task_id INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What promotions have to look at: a row with a lock has stopped to run, or to wait without being held. It is written in the
-- transaction that moves the row.
CREATE TABLE lock_note (
    id    INTEGER PRIMARY KEY,
    name  TEXT NOT NULL,
    until TEXT             -- what the row ran may be at work until then, and the lock stays held; NULL: it has ended
) STRICT;
CREATE INDEX lock_note_until ON lock_note (name, until) WHERE until IS NOT NULL;

-- Sequences that claims have met, and whose turn it is. task_id is the head: it keeps its turn for as long as it is in task. NULL: there is
-- none, because nothing waits, or because a failure blocks the sequence. Claims and promotions write it.
CREATE TABLE sequence_holder (
    type    TEXT NOT NULL,
    name    TEXT NOT NULL,
    task_id INTEGER,
    PRIMARY KEY (type, name)
) STRICT, WITHOUT ROWID;

-- What promotions have to look at: a row with a sequence has ended, as lock_note.
CREATE TABLE sequence_note (
    id    INTEGER PRIMARY KEY,
    type  TEXT NOT NULL,
    name  TEXT NOT NULL,
    until TEXT             -- what the row ran may be at work until then, and no other has its turn; NULL: it has ended
) STRICT;
CREATE INDEX sequence_note_until ON sequence_note (type, name, until) WHERE until IS NOT NULL;

-- Finished rows of sequences that have not succeeded, until that is resolved: the archived row is kept as long. What it means, whether it
-- blocks the rows behind it, is decided when its turn comes, by sequence_rule.
CREATE TABLE sequence_failure (
    task_id INTEGER PRIMARY KEY,
    type    TEXT NOT NULL,
    name    TEXT NOT NULL
) STRICT;
CREATE INDEX sequence_failure_name ON sequence_failure (type, name, task_id);

-- What a failure does to the sequences of a row type, as the newest declaration of the present agents says: 'block' or 'continue'. A type
-- that is not in here blocks.
CREATE TABLE sequence_rule (
    type       TEXT PRIMARY KEY NOT NULL,
    declared   INTEGER NOT NULL, -- number of the declaration in force
    on_failure TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Declarations of them, and the sessions that declare them, as those of limits.
CREATE TABLE sequence_declaration (
    number     INTEGER PRIMARY KEY AUTOINCREMENT,
    type       TEXT NOT NULL,
    on_failure TEXT NOT NULL,
    UNIQUE (type, on_failure)
) STRICT;
CREATE TABLE sequence_declarer (
    session INTEGER NOT NULL,
    number  INTEGER NOT NULL,
    PRIMARY KEY (session, number)
) STRICT, WITHOUT ROWID;

-- Sequences with rows that wait, run or have failed, for operators. task_id is the row whose turn it is, or the failed one that blocks the
-- sequence; waiting counts the rows that have yet to start, but that one; since is when the row was claimed, is due, or has failed.
CREATE VIEW sequences AS
    SELECT k.type, k.sequence,
        CASE WHEN k.blocked THEN 'blocked' WHEN t.state IN ('running', 'rollback_running') THEN 'running' ELSE 'waiting' END AS state,
        iif(k.blocked, k.failed, ifnull(k.head, k.first)) AS task_id,
        k.live - (NOT k.blocked) AS waiting,
        CASE WHEN k.blocked THEN (SELECT a.finished_at FROM task_archive AS a WHERE a.id = k.failed)
            WHEN t.state IN ('running', 'rollback_running') THEN t.claimed_at ELSE t.run_at END AS since,
        (SELECT count(*) FROM sequence_failure AS f WHERE f.type = k.type AND f.name = k.sequence) AS failures
    FROM (
        SELECT g.type, g.sequence, g.live, g.failed, g.head, ifnull(g.back, g.least) AS first,
            g.head IS NULL AND g.back IS NULL AND g.failed IS NOT NULL AND ifnull(g.failed < g.least, 1)
                AND NOT EXISTS (SELECT 1 FROM sequence_rule AS p WHERE p.type = g.type AND p.on_failure = 'continue') AS blocked
        FROM (
            SELECT e.type, e.sequence, sum(e.live) AS live, min(e.least) AS least, max(e.back) AS back, min(e.failed) AS failed,
                (SELECT o.id FROM sequence_holder AS h JOIN task AS o ON o.id = h.task_id
                    AND o.type = h.type AND o.sequence = h.name WHERE h.type = e.type AND h.name = e.sequence) AS head
            FROM (
                SELECT r.type, r.sequence, count(*) AS live, min(r.id) AS least,
                    max(r.id) FILTER (WHERE r.state = 'rollback_pending') AS back, NULL AS failed
                FROM task AS r WHERE r.sequence IS NOT NULL GROUP BY r.type, r.sequence
                UNION ALL
                SELECT f.type, f.name, 0, NULL, NULL, min(f.task_id) FROM sequence_failure AS f GROUP BY f.type, f.name
            ) AS e GROUP BY e.type, e.sequence
        ) AS g
    ) AS k
    LEFT JOIN task AS t ON t.id = ifnull(k.head, k.first)
    WHERE k.live > 0 OR k.blocked;

-- All batches. The state of a batch is derived from its counters. INDEXED BY: SQLite would prefer task_running, which has the
-- running tasks of all batches.
CREATE VIEW batches AS
    SELECT id, name,
           CASE
               WHEN ended_at IS NULL AND (requested IS 'rollback' OR rolling_back > 0
                   AND live = rolling_back) THEN 'rolling_back'
               WHEN ended_at IS NULL AND (attempts > 0 OR running > 0 OR rolling_back > 0
                   OR live < total) THEN 'running'
               WHEN ended_at IS NULL THEN 'pending'
               WHEN rollback_failed > 0 THEN 'rollback_failed'
               WHEN requested IS 'rollback' THEN 'rolled_back'
               WHEN requested IS 'cancel' AND NOT by_failure AND cancelled > 0 THEN 'cancelled'
               WHEN total > 0 AND rolled_back = total THEN 'rolled_back'
               WHEN failed + rolled_back > 0 THEN iif(succeeded > 0, 'partially_failed', 'failed')
               WHEN cancelled > 0 THEN 'cancelled'
               ELSE 'succeeded'
           END AS state,
           on_failure, sealed, stopping, round, total, live, max(live - running - rolling_back, 0) AS waiting, running,
           rolling_back,
           succeeded, failed, cancelled, rolled_back, rollback_failed, failures,
           CASE WHEN total > 0 THEN (total - live) * 1.0 / total END AS progress,
           finish_type, labels, created_by, created_at, ended_at,
           (SELECT verb FROM operation WHERE batch_id = counted.id AND task_id IS NULL AND ended_at IS NULL) AS operation, requested_by
    FROM (SELECT id, name, on_failure, sealed, stopping, round, total, rolling_back, succeeded, failed, cancelled,
        rolled_back,
                 rollback_failed, failures, attempts, finish_type, labels, created_by, created_at, ended_at, requested, requested_by,
                 by_failure, total - succeeded - failed - cancelled - rolled_back - rollback_failed AS live,
                 (SELECT count(*) FROM task INDEXED BY task_batch WHERE batch_id = batch.id AND state = 'running') AS running
          FROM batch) AS counted;

-- Plans of chunks and their passes, for operators.
CREATE VIEW chunk_plans AS
    SELECT p.name, p.task, p.table_name, p.key_name, p.source, p.ahead, p.follow_us, p.target_us,
           iif(p.size > 0, p.size, p.size_start) AS size, p.per_row, p.pass,
           p.done_rows + (SELECT ifnull(sum(c.rows), 0) FROM chunk_range AS c INDEXED BY chunk_range_place
               JOIN task_archive AS a ON a.id = c.task_id AND a.state = 'succeeded'
               WHERE c.plan = p.name AND c.state <> 'over' AND c.state = 'open') AS done_rows, p.high, p.over, p.created_at,
           p.paused_at, p.paused_by,
           EXISTS (SELECT 1 FROM chunk_declaration AS d JOIN chunk_declarer AS r ON r.number = d.number
               JOIN agent AS a ON a.session = r.session
               WHERE d.name = p.name AND a.present_until > strftime('%Y-%m-%dT%H:%M:%fZ', 'now')) AS declared,
           (s.sealed_at IS NULL AND s.batch_id IS NOT NULL AND (b.id IS NULL OR b.sealed OR b.stopping OR b.ended_at IS NOT NULL)) AS halted, s.pass IS NOT NULL AND s.sealed_at IS NULL AS planning,
           (SELECT count(*) FROM chunk_range AS c INDEXED BY chunk_range_place JOIN task AS t ON t.id = c.task_id
               WHERE c.plan = p.name AND c.state <> 'over') AS live,
           (SELECT count(*) FROM chunk_range AS c INDEXED BY chunk_range_place
               WHERE c.plan = p.name AND c.state <> 'over' AND c.state = 'failed' AND c.failures + 1 >= 3) AS held
    FROM chunk_plan AS p
    LEFT JOIN chunk_pass AS s ON s.plan = p.name AND s.pass = p.pass
    LEFT JOIN batch AS b ON b.id = s.batch_id;
CREATE VIEW chunk_passes AS
    SELECT s.plan, s.pass, s.whole, s.from_key, s.through_key, s.ranges, s.chunks, s.rows, s.began_at, s.sealed_at, s.batch_id,
           b.state AS batch_state, b.total, b.live, b.succeeded, b.failed, b.ended_at, s.sizes, s.first_key, s.last_key
    FROM chunk_pass AS s LEFT JOIN batches AS b ON b.id = s.batch_id;

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
    WHERE name = NEW.name AND holder = NEW.holder AND NOT EXISTS (SELECT 1 FROM lapsed_lease WHERE lapsed_lease.fence = lease.fence);
    UPDATE lease SET expiry_seen_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
    WHERE name = NEW.name AND holder <> NEW.holder AND expires_at <= strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
        AND (expiry_seen_at IS NULL OR expiry_seen_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now'));
    -- The clock was set back: no lease lasts longer than its ttl.
    UPDATE lease SET expires_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('+%.3f seconds', ttl_s))
    WHERE name = NEW.name AND expires_at > strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('+%.3f seconds', ttl_s));
    DELETE FROM lease WHERE name = NEW.name AND EXISTS (SELECT 1 FROM lapsed_lease WHERE lapsed_lease.fence = lease.fence);
    INSERT INTO lease (name, holder, ttl_s, acquired_at, expires_at)
    SELECT NEW.name, NEW.holder, CAST(NEW.ttl_s AS REAL), strftime('%Y-%m-%dT%H:%M:%fZ', 'now'),
        strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('+%.3f seconds', CAST(NEW.ttl_s AS REAL)))
    WHERE NOT EXISTS (SELECT 1 FROM lease WHERE name = NEW.name);
END;

-- For the other functions, not for applications.
--
-- INSERT INTO archive (id, state, …) moves a live task to the archive, with the state and the other columns given, makes a task
-- of its follower, and notes that it has ended if others wait for that. The result stays where new_result is 0, a requested cancellation where cancel_requested_at is NULL. after_lease: something may be at
-- work until the lease's end, so that is kept. drops_documents: they are too large to be copied. on_failed:
-- the type of the row to insert, as the task has failed for good; it gets none twice. Agents settle with the same statement; there, the rows of a call are deleted
-- together.
CREATE VIEW archive AS
    SELECT id, state, attempt, deferrals, ever_started, outcome, error, 0 AS new_result, result, output, started_at,
           finished_at, 0 AS after_lease, cancel_requested_at, cancel_requested_by, 0 AS drops_documents, NULL AS on_failed
    FROM task_archive;

CREATE TRIGGER archive_insert INSTEAD OF INSERT ON archive
BEGIN
    INSERT INTO task (type, run_at, payload, labels, region, tenant, traceparent, created_by, failed_task, fence)
SELECT NEW.on_failed, max(NEW.finished_at, iif(NEW.after_lease, ifnull(task.lease_until, ''), '')),
    json_object('id', task.id, 'type', task.type, 'state', NEW.state,
        'outcome', iif(NEW.state = 'failed', NEW.outcome, task.cause),
        'error', iif(NEW.state = 'failed', NEW.error,
            (SELECT a.error FROM attempt AS a WHERE a.task_id = task.id AND a.phase = 'run' ORDER BY a.fence DESC LIMIT 1)),
        'rollback_error', iif(NEW.state = 'rollback_failed', NEW.error, NULL),
        'data', CASE WHEN length(CAST(task.payload AS BLOB)) <= 66060288 AND json_valid(task.payload) AND json_valid('[' || task.payload || ']')
            THEN json(task.payload) END),
    CASE WHEN json_valid(task.labels) THEN CASE WHEN length(CAST(task.labels AS BLOB)) <= 4096 AND json_type(task.labels) = 'object'
        AND NOT EXISTS (SELECT 1 FROM json_each(task.labels) AS label WHERE label.type <> 'text') THEN task.labels END END,
    iif(length(CAST(ifnull(task.spilled_from, task.region) AS BLOB)) <= 255, ifnull(task.spilled_from, task.region), NULL),
    iif(task.tenant <> '' AND length(CAST(task.tenant AS BLOB)) <= 1024, task.tenant, NULL),
    iif(length(CAST(task.traceparent AS BLOB)) <= 512, task.traceparent, NULL), 'leasehold', task.id, 1
    FROM task WHERE task.id = NEW.id AND NEW.on_failed IS NOT NULL AND task.failed_task IS NULL;
    INSERT INTO task_archive (
    id, type, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts, created_at,
    session, claim, policy, claimed_at, deadline, checkpoint, progress, message, batch_id, rollback_payload, cause, round, lock, sequence, after, after_if, tenant,
    failed_task, state, fence, attempt, deferrals, ever_started, outcome, error, result, output, started_at, finished_at, lease_until,
    cancel_requested_at, cancel_requested_by)
SELECT task.id, task.type, task.priority, ifnull(task.spilled_from, task.region), task.key, task.run_at, iif(NEW.drops_documents, '', task.payload), task.labels,
    task.traceparent, task.created_by, task.max_attempts, task.created_at, task.session, task.claim, task.policy, task.claimed_at,
    task.deadline, iif(NEW.drops_documents, NULL, task.checkpoint), task.progress, task.message, task.batch_id,
    iif(NEW.drops_documents, NULL, task.rollback_payload), task.cause, task.round, task.lock, task.sequence, task.after, task.after_if, task.tenant,
    iif(NEW.on_failed IS NULL, task.failed_task, ifnull(task.failed_task, task.id)),
    NEW.state, CASE WHEN task.fence BETWEEN 0 AND 4611686018426339328 THEN task.fence ELSE max(min(task.fence, 4611686018426339328), 0) END + 1, NEW.attempt, NEW.deferrals, NEW.ever_started, NEW.outcome,
    NEW.error, iif(NEW.new_result, NEW.result, task.result), NEW.output, NEW.started_at, NEW.finished_at,
    iif(NEW.after_lease, task.lease_until, NULL),
    ifnull(NEW.cancel_requested_at,task.cancel_requested_at), ifnull(NEW.cancel_requested_by,task.cancel_requested_by)
    FROM task WHERE task.id = NEW.id;
    -- Of one that waited for its lock, no other has waited.
    INSERT INTO lock_note (name) SELECT lock FROM task WHERE id = NEW.id AND lock IS NOT NULL AND held IS NULL;
    INSERT INTO sequence_note (type, name, until)
    SELECT type, sequence, lease_until FROM task_archive WHERE id =NEW.id AND sequence IS NOT NULL;
    INSERT OR IGNORE INTO sequence_failure (task_id, type, name)
    SELECT id, type, sequence FROM task_archive WHERE id =NEW.id AND sequence IS NOT NULL
    AND (state IN ('failed', 'cancelled', 'rollback_failed') OR state = 'rolled_back' AND cause IS NOT 'succeeded');
    INSERT INTO ended_note (id) SELECT id FROM task WHERE id = NEW.id AND awaited;
    DELETE FROM dependency WHERE task_id = (SELECT id FROM task WHERE id = NEW.id AND held = 'after');
    DELETE FROM dependent WHERE task_id = (SELECT id FROM task WHERE id = NEW.id AND held = 'after');
    DELETE FROM task WHERE id = NEW.id;
    INSERT INTO insert_follower (type, key, until)
    SELECT type, key, lease_until FROM task_archive WHERE id = NEW.id AND key IS NOT NULL;
END;

-- INSERT INTO cancel (id, by) cancels a task. A waiting task never starts (again), a running one is asked to stop, one that is
-- finished or being rolled back does not change. SELECT answer FROM cancel WHERE id = … is then cancelling, or the task's state.
CREATE VIEW cancel AS
    SELECT id, cancel_requested_by AS by, iif(state = 'running' AND cancel_requested_at IS NOT NULL, 'cancelling',
        state) AS answer
    FROM tasks;

CREATE TRIGGER cancel_insert INSTEAD OF INSERT ON cancel
BEGIN
    SELECT RAISE(ABORT, 'there is no task with this id') WHERE NOT EXISTS (SELECT 1 FROM tasks WHERE id = NEW.id);
    SELECT RAISE(ABORT, 'by must be 512 bytes at most') WHERE length(CAST(NEW.by AS BLOB)) > 512;

    INSERT INTO audit (requested_by, verb, task_id, answer) -- the answer is entered below
    SELECT nullif(CAST(NEW.by AS TEXT), ''), 'cancel', id, ''
    FROM task WHERE id = NEW.id
      AND (state IN ('pending', 'retry_pending') OR state = 'running' AND cancel_requested_at IS NULL)
    UNION ALL
    SELECT nullif(CAST(NEW.by AS TEXT), ''), 'cancel', id, '' FROM follow WHERE id = NEW.id;

    UPDATE task SET cancel_requested_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'),
        cancel_requested_by = nullif(CAST(NEW.by AS TEXT), '')
    WHERE id = NEW.id AND state = 'running' AND cancel_requested_at IS NULL;
    UPDATE wakeup SET cancel = cancel + 1 WHERE changes() > 0;

    -- What is rolled back is task.RollsBack's rule; the check "what is rolled back when it is cancelled" compares the two.
    INSERT INTO cancel_waiting (id, by, rollback)
    SELECT id, nullif(CAST(NEW.by AS TEXT), ''), ever_started AND EXISTS (SELECT 1 FROM rollback_policy WHERE hash = task.policy) FROM task WHERE id = NEW.id;
    INSERT INTO cancel_follower (id, by) SELECT id, nullif(CAST(NEW.by AS TEXT), '') FROM follow WHERE id = NEW.id;
    UPDATE audit SET answer = (SELECT answer FROM cancel WHERE id = NEW.id)
    WHERE id = (SELECT max(id) FROM audit) AND answer = '';
END;

-- INSERT INTO cancel_batch (id, by) cancels a batch: none of its tasks is claimed from now on. Agents cancel what waits and stop
-- what runs. SELECT answer FROM cancel_batch WHERE id = … is then cancelling, or the batch's state.
CREATE VIEW cancel_batch AS
    SELECT id, requested_by AS by,
           iif(ended_at IS NULL AND (SELECT requested FROM batch WHERE id = batches.id) IS 'cancel', 'cancelling', state) AS answer
    FROM batches;

CREATE TRIGGER cancel_batch_insert INSTEAD OF INSERT ON cancel_batch
BEGIN
    SELECT RAISE(ABORT, 'there is no batch with this id') WHERE NOT EXISTS (SELECT 1 FROM batch WHERE id = NEW.id);
    SELECT RAISE(ABORT, 'by must be 512 bytes at most') WHERE length(CAST(NEW.by AS BLOB)) > 512;
    UPDATE batch SET requested = 'cancel', requested_by = nullif(CAST(NEW.by AS TEXT), ''), by_failure = 0, stopping = 1, sealed = 1,
        failures_seen = failures
    WHERE id = NEW.id AND ended_at IS NULL AND requested IS NULL;
    -- From here on: where the statement before changed a row.
    INSERT INTO audit (requested_by, verb, batch_id, answer)
    SELECT nullif(CAST(NEW.by AS TEXT), ''), 'cancel', NEW.id, 'cancelling' WHERE changes() > 0;
    INSERT INTO operation (verb, batch_id, requested_by)
    SELECT 'cancel', NEW.id, nullif(CAST(NEW.by AS TEXT), '') WHERE changes() > 0;
    UPDATE wakeup SET cancel = cancel + 1 WHERE changes() > 0;
    UPDATE operation SET ended_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), superseded = 1
    WHERE changes() > 0 AND batch_id = NEW.id AND task_id IS NULL AND ended_at IS NULL AND verb <> 'cancel';
END;

-- For the other functions, not for applications.
--
-- INSERT INTO cancel_follower (id, by) cancels a follower: it goes to the archive.
CREATE VIEW cancel_follower AS SELECT id, created_by AS by FROM follow;

CREATE TRIGGER cancel_follower_insert INSTEAD OF INSERT ON cancel_follower
BEGIN
    INSERT INTO task_archive (id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
        created_at, attempt, deferrals, ever_started, fence, outcome, error, finished_at, cancel_requested_at, cancel_requested_by,
        rollback_payload, lock, sequence, tenant)
    SELECT id, type, 'cancelled', priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
        created_at, 0, 0, 0, 1, 'cancelled', 'cancelled before it started' || ifnull(', by ' || NEW.by, ''),
        strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), NEW.by, rollback_payload, lock,
        sequence, tenant
    FROM follow WHERE id = NEW.id;
    INSERT INTO sequence_note (type, name, until)
    SELECT type, sequence, lease_until FROM task_archive WHERE id =NEW.id AND sequence IS NOT NULL;
    INSERT OR IGNORE INTO sequence_failure (task_id, type, name)
    SELECT id, type, sequence FROM task_archive WHERE id =NEW.id AND sequence IS NOT NULL
    AND (state IN ('failed', 'cancelled', 'rollback_failed') OR state = 'rolled_back' AND cause IS NOT 'succeeded');
    INSERT INTO ended_note (id) SELECT id FROM follow WHERE id = NEW.id AND awaited;
    DELETE FROM follow WHERE id = NEW.id;
END;

-- For agents and the other functions, not for applications.
--
-- INSERT INTO cancel_waiting (id, by, rollback) ends a waiting task as cancelled or, where rollback is true, has it wait for its
-- rollback instead, which is due once its last attempt is certainly over. The caller decides which: internal/batch by
-- task.RollsBack, and the functions cancel and rollback by the same rule.
CREATE VIEW cancel_waiting AS SELECT id, cancel_requested_by AS by, 0 AS rollback FROM task;

CREATE TRIGGER cancel_waiting_insert INSTEAD OF INSERT ON cancel_waiting
BEGIN
    INSERT INTO lock_note (name)
    SELECT lock FROM task
    WHERE id = NEW.id AND state IN ('pending', 'retry_pending') AND NEW.rollback AND lock IS NOT NULL AND held IS NULL;
    UPDATE task SET state = 'rollback_pending', held = NULL, fence = fence + 1, attempt = 0, deferrals = 0, cause = 'cancelled',
        run_at = max(strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), ifnull(lease_until, '')), first_due = NULL, outcome = 'cancelled',
        error = 'cancelled while it waited' || ifnull(', by ' || NEW.by, '')
    WHERE id = NEW.id AND state IN ('pending', 'retry_pending') AND NEW.rollback;
    UPDATE wakeup SET due = due + 1 WHERE changes() > 0; -- rows that the statement before has changed
    UPDATE batch SET rolling_back = rolling_back + 1
    WHERE changes() > 0 AND id = (SELECT batch_id FROM task WHERE id = NEW.id);

    UPDATE batch SET cancelled = cancelled + 1
    WHERE id = (SELECT batch_id FROM task WHERE id = NEW.id AND state IN ('pending', 'retry_pending'));
    INSERT INTO archive (id, state, attempt, deferrals, ever_started, outcome, error, finished_at, after_lease,
        cancel_requested_at, cancel_requested_by)
    SELECT id, 'cancelled', attempt, deferrals, ever_started, 'cancelled',
           iif(ever_started, 'cancelled while it waited', 'cancelled before it started') || ifnull(', by ' || NEW.by, ''),
           strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), 1, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), NEW.by
    FROM task WHERE id = NEW.id AND state IN ('pending', 'retry_pending');
END;

-- INSERT INTO pause_chunks (name, by) has agents plan nothing more of a chunk plan. Its tasks are run as ever.
CREATE VIEW pause_chunks AS
    SELECT name, paused_by AS by FROM chunk_plan WHERE paused_at IS NOT NULL;

CREATE TRIGGER pause_chunks_insert INSTEAD OF INSERT ON pause_chunks
BEGIN
    SELECT RAISE(ABORT, 'there is no chunk plan with this name') WHERE NOT EXISTS (SELECT 1 FROM chunk_plan WHERE name = NEW.name);
    SELECT RAISE(ABORT, 'by must be 512 bytes at most') WHERE length(CAST(NEW.by AS BLOB)) > 512;
    UPDATE chunk_plan SET paused_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), paused_by = nullif(CAST(NEW.by AS TEXT), ''),
        version = version + 1
    WHERE name = NEW.name AND paused_at IS NULL;
    INSERT INTO audit (requested_by, verb, chunks, answer)
    SELECT nullif(CAST(NEW.by AS TEXT), ''), 'pause', NEW.name, 'paused' WHERE changes() > 0;
END;

-- INSERT INTO resume_chunks (name, by) has agents go on with it. Where the batch of its pass accepts no more rows, the next chunk of
-- the pass gets a new one.
CREATE VIEW resume_chunks AS
    SELECT name, NULL AS by FROM chunk_plan WHERE paused_at IS NULL;

CREATE TRIGGER resume_chunks_insert INSTEAD OF INSERT ON resume_chunks
BEGIN
    SELECT RAISE(ABORT, 'there is no chunk plan with this name') WHERE NOT EXISTS (SELECT 1 FROM chunk_plan WHERE name = NEW.name);
    SELECT RAISE(ABORT, 'by must be 512 bytes at most') WHERE length(CAST(NEW.by AS BLOB)) > 512;
    UPDATE chunk_plan SET paused_at = NULL, paused_by = NULL, version = version + 1
    WHERE name = NEW.name AND (paused_at IS NOT NULL OR EXISTS (SELECT 1 FROM chunk_plans AS v WHERE v.name = NEW.name AND v.halted));
    INSERT INTO audit (requested_by, verb, chunks, answer)
    SELECT nullif(CAST(NEW.by AS TEXT), ''), 'resume', NEW.name, 'resumed' WHERE changes() > 0;
    UPDATE chunk_pass SET batch_id = NULL
    WHERE plan = NEW.name AND EXISTS (
        SELECT 1 FROM chunk_plans AS v WHERE v.name = chunk_pass.plan AND v.pass = chunk_pass.pass AND v.halted);
END;

-- INSERT INTO complete (id, fence, result) ends a run as succeeded, or a rollback as rolled back, where the task is held with
-- that fence. A repeat does nothing, even after the completed run was rolled back.
CREATE VIEW complete AS
    SELECT id, fence, result FROM task WHERE state IN ('running', 'rollback_running');

CREATE TRIGGER complete_insert INSTEAD OF INSERT ON complete
BEGIN
    SELECT RAISE(ABORT, 'result must be JSON') WHERE NEW.result IS NOT NULL AND NOT json_valid(NEW.result);
    SELECT RAISE(ABORT, 'result must be 64 KiB at most') WHERE length(CAST(NEW.result AS BLOB)) > 65536;
    SELECT RAISE(ABORT, 'the task is not held with this fence any more: stop, and commit nothing')
    WHERE NOT EXISTS (SELECT 1 FROM task WHERE id = NEW.id AND fence = NEW.fence
                      AND state IN ('running', 'rollback_running') AND claim > 0)
      AND NOT EXISTS (SELECT 1 FROM task_archive WHERE id = NEW.id AND fence = NEW.fence + 1 AND outcome = 'succeeded')
      AND NOT EXISTS (SELECT 1 FROM attempt WHERE task_id = NEW.id AND fence = NEW.fence AND outcome = 'succeeded');
    -- As when an agent settles it.
    INSERT INTO attempt (task_id, fence, ran_fence, session, policy, phase, attempt, outcome, result, state, started_at, ended_at)
    SELECT id, fence, fence, session, policy, phase, attempt, 'succeeded', json(NEW.result), state, claimed_at,
           strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
    FROM (SELECT id, fence, session, policy, iif(state = 'running', 'run', 'rollback') AS phase, attempt, claimed_at,
              iif(state = 'running', 'succeeded', 'rolled_back') AS state
          FROM task WHERE id = NEW.id AND fence = NEW.fence AND state IN ('running', 'rollback_running')) AS ended
    WHERE NOT (ended.state = 'succeeded' AND ended.attempt = 1);
    UPDATE batch SET (succeeded, rolled_back, rolling_back, attempts) = (
        SELECT succeeded + (task.state = 'running'), rolled_back + (task.state <> 'running'),
               rolling_back - (task.state <> 'running'), attempts + 1
        FROM task WHERE task.id = NEW.id)
    WHERE id = (SELECT batch_id FROM task
                WHERE id = NEW.id AND fence = NEW.fence AND state IN ('running', 'rollback_running'));
    -- The result of a rollback is in the history only: the row keeps that of its run.
    INSERT INTO archive (id, state, attempt, deferrals, ever_started, outcome, new_result, result, started_at, finished_at, after_lease,
        on_failed)
    SELECT id, state, attempt, 0, 1, 'succeeded',
           ended.state = 'succeeded' AND ended.attempt = 1 OR state = 'succeeded' AND NEW.result IS NOT NULL,
           json(NEW.result), claimed_at, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), 0,
           -- A task has failed that is rolled back by this end: Go's task.FailedForGood; a check compares the two.
           iif(state = 'rolled_back' AND ifnull(cause, '') NOT IN ('succeeded', 'cancelled'),
               (SELECT json_extract(policy.body, '$.on_failed') FROM policy WHERE policy.hash = ended.policy), NULL)
    FROM (SELECT id, attempt, claimed_at, cause, policy, iif(state = 'running', 'succeeded', 'rolled_back') AS state
          FROM task WHERE id = NEW.id AND fence = NEW.fence AND state IN ('running', 'rollback_running')) AS ended;
END;

-- INSERT INTO enqueue (type, payload, key, …) inserts a task, and does nothing where a live task has the type and the key. The
-- id, new or existing, is then SELECT id FROM enqueue WHERE type = … AND key = ….
--
-- on_live, keep, replace or again, says what becomes of such a live task; with debounce_s, seconds, it is replace, and the task is due
-- so long from now, at most debounce_max_s after it was first inserted. Where one of these is given, SELECT id, answer FROM
-- enqueue_result in the same transaction has the id, and what was done: inserted, kept, replaced or follows. Go:
-- store.EnqueueRequest.
CREATE VIEW enqueue AS
    SELECT id, type, payload, run_at, priority, key, region, max_attempts, labels, traceparent, created_by, batch_id,
           rollback_payload, NULL AS on_live, NULL AS debounce_s, NULL AS debounce_max_s, lock, sequence, after, after_if, tenant
    FROM task;

CREATE VIEW enqueue_result AS SELECT task_id AS id, answer FROM enqueued;

CREATE TRIGGER enqueue_insert INSTEAD OF INSERT ON enqueue
BEGIN
    SELECT RAISE(ABORT, 'on_live must be keep, replace or again') WHERE NEW.on_live NOT IN ('keep', 'replace', 'again');
    SELECT RAISE(ABORT, 'debounce_s must be a number of seconds above 0') WHERE NOT (NEW.debounce_s IS NULL OR CASE typeof(NEW.debounce_s) WHEN 'integer' THEN 1 WHEN 'real' THEN 1
    WHEN 'text' THEN CASE WHEN json_valid(NEW.debounce_s) THEN json_type(NEW.debounce_s) IN ('integer', 'real') ELSE 0 END
    ELSE 0 END AND CAST(NEW.debounce_s AS REAL) BETWEEN 0.001 AND 3153600000);
    SELECT RAISE(ABORT, 'debounce_max_s must be a number of seconds above 0') WHERE NOT (NEW.debounce_max_s IS NULL OR CASE typeof(NEW.debounce_max_s) WHEN 'integer' THEN 1 WHEN 'real' THEN 1
    WHEN 'text' THEN CASE WHEN json_valid(NEW.debounce_max_s) THEN json_type(NEW.debounce_max_s) IN ('integer', 'real') ELSE 0 END
    ELSE 0 END AND CAST(NEW.debounce_max_s AS REAL) BETWEEN 0.001 AND 3153600000);
    SELECT RAISE(ABORT, 'debounce_max_s needs a debounce_s') WHERE NEW.debounce_max_s IS NOT NULL AND NEW.debounce_s IS NULL;
    SELECT RAISE(ABORT, 'debounce_max_s must be debounce_s at least')
    WHERE CAST(NEW.debounce_max_s AS REAL) < CAST(NEW.debounce_s AS REAL);
    SELECT RAISE(ABORT, 'debounce_s replaces the live row: on_live must be replace, or left out')
    WHERE NEW.debounce_s IS NOT NULL AND NEW.on_live <> 'replace';
    SELECT RAISE(ABORT, 'debounce_s sets the due time: run_at must be left out')
    WHERE NEW.debounce_s IS NOT NULL AND NEW.run_at IS NOT NULL;
    SELECT RAISE(ABORT, 'on_live and debounce_s need a key')
    WHERE NEW.key IS NULL AND (NEW.debounce_s IS NOT NULL OR NEW.on_live <> 'keep');
    SELECT RAISE(ABORT, 'a row of a batch replaces and follows none: on_live must be keep')
    WHERE NEW.batch_id IS NOT NULL AND (NEW.debounce_s IS NOT NULL OR NEW.on_live <> 'keep');

    SELECT RAISE(ABORT, 'a row that waits for others replaces and follows none: on_live must be keep')
    WHERE NEW.after <> '[]' AND (NEW.debounce_s IS NOT NULL OR NEW.on_live <> 'keep');

    -- What is to be done. A live task that was ever started is not changed, nor one with a follower, which is later than the task.
    UPDATE enqueued SET (task_id, answer) = (
        SELECT live.id, CASE
            WHEN live.id IS NULL THEN 'inserted'
            WHEN NEW.on_live = 'keep' THEN 'kept'
            WHEN NEW.on_live IS NOT 'again' AND live.state = 'pending' AND NOT live.ever_started
                AND NOT EXISTS (SELECT 1 FROM follow WHERE type = NEW.type AND key = NEW.key) THEN 'replaced'
            ELSE 'follows' END
        FROM (SELECT 1) LEFT JOIN task AS live ON live.type = NEW.type AND live.key = NEW.key)
    WHERE NEW.on_live IS NOT NULL OR NEW.debounce_s IS NOT NULL;

    INSERT INTO task (type, payload, run_at, priority, key, region, max_attempts, labels, traceparent, created_by, batch_id,
                      rollback_payload, lock, sequence, after, after_if, tenant)
    VALUES (NEW.type, ifnull(NEW.payload, '{}'), ifnull(NEW.run_at, strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('+%.3f seconds', ifnull(CAST(NEW.debounce_s AS REAL), 0)))),
            ifnull(NEW.priority, 0), NEW.key, NEW.region, NEW.max_attempts, NEW.labels, NEW.traceparent, NEW.created_by,
            NEW.batch_id, NEW.rollback_payload, NEW.lock, NEW.sequence, NEW.after, NEW.after_if, NEW.tenant)
    ON CONFLICT (type, key) WHERE key IS NOT NULL DO NOTHING;

    INSERT INTO meet_live (type, payload, run_at, priority, key, region, max_attempts, labels, traceparent, created_by,
                           rollback_payload, debounce_max_s, lock, sequence, tenant)
    SELECT NEW.type, ifnull(NEW.payload, '{}'), ifnull(NEW.run_at, strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('+%.3f seconds', ifnull(CAST(NEW.debounce_s AS REAL), 0)))), ifnull(NEW.priority, 0),
           NEW.key, NEW.region, NEW.max_attempts, NEW.labels, NEW.traceparent, NEW.created_by, NEW.rollback_payload,
           NEW.debounce_max_s, NEW.lock, NEW.sequence, NEW.tenant
    FROM enqueued WHERE (NEW.on_live <> 'keep' OR NEW.debounce_s IS NOT NULL) AND answer IN ('replaced', 'follows');
    UPDATE enqueued SET task_id = (SELECT max(id) FROM task)
    WHERE answer = 'inserted' AND (NEW.on_live IS NOT NULL OR NEW.debounce_s IS NOT NULL);
END;

-- INSERT INTO hold (id, fence) raises unless the task is held with that fence. Inside a write transaction it stays held until
-- that ends: there is no other writer. A row with claim = 0 is held by a reaper, not by an attempt.
CREATE VIEW hold AS
    SELECT id, fence FROM task WHERE state IN ('running', 'rollback_running');

CREATE TRIGGER hold_insert INSTEAD OF INSERT ON hold
BEGIN
    SELECT RAISE(ABORT, 'the task is not held with this fence any more: stop, and commit nothing')
    WHERE NOT EXISTS (SELECT 1 FROM task WHERE id = NEW.id AND fence = NEW.fence
                      AND state IN ('running', 'rollback_running') AND claim > 0
                      AND lease_until > strftime('%Y-%m-%dT%H:%M:%fZ', 'now'));
END;

-- INSERT INTO hold_lease (name, fence) raises unless the named lease is held with that fence. Inside a write transaction it stays
-- held until that ends, even if it expires: there is no other writer.
CREATE VIEW hold_lease AS
    SELECT name, fence FROM lease;

CREATE TRIGGER hold_lease_insert INSTEAD OF INSERT ON hold_lease
BEGIN
    SELECT RAISE(ABORT, 'the lease is not held with this fence any more: stop, and commit nothing')
    WHERE NOT EXISTS (SELECT 1 FROM lease WHERE name = NEW.name AND fence = NEW.fence AND NOT EXISTS (
        SELECT 1 FROM lapsed_lease WHERE lapsed_lease.fence = lease.fence));
END;

-- For agents and the other functions, not for applications.
--
-- INSERT INTO insert_follower (type, key, until) makes a task of the follower of one that has ended for good; it does nothing where
-- there is none. It is due no earlier than until: something of the other may be at work until then. The task gets a fence, as
-- a revived one does: its values were checked when it came.
CREATE VIEW insert_follower AS SELECT type, key, run_at AS until FROM follow;

CREATE TRIGGER insert_follower_insert INSTEAD OF INSERT ON insert_follower
BEGIN
    INSERT INTO task (id, type, key, priority, region, run_at, payload, labels, traceparent, created_by, max_attempts, created_at,
                      rollback_payload, lock, sequence, awaited, tenant, fence)
    SELECT id, type, key, priority, region, max(run_at, ifnull(NEW.until, '')), payload, labels, traceparent, created_by, max_attempts,
           created_at, rollback_payload, lock, sequence, awaited, tenant, 1
    FROM follow WHERE type = NEW.type AND key = NEW.key;
    UPDATE wakeup SET due = due + 1 WHERE changes() > 0; -- the id is not the highest
    DELETE FROM follow WHERE type = NEW.type AND key = NEW.key;
END;

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

-- For enqueue, not for applications.
--
-- INSERT INTO meet_live (type, payload, …) gives the values to the live task of the type and the key, or to its follower, as enqueued
-- says, and notes the follower's id there. The values first become a task without the key, which is removed again: so they are
-- checked as those of any other, and a follower's id is given once. That also wakes agents, since the highest id rises.
CREATE VIEW meet_live AS
    SELECT type, payload, run_at, priority, key, region, max_attempts, labels, traceparent, created_by, rollback_payload,
           NULL AS debounce_max_s, lock, sequence, tenant
    FROM task;

CREATE TRIGGER meet_live_insert INSTEAD OF INSERT ON meet_live
BEGIN
    INSERT INTO task (type, payload, run_at, priority, region, max_attempts, labels, traceparent, created_by, rollback_payload,
        lock, sequence, tenant)
    VALUES (NEW.type, NEW.payload, NEW.run_at, NEW.priority, NEW.region, NEW.max_attempts, NEW.labels, NEW.traceparent,
            NEW.created_by, NEW.rollback_payload, NEW.lock, NEW.sequence, NEW.tenant);

    -- Others may wait for its lock behind one that is not held.
    INSERT INTO lock_note (name)
    SELECT lock FROM task WHERE id = (SELECT task_id FROM enqueued WHERE answer = 'replaced') AND lock IS NOT NULL AND held IS NULL;
    -- It may have been the head of a sequence.
    INSERT INTO sequence_note (type, name)
    SELECT type, sequence FROM task WHERE id = (SELECT task_id FROM enqueued WHERE answer = 'replaced') AND sequence IS NOT NULL;
    UPDATE task SET payload = NEW.payload, rollback_payload = NEW.rollback_payload, priority = NEW.priority, region = NEW.region, spilled_from = NULL, first_due = NULL,
        max_attempts = NEW.max_attempts, labels = NEW.labels, traceparent = NEW.traceparent, created_by = NEW.created_by,
        deadline = NULL, lock = NEW.lock, sequence = NEW.sequence, tenant = NEW.tenant, held = iif(held = 'after', held, NULL),
        run_at = iif(NEW.debounce_max_s IS NULL, NEW.run_at, min(NEW.run_at, strftime('%Y-%m-%dT%H:%M:%fZ', created_at, printf('+%.3f seconds', CAST(NEW.debounce_max_s AS REAL)))))
    WHERE id = (SELECT task_id FROM enqueued WHERE answer = 'replaced');

    INSERT INTO follow (id, type, key, priority, region, run_at, payload, labels, traceparent, created_by, max_attempts, created_at,
                        rollback_payload, lock, sequence, tenant)
    SELECT id, type, NEW.key, priority, region, run_at, payload, labels, traceparent, created_by, max_attempts, created_at,
           rollback_payload, lock, sequence, tenant
    FROM task WHERE id = (SELECT max(id) FROM task) AND (SELECT answer FROM enqueued) = 'follows'
    ON CONFLICT (type, key) DO UPDATE SET
        payload = excluded.payload, rollback_payload = excluded.rollback_payload, priority = excluded.priority,
        region = excluded.region, max_attempts = excluded.max_attempts, labels = excluded.labels,
        traceparent = excluded.traceparent, created_by = excluded.created_by, lock = excluded.lock,
        sequence = excluded.sequence, tenant = excluded.tenant,
        run_at = iif(NEW.debounce_max_s IS NULL, excluded.run_at,
            min(excluded.run_at, strftime('%Y-%m-%dT%H:%M:%fZ', follow.created_at, printf('+%.3f seconds', CAST(NEW.debounce_max_s AS REAL)))));
    UPDATE enqueued SET task_id = (SELECT id FROM follow WHERE type = NEW.type AND key = NEW.key) WHERE answer = 'follows';

    DELETE FROM task WHERE id = (SELECT max(id) FROM task);
END;

-- INSERT INTO pause (type, reason, by) has agents claim no rows of a type, neither to run nor to roll back; what runs goes on. They learn of it
-- within a second. reason is what people are told.
CREATE VIEW pause AS
    SELECT type, reason, paused_by AS by FROM type_pause;

CREATE TRIGGER pause_insert INSTEAD OF INSERT ON pause
BEGIN
    SELECT RAISE(ABORT, 'type must have 1 to 255 bytes')
    WHERE NEW.type IS NULL OR length(CAST(NEW.type AS BLOB)) NOT BETWEEN 1 AND 255;
    SELECT RAISE(ABORT, 'reason must be 512 bytes at most') WHERE length(CAST(NEW.reason AS BLOB)) > 512;
    SELECT RAISE(ABORT, 'by must be 512 bytes at most') WHERE length(CAST(NEW.by AS BLOB)) > 512;
    INSERT INTO type_pause (type, paused_by, reason)
    VALUES (NEW.type, nullif(CAST(NEW.by AS TEXT), ''), nullif(CAST(NEW.reason AS TEXT), '')) ON CONFLICT DO NOTHING;
    INSERT INTO audit (requested_by, verb, type, reason, answer)
    SELECT nullif(CAST(NEW.by AS TEXT), ''), 'pause', NEW.type, nullif(CAST(NEW.reason AS TEXT), ''), 'paused' WHERE changes() > 0;
END;

-- INSERT INTO resume (type, by) has agents claim rows of a type again.
CREATE VIEW resume AS
    SELECT type, NULL AS by FROM type_pause;

CREATE TRIGGER resume_insert INSTEAD OF INSERT ON resume
BEGIN
    SELECT RAISE(ABORT, 'by must be 512 bytes at most') WHERE length(CAST(NEW.by AS BLOB)) > 512;
    DELETE FROM type_pause WHERE type = NEW.type;
    INSERT INTO audit (requested_by, verb, type, answer)
    SELECT nullif(CAST(NEW.by AS TEXT), ''), 'resume', NEW.type, 'resumed' WHERE changes() > 0;
END;

-- What the policy of a running task says about its pings, in seconds. A rollback uses the run's settings where it has none of
-- its own. Without a policy there is no heartbeat, and the attempt ends with its lease.
CREATE VIEW lease_terms AS
    SELECT id, fence, state, lease_until, ping_due, progress, checkpoint, message, cancel_requested_at,
        cancel_requested_by,
           iif(json_extract(marks, '$.fence') IS fence, marks, json_object('fence', fence)) AS marks,
           ifnull(json_extract(part, '$.heartbeat'), 0) / 1e9 AS heartbeat,
           ifnull(json_extract(part, '$.max_heartbeat'), 0) / 1e9 AS max_heartbeat,
           ifnull(json_extract(part, '$.require_progress'), 0) AS require_progress,
           json_extract(part, '$.stop') / 1e9 AS stop,
           -- The attempt's end: 1 s to wait inside the agent, the check, the timeout; in a run no later than the deadline.
           CASE WHEN state = 'running' THEN min(ends, ifnull(deadline, ends)) ELSE ends END AS ends
    FROM (SELECT *, CASE WHEN part IS NULL THEN lease_until ELSE strftime('%Y-%m-%dT%H:%M:%fZ', claimed_at,
                 printf('+%.3f seconds', 1 + json_extract(part, '$.timeout') / 1e9 +
                     CASE WHEN state = 'running' THEN ifnull(json_extract(part, '$.check'), 0) / 1e9 ELSE 0 END)) END AS ends
          FROM (SELECT task.*, CASE WHEN state = 'rollback_running'
                       THEN ifnull(json_extract(policy.body, '$.rollback'), policy.body) ELSE policy.body END AS part
                FROM task LEFT JOIN policy ON policy.hash = task.policy
                WHERE +state IN ('running', 'rollback_running'))); -- +: by id, however few rows seem to run

-- INSERT INTO ping (id, fence, progress, checkpoint, message, next_within_s) reports that a task is alive. The view then has
-- the reply: cancel, reason, remaining_s, and next_within_s, by when the next ping is due. Where the type requires progress,
-- only a number, or done, above the highest of the attempt counts: SQL cannot compare JSON by value.
CREATE VIEW ping AS
    SELECT id, fence, progress, checkpoint, message,
           round(max((julianday(ping_due) - julianday('now')) * 86400, 0), 3) AS next_within_s,
           state = 'running' AND cancel_requested_at IS NOT NULL AS cancel,
           CASE WHEN state = 'running' AND cancel_requested_at IS NOT NULL
                THEN 'cancellation requested' || ifnull(' by ' || cancel_requested_by, '') END AS reason,
           round(max((julianday(ends) - julianday('now')) * 86400, 0), 3) AS remaining_s
    FROM lease_terms;

CREATE TRIGGER ping_insert INSTEAD OF INSERT ON ping
BEGIN
    SELECT RAISE(ABORT, 'checkpoint must be JSON') WHERE NEW.checkpoint IS NOT NULL AND NOT json_valid(NEW.checkpoint);
    SELECT RAISE(ABORT, 'next_within_s must be positive') WHERE CAST(NEW.next_within_s AS REAL) <= 0;
    SELECT RAISE(ABORT, 'the task is not held with this fence any more: stop, and commit nothing')
    WHERE NOT EXISTS (SELECT 1 FROM task WHERE id = NEW.id AND fence = NEW.fence
                      AND state IN ('running', 'rollback_running') AND claim > 0
                      AND lease_until > strftime('%Y-%m-%dT%H:%M:%fZ', 'now'));
    UPDATE task SET (progress, checkpoint, message, marks, ping_due, lease_until) = (
        SELECT ifnull(said.progress, task.progress), ifnull(said.checkpoint, task.checkpoint),
               ifnull(said.message, task.message),
               CASE WHEN require_progress AND advances THEN json_set(said.marks, mark, number) ELSE task.marks END,
               CASE WHEN counts THEN due ELSE task.ping_due END,
               CASE WHEN counts THEN max(task.lease_until, strftime('%Y-%m-%dT%H:%M:%fZ', due, printf('+%.3f seconds', stop)))
                    ELSE task.lease_until END
        FROM (SELECT said.*, terms.stop, terms.marks, terms.require_progress,
                     ifnull(number > ifnull(json_extract(terms.marks, mark), -9e999), 0) AS advances,
                     terms.heartbeat > 0 AND (NOT terms.require_progress
                         OR ifnull(number > ifnull(json_extract(terms.marks, mark), -9e999), 0)) AS counts,
                     min(terms.ends, strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('+%.3f seconds',
                         max(terms.heartbeat, min(ifnull(said.next_within, 0), terms.max_heartbeat))))) AS due
              FROM lease_terms AS terms, (
                SELECT *, iif(json_type(progress) = 'object', '$.done', '$.number') AS mark,
                       -- As JSON writes it: json_set keeps no more digits, and what it drops must not count each time.
                       CASE WHEN json_type(progress) <> 'text'
                            THEN json_extract(json_array(json_extract(progress, iif(json_type(progress) = 'object', '$.done', '$'))), '$[0]')
                       END AS number
                FROM (
                  SELECT CASE -- a fraction, a count, or the text as it is
                             WHEN ifnull(NEW.progress, '') = '' THEN NULL
                             WHEN NOT json_valid(NEW.progress) THEN json_quote(CAST(NEW.progress AS TEXT))
                             WHEN json_type(NEW.progress) IN ('integer', 'real')
                                  AND json_extract(NEW.progress, '$') BETWEEN 0 AND 1 THEN json(NEW.progress)
                             WHEN json_type(NEW.progress, '$.done') IN ('integer', 'real')
                                  AND json_type(NEW.progress, '$.total') IN ('integer', 'real')
                                  AND (SELECT count(*) FROM json_each(NEW.progress)) = 2 THEN json(NEW.progress)
                             ELSE json_quote(CAST(NEW.progress AS TEXT))
                         END AS progress,
                         json(NEW.checkpoint) AS checkpoint,
                         CASE -- cut at 4 KiB, in the middle of no character
                             WHEN length(CAST(NEW.message AS BLOB)) <= 4096 THEN nullif(CAST(NEW.message AS TEXT), '')
                             ELSE substr(NEW.message, 1, length(CAST(substr(CAST(NEW.message AS BLOB), 1, 4096) AS TEXT)) - 1)
                         END AS message,
                         CAST(NEW.next_within_s AS REAL) AS next_within)) AS said
              WHERE terms.id = NEW.id) AS said)
    WHERE id = NEW.id AND fence = NEW.fence;
    SELECT RAISE(ABORT, 'progress must be 1 KiB at most') FROM task
    WHERE id = NEW.id AND length(CAST(progress AS BLOB)) > 1024;
    SELECT RAISE(ABORT, 'checkpoint must be 64 KiB at most') FROM task
    WHERE id = NEW.id AND length(CAST(checkpoint AS BLOB)) > 65536;
END;

-- INSERT INTO release_lease (name, fence) gives a named lease up, and raises unless it is held with that fence. Once this is
-- committed, the next who asks gets it.
CREATE VIEW release_lease AS
    SELECT name, fence FROM lease;

CREATE TRIGGER release_lease_insert INSTEAD OF INSERT ON release_lease
BEGIN
    SELECT RAISE(ABORT, 'the lease is not held with this fence any more: stop, and commit nothing')
    WHERE NOT EXISTS (SELECT 1 FROM lease WHERE name = NEW.name AND fence = NEW.fence AND NOT EXISTS (
        SELECT 1 FROM lapsed_lease WHERE lapsed_lease.fence = lease.fence));
    DELETE FROM lease WHERE fence = NEW.fence;
END;

-- INSERT INTO renew_lease (name, fence) renews a named lease for the ttl that it was acquired with, and raises unless it is held
-- with that fence. SELECT expires_at FROM renew_lease WHERE name = … is then when it expires.
CREATE VIEW renew_lease AS
    SELECT name, fence, expires_at FROM lease;

CREATE TRIGGER renew_lease_insert INSTEAD OF INSERT ON renew_lease
BEGIN
    SELECT RAISE(ABORT, 'the lease is not held with this fence any more: stop, and commit nothing')
    WHERE NOT EXISTS (SELECT 1 FROM lease WHERE name = NEW.name AND fence = NEW.fence AND NOT EXISTS (
        SELECT 1 FROM lapsed_lease WHERE lapsed_lease.fence = lease.fence));
    UPDATE lease SET expires_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('+%.3f seconds', ttl_s)), expiry_seen_at = NULL
    WHERE fence = NEW.fence;
END;

-- For agents and the other functions, not for applications.
--
-- INSERT INTO reopen_batch (id) begins a new round of a batch that has ended, of which a task is revived. It does nothing for one
-- that has not ended.
CREATE VIEW reopen_batch AS SELECT id FROM batch WHERE ended_at IS NOT NULL;

CREATE TRIGGER reopen_batch_insert INSTEAD OF INSERT ON reopen_batch
BEGIN
    UPDATE batch SET ended_at = NULL, round = round + 1, requested = NULL, requested_by = NULL, by_failure = 0, stopping = 0,
        failures_seen = failures
    WHERE id = NEW.id AND ended_at IS NOT NULL;
END;

-- INSERT INTO retry (id, by) revives a task that failed, was cancelled or was rolled back: it waits again, with all its
-- attempts. SELECT answer FROM retry WHERE id = … is then the task's state. A payload takes the place of the task's from then on; then a
-- task in any other state is an error.
CREATE VIEW retry AS SELECT id, cancel_requested_by AS by, state AS answer, payload FROM tasks;

CREATE TRIGGER retry_insert INSTEAD OF INSERT ON retry
BEGIN
    SELECT RAISE(ABORT, 'there is no task with this id') WHERE NOT EXISTS (SELECT 1 FROM tasks WHERE id = NEW.id);
    SELECT RAISE(ABORT, 'by must be 512 bytes at most') WHERE length(CAST(NEW.by AS BLOB)) > 512;
    SELECT RAISE(ABORT, 'only a task that failed, was cancelled or was rolled back can be retried with another payload')
    WHERE NEW.payload IS NOT NULL
      AND NOT EXISTS (SELECT 1 FROM task_archive WHERE id = NEW.id AND state IN ('failed', 'cancelled', 'rolled_back'));
    SELECT RAISE(ABORT, 'payload must be JSON') WHERE NEW.payload IS NOT NULL AND NOT json_valid(NEW.payload);
    SELECT RAISE(ABORT, 'the task is a chunk, and its payload is its range: retry it without another payload')
    WHERE NEW.payload IS NOT NULL AND EXISTS (SELECT 1 FROM chunk_range WHERE task_id = NEW.id);
    SELECT RAISE(ABORT, 'the payload is larger than the bound on payloads: see option max-payload of leasehold migrate')
    WHERE length(CAST(NEW.payload AS BLOB)) > (SELECT max_payload FROM setting);
    SELECT RAISE(ABORT, 'the task is to be rolled back: wait for that')
    FROM task_archive WHERE id = NEW.id AND state IN ('failed', 'cancelled', 'rolled_back')
      AND EXISTS (SELECT 1 FROM operation WHERE task_id = NEW.id AND ended_at IS NULL);
    SELECT RAISE(ABORT, 'the batch of the task is being cancelled or rolled back: wait until the batch has ended')
    FROM task_archive WHERE id = NEW.id AND state IN ('failed', 'cancelled', 'rolled_back')
      AND EXISTS (SELECT 1 FROM batch WHERE id = task_archive.batch_id AND requested IS NOT NULL AND ended_at IS NULL);
    SELECT RAISE(ABORT, 'another task is live with the key of this one: wait for it or cancel it')
    FROM task_archive AS done WHERE id = NEW.id AND state IN ('failed', 'cancelled', 'rolled_back')
      AND EXISTS (SELECT 1 FROM task WHERE type = done.type AND key = done.key);

    UPDATE task_archive SET payload = CAST(NEW.payload AS TEXT) WHERE id = NEW.id AND NEW.payload IS NOT NULL;
    INSERT INTO audit (requested_by, verb, task_id, reason, answer)
    SELECT nullif(CAST(NEW.by AS TEXT), ''), 'retry', id, iif(NEW.payload IS NOT NULL, 'with another payload', NULL), 'pending'
    FROM task_archive WHERE id = NEW.id AND state IN ('failed', 'cancelled', 'rolled_back');
    INSERT INTO reopen_batch (id)
    SELECT batch_id FROM task_archive WHERE id = NEW.id AND state IN ('failed', 'cancelled', 'rolled_back');
    INSERT INTO revive (id, verb, run_at)
    SELECT id, 'retry', strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
    FROM task_archive WHERE id = NEW.id AND state IN ('failed', 'cancelled', 'rolled_back');
END;

-- INSERT INTO retry_batch (id, by) retries the failed tasks of a batch; agents do it in steps. SELECT answer FROM retry_batch
-- WHERE id = … is then retrying, or the batch's state.
CREATE VIEW retry_batch AS SELECT id, requested_by AS by, iif(operation IS 'retry', 'retrying', state) AS answer FROM batches;

CREATE TRIGGER retry_batch_insert INSTEAD OF INSERT ON retry_batch
BEGIN
    SELECT RAISE(ABORT, 'there is no batch with this id') WHERE NOT EXISTS (SELECT 1 FROM batch WHERE id = NEW.id);
    SELECT RAISE(ABORT, 'by must be 512 bytes at most') WHERE length(CAST(NEW.by AS BLOB)) > 512;
    SELECT RAISE(ABORT, 'the batch is being cancelled or rolled back: wait until it has ended')
    FROM batch WHERE id = NEW.id AND requested IS NOT NULL AND ended_at IS NULL;
    INSERT INTO operation (verb, batch_id, requested_by)
    SELECT 'retry', NEW.id, nullif(CAST(NEW.by AS TEXT), '')
    WHERE NOT EXISTS (SELECT 1 FROM operation WHERE batch_id = NEW.id AND task_id IS NULL AND ended_at IS NULL)
      AND EXISTS (SELECT 1 FROM task_archive WHERE batch_id = NEW.id AND state <> 'succeeded'
                  AND (task_archive.state = 'failed' OR task_archive.state = 'rolled_back' AND ifnull(task_archive.cause, '') NOT IN ('succeeded', 'cancelled')));
    INSERT INTO audit (requested_by, verb, batch_id, answer)
    SELECT nullif(CAST(NEW.by AS TEXT), ''), 'retry', NEW.id, 'retrying' WHERE changes() > 0;
    UPDATE wakeup SET cancel = cancel + 1 WHERE changes() > 0;
    INSERT INTO reopen_batch (id)
    SELECT NEW.id WHERE EXISTS (SELECT 1 FROM operation WHERE batch_id = NEW.id AND task_id IS NULL AND ended_at IS NULL);
END;

-- For agents and the other functions, not for applications.
--
-- INSERT INTO revive (id, verb, run_at) takes a finished task out of the archive: to run again with all its attempts (retry),
-- or to be rolled back (rollback); due no earlier than its last attempt is certainly over. One that has never started waits anew for
-- those that it names in after. If others were cancelled on account of a task that is retried, a note says that they are to be revived, too
-- (revived_note). A task whose key a live task has by
-- now stays in the archive. The cause of a rollback is Go's task.Cause; a check compares the two.
CREATE VIEW revive AS SELECT id, '' AS verb, run_at FROM task_archive;

CREATE TRIGGER revive_insert INSTEAD OF INSERT ON revive
BEGIN
    INSERT INTO task (id, type, priority, region, key, payload, labels, traceparent, created_by, max_attempts, created_at,
                      deferrals, attempt, fence, session, policy, outcome, error, checkpoint, batch_id, rollback_payload, lock, sequence, after, after_if,
                      held, tenant, lease_until, run_at, state, ever_started, deadline, cause, round, result, progress, message,
                      failed_task)
    SELECT id, type, priority, region, key, payload, labels, traceparent, created_by, max_attempts, created_at,
           0, 0, fence + 1, session, policy, outcome, error, checkpoint, batch_id, rollback_payload, lock, sequence, after, after_if,
           iif(NOT ever_started AND after <> '[]', 'after', NULL), tenant, lease_until, max(NEW.run_at, ifnull(lease_until, '')), 'pending',
           ever_started AND state <> 'rolled_back', NULL, NULL, round + 1, NULL, NULL, NULL,
           nullif(failed_task, id)
    FROM task_archive WHERE id = NEW.id AND NEW.verb = 'retry'
    UNION ALL
    SELECT id, type, priority, region, key, payload, labels, traceparent, created_by, max_attempts, created_at,
           0, 0, fence + 1, session, policy, outcome, error, checkpoint, batch_id, rollback_payload, lock, sequence, after, after_if, NULL, tenant,
           lease_until, max(NEW.run_at, ifnull(lease_until, '')), 'rollback_pending', ever_started, deadline,
           CASE
               WHEN state = 'rollback_failed' THEN cause
               WHEN state = 'cancelled' THEN 'cancelled'
               WHEN outcome IN ('deferred', 'superseded', 'undelivered', 'drained') THEN 'failed'
               ELSE ifnull(outcome, state)
           END, round, result, progress, message, failed_task
    FROM task_archive WHERE id = NEW.id AND NEW.verb = 'rollback'
    ON CONFLICT (type, key) WHERE key IS NOT NULL DO NOTHING;

    -- A run that succeeded at its first try gets its row of the history now; all others have theirs since they were settled.
    INSERT INTO attempt (task_id, fence, ran_fence, session, policy, phase, attempt, outcome, error, output, result, state,
                         started_at, ended_at)
    SELECT id, fence - 1, fence - 1, session, policy, 'run', 1, 'succeeded', NULL, output, result, 'succeeded',
           started_at, finished_at
    FROM task_archive AS done
    WHERE id = NEW.id AND done.state = 'succeeded' AND done.attempt = 1
      AND EXISTS (SELECT 1 FROM task WHERE id = NEW.id)
      AND NOT EXISTS (SELECT 1 FROM attempt WHERE task_id = NEW.id AND fence = done.fence - 1);
    UPDATE batch SET (succeeded, failed, cancelled, rolled_back, rollback_failed, rolling_back) = (
        SELECT succeeded - (done.state = 'succeeded'), failed - (done.state = 'failed'), cancelled - (done.state = 'cancelled'),
               rolled_back - (done.state = 'rolled_back'), rollback_failed - (done.state = 'rollback_failed'),
               rolling_back + (NEW.verb = 'rollback')
        FROM task_archive AS done WHERE done.id = NEW.id)
    WHERE id = (SELECT batch_id FROM task_archive WHERE id = NEW.id) AND EXISTS (SELECT 1 FROM task WHERE id = NEW.id);
    UPDATE chunk_range SET state = 'open' WHERE task_id = NEW.id AND state <> 'open' AND EXISTS (SELECT 1 FROM task WHERE id = NEW.id);
    DELETE FROM sequence_failure WHERE task_id = NEW.id AND EXISTS (SELECT 1 FROM task WHERE id = NEW.id);
    INSERT INTO revived_note (id, batch_id)
    SELECT id, batch_id FROM task_archive AS done WHERE id = NEW.id AND NEW.verb = 'retry' AND EXISTS (SELECT 1 FROM task WHERE id = NEW.id)
        AND EXISTS (SELECT 1 FROM task_archive AS other WHERE other.cancelled_for = NEW.id);
    DELETE FROM task_archive WHERE id = NEW.id AND EXISTS (SELECT 1 FROM task WHERE id = NEW.id);
    UPDATE wakeup SET due = due + 1 WHERE changes() > 0;
END;

-- INSERT INTO rollback (id, by) rolls a task back, if its type has a rollback; a running one is asked to stop first. SELECT
-- answer FROM rollback WHERE id = … is then cancelling, or the task's state.
CREATE VIEW rollback AS
    SELECT id, cancel_requested_by AS by, iif(state = 'running' AND cancel_requested_at IS NOT NULL, 'cancelling',
        state) AS answer
    FROM tasks;

CREATE TRIGGER rollback_insert INSTEAD OF INSERT ON rollback
BEGIN
    SELECT RAISE(ABORT, 'there is no task with this id') WHERE NOT EXISTS (SELECT 1 FROM tasks WHERE id = NEW.id);
    SELECT RAISE(ABORT, 'by must be 512 bytes at most') WHERE length(CAST(NEW.by AS BLOB)) > 512;
    SELECT RAISE(ABORT, 'the type of the task has no rollback')
    FROM tasks WHERE id = NEW.id AND state NOT IN ('rollback_pending', 'rollback_running', 'rolled_back', 'split')
      AND NOT (EXISTS (SELECT 1 FROM rollback_policy WHERE hash = tasks.policy) OR EXISTS (SELECT 1 FROM rollback_policy WHERE type = tasks.type));
    SELECT RAISE(ABORT, 'another task is live with the key of this one: wait for it or cancel it')
    FROM task_archive AS done
    WHERE id = NEW.id AND ever_started AND state IN ('succeeded', 'failed', 'cancelled', 'rollback_failed')
      AND EXISTS (SELECT 1 FROM task WHERE type = done.type AND key = done.key);

    INSERT INTO audit (requested_by, verb, task_id, answer) -- the answer is entered below
    SELECT nullif(CAST(NEW.by AS TEXT), ''), 'rollback', id, ''
    FROM tasks
    WHERE id = NEW.id
      AND (state IN ('pending', 'retry_pending')
           OR state = 'running' AND NOT EXISTS (SELECT 1 FROM operation WHERE task_id = NEW.id AND ended_at IS NULL)
           OR ever_started AND state IN ('succeeded', 'failed', 'cancelled', 'rollback_failed'));

    -- What runs: the request is carried out once the attempt has ended.
    INSERT INTO operation (verb, batch_id, task_id, requested_by)
    SELECT 'rollback', batch_id, id, nullif(CAST(NEW.by AS TEXT), '') FROM task
    WHERE id = NEW.id AND state = 'running'
      AND NOT EXISTS (SELECT 1 FROM operation WHERE task_id = NEW.id AND ended_at IS NULL);
    UPDATE task SET cancel_requested_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'),
        cancel_requested_by = nullif(CAST(NEW.by AS TEXT), '')
    WHERE id = NEW.id AND state = 'running' AND cancel_requested_at IS NULL;
    UPDATE wakeup SET cancel = cancel + 1 WHERE changes() > 0;
    -- What waits, and what has finished: one of the two does nothing. The type has a rollback, else this has raised above.
    INSERT INTO cancel_waiting (id, by, rollback)
    SELECT id, nullif(CAST(NEW.by AS TEXT), ''), ever_started FROM task WHERE id = NEW.id;
    INSERT INTO cancel_follower (id, by) SELECT id, nullif(CAST(NEW.by AS TEXT), '') FROM follow WHERE id = NEW.id;
    INSERT INTO reopen_batch (id)
    SELECT batch_id FROM task_archive
    WHERE id = NEW.id AND ever_started AND state IN ('succeeded', 'failed', 'cancelled', 'rollback_failed');
    INSERT INTO revive (id, verb, run_at)
    SELECT id, 'rollback', strftime('%Y-%m-%dT%H:%M:%fZ', 'now')
    FROM task_archive
    WHERE id = NEW.id AND ever_started AND state IN ('succeeded', 'failed', 'cancelled', 'rollback_failed');
    UPDATE audit SET answer = (SELECT answer FROM rollback WHERE id = NEW.id)
    WHERE id = (SELECT max(id) FROM audit) AND answer = '';
END;

-- INSERT INTO rollback_batch (id, by, force) cancels what waits of a batch, stops what runs and rolls back what has run;
-- agents do it in steps. If some of its tasks have expired it raises, unless force is 1: then the rest is rolled back. SELECT
-- answer FROM rollback_batch WHERE id = … is then rolling_back, or the batch's state.
CREATE VIEW rollback_batch AS SELECT id, requested_by AS by, 0 AS force, state AS answer FROM batches;

CREATE TRIGGER rollback_batch_insert INSTEAD OF INSERT ON rollback_batch
BEGIN
    SELECT RAISE(ABORT, 'there is no batch with this id') WHERE NOT EXISTS (SELECT 1 FROM batch WHERE id = NEW.id);
    SELECT RAISE(ABORT, 'by must be 512 bytes at most') WHERE length(CAST(NEW.by AS BLOB)) > 512;
    SELECT RAISE(ABORT, 'some tasks of the batch are past their retention and cannot be rolled back: force = 1 rolls back what is left')
    FROM batch WHERE id = NEW.id AND removed > 0 AND NOT ifnull(NEW.force, 0) AND NOT (ended_at IS NULL AND requested IS 'rollback');
    INSERT INTO operation (verb, batch_id, requested_by, force)
    SELECT 'rollback', id, nullif(CAST(NEW.by AS TEXT), ''), ifnull(NEW.force, 0) <> 0
    FROM batch
    WHERE id = NEW.id
      AND (ended_at IS NULL AND requested IS NOT 'rollback'
           OR ended_at IS NOT NULL AND EXISTS (
               SELECT 1 FROM task_archive AS done
               WHERE batch_id = NEW.id AND state IN ('succeeded', 'failed', 'cancelled') AND ever_started
                 AND (EXISTS (SELECT 1 FROM rollback_policy WHERE hash = done.policy) OR EXISTS (SELECT 1 FROM rollback_policy WHERE type = done.type))));
    -- From here on: where the statement before changed a row.
    INSERT INTO audit (requested_by, verb, batch_id, answer)
    SELECT nullif(CAST(NEW.by AS TEXT), ''), 'rollback', NEW.id, 'rolling_back' WHERE changes() > 0;
    UPDATE batch SET requested = 'rollback', requested_by = nullif(CAST(NEW.by AS TEXT), ''), by_failure = 0, stopping = 1, sealed = 1,
        failures_seen = failures, round = round + (ended_at IS NOT NULL), ended_at = NULL
    WHERE changes() > 0 AND id = NEW.id;
    UPDATE wakeup SET cancel = cancel + 1 WHERE changes() > 0;
    UPDATE operation SET ended_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), superseded = 1
    WHERE changes() > 0 AND batch_id = NEW.id AND task_id IS NULL AND ended_at IS NULL AND verb <> 'rollback';
END;

-- INSERT INTO pause_schedule (name, by) has agents leave a schedule alone.
CREATE VIEW pause_schedule AS
    SELECT name, paused_by AS by FROM schedule WHERE paused_at IS NOT NULL;

CREATE TRIGGER pause_schedule_insert INSTEAD OF INSERT ON pause_schedule
BEGIN
    SELECT RAISE(ABORT, 'there is no schedule with this name') WHERE NOT EXISTS (SELECT 1 FROM schedule WHERE name = NEW.name);
    SELECT RAISE(ABORT, 'by must be 512 bytes at most') WHERE length(CAST(NEW.by AS BLOB)) > 512;
    UPDATE schedule SET paused_at = strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), paused_by = nullif(CAST(NEW.by AS TEXT), ''),
        version = version + 1
    WHERE name = NEW.name AND paused_at IS NULL;
    INSERT INTO audit (requested_by, verb, schedule, answer)
    SELECT nullif(CAST(NEW.by AS TEXT), ''), 'pause', NEW.name, 'paused' WHERE changes() > 0;
END;

-- INSERT INTO resume_schedule (name, by) has agents go on with it. Slots that came meanwhile were missed: an agent decides about
-- them at once.
CREATE VIEW resume_schedule AS
    SELECT name, NULL AS by FROM schedule WHERE paused_at IS NULL;

CREATE TRIGGER resume_schedule_insert INSTEAD OF INSERT ON resume_schedule
BEGIN
    SELECT RAISE(ABORT, 'there is no schedule with this name') WHERE NOT EXISTS (SELECT 1 FROM schedule WHERE name = NEW.name);
    SELECT RAISE(ABORT, 'by must be 512 bytes at most') WHERE length(CAST(NEW.by AS BLOB)) > 512;
    UPDATE schedule SET paused_at = NULL, paused_by = NULL, version = version + 1,
        next_at = iif(invalid IS NULL, strftime('%Y-%m-%dT%H:%M:%fZ', 'now'), NULL)
    WHERE name = NEW.name AND paused_at IS NOT NULL;
    INSERT INTO audit (requested_by, verb, schedule, answer)
    SELECT nullif(CAST(NEW.by AS TEXT), ''), 'resume', NEW.name, 'resumed' WHERE changes() > 0;
END;

-- INSERT INTO remove_schedule (name, by) deletes a schedule, as DELETE does, and notes who wanted it. Its tasks stay. Where there
-- is none, nothing happens.
CREATE VIEW remove_schedule AS
    SELECT name, NULL AS by FROM schedule;

CREATE TRIGGER remove_schedule_insert INSTEAD OF INSERT ON remove_schedule
BEGIN
    SELECT RAISE(ABORT, 'by must be 512 bytes at most') WHERE length(CAST(NEW.by AS BLOB)) > 512;
    DELETE FROM schedule WHERE name = NEW.name;
    INSERT INTO audit (requested_by, verb, schedule, answer)
    SELECT nullif(CAST(NEW.by AS TEXT), ''), 'remove', NEW.name, 'removed' WHERE changes() > 0;
END;

-- INSERT INTO seal_batch (id): the batch accepts no more rows. SELECT answer FROM seal_batch WHERE id = … is then sealed, or
-- the state of a batch that has ended.
CREATE VIEW seal_batch AS SELECT id, iif(sealed AND ended_at IS NULL, 'sealed', state) AS answer FROM batches;

CREATE TRIGGER seal_batch_insert INSTEAD OF INSERT ON seal_batch
BEGIN
    SELECT RAISE(ABORT, 'there is no batch with this id') WHERE NOT EXISTS (SELECT 1 FROM batch WHERE id = NEW.id);
    UPDATE batch SET sealed = 1, seen = 1 WHERE id = NEW.id AND ended_at IS NULL AND NOT (sealed AND seen);
    UPDATE wakeup SET cancel = cancel + 1 WHERE changes() > 0;
END;

-- INSERT INTO sequence_skip (type, name, task_id, by) resolves the failure that blocks a sequence, so that the rows behind it go on. task_id
-- may be left out; else it is the failed task that is meant.
CREATE VIEW sequence_skip AS SELECT type, sequence AS name, task_id, NULL AS by FROM sequences WHERE state = 'blocked';

CREATE TRIGGER sequence_skip_insert INSTEAD OF INSERT ON sequence_skip
BEGIN
    SELECT RAISE(ABORT, 'by must be 512 bytes at most') WHERE length(CAST(NEW.by AS BLOB)) > 512;
    SELECT RAISE(ABORT, 'no failure blocks a sequence of this type and name')
    WHERE NOT EXISTS (SELECT 1 FROM sequences WHERE type = NEW.type AND sequence = NEW.name AND state = 'blocked');
    SELECT RAISE(ABORT, 'another task blocks the sequence')
    FROM sequences WHERE type = NEW.type AND sequence = NEW.name AND task_id <> NEW.task_id;
    INSERT INTO audit (requested_by, verb, task_id, answer)
    SELECT nullif(CAST(NEW.by AS TEXT), ''), 'skip', task_id, 'skipped' FROM sequences WHERE type = NEW.type AND sequence = NEW.name;
    INSERT INTO sequence_note (type, name) VALUES (NEW.type, NEW.name);
    DELETE FROM sequence_failure
    WHERE task_id = (SELECT s.task_id FROM sequences AS s WHERE s.type = NEW.type AND s.sequence = NEW.name AND s.state = 'blocked');
END;

-- INSERT INTO sequence_retry (type, name, task_id, by) retries the failed task that blocks a sequence.
CREATE VIEW sequence_retry AS SELECT type, sequence AS name, task_id, NULL AS by FROM sequences WHERE state = 'blocked';

CREATE TRIGGER sequence_retry_insert INSTEAD OF INSERT ON sequence_retry
BEGIN
    SELECT RAISE(ABORT, 'no failure blocks a sequence of this type and name')
    WHERE NOT EXISTS (SELECT 1 FROM sequences WHERE type = NEW.type AND sequence = NEW.name AND state = 'blocked');
    SELECT RAISE(ABORT, 'another task blocks the sequence')
    FROM sequences WHERE type = NEW.type AND sequence = NEW.name AND task_id <> NEW.task_id;
    SELECT RAISE(ABORT, 'the rollback of the failed task has failed: roll it back again, or skip it')
    FROM sequences AS s JOIN task_archive AS a ON a.id = s.task_id AND a.state = 'rollback_failed'
    WHERE s.type = NEW.type AND s.sequence = NEW.name;
    INSERT INTO retry (id, by) SELECT task_id, NEW.by FROM sequences WHERE type = NEW.type AND sequence = NEW.name AND state = 'blocked';
END;

-- INSERT INTO sequence_cancel (type, name, by) cancels the next thousand waiting tasks of a sequence, and resolves its failures, theirs included:
-- repeat it until none waits. What runs goes on, and so do rollbacks.
CREATE VIEW sequence_cancel AS SELECT type, sequence AS name, NULL AS by FROM sequences;

CREATE TRIGGER sequence_cancel_insert INSTEAD OF INSERT ON sequence_cancel
BEGIN
    INSERT INTO cancel (id, by)
    SELECT id, NEW.by FROM task INDEXED BY task_sequence
    WHERE sequence IS NOT NULL AND type = NEW.type AND sequence = NEW.name AND state IN ('pending', 'retry_pending') ORDER BY id LIMIT 1000;
    INSERT INTO sequence_note (type, name) SELECT NEW.type, NEW.name
    WHERE EXISTS (SELECT 1 FROM sequence_failure WHERE type = NEW.type AND name = NEW.name);
    DELETE FROM sequence_failure WHERE type = NEW.type AND name = NEW.name;
END;

-- A row is within the store's bounds when it is inserted. RAISE takes only a constant text before SQLite 3.47, so the trigger is
-- created anew when the bound on payloads changes: 1048576, and 1 MiB in words. A row with a fence is revived from the
-- archive, and is within the largest bound there is. The id is compared with a constant first, so that most inserts do not read
-- sqlite_sequence.
CREATE TRIGGER task_bounds AFTER INSERT ON task
WHEN NEW.fence NOT BETWEEN 0 AND 4611686018427387904 OR NEW.id NOT BETWEEN 1 AND 1099511627776
    OR length(CAST(NEW.payload AS BLOB)) > iif(NEW.fence = 0, 1048576, 67108864)
    OR length(CAST(NEW.rollback_payload AS BLOB)) > iif(NEW.fence = 0, 1048576, 67108864)
BEGIN
    SELECT RAISE(ABORT, 'fence must be between 0 and 2^62') WHERE NEW.fence NOT BETWEEN 0 AND 4611686018427387904;
    SELECT RAISE(ABORT, 'id must be left out: the table gives one')
    WHERE NEW.id < 1 OR NEW.id > 4294967296 + ifnull((SELECT seq FROM sqlite_sequence WHERE name = 'task'), 0);
    SELECT RAISE(ABORT, 'payload must be 1 MiB at most: see option max-payload of leasehold migrate')
    WHERE length(CAST(NEW.payload AS BLOB)) > iif(NEW.fence = 0, 1048576, 67108864);
    SELECT RAISE(ABORT, 'rollback_payload must be 1 MiB at most: see option max-payload of leasehold migrate')
    WHERE length(CAST(NEW.rollback_payload AS BLOB)) > iif(NEW.fence = 0, 1048576, 67108864);
END;
INSERT INTO schema_version (version, name, oldest) VALUES (1, 'schema', 1);
COMMIT;
