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
        {agent_state now=strftime('%Y-%m-%dT%H:%M:%fZ','now')} AS state,
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
    {redactions_at now=strftime('%Y-%m-%dT%H:%M:%fZ','now')};

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
    {zones};

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
    WHERE {may_fire};

-- An agent has checked what HCL declares, by rules that may be newer than these.
CREATE TRIGGER schedule_inserted BEFORE INSERT ON schedule WHEN NEW.source = 'sql'
BEGIN
    {check_schedule}
END;

CREATE TRIGGER schedule_updated BEFORE UPDATE OF name, task, cron, every, after, timezone, payload, jitter, from_at, until_at,
    missed, catch_up, overlap, source ON schedule WHEN NEW.source = 'sql'
BEGIN
    {check_schedule}
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
           outcome, {shown_error of=task.} AS error, result, NULL AS output, NULL AS started_at, NULL AS finished_at,
           progress, message, checkpoint, cancel_requested_at, cancel_requested_by, ifnull(detached, 0) AS detached,
           batch_id, rollback_payload, cause, round, NULL AS follows, lock, held, sequence, after,
           iif(after IS NULL, NULL, ifnull(after_if, 'succeeded')) AS after_if, NULL AS cancelled_for, tenant,
           spilled_from IS NOT NULL AS spilled, nullif(failed_task, id) AS failed_task
    FROM task
    UNION ALL
    SELECT id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
           created_at, attempt, deferrals, ever_started, fence, session, claim, policy, lease_until, claimed_at, deadline,
           outcome, {shown_error of=task_archive.}, result, output, started_at, finished_at,
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
           {chunk_stopped} AS halted, s.pass IS NOT NULL AND s.sealed_at IS NULL AS planning,
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
