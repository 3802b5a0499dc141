BEGIN;
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL lock_timeout = '5000ms';
CREATE SCHEMA IF NOT EXISTS "schema_of_a_release";
CREATE TABLE IF NOT EXISTS "schema_of_a_release".schema_version (
    version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now(),
    oldest integer NOT NULL CONSTRAINT "oldest must be between 1 and the version" CHECK (oldest BETWEEN 1 AND version)
);
LOCK TABLE "schema_of_a_release".schema_version IN SHARE ROW EXCLUSIVE MODE;

-- schema
-- The schema as it is. Functions are in functions/, triggers in triggers.sql; how an older schema becomes this one is in
-- migrations/. "schema_of_a_release" and 'leasehold:schema_of_a_release' are filled in, quoted, before this runs. schema_version is not here: the
-- migrator creates it first, and locks it.

-- Live tasks only. Applications insert type, payload, run_at, priority, region, key, max_attempts, labels, traceparent,
-- created_by, batch_id, rollback_payload, lock, sequence, after, after_if and tenant; the other columns belong to the agents. The name of a
-- constraint is the message that an application gets; task_fits has those of more columns. Columns of a fixed width come first: a row is written three times in its life, and
-- this order wastes nothing on alignment. A column that is NULL takes no room.
CREATE TABLE "schema_of_a_release".task (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_at           timestamptz NOT NULL DEFAULT now()
                     CONSTRAINT "run_at must be within the years 1 to 9999" CHECK (
                         run_at >= '0001-01-02 00:00:00+00' AND run_at < '9999-12-31 00:00:00+00'),
    created_at       timestamptz NOT NULL DEFAULT now(),
    -- A fence is 0 until the row is first claimed, and applications cannot set it. So a CHECK that applies only where it
    -- is 0 is evaluated once, when the row is inserted, and costs claims, renewals and revived rows nothing.
    fence            bigint NOT NULL DEFAULT 0
                     CONSTRAINT "fence must be between 0 and 2^62" CHECK (fence BETWEEN 0 AND 4611686018427387904),
    session          bigint,
    claim            bigint,      -- which claim of the session took the row; 0: it is being reaped
    policy           bigint,
    lease_until      timestamptz,
    claimed_at       timestamptz,
    deadline         timestamptz,
    cancel_requested_at timestamptz, -- never on a row that waits
    ping_due         timestamptz, -- when the next ping is due, after one that came by another way than the holder
    first_due        timestamptz, -- of a row of a region that is retried: when it was due before; NULL: run_at
    batch_id         bigint,
    failed_task      bigint,      -- for which it was inserted (on_failed); its own id: its own failure has its row; NULL: neither
    ran_session      bigint,      -- of a row that is being reaped: the session that its attempt ran in
    attempt          integer NOT NULL DEFAULT 0,
    deferrals        integer NOT NULL DEFAULT 0,
    max_attempts     integer,
    round            integer,     -- how often an operator has retried it; NULL: never
    priority         smallint NOT NULL DEFAULT 0
                     CONSTRAINT "priority must be between -10 and 10" CHECK (priority BETWEEN -10 AND 10),
    ever_started     boolean NOT NULL DEFAULT false,
    detached         boolean,     -- the lease depends on lease_until alone; NULL: also on its session's presence
    awaited          boolean,     -- others wait for its end, which leaves a note (ended_note); NULL: none, as far as is known
    held             text,        -- what it waits for, so that no claim looks at it: 'lock', 'sequence', 'after'; NULL: nothing, as
                                  -- far as is known
    state            text NOT NULL DEFAULT 'pending'
                     CONSTRAINT "state must be that of a live task" CHECK (state IN
                         ('pending', 'running', 'retry_pending', 'rollback_pending', 'rollback_running')),
    type             text NOT NULL,
    region           text,        -- whose agents claim it; NULL: all do
    spilled_from     text,        -- the region that it was of until it had waited too long for that (spill_after)
    key              text,
    lock             text COLLATE "C", -- rows with the same one never run at once
    sequence         text COLLATE "C", -- rows of the type with the same one run one after another
    after            bigint[],    -- tasks that have to end before it starts (begin_waiting checks them)
    after_if         text,        -- how these have to end: 'succeeded' or 'any'; NULL: succeeded
    tenant           text COLLATE "C", -- rows of a type take turns by it
    payload          jsonb NOT NULL DEFAULT '{}' -- pg_column_size reads only the header; set_max_payload changes the bound
                     CONSTRAINT "payload must be 1 MiB at most: see migrate --max-payload"
                         CHECK (fence > 0 OR pg_column_size(payload) <= 1048576),
    rollback_payload jsonb
                     CONSTRAINT "rollback_payload must be 1 MiB at most: see --max-payload"
                         CHECK (fence > 0 OR pg_column_size(rollback_payload) <= 1048576),
    labels           jsonb,
    traceparent      text,
    created_by       text,
    cancel_requested_by text,
    cause            text,        -- how the forward life ended of a row that is to be rolled back
    outcome          text,
    error            text,
    result           jsonb,
    progress         jsonb,
    message          text,
    checkpoint       jsonb,
    marks            jsonb,       -- of a type with require_progress: what the attempt with the fence in it has reported
    limited          text         -- of a running row: name of the limit that its claim obeyed; NULL: there was none
) WITH (
    -- Room on the page for the versions of a row that its claim and its renewals write: renewals stay heap-only updates,
    -- and a claim that finds no room costs an extra record in the log.
    fillfactor = 40,
    -- The table turns over many times an hour whatever its size, so its size decides nothing.
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 50000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 10000,
    autovacuum_vacuum_cost_delay = 0,
    toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 5000,
    toast.autovacuum_vacuum_cost_delay = 0
);

-- A claim walks one (type, region, priority) of these in order.
CREATE INDEX task_due ON "schema_of_a_release".task (type, coalesce(region, ''), priority DESC, run_at, id)
    WHERE state IN ('pending', 'retry_pending') AND held IS NULL AND tenant IS NULL;
CREATE INDEX task_rollback ON "schema_of_a_release".task (type, coalesce(region, ''), priority DESC, run_at, id)
    WHERE state = 'rollback_pending' AND held IS NULL AND tenant IS NULL;
-- Rows with a tenant: a claim walks one (type, region, tenant, priority) of these in order, and finds tenants one after another.
CREATE INDEX task_tenant ON "schema_of_a_release".task (type, coalesce(region, ''), tenant, priority DESC, run_at, id)
    WHERE state IN ('pending', 'retry_pending') AND held IS NULL AND tenant IS NOT NULL;
CREATE INDEX task_tenant_rollback ON "schema_of_a_release".task (type, coalesce(region, ''), tenant, priority DESC, run_at, id)
    WHERE state = 'rollback_pending' AND held IS NULL AND tenant IS NOT NULL;
-- Rows that wait for their lock, by class: a claim may want one class of them and not another. A promotion takes the first of each.
CREATE INDEX task_held ON "schema_of_a_release".task (lock, type, coalesce(region, ''), (state = 'rollback_pending'), priority DESC, run_at, id)
    WHERE held = 'lock';
-- Rows with a sequence, in its order; those that are to be rolled back go first, the last one before the others.
CREATE INDEX task_sequence ON "schema_of_a_release".task (type, sequence, id) WHERE sequence IS NOT NULL;
CREATE INDEX task_sequence_rollback ON "schema_of_a_release".task (type, sequence, id) WHERE sequence IS NOT NULL AND state = 'rollback_pending';
-- Rows of regions, by how long they have waited: agents of other regions may take what has waited too long.
CREATE INDEX task_spill ON "schema_of_a_release".task (type, region, coalesce(first_due, run_at), id)
    WHERE region IS NOT NULL AND held IS NULL AND state IN ('pending', 'retry_pending', 'rollback_pending');
-- Of the rows to be rolled back that are held back, which are few: for lists.
CREATE INDEX task_rollback_held ON "schema_of_a_release".task (id) WHERE state = 'rollback_pending' AND held IS NOT NULL;
-- lease_until is in no index and no predicate: a renewal writes nothing but its row.
CREATE INDEX task_running ON "schema_of_a_release".task (session)
    WHERE state IN ('running', 'rollback_running');
-- What runs of types with a limit, and of each tenant of these: claims of them count it.
CREATE INDEX task_limited ON "schema_of_a_release".task (limited, tenant)
    WHERE limited IS NOT NULL AND state IN ('running', 'rollback_running');
CREATE UNIQUE INDEX task_key ON "schema_of_a_release".task (type, key) WHERE key IS NOT NULL;
-- Running rows are not in it: each claim would have to enter them.
CREATE INDEX task_batch ON "schema_of_a_release".task (batch_id, id)
    WHERE batch_id IS NOT NULL AND state IN ('pending', 'retry_pending', 'rollback_pending');

-- Followers: rows that wait until the live row of their type and key has ended for good, one for each. They become tasks then
-- (insert_followers). Columns and constraints are those of task: what task would refuse is refused when the follower comes. Only a
-- transaction that keeps the live row from ending (FOR KEY SHARE), or has ended it, writes a follower. So the end of a row
-- never waits for one.
CREATE TABLE "schema_of_a_release".follow (
    LIKE "schema_of_a_release".task INCLUDING CONSTRAINTS INCLUDING DEFAULTS,
    PRIMARY KEY (type, key)
) WITH (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 10000
);
CREATE UNIQUE INDEX follow_id ON "schema_of_a_release".follow (id);

-- Finished tasks: the row as it was, and how it ended. One partition for each day (UTC), created ahead by the agents.
CREATE TABLE "schema_of_a_release".task_archive (
    id               bigint NOT NULL,
    run_at           timestamptz NOT NULL,
    created_at       timestamptz NOT NULL,
    finished_at      timestamptz NOT NULL,
    fence            bigint NOT NULL,
    session          bigint,
    claim            bigint,
    policy           bigint,
    lease_until      timestamptz,
    claimed_at       timestamptz,
    started_at       timestamptz,
    deadline         timestamptz,
    cancel_requested_at timestamptz,
    batch_id         bigint,
    failed_task      bigint,
    attempt          integer NOT NULL,
    deferrals        integer NOT NULL,
    max_attempts     integer,
    round            integer,
    priority         smallint NOT NULL,
    ever_started     boolean NOT NULL,
    state            text NOT NULL,
    type             text NOT NULL,
    region           text,
    key              text,
    lock             text,
    sequence         text,
    after            bigint[],
    after_if         text,
    cancelled_for    bigint,      -- the task on account of which it was cancelled, as that did not succeed
    tenant           text,
    payload          jsonb NOT NULL,
    rollback_payload jsonb,
    labels           jsonb,
    traceparent      text,
    created_by       text,
    cancel_requested_by text,
    cause            text,
    outcome          text,
    error            text,
    result           jsonb,
    output           text,
    progress         jsonb,
    message          text,
    checkpoint       jsonb
) PARTITION BY RANGE (finished_at);

CREATE INDEX task_archive_id ON "schema_of_a_release".task_archive (id);
CREATE INDEX task_archive_type ON "schema_of_a_release".task_archive (type, id);
-- Nearly every row succeeds: only the others pay for being found.
CREATE INDEX task_archive_unsuccessful ON "schema_of_a_release".task_archive (id) WHERE state <> 'succeeded';
CREATE INDEX task_archive_rollback_failed ON "schema_of_a_release".task_archive (id) WHERE state = 'rollback_failed';
CREATE INDEX task_archive_key ON "schema_of_a_release".task_archive (key) WHERE key IS NOT NULL;
-- Rows that were cancelled on account of another, which a retry of that one revives, too.
CREATE INDEX task_archive_cancelled_for ON "schema_of_a_release".task_archive (cancelled_for, id) WHERE cancelled_for IS NOT NULL;
-- All finished rows of a batch: first those that a rollback may revive, in the order in which it does (read backwards).
-- Another index, by id, would make lists quicker, and cost each settlement an entry.
CREATE INDEX task_archive_batch ON "schema_of_a_release".task_archive (
    batch_id,
    (CASE WHEN task_archive.ever_started AND task_archive.state IN ('succeeded', 'failed', 'cancelled')
        THEN coalesce(task_archive.started_at, task_archive.finished_at) END),
    id
) WHERE batch_id IS NOT NULL;
-- What a retry of the batch revives, and what could not be rolled back.
CREATE INDEX task_archive_batch_failed ON "schema_of_a_release".task_archive (batch_id, id)
    WHERE batch_id IS NOT NULL AND (task_archive.state IN ('failed', 'rollback_failed')
        OR task_archive.state = 'rolled_back' AND coalesce(task_archive.cause, '') NOT IN ('succeeded', 'cancelled'));

-- The history: one row for each attempt that was settled, except where a task was done at its first try.
CREATE TABLE "schema_of_a_release".attempt (
    task_id     bigint NOT NULL,
    fence       bigint NOT NULL, -- of the settlement
    ran_fence   bigint NOT NULL, -- that the task was given
    session     bigint NOT NULL, -- that settled it
    ran_session bigint,          -- that it ran in, where another session reaped it; NULL: the one that settled it
    policy      bigint,          -- that it began with: policy.hash
    started_at  timestamptz,     -- of one that was reaped, when its row was claimed; NULL: it never started
    ended_at    timestamptz NOT NULL,
    attempt     integer NOT NULL,
    phase       text NOT NULL,
    outcome     text NOT NULL,
    state       text NOT NULL,   -- of the task, after it
    error       text,
    output      text,
    result      jsonb,
    PRIMARY KEY (task_id, fence)
);

-- Live and finished tasks, and followers.
CREATE VIEW "schema_of_a_release".tasks AS
    SELECT id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
           created_at, attempt, deferrals, ever_started, fence, session, claim, policy, lease_until, claimed_at, deadline,
           outcome, CASE WHEN t.state IN ('rollback_pending', 'rollback_running', 'rolled_back')
        AND (SELECT h.phase FROM "schema_of_a_release".attempt AS h WHERE h.task_id = t.id ORDER BY h.fence DESC LIMIT 1) = 'rollback'
    THEN (SELECT h.error FROM "schema_of_a_release".attempt AS h WHERE h.task_id = t.id AND h.phase = 'run' ORDER BY h.fence DESC LIMIT 1)
    ELSE t.error END AS error, result, output, started_at, finished_at, progress, message, checkpoint, cancel_requested_at,
           cancel_requested_by, detached, batch_id, rollback_payload, cause, round, follows, lock, held, sequence, after, after_if,
           cancelled_for, tenant, spilled, failed_task
    FROM (
        SELECT id, type, state, priority, coalesce(spilled_from, region) AS region, key, run_at, payload, labels, traceparent,
               created_by, max_attempts,
               created_at, attempt, deferrals, ever_started, fence, session, claim, policy, lease_until, claimed_at, deadline,
               outcome, error, result, NULL::text AS output, NULL::timestamptz AS started_at,
               NULL::timestamptz AS finished_at, progress, message, checkpoint, cancel_requested_at, cancel_requested_by,
               coalesce(detached, false) AS detached, batch_id, rollback_payload, cause, coalesce(round, 0) AS round,
               NULL::bigint AS follows, lock, held, sequence, after,
               CASE WHEN after IS NOT NULL THEN coalesce(after_if, 'succeeded') END AS after_if, NULL::bigint AS cancelled_for, tenant,
               spilled_from IS NOT NULL AS spilled, nullif(failed_task, id) AS failed_task
        FROM "schema_of_a_release".task
        UNION ALL
        SELECT id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
               created_at, attempt, deferrals, ever_started, fence, session, claim, policy, lease_until, claimed_at, deadline,
               outcome, error, result, output, started_at, finished_at, progress, message, checkpoint, cancel_requested_at,
               cancel_requested_by, false, batch_id, rollback_payload, cause, coalesce(round, 0), NULL, lock, NULL, sequence, after,
               CASE WHEN after IS NOT NULL THEN coalesce(after_if, 'succeeded') END, cancelled_for, tenant, false,
               nullif(failed_task, id)
        FROM "schema_of_a_release".task_archive
        UNION ALL
        SELECT id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
               created_at, attempt, deferrals, ever_started, fence, session, claim, policy, lease_until, claimed_at, deadline,
               outcome, error, result, NULL, NULL, NULL, progress, message, checkpoint, cancel_requested_at,
               cancel_requested_by, false, batch_id, rollback_payload, cause, 0, (SELECT live.id FROM "schema_of_a_release".task AS live WHERE live.type = follow.type AND live.key = follow.key LIMIT 1), lock, NULL, sequence, NULL, NULL, NULL, tenant,
               false, NULL
        FROM "schema_of_a_release".follow
    ) AS t;

-- Locks that are held, each by a row that runs, or has ended and not been followed yet. Nothing but claims and promotions write it,
-- and each of them locks the lock's row first, skipping what another has locked, and looks at tasks and notes in a later statement:
-- functions/locks.sql.
CREATE TABLE "schema_of_a_release".lock_holder (
    task_id bigint NOT NULL,
    name    text COLLATE "C" PRIMARY KEY
) WITH (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);

-- What promotions have to look at: a row with a lock has stopped to run, or to wait without being held. It is written in the
-- transaction that moves the row, and waits for nothing.
CREATE TABLE "schema_of_a_release".lock_note (
    until timestamptz,   -- what the row ran may be at work until then, and the lock stays held; NULL: it has ended
    name  text COLLATE "C" NOT NULL
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 50000
);
CREATE INDEX lock_note_until ON "schema_of_a_release".lock_note (name) WHERE until IS NOT NULL;

-- Sequences that claims have met, and whose turn it is. task_id is the head: it keeps its turn for as long as it is in task. NULL: there is none,
-- because nothing waits, or because a failure blocks the sequence. Nothing but claims and promotions write it, as lock_holder:
-- functions/turns.sql.
CREATE TABLE "schema_of_a_release".sequence_holder (
    task_id bigint,
    type    text NOT NULL,
    name    text COLLATE "C" NOT NULL,
    PRIMARY KEY (type, name)
) WITH (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);

-- What promotions have to look at: a row with a sequence has ended, as lock_note.
CREATE TABLE "schema_of_a_release".sequence_note (
    until timestamptz,   -- what the row ran may be at work until then, and no other has its turn; NULL: it has ended
    type  text NOT NULL,
    name  text COLLATE "C" NOT NULL
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 50000
);
CREATE INDEX sequence_note_until ON "schema_of_a_release".sequence_note (type, name) WHERE until IS NOT NULL;

-- Finished rows of sequences that have not succeeded, until that is resolved: the archived row is kept as long. The transaction that
-- archives the row writes it, and one that revives the row removes it. What it means, whether it blocks the rows behind it, is decided when
-- its turn comes, by sequence_rule.
CREATE TABLE "schema_of_a_release".sequence_failure (
    task_id bigint NOT NULL,
    type    text NOT NULL,
    name    text COLLATE "C" NOT NULL,
    PRIMARY KEY (type, name, task_id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- What a failure does to the sequences of a row type, as the newest declaration of the present agents says: 'block' or 'continue'. A type
-- that is not in here blocks.
CREATE TABLE "schema_of_a_release".sequence_rule (
    declared   bigint NOT NULL,               -- number of the declaration in force
    type       text PRIMARY KEY,
    on_failure text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

-- Declarations of them, and the sessions that declare them, as those of limits.
CREATE TABLE "schema_of_a_release".sequence_declaration (
    number     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    first_at   timestamptz NOT NULL DEFAULT now(),
    type       text NOT NULL,
    on_failure text NOT NULL,
    UNIQUE (type, on_failure)
);
CREATE TABLE "schema_of_a_release".sequence_declarer (
    session bigint NOT NULL,
    number  bigint NOT NULL,
    PRIMARY KEY (session, number)
);

-- Rows that wait for others (after): functions/after.sql. An INSERT of a task adds its row here, and agents do the rest.
CREATE TABLE "schema_of_a_release".dependent (
    task_id    bigint PRIMARY KEY,
    total      integer NOT NULL,           -- how many ids it names
    place      integer NOT NULL DEFAULT 0, -- how many of them the present look has seen
    unfinished integer NOT NULL DEFAULT 0, -- its rows in dependency
    stage      text NOT NULL DEFAULT 'look',  -- 'look': its predecessors are being looked at; 'wait': for their ends; 'decide'
    dirty      boolean NOT NULL DEFAULT false -- this look has added to dependency, so that there has to be another
) WITH (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 50000
);
CREATE INDEX dependent_look ON "schema_of_a_release".dependent (task_id) WHERE stage = 'look';
CREATE INDEX dependent_decide ON "schema_of_a_release".dependent (task_id) WHERE stage = 'decide';

-- Which live rows, and followers, it is that rows wait for. Only agents write it, each for rows of dependent that it has locked.
CREATE TABLE "schema_of_a_release".dependency (
    on_id   bigint NOT NULL,
    task_id bigint NOT NULL,
    PRIMARY KEY (on_id, task_id)
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 50000
);

-- Rows that have ended for good and that others wait for. It is written in the transaction that moves the row, and waits for nothing.
CREATE TABLE "schema_of_a_release".ended_note (
    id bigint NOT NULL
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 50000
);

-- Rows that were retried: those that were cancelled on account of them are to be revived, too (functions/revive_dependents.sql). It is
-- written in the transaction that revives the row, and waits for nothing.
CREATE TABLE "schema_of_a_release".revived_note (
    number   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id       bigint NOT NULL,
    place    bigint NOT NULL DEFAULT 0, -- those with ids up to this one have been looked at
    batch_id bigint                     -- the row's batch, which does not end before they are back
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 50000
);
CREATE INDEX revived_note_batch ON "schema_of_a_release".revived_note (batch_id) WHERE batch_id IS NOT NULL;

-- Batches. Applications insert name, on_failure, finish_type, finish_payload, labels, created_by and sealed; the other
-- columns belong to the agents. The counters are the sum of the deltas that folds have found; batch_delta has the others.
CREATE TABLE "schema_of_a_release".batch (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    created_at      timestamptz NOT NULL DEFAULT now(),
    ended_at        timestamptz,
    born            xid8 NOT NULL DEFAULT pg_current_xact_id(), -- the transaction that may insert rows although it is sealed
    total           bigint NOT NULL DEFAULT 0,
    running         bigint NOT NULL DEFAULT 0,
    succeeded       bigint NOT NULL DEFAULT 0,
    failed          bigint NOT NULL DEFAULT 0,
    cancelled       bigint NOT NULL DEFAULT 0,
    rolling_back    bigint NOT NULL DEFAULT 0, -- rollback_pending or rollback_running
    rolled_back     bigint NOT NULL DEFAULT 0,
    rollback_failed bigint NOT NULL DEFAULT 0,
    failures        bigint NOT NULL DEFAULT 0, -- how often a row has failed
    attempts        bigint NOT NULL DEFAULT 0, -- that have ended
    first_id        bigint,                    -- all its tasks have this id or a higher one; NULL: there are none
    last_id         bigint,                    -- or a lower one
    failures_seen   bigint NOT NULL DEFAULT 0, -- of failures, those before the round or the request
    round           integer NOT NULL DEFAULT 0,
    sealed          boolean NOT NULL DEFAULT true,
    stopping        boolean NOT NULL DEFAULT false, -- nothing of it is claimed any more
    by_failure      boolean NOT NULL DEFAULT false, -- the request follows a failure
    rows_expired    boolean NOT NULL DEFAULT false, -- rows of it are past retention, removed or about to be
    needs_fold      boolean NOT NULL DEFAULT true,  -- a fold has to look at it even if there are no deltas
    name            text NOT NULL DEFAULT ''
                    CONSTRAINT "name must be 255 bytes at most" CHECK (octet_length(name) <= 255),
    on_failure      text NOT NULL DEFAULT 'continue'
                    CONSTRAINT "on_failure must be continue, cancel or rollback" CHECK (
                        on_failure IN ('continue', 'cancel', 'rollback')),
    requested       text CHECK (requested IN ('cancel', 'rollback')), -- in this round
    requested_by    text,
    finish_type     text
                    CONSTRAINT "finish_type must not be empty: leave it out instead" CHECK (finish_type <> '')
                    CONSTRAINT "finish_type must be 255 bytes at most" CHECK (octet_length(finish_type) <= 255),
    finish_payload  jsonb NOT NULL DEFAULT '{}'
                    CONSTRAINT "finish_payload must be a JSON object" CHECK (jsonb_typeof(finish_payload) = 'object')
                    -- with what is added to it when the batch ends it is below the least bound on payloads
                    CONSTRAINT "finish_payload must be 64 KiB at most" CHECK (pg_column_size(finish_payload) <= 65536),
    created_by      text
                    CONSTRAINT "created_by must be 512 bytes at most" CHECK (octet_length(created_by) <= 512),
    labels          jsonb
                    CONSTRAINT "labels must be a JSON object of strings" CHECK (jsonb_typeof(labels) = 'object'
                        AND NOT jsonb_path_exists(labels, 'strict $.* ? (@.type() != "string")', '{}', true))
                    CONSTRAINT "labels must be 4 KiB at most" CHECK (octet_length(labels::text) <= 4096)
) WITH (
    -- Few rows, written every second while their tasks run.
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500
);
-- This makes ended_at a part of the row's key. So only a transaction that ends a batch or reopens it conflicts with those
-- that have inserted rows into it (FOR KEY SHARE), even with one whose snapshot is too old to see it.
CREATE UNIQUE INDEX batch_ended ON "schema_of_a_release".batch (id, ended_at);
CREATE INDEX batch_open ON "schema_of_a_release".batch (id) WHERE ended_at IS NULL;
CREATE INDEX batch_needs_fold ON "schema_of_a_release".batch (id) WHERE needs_fold;
CREATE INDEX batch_stopping ON "schema_of_a_release".batch (id) WHERE stopping AND ended_at IS NULL;

-- What was counted and not summed yet: one row for each statement and batch, in the transaction that moved the tasks.
CREATE TABLE "schema_of_a_release".batch_delta (
    batch_id        bigint NOT NULL,
    total           bigint NOT NULL DEFAULT 0,
    running         bigint NOT NULL DEFAULT 0,
    succeeded       bigint NOT NULL DEFAULT 0,
    failed          bigint NOT NULL DEFAULT 0,
    cancelled       bigint NOT NULL DEFAULT 0,
    rolling_back    bigint NOT NULL DEFAULT 0,
    rolled_back     bigint NOT NULL DEFAULT 0,
    rollback_failed bigint NOT NULL DEFAULT 0,
    failures        bigint NOT NULL DEFAULT 0,
    attempts        bigint NOT NULL DEFAULT 0,
    first_id        bigint, -- the lowest and the highest id of the tasks that it adds; NULL: it adds none
    last_id         bigint
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 50000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000
);
CREATE INDEX batch_delta_batch ON "schema_of_a_release".batch_delta (batch_id);

-- Claims in flight and a transaction that stops a batch. A claim locks the batch's gate (its id modulo 8), shared, from
-- before its last look at the batch until its end (reserve_start). A transaction that stops the batch locks it
-- exclusively just before its commit (batch_stops). So once that has committed nothing of the batch starts, and until
-- then an open transaction blocks no claim. A lock on a table is fair (later claims do not overtake one that waits),
-- writes nothing, and takes a privilege on the table, which no application has. There are eight gates so that batches
-- seldom share one: a batch that does is skipped by the claims that come while another is being stopped.
CREATE TABLE "schema_of_a_release".batch_gate_0 ();
CREATE TABLE "schema_of_a_release".batch_gate_1 ();
CREATE TABLE "schema_of_a_release".batch_gate_2 ();
CREATE TABLE "schema_of_a_release".batch_gate_3 ();
CREATE TABLE "schema_of_a_release".batch_gate_4 ();
CREATE TABLE "schema_of_a_release".batch_gate_5 ();
CREATE TABLE "schema_of_a_release".batch_gate_6 ();
CREATE TABLE "schema_of_a_release".batch_gate_7 ();

-- What operators request of a batch, or of a task that runs. Agents carry it out in steps.
CREATE TABLE "schema_of_a_release".operation (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    verb         text NOT NULL CHECK (verb IN ('cancel', 'retry', 'rollback')),
    batch_id     bigint,
    task_id      bigint,                         -- not NULL: it is about this task; batch_id is then the task's
    requested_at timestamptz NOT NULL,
    requested_by text,
    force        boolean NOT NULL DEFAULT false,
    version      bigint NOT NULL DEFAULT 0,      -- rises with each step: one that saw an older one is not applied
    stopped      boolean NOT NULL DEFAULT false, -- everything has stopped; of a rollback, finished rows come next
    missed       boolean NOT NULL DEFAULT false, -- a row behind the cursor was locked or had changed: another pass is needed
    after_at     timestamptz,                    -- the cursor: the row that was looked at last
    after_id     bigint,
    goal         bigint NOT NULL DEFAULT 0,      -- of a rollback: rows of the batch when it came to the finished ones
    taken        bigint NOT NULL DEFAULT 0,      -- of a rollback: finished rows that it has chosen
    done         bigint NOT NULL DEFAULT 0,      -- rows that it changed
    refused      bigint NOT NULL DEFAULT 0,      -- rows that it had to leave as they were
    superseded   boolean NOT NULL DEFAULT false, -- another took its place
    ended_at     timestamptz
);
CREATE INDEX operation_open ON "schema_of_a_release".operation (id) WHERE ended_at IS NULL;
CREATE INDEX operation_batch ON "schema_of_a_release".operation (batch_id, id) WHERE batch_id IS NOT NULL;
CREATE INDEX operation_task ON "schema_of_a_release".operation (task_id) WHERE task_id IS NOT NULL;

-- Who requested each change. A row stays as long as the task or the batch. requested_by is what the caller says; role is
-- the role that the session logged in with, which no caller chooses.
CREATE TABLE "schema_of_a_release".audit (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    requested_by text,
    role     text NOT NULL DEFAULT session_user,
    verb     text NOT NULL,
    task_id  bigint,
    batch_id bigint,
    schedule text,               -- its name: such a row stays
    chunks   text,               -- the name of a plan: likewise
    agent    bigint,             -- a session: likewise
    type     text,               -- a type of tasks: likewise
    reason   text,               -- that was given, of changes of types
    answer   text NOT NULL
);
CREATE INDEX audit_task ON "schema_of_a_release".audit (task_id, id) WHERE task_id IS NOT NULL;
CREATE INDEX audit_batch ON "schema_of_a_release".audit (batch_id, id) WHERE batch_id IS NOT NULL;

-- Changes of all tasks that match a filter: functions/bulk.sql. Agents look at tasks by rising ids, up to up_to, and move after_id in the
-- transaction that changes them. So each is changed once at most.
CREATE TABLE "schema_of_a_release".bulk_change (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    requested_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at     timestamptz,
    again_until  timestamptz,                    -- what is locked is looked at again until then
    from_id      bigint NOT NULL,                -- the tasks behind this one, up to up_to
    up_to        bigint NOT NULL,
    after_id     bigint NOT NULL,                -- the task that was looked at last
    version      bigint NOT NULL DEFAULT 0,      -- rises with each step: one that saw an older one is not applied
    looked       bigint NOT NULL DEFAULT 0,      -- tasks that were looked at
    done         bigint NOT NULL DEFAULT 0,      -- tasks that it changed
    refused      bigint NOT NULL DEFAULT 0,      -- tasks that match, and could not be changed
    skipped      bigint NOT NULL DEFAULT 0,      -- tasks that stayed locked
    again        bigint[] NOT NULL DEFAULT '{}', -- tasks that were locked: they are looked at again after the last one
    stopped      boolean NOT NULL DEFAULT false, -- an operator has stopped it
    verb         text NOT NULL CHECK (verb IN ('cancel', 'retry', 'rollback')),
    filter       jsonb NOT NULL,
    requested_by text,
    reason       text
);
CREATE INDEX bulk_change_open ON "schema_of_a_release".bulk_change (id) WHERE ended_at IS NULL;

-- The same with how far each is.
CREATE VIEW "schema_of_a_release".bulk_changes AS
    SELECT c.id, c.verb, c.filter, c.requested_at, c.requested_by, c.reason,
        CASE WHEN c.ended_at IS NULL THEN 'running' WHEN c.stopped THEN 'stopped' ELSE 'ended' END AS state,
        CASE WHEN c.ended_at IS NOT NULL AND NOT c.stopped OR c.up_to <= c.from_id THEN 1
             ELSE (c.after_id - c.from_id)::double precision / (c.up_to - c.from_id) END AS progress,
        c.looked, c.done, c.refused, cardinality(c.again) AS locked, c.skipped, c.from_id, c.up_to, c.after_id, c.ended_at
    FROM "schema_of_a_release".bulk_change AS c;

-- Batches with their state and all counts, those of batch_delta included.
CREATE VIEW "schema_of_a_release".batches AS
    SELECT b.id, b.name,
        CASE
            WHEN b.ended_at IS NULL THEN CASE
                WHEN b.requested = 'rollback' OR n.rolling_back > 0 AND n.live = n.rolling_back THEN 'rolling_back'
                WHEN n.attempts > 0 OR n.running > 0 OR n.rolling_back > 0 OR n.live < n.total THEN 'running'
                ELSE 'pending' END
            WHEN n.rollback_failed > 0 THEN 'rollback_failed'
            WHEN b.requested = 'rollback' THEN 'rolled_back'
            WHEN b.requested = 'cancel' AND NOT b.by_failure AND n.cancelled > 0 THEN 'cancelled'
            WHEN n.total > 0 AND n.rolled_back = n.total THEN 'rolled_back'
            WHEN n.failed + n.rolled_back > 0 THEN CASE WHEN n.succeeded > 0 THEN 'partially_failed' ELSE 'failed' END
            WHEN n.cancelled > 0 THEN 'cancelled'
            ELSE 'succeeded'
        END AS state,
        b.on_failure, b.sealed, b.stopping, b.round, n.total, n.live, n.live - n.rolling_back - n.running AS waiting,
        n.running, n.rolling_back, n.succeeded, n.failed, n.cancelled, n.rolled_back, n.rollback_failed, n.failures,
        CASE WHEN n.total > 0 THEN (n.total - n.live)::double precision / n.total END AS progress,
        b.finish_type, b.labels, b.created_by, b.created_at, b.ended_at, o.verb AS operation, b.requested_by
    FROM "schema_of_a_release".batch AS b
    CROSS JOIN LATERAL (
        SELECT b.total + coalesce(sum(d.total), 0)::bigint AS total,
            b.running + coalesce(sum(d.running), 0)::bigint AS running,
            b.succeeded + coalesce(sum(d.succeeded), 0)::bigint AS succeeded,
            b.failed + coalesce(sum(d.failed), 0)::bigint AS failed,
            b.cancelled + coalesce(sum(d.cancelled), 0)::bigint AS cancelled,
            b.rolling_back + coalesce(sum(d.rolling_back), 0)::bigint AS rolling_back,
            b.rolled_back + coalesce(sum(d.rolled_back), 0)::bigint AS rolled_back,
            b.rollback_failed + coalesce(sum(d.rollback_failed), 0)::bigint AS rollback_failed,
            b.failures + coalesce(sum(d.failures), 0)::bigint AS failures,
            b.attempts + coalesce(sum(d.attempts), 0)::bigint AS attempts
        FROM "schema_of_a_release".batch_delta AS d WHERE d.batch_id = b.id
    ) AS s
    CROSS JOIN LATERAL (
        SELECT s.*, s.total - s.succeeded - s.failed - s.cancelled - s.rolled_back - s.rollback_failed AS live
    ) AS n
    LEFT JOIN LATERAL (
        SELECT o.verb FROM "schema_of_a_release".operation AS o
        WHERE o.batch_id = b.id AND o.task_id IS NULL AND o.ended_at IS NULL ORDER BY o.id DESC LIMIT 1
    ) AS o ON true;

-- Names of time zones that a schedule may have: those that Go embeds, so that agents know each of them.
CREATE TABLE "schema_of_a_release".schedule_zone (name text PRIMARY KEY);
INSERT INTO "schema_of_a_release".schedule_zone (name) VALUES
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

-- What inserts tasks again and again, and where each of them stands. Slots (cursor_at, last_slot, queued_slot) are whole
-- milliseconds. NULL and '' are the default of a declared column. Applications insert name, task, cron, every, after, timezone,
-- payload, jitter, from_at, until_at, missed, catch_up and overlap, and change all of these but name. The trigger
-- schedule_declared checks them, and schedule_changed has the schedule go on from a change. Both are for rows of source 'sql'
-- and 'hcl' alike, except that an agent checks what HCL declares.
CREATE TABLE "schema_of_a_release".schedule (
    created_at   timestamptz NOT NULL DEFAULT date_trunc('milliseconds', now()),
    cursor_at    timestamptz,                    -- all slots through this one are decided
    queued_slot  timestamptz,                    -- it is to fire, and waits for the end of last_task
    last_slot    timestamptz,                    -- of last_task
    next_at      timestamptz DEFAULT now(),      -- when an agent is to look again; NULL: never
    paused_at    timestamptz,                    -- by an operator
    parked_at    timestamptz,                    -- no present agent declares it
    last_task    bigint,
    missed_slots bigint NOT NULL DEFAULT 0,
    -- Rises with each change: a firing that saw an older one is not applied. It begins anywhere, so that this is true also of a
    -- schedule that was deleted and inserted again.
    version      bigint NOT NULL DEFAULT floor(random() * 281474976710656)::bigint,
    declared     bigint,                         -- of source 'hcl': number of the declaration in force; NULL: of source 'sql'
    name         text PRIMARY KEY
                 CONSTRAINT "name must not be empty" CHECK (name <> '')
                 CONSTRAINT "name must be 255 bytes at most" CHECK (octet_length(name) <= 255),
    task         text NOT NULL                   -- type of the rows
                 CONSTRAINT "task must not be empty" CHECK (task <> '')
                 CONSTRAINT "task must be 255 bytes at most" CHECK (octet_length(task) <= 255),
    cron         text,
    every        text,
    after        text,
    timezone     text,
    payload      jsonb NOT NULL DEFAULT '{}'
                 CONSTRAINT "payload must be a JSON object" CHECK (jsonb_typeof(payload) = 'object'),
    jitter       text,
    from_at      text,
    until_at     text,
    missed       text,
    catch_up     text,
    overlap      text,
    source       text NOT NULL DEFAULT 'sql' CHECK (source IN ('sql', 'hcl')), -- an agent checks what HCL declares
    paused_by    text,
    last_by      text,                           -- name of the agent that inserted last_task
    invalid      text                            -- why agents cannot use the row
) WITH (
    -- Each firing writes its row, and moves it in the index.
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000
);
CREATE INDEX schedule_next ON "schema_of_a_release".schedule (next_at, name) WHERE schedule.next_at IS NOT NULL AND schedule.paused_at IS NULL AND schedule.parked_at IS NULL AND schedule.invalid IS NULL;

-- What configurations declare: one row for each schedule and each of its declarations that was ever loaded. The highest number
-- is the newest one.
CREATE TABLE "schema_of_a_release".schedule_declaration (
    number   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    first_at timestamptz NOT NULL DEFAULT now(),
    name     text NOT NULL,
    hash     text NOT NULL,                      -- of spec
    spec     jsonb NOT NULL,
    UNIQUE (name, hash)
);

-- Which sessions declare what. It counts while the session is present.
CREATE TABLE "schema_of_a_release".schedule_declarer (
    session bigint NOT NULL,
    number  bigint NOT NULL,
    PRIMARY KEY (session, number)
);

-- Schedules for operators and applications. The end of last_task is in tasks.
CREATE VIEW "schema_of_a_release".schedules AS
    SELECT s.name, s.task, s.cron, s.every, s.after, s.timezone, s.payload, s.jitter, s.from_at, s.until_at, s.missed,
        s.catch_up, s.overlap, s.source, s.created_at, s.next_at, s.last_slot, s.last_task, s.last_by, s.queued_slot,
        s.missed_slots, s.paused_at, s.paused_by, s.parked_at, s.invalid
    FROM "schema_of_a_release".schedule AS s;

-- Plans that cut a big table into ranges of its key (chunks), each of which becomes a task. The
-- names of its columns are those of store.ChunkPlan. Agents declare them, and an agent checks what is declared.
CREATE TABLE "schema_of_a_release".chunk_plan (
    created_at timestamptz NOT NULL DEFAULT now(),
    paused_at  timestamptz,                 -- by an operator
    grow_at    timestamptz,                 -- when to look for rows behind high
    repeat_at  timestamptz,                 -- when to begin with the table again
    held_until timestamptz,
    version    bigint NOT NULL DEFAULT floor(random() * 281474976710656)::bigint, -- as of schedule
    declared   bigint NOT NULL,             -- number of the declaration in force
    target_us  bigint NOT NULL DEFAULT 0,   -- microseconds that a chunk should take; 0: chunks keep their size
    follow_us  bigint NOT NULL DEFAULT 0,   -- how often to look for new rows; 0: one pass
    rest_us    bigint NOT NULL DEFAULT 0,   -- how far away grow_at may be, although follow_us is less
    done_rows  bigint NOT NULL DEFAULT 0,   -- of chunks that succeeded, as far as noted, and their microseconds
    done_us    bigint NOT NULL DEFAULT 0,
    open_step  bigint NOT NULL DEFAULT 0,   -- the low-water mark of its open chunks, with open_pass: no chunk before it is open
    per_row    double precision NOT NULL DEFAULT 0, -- seconds, smoothed
    size_start integer NOT NULL,
    size_min   integer NOT NULL DEFAULT 0,
    size_max   integer NOT NULL DEFAULT 0,
    ahead      integer NOT NULL,
    size       integer NOT NULL DEFAULT 0,  -- rows of the next chunk
    pass       integer NOT NULL DEFAULT 0,  -- the newest; 0: none
    open_pass  integer NOT NULL DEFAULT 0,
    over       boolean NOT NULL DEFAULT false, -- no pass follows
    name       text PRIMARY KEY
               CONSTRAINT "name must not be empty" CHECK (name <> '')
               CONSTRAINT "name must be 200 bytes at most" CHECK (octet_length(name) <= 200),
    task       text NOT NULL,               -- type of the rows
    table_name text NOT NULL,
    key_name   text NOT NULL,
    source     jsonb NOT NULL DEFAULT '{}', -- store.ChunkSource, human-readable
    high       text,                        -- the end of all that was ever planned
    sampled    text NOT NULL DEFAULT '',
    holder     text,                        -- the agent that plans now, its name and something of its own
    paused_by  text
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- Declarations of chunk plans, and the sessions that declare them, as those of schedules.
CREATE TABLE "schema_of_a_release".chunk_declaration (
    number   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    first_at timestamptz NOT NULL DEFAULT now(),
    name     text NOT NULL,
    hash     text NOT NULL,                      -- of spec
    spec     jsonb NOT NULL,
    UNIQUE (name, hash)
);
CREATE TABLE "schema_of_a_release".chunk_declarer (
    session bigint NOT NULL,
    number  bigint NOT NULL,
    PRIMARY KEY (session, number)
);

-- Limits of task types over all agents, as the present ones declare them (declare_limits): a row for each row type that has one. The
-- types of one declaration share its limit, and claims of them lock the row whose type is the limit's name (limit_rooms).
CREATE TABLE "schema_of_a_release".type_limit (
    since      timestamptz NOT NULL DEFAULT now(),
    declared   bigint NOT NULL,               -- number of the declaration in force
    rate       double precision NOT NULL,     -- starts in a second; 0: no bound
    most       integer NOT NULL,              -- attempts at once; 0: no bound
    burst      integer NOT NULL,              -- starts at once
    tenant_rate  double precision NOT NULL DEFAULT 0, -- the same for each tenant
    tenant_most  integer NOT NULL DEFAULT 0,
    tenant_burst integer NOT NULL DEFAULT 0,
    wanted_until timestamptz,                 -- until then a session wants a place that has none, and found no room
    wanted_by  bigint,                        -- the session, the latest where there are several
    counts_all boolean NOT NULL DEFAULT true, -- rows may run that were claimed before there was a limit, and do not name it
    crowded    boolean NOT NULL DEFAULT true, -- more may run than most, as it may have become less: what ends leaves no place to others
    type       text PRIMARY KEY,
    name       text NOT NULL
) WITH (
    -- Few rows, which every claim of their types locks.
    fillfactor = 30, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200
);

-- What a rate allows to start, by the name of its limit (store.Bucket). The claim that has locked the limit writes it. It stays when the limit
-- goes, so that one which comes back brings no new burst.
CREATE TABLE "schema_of_a_release".limit_bucket (
    counted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    tokens     double precision NOT NULL,
    name       text PRIMARY KEY
) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

-- What a rate of tenants allows to start, by limit and tenant. A bucket that is not here is full, so what is full again is removed (forget_buckets).
CREATE TABLE "schema_of_a_release".tenant_bucket (
    counted_at timestamptz NOT NULL,
    full_at    timestamptz NOT NULL,          -- when it will be full if nothing starts
    tokens     double precision NOT NULL,
    name       text NOT NULL,                 -- of the limit
    tenant     text COLLATE "C" NOT NULL,
    PRIMARY KEY (name, tenant)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

-- Tokens that are returned for rows which were claimed and never started. A session writes them before it releases the rows; one counts
-- once its attempt is over.
CREATE TABLE "schema_of_a_release".limit_token (
    task_id bigint NOT NULL,
    fence   bigint NOT NULL,
    name    text NOT NULL,                    -- of the limit
    tenant  text COLLATE "C",
    PRIMARY KEY (task_id, fence)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
CREATE INDEX limit_token_name ON "schema_of_a_release".limit_token (name, tenant);

-- Places that attempts keep which have been settled and may still be at work, until their leases end. The settlement writes them, so none is
-- of an attempt that runs.
CREATE TABLE "schema_of_a_release".limit_place (
    task_id bigint NOT NULL,
    fence   bigint NOT NULL,
    kept_at timestamptz NOT NULL DEFAULT now(),
    until   timestamptz NOT NULL,
    name    text NOT NULL,                    -- of the limit
    tenant  text COLLATE "C",
    PRIMARY KEY (task_id, fence)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
CREATE INDEX limit_place_name ON "schema_of_a_release".limit_place (name, tenant);

-- Declarations of limits, and the sessions that declare them, as those of schedules.
CREATE TABLE "schema_of_a_release".limit_declaration (
    number   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    first_at timestamptz NOT NULL DEFAULT now(),
    name     text NOT NULL,
    hash     text NOT NULL,                      -- of spec
    spec     jsonb NOT NULL,
    UNIQUE (name, hash)
);
CREATE TABLE "schema_of_a_release".limit_declarer (
    session bigint NOT NULL,
    number  bigint NOT NULL,
    PRIMARY KEY (session, number)
);

-- The ledger: the passes of plans. A pass has cut the table behind from_key and up to through_key without a gap, since a step is
-- applied only where its ranges continue those before. A pass without chunks goes when it ends, the others stay for ever.
CREATE TABLE "schema_of_a_release".chunk_pass (
    began_at    timestamptz NOT NULL,
    sealed_at   timestamptz,                -- NULL: it is being planned
    sizes       text NOT NULL DEFAULT '[]', -- rows of a chunk as they changed, as JSON
    first_key   text,                       -- of the table, when the pass began
    last_key    text,
    batch_id    bigint,                     -- NULL: the next chunk gets a new one
    rows        bigint NOT NULL DEFAULT 0,  -- of its chunks
    cost_us     bigint NOT NULL DEFAULT 0,  -- for which the source was read
    pass        integer NOT NULL,
    ranges      integer NOT NULL DEFAULT 0, -- chunks, those left to earlier passes, and those without rows
    chunks      integer NOT NULL DEFAULT 0,
    whole       boolean NOT NULL,           -- it began with the table
    plan        text NOT NULL,
    from_key    text,
    through_key text,
    PRIMARY KEY (plan, pass)
) WITH (fillfactor = 70);

-- Chunks. What became of one that is open its task shows. A step notes that it has finished, and revive opens it again ('reopened');
-- so what failed is known when its task is past its retention. One goes with its batch, unless it has failed.
CREATE TABLE "schema_of_a_release".chunk_range (
    task_id     bigint PRIMARY KEY,
    step        bigint NOT NULL,            -- version of the plan; step, item and part give the order of the key within the pass
    item        integer NOT NULL,
    pass        integer NOT NULL,           -- the newest that came by it
    planned     integer NOT NULL,           -- the pass that inserted it
    rows        integer NOT NULL,           -- when it was cut
    failures    integer NOT NULL,           -- earlier passes in a row in which the range failed
    plan        text NOT NULL,
    part        text COLLATE "C" NOT NULL DEFAULT '', -- of a chunk that was split
    state       text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'reopened', 'failed', 'over')),
    after_key   text,
    through_key text NOT NULL
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, vacuum_index_cleanup = on);
-- A chunk that has finished leaves a dead entry here until it is vacuumed, so what reads open chunks begins at the low-water mark of
-- their plan. Only steps move that, and they insert chunks behind it. What can come to be open before it, because it is reopened or is
-- half of a chunk that was split, is in the second index, as are ranges that failed: it is small, and read from its beginning.
CREATE INDEX chunk_range_open ON "schema_of_a_release".chunk_range (plan, pass, step, item, part) WHERE state = 'open';
CREATE INDEX chunk_range_left ON "schema_of_a_release".chunk_range (plan, pass, step, item, part) WHERE state IN ('failed', 'reopened');

-- Sessions: one row for each start of an agent. A number is never used again.
CREATE TABLE "schema_of_a_release".agent (
    session       bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
    name          text NOT NULL,
    region        text,
    version       text NOT NULL,
    config        text NOT NULL,
    workers       integer NOT NULL,
    types         text[] NOT NULL,
    started_at    timestamptz NOT NULL DEFAULT now(),
    seen_at       timestamptz NOT NULL DEFAULT now(),
    present_until timestamptz NOT NULL,
    idle          boolean NOT NULL DEFAULT false, -- it waits for a notification of new rows
    draining      boolean NOT NULL DEFAULT false,
    running       integer NOT NULL DEFAULT 0,
    done          bigint NOT NULL DEFAULT 0,
    minute        bigint NOT NULL DEFAULT 0, -- of these, those of the last minute
    ordered       text,                      -- what an operator wants of it (order_agent): 'cordon' or 'drain'
    ordered_by    text,
    redact        jsonb NOT NULL DEFAULT '{}', -- names of the members that are masked, by row type
    condition     text,                      -- store.Condition as JSON; NULL: nothing is the matter
    -- The last heartbeat, if by then the session had seen no jump of the clock for its whole TTL: what had expired by this
    -- time has expired indeed. Named leases depend on it (lease_lapsed).
    calm_at       timestamptz
) WITH (
    -- Few rows, written every few seconds: heap-only updates, and a page or two at most for the trigger to read.
    fillfactor = 30, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200
);

-- Sessions as people see them.
CREATE VIEW "schema_of_a_release".agents AS
    SELECT session, name,
        CASE WHEN present_until <= seen_at THEN 'left' WHEN present_until <= now() THEN 'absent'
             WHEN draining OR ordered = 'drain' THEN 'draining' WHEN workers = 0 THEN 'observer'
             WHEN ordered = 'cordon' THEN 'cordoned' ELSE 'working' END AS state,
        region, version, config, workers, running, done, minute AS done_per_minute, types, started_at, seen_at, ordered_by, condition
    FROM "schema_of_a_release".agent;

-- What configurations have declared, without secrets: the change log of definitions. A block that was never loaded before gets the next
-- number; the same one again is the same row.
CREATE TABLE "schema_of_a_release".declaration (
    number   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind     text NOT NULL,                      -- task, schedule or chunks
    name     text NOT NULL,
    hash     text NOT NULL,                      -- of body
    body     jsonb NOT NULL,                     -- attributes by their paths, as HCL
    first_at timestamptz NOT NULL DEFAULT now(),
    first_by text NOT NULL,                      -- name of the agent that loaded it
    last_at  timestamptz NOT NULL DEFAULT now(),
    last_by  text NOT NULL,
    UNIQUE (kind, name, hash)
);

-- Which sessions declare what. It counts while the session is present.
CREATE TABLE "schema_of_a_release".declarer (
    session bigint NOT NULL,
    number  bigint NOT NULL,
    PRIMARY KEY (session, number)
);

-- Members that are masked where documents of a row type are shown, as the configuration has it that was loaded last: of types that have ever had
-- some.
CREATE TABLE "schema_of_a_release".redaction (
    type  text PRIMARY KEY,
    names jsonb NOT NULL -- a list
);

-- All that are masked: also what other present agents declare.
CREATE VIEW "schema_of_a_release".redactions AS
    SELECT r.type, n.name FROM "schema_of_a_release".redaction AS r CROSS JOIN LATERAL jsonb_array_elements_text(r.names) AS n (name)
    UNION
    SELECT d.type, n.name FROM "schema_of_a_release".agent AS a CROSS JOIN LATERAL jsonb_each(a.redact) AS d (type, names)
    CROSS JOIN LATERAL jsonb_array_elements_text(d.names) AS n (name)
    WHERE a.present_until > now();

-- What each session has counted of the attempts of a type, by intervals of the store's clock: of one minute, kept for two hours, and of
-- an hour, kept for two days. A session sets its own rows and no others. So a write may be repeated, and two never meet.
CREATE TABLE "schema_of_a_release".activity (
    at       timestamptz NOT NULL,  -- beginning of the interval
    session  bigint NOT NULL,
    started  integer NOT NULL,      -- attempts
    ended    integer NOT NULL,      -- attempts
    step     smallint NOT NULL,     -- length of the interval in minutes: 1 or 60
    type     text COLLATE "C" NOT NULL, -- as declared; '': all types beyond the 500 that a session tells apart
    -- Of the attempts that ended, by outcome. Columns rather than arrays, whose elements take several times as long to sum.
    succeeded integer NOT NULL, failed integer NOT NULL, rejected integer NOT NULL, stalled integer NOT NULL,
    timed_out integer NOT NULL, lost integer NOT NULL, cancelled integer NOT NULL, deferred integer NOT NULL,
    superseded integer NOT NULL, undelivered integer NOT NULL, drained integer NOT NULL,
    -- Of the attempts that started, by the time since they were due (store.ActivityBounds).
    latency_1 integer NOT NULL, latency_2 integer NOT NULL, latency_3 integer NOT NULL, latency_4 integer NOT NULL,
    latency_5 integer NOT NULL, latency_6 integer NOT NULL, latency_7 integer NOT NULL, latency_8 integer NOT NULL,
    latency_9 integer NOT NULL, latency_10 integer NOT NULL, latency_11 integer NOT NULL, latency_12 integer NOT NULL,
    latency_13 integer NOT NULL, latency_14 integer NOT NULL, latency_15 integer NOT NULL,
    latency_16 integer NOT NULL, latency_17 integer NOT NULL,
    PRIMARY KEY (step, at, type, session)
) WITH (
    -- Each row is written some times until its interval is over: heap-only updates, since no index contains what they write.
    fillfactor = 60, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 10000
);

-- The same, to be read.
CREATE VIEW "schema_of_a_release".activities AS
    SELECT a.step AS minutes, a.at, a.type, a.session, a.started, a.ended,
        a.succeeded, a.failed, a.rejected, a.stalled, a.timed_out, a.lost, a.cancelled, a.deferred, a.superseded,
        a.undelivered, a.drained,
        ARRAY[a.latency_1, a.latency_2, a.latency_3, a.latency_4, a.latency_5, a.latency_6, a.latency_7, a.latency_8,
            a.latency_9, a.latency_10, a.latency_11, a.latency_12, a.latency_13, a.latency_14, a.latency_15,
            a.latency_16, a.latency_17] AS latency
    FROM "schema_of_a_release".activity AS a;

-- Named leases: one row for each name that is held, or was held and expired without a release. Only functions write it:
-- acquire, renew_lease and release_lease.
CREATE TABLE "schema_of_a_release".lease (
    name           text PRIMARY KEY,
    holder         text NOT NULL,
    fence          bigint GENERATED BY DEFAULT AS IDENTITY, -- of one sequence for all names, which never falls
    ttl            interval NOT NULL,                       -- the length of each renewal
    acquired_at    timestamptz NOT NULL,
    expires_at     timestamptz NOT NULL,
    expiry_seen_at timestamptz -- when another that asked for the lease first found it expired; NULL: not since its renewal
) WITH (
    -- Room for renewals, which are heap-only updates: no index contains what they write.
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500
);
-- Leases expire after they were acquired: what has expired for long is among the first.
CREATE INDEX lease_acquired ON "schema_of_a_release".lease (acquired_at);

CREATE VIEW "schema_of_a_release".leases AS
    SELECT l.name, l.holder, l.fence, l.acquired_at, l.expires_at FROM "schema_of_a_release".lease AS l;

-- The policies of all configurations that agents have had: any agent can decide what becomes of a dead agent's row.
CREATE TABLE "schema_of_a_release".policy (
    hash bigint PRIMARY KEY,
    type text NOT NULL,
    body jsonb NOT NULL
);

-- Types that operators have paused: agents claim no rows of these. Each agent reads it more often than once a second.
CREATE TABLE "schema_of_a_release".type_pause (
    type      text PRIMARY KEY,
    paused_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    paused_by text,
    reason    text
);

-- Types of waiting rows that no present agent with workers declares, neither as the name of a task type nor as an alias. declared_at is when
-- one last did, and declared_as the name of the task type.
CREATE VIEW "schema_of_a_release".orphans AS
    SELECT o.type, o.waiting, o.running, o.oldest_at, d.last_at AS declared_at, d.last_by AS declared_by, d.name AS declared_as
    FROM (
        SELECT t.type, count(*) FILTER (WHERE t.state NOT IN ('running', 'rollback_running')) AS waiting,
            count(*) FILTER (WHERE t.state IN ('running', 'rollback_running')) AS running,
            min(t.created_at) FILTER (WHERE t.state NOT IN ('running', 'rollback_running')) AS oldest_at
        FROM "schema_of_a_release".task AS t GROUP BY t.type
    ) AS o
    LEFT JOIN LATERAL (
        SELECT e.last_at, e.last_by, e.name FROM "schema_of_a_release".declaration AS e
        WHERE e.kind = 'task' AND (e.name = o.type OR strpos(e.body->>'aliases', to_json(o.type)::text) > 0)
        ORDER BY e.last_at DESC, e.number DESC LIMIT 1) AS d ON true
    WHERE o.waiting > 0 AND NOT EXISTS (
        SELECT FROM "schema_of_a_release".agent AS a WHERE a.present_until > now() AND a.workers > 0 AND o.type = ANY (a.types));

-- Settings of the whole store.
CREATE TABLE "schema_of_a_release".setting (
    only_one    boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    max_payload bigint NOT NULL DEFAULT 1048576 -- bytes of a payload, and of a rollback payload, when it is inserted
);
INSERT INTO "schema_of_a_release".setting DEFAULT VALUES;

-- The store's own key for ping URLs. It is granted to no application.
CREATE TABLE "schema_of_a_release".secret (
    only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    key      bytea NOT NULL
);
INSERT INTO "schema_of_a_release".secret (key)
    SELECT sha256(convert_to(string_agg(gen_random_uuid()::text, ''), 'UTF8')) FROM generate_series(1, 4);

-- A removal of old days locks this table, so that one agent at a time does it. Locks are those of private tables, never
-- advisory ones: any role that may connect could hold an advisory lock, but to lock a table takes a privilege on it.
CREATE TABLE "schema_of_a_release".removal ();

-- Sequences with rows that wait, run or have failed, for operators. task_id is the row whose turn it is, or the failed one that blocks the
-- sequence; waiting counts the rows that have yet to start, but that one; since is when the row was claimed, is due, or has failed.
CREATE VIEW "schema_of_a_release".sequences AS
    SELECT k.type, k.sequence,
        CASE WHEN k.blocked THEN 'blocked' WHEN t.state IN ('running', 'rollback_running') THEN 'running' ELSE 'waiting' END AS state,
        CASE WHEN k.blocked THEN k.failed ELSE coalesce(k.head, k.first) END AS task_id,
        k.live - CASE WHEN k.blocked THEN 0 ELSE 1 END AS waiting,
        CASE WHEN k.blocked THEN (SELECT a.finished_at FROM "schema_of_a_release".task_archive AS a WHERE a.id = k.failed)
            WHEN t.state IN ('running', 'rollback_running') THEN t.claimed_at ELSE t.run_at END AS since,
        (SELECT count(*) FROM "schema_of_a_release".sequence_failure AS f WHERE f.type = k.type AND f.name = k.sequence) AS failures
    FROM (
        SELECT g.type, g.sequence, g.live, g.failed, g.head, coalesce(g.back, g.least) AS first,
            g.head IS NULL AND g.back IS NULL AND g.failed IS NOT NULL AND coalesce(g.failed < g.least, true)
                AND NOT EXISTS (SELECT FROM "schema_of_a_release".sequence_rule AS p WHERE p.type = g.type AND p.on_failure = 'continue') AS blocked
        FROM (
            SELECT e.type, e.sequence, sum(e.live)::bigint AS live, min(e.least) AS least, max(e.back) AS back, min(e.failed) AS failed,
                (SELECT o.id FROM "schema_of_a_release".sequence_holder AS h JOIN "schema_of_a_release".task AS o ON o.id = h.task_id
                    AND o.type = h.type AND o.sequence = h.name WHERE h.type = e.type AND h.name = e.sequence) AS head
            FROM (
                SELECT r.type, r.sequence, count(*) AS live, min(r.id) AS least,
                    max(r.id) FILTER (WHERE r.state = 'rollback_pending') AS back, NULL::bigint AS failed
                FROM "schema_of_a_release".task AS r WHERE r.sequence IS NOT NULL GROUP BY r.type, r.sequence
                UNION ALL
                SELECT f.type, f.name, 0, NULL, NULL, min(f.task_id) FROM "schema_of_a_release".sequence_failure AS f GROUP BY f.type, f.name
            ) AS e GROUP BY e.type, e.sequence
        ) AS g
    ) AS k
    LEFT JOIN "schema_of_a_release".task AS t ON t.id = coalesce(k.head, k.first)
    WHERE k.live > 0 OR k.blocked;

-- Plans of chunks and their passes, for operators.
CREATE VIEW "schema_of_a_release".chunk_plans AS
    SELECT p.name, p.task, p.table_name, p.key_name, p.source, p.ahead, p.follow_us, p.target_us,
        CASE WHEN p.size > 0 THEN p.size ELSE p.size_start END AS size, p.per_row, p.pass,
        p.done_rows + (SELECT coalesce(sum(c.rows), 0) FROM (SELECT r.task_id, r.rows, r.state, r.pass, r.step, r.item, r.part FROM "schema_of_a_release".chunk_range AS r
WHERE r.plan = p.name AND r.state = 'open' AND (r.pass, r.step) >= (p.open_pass, p.open_step)
UNION ALL
SELECT r.task_id, r.rows, r.state, r.pass, r.step, r.item, r.part FROM "schema_of_a_release".chunk_range AS r
WHERE r.plan = p.name AND r.state IN ('failed', 'reopened') AND r.state = 'reopened') AS c
            JOIN "schema_of_a_release".task_archive AS a ON a.id = c.task_id AND a.state = 'succeeded')::bigint AS done_rows, p.high, p.over,
        p.created_at, p.paused_at, p.paused_by,
        EXISTS (SELECT FROM "schema_of_a_release".chunk_declaration AS d JOIN "schema_of_a_release".chunk_declarer AS r ON r.number = d.number
            JOIN "schema_of_a_release".agent AS a ON a.session = r.session WHERE d.name = p.name AND a.present_until > now()) AS declared,
        (s.sealed_at IS NULL AND s.batch_id IS NOT NULL AND (b.id IS NULL OR b.sealed OR b.stopping OR b.ended_at IS NOT NULL)) AS halted, s.pass IS NOT NULL AND s.sealed_at IS NULL AS planning,
        (SELECT count(*) FROM (SELECT r.task_id, r.rows, r.state, r.pass, r.step, r.item, r.part FROM "schema_of_a_release".chunk_range AS r
WHERE r.plan = p.name AND r.state = 'open' AND (r.pass, r.step) >= (p.open_pass, p.open_step)
UNION ALL
SELECT r.task_id, r.rows, r.state, r.pass, r.step, r.item, r.part FROM "schema_of_a_release".chunk_range AS r
WHERE r.plan = p.name AND r.state IN ('failed', 'reopened') AND r.state = 'reopened') AS c JOIN "schema_of_a_release".task AS t ON t.id = c.task_id) AS live,
        (SELECT count(*) FROM "schema_of_a_release".chunk_range AS c
            WHERE c.plan = p.name AND c.state IN ('failed', 'reopened') AND c.state = 'failed' AND c.failures + 1 >= 3) AS held
    FROM "schema_of_a_release".chunk_plan AS p
    LEFT JOIN "schema_of_a_release".chunk_pass AS s ON s.plan = p.name AND s.pass = p.pass
    LEFT JOIN "schema_of_a_release".batch AS b ON b.id = s.batch_id;
CREATE VIEW "schema_of_a_release".chunk_passes AS
    SELECT s.plan, s.pass, s.whole, s.from_key, s.through_key, s.ranges, s.chunks, s.rows, s.began_at, s.sealed_at, s.batch_id,
        b.state AS batch_state, b.total, b.live, b.succeeded, b.failed, b.ended_at, s.sizes, s.first_key, s.last_key
    FROM "schema_of_a_release".chunk_pass AS s LEFT JOIN "schema_of_a_release".batches AS b ON b.id = s.batch_id;

-- functions
-- Takes a named lease for a holder and returns its fence, or NULL where another holds it: then ask again later. The holder of
-- a lease that asks for it again gets the same fence, and the lease lasts for ttl from now: it may not have learnt whether its
-- first request was committed. Call it in a transaction of its own: until the commit the lease protects nothing, and others
-- that ask get NULL after a wait of 1 s at most. The time is the server's clock, not the transaction's.
--
-- A lease that has expired is taken once it has lapsed (lease_lapsed). Otherwise the request is noted in the lease. A lease
-- that is held in an open transaction (hold_lease) is not taken, and not waited for.
CREATE OR REPLACE FUNCTION "schema_of_a_release".acquire(name text, holder text, ttl interval) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off
        SET lock_timeout = '1s' AS
$leasehold$
DECLARE
    l    "schema_of_a_release".lease;
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
        SELECT r.* INTO l FROM "schema_of_a_release".lease AS r WHERE r.name = acquire.name;
        IF NOT FOUND THEN
            INSERT INTO "schema_of_a_release".lease (name, holder, fence, ttl, acquired_at, expires_at)
            VALUES (acquire.name, acquire.holder, 0, span, clock_timestamp(), clock_timestamp()) ON CONFLICT DO NOTHING;
            CONTINUE WHEN NOT FOUND;
        ELSE
            seen := l.fence;
            IF l.holder = acquire.holder THEN
                SELECT r.* INTO l FROM "schema_of_a_release".lease AS r WHERE r.name = acquire.name AND r.fence = seen FOR NO KEY UPDATE;
                CONTINUE WHEN NOT FOUND;
                IF NOT "schema_of_a_release".lease_lapsed(l.expires_at, l.expiry_seen_at) THEN
                    UPDATE "schema_of_a_release".lease AS r SET ttl = span, expires_at = clock_timestamp() + span, expiry_seen_at = NULL
                    WHERE r.name = acquire.name;
                    RETURN seen;
                END IF;
            ELSIF l.expires_at > clock_timestamp() + l.ttl THEN -- the clock was set back: no lease lasts longer than its ttl
                UPDATE "schema_of_a_release".lease AS r SET expires_at = clock_timestamp() + r.ttl
                WHERE r.name = (
                    SELECT s.name FROM "schema_of_a_release".lease AS s
                    WHERE s.name = acquire.name AND s.fence = seen AND s.expires_at > clock_timestamp() + s.ttl
                    FOR NO KEY UPDATE SKIP LOCKED);
                RETURN NULL;
            ELSIF l.expires_at > clock_timestamp() THEN
                RETURN NULL;
            ELSIF NOT "schema_of_a_release".lease_lapsed(l.expires_at, l.expiry_seen_at) THEN
                UPDATE "schema_of_a_release".lease AS r SET expiry_seen_at = clock_timestamp()
                WHERE r.name = (
                    SELECT s.name FROM "schema_of_a_release".lease AS s
                    WHERE s.name = acquire.name AND s.fence = seen AND s.expires_at <= clock_timestamp()
                      AND (s.expiry_seen_at IS NULL OR s.expiry_seen_at > clock_timestamp())
                    FOR NO KEY UPDATE SKIP LOCKED);
                RETURN NULL;
            END IF;
            SELECT r.* INTO l FROM "schema_of_a_release".lease AS r WHERE r.name = acquire.name AND r.fence = seen FOR UPDATE SKIP LOCKED;
            IF NOT FOUND THEN
                PERFORM FROM "schema_of_a_release".lease AS r WHERE r.name = acquire.name AND r.fence = seen;
                IF FOUND THEN
                    RETURN NULL; -- it is held in a transaction, or another takes it now
                END IF;
                CONTINUE;
            END IF;
            CONTINUE WHEN NOT "schema_of_a_release".lease_lapsed(l.expires_at, l.expiry_seen_at); -- it has just been renewed
        END IF;
        -- The number is drawn by the one who has the row: so those of a name rise in the order in which it is held.
        UPDATE "schema_of_a_release".lease AS r SET
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
REVOKE ALL ON FUNCTION "schema_of_a_release".acquire(text, text, interval) FROM PUBLIC;

-- Raises unless the batch accepts new rows. The lock keeps the batch from ending until the caller's transaction ends, and
-- blocks nothing else.
CREATE OR REPLACE FUNCTION "schema_of_a_release".admit_to_batch(batch bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    b       "schema_of_a_release".batch;
    refusal text;
BEGIN
    SELECT r.* INTO b FROM "schema_of_a_release".batch AS r WHERE r.id = batch FOR KEY SHARE;
    IF b.id IS NULL THEN
        refusal := format('there is no batch %s', batch);
    ELSIF b.stopping THEN
        refusal := format('batch %s was %s: create another', batch,
            CASE b.requested WHEN 'rollback' THEN 'rolled back' ELSE 'cancelled' END);
    ELSIF b.sealed AND b.born <> pg_current_xact_id() THEN
        refusal := format('batch %s is sealed: insert its rows in the transaction that creates it, or create it with '
            'sealed = false', batch);
    END IF;
    IF refusal IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'LH409', MESSAGE = refusal;
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".admit_to_batch(bigint) FROM PUBLIC;

-- Rows that wait for others (after). Such a row is held back from the transaction that inserts it on, and has a row in dependent.
-- Agents do the rest (unblock), each step a short transaction: they look at the rows that it names, put down in dependency which of
-- them are live, and mark these (awaited). The end of a marked row leaves a note, on which agents take its rows out of dependency.
-- When a row has none left, they read the states of all that it names, and free it or cancel it.
--
-- So an INSERT locks no row of others and writes none, and a row that ends pays only if it is marked. Nothing is lost in between: a
-- look that has put something down is followed by another, in a transaction that sees the marks and what was put down, as does
-- every end of a row that is live by then. Each step locks the row of dependent first, skipping what others have locked, and looks in a
-- later statement; only then it changes dependency, so each row of that is counted down once. The count may therefore be trusted, but
-- nothing depends on what was read before the last end: what is live again then is waited for anew.

-- Has rows wait that were just inserted. It raises where one names what it cannot wait for: a row can only wait for rows with a
-- lower id, which were there before it, so there are no cycles.
CREATE OR REPLACE FUNCTION "schema_of_a_release".begin_waiting(ids bigint[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    bad     record;
    refusal text;
    recent  timestamptz := clock_timestamp() - interval '2 days'; -- the tables of other days are read for what is not found in these
BEGIN
    SELECT t.id, cardinality(t.after) AS n INTO bad FROM "schema_of_a_release".task AS t
    WHERE t.id = ANY (ids)
      AND (cardinality(t.after) > 100000 OR array_ndims(t.after) > 1 OR array_position(t.after, NULL) IS NOT NULL)
    LIMIT 1;
    IF bad.n > 100000 THEN
        refusal := format('after must have 100000 ids at most, not %s: put a task between that waits for a part of them', bad.n);
    ELSIF FOUND THEN
        refusal := 'after must be a list of ids without NULL';
    ELSE
        -- first is the first row that names the other.
        SELECT n.id, n.first, n.id >= n.first AS later INTO bad FROM (
            SELECT u.id, min(t.id) AS first FROM "schema_of_a_release".task AS t CROSS JOIN LATERAL unnest(t.after) AS u (id)
            WHERE t.id = ANY (ids) GROUP BY u.id) AS n
        WHERE n.id >= n.first
           OR (SELECT t.id FROM "schema_of_a_release".task AS t WHERE t.id = n.id LIMIT 1) IS NULL
              AND (SELECT a.id FROM "schema_of_a_release".task_archive AS a WHERE a.id = n.id AND a.finished_at >= recent LIMIT 1) IS NULL
              AND (SELECT f.id FROM "schema_of_a_release".follow AS f WHERE f.id = n.id LIMIT 1) IS NULL
              AND (SELECT a.id FROM "schema_of_a_release".task_archive AS a WHERE a.id = n.id AND a.finished_at < recent LIMIT 1) IS NULL
        LIMIT 1;
        IF FOUND THEN
            refusal := CASE WHEN bad.later
                THEN format('after names task %s, and a task waits only for tasks that were inserted before it', bad.id)
                ELSE format('after names task %s, and there is no such task: insert it first, in this transaction or one that has '
                    'committed', bad.id) END;
        END IF;
    END IF;
    IF refusal IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = refusal;
    END IF;
    UPDATE "schema_of_a_release".task AS t SET held = 'after' WHERE t.id = ANY (ids);
    INSERT INTO "schema_of_a_release".dependent (task_id, total)
    SELECT t.id, cardinality(t.after) FROM "schema_of_a_release".task AS t WHERE t.id = ANY (ids);
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".begin_waiting(bigint[]) FROM PUBLIC;

-- Marks live rows and followers, so that their end leaves a note. Those that another transaction has locked stay without a mark.
CREATE OR REPLACE FUNCTION "schema_of_a_release".await(ids bigint[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
BEGIN
    WITH mine AS MATERIALIZED (
        SELECT t.id FROM "schema_of_a_release".task AS t WHERE t.id = ANY (ids) AND t.awaited IS NULL ORDER BY t.id FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE "schema_of_a_release".task AS t SET awaited = true WHERE t.id = ANY (ARRAY(SELECT m.id FROM mine AS m));
    IF EXISTS (SELECT FROM "schema_of_a_release".follow AS f WHERE f.id = ANY (ids) AND f.awaited IS NULL) THEN
        -- Who writes a follower keeps the row before it from ending: see follow.
        WITH mine AS MATERIALIZED (
            SELECT f.id FROM "schema_of_a_release".follow AS f
            CROSS JOIN LATERAL (SELECT FROM "schema_of_a_release".task AS t WHERE t.type = f.type AND t.key = f.key FOR KEY SHARE SKIP LOCKED) AS l
            WHERE f.id = ANY (ids) FOR NO KEY UPDATE OF f SKIP LOCKED -- an application's transaction may be changing it
        )
        UPDATE "schema_of_a_release".follow AS f SET awaited = true WHERE f.id = ANY (ARRAY(SELECT m.id FROM mine AS m));
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".await(bigint[]) FROM PUBLIC;

-- One step of all the work on rows that wait, of about so many ids and notes of each kind at most. worked is how many rows and notes it
-- has come further with: 0, if there is nothing to do, or only what others are at work on (missed). Rows are revived before any other is
-- decided about: it may wait for one of them.
CREATE OR REPLACE FUNCTION "schema_of_a_release".unblock(
    most bigint, OUT freed bigint, OUT cancelled bigint, OUT revived bigint, OUT worked bigint, OUT missed boolean
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    revivals  record;
    ends      record;
    looks     record;
    decisions record;
BEGIN
    SELECT r.revived, r.worked, r.missed INTO revivals FROM "schema_of_a_release".revive_dependents(most) AS r;
    freed := 0;
    cancelled := 0;
    revived := revivals.revived;
    worked := revivals.worked;
    missed := revivals.missed;
    IF worked > 0 THEN
        RETURN;
    END IF;
    SELECT r.worked, r.missed INTO ends FROM "schema_of_a_release".count_ends(most) AS r;
    SELECT r.worked, r.missed INTO looks FROM "schema_of_a_release".look_at_predecessors(most) AS r;
    SELECT r.freed, r.cancelled, r.worked, r.missed INTO decisions FROM "schema_of_a_release".decide_dependents(most) AS r;
    freed := decisions.freed;
    cancelled := decisions.cancelled;
    worked := ends.worked + looks.worked + decisions.worked;
    missed := missed OR ends.missed OR looks.missed OR decisions.missed;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".unblock(bigint) FROM PUBLIC;

-- Takes rows out of dependency that wait for what has ended. A row that is live again by now is marked, and waited for as before.
CREATE OR REPLACE FUNCTION "schema_of_a_release".count_ends(most bigint, OUT worked bigint, OUT missed boolean)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    notes   tid[];
    ended   bigint[];
    live    bigint[];
    stay    bigint[]; -- live, and without a mark: another transaction has locked it
    ons     bigint[];
    waiting bigint[];
    mine    bigint[];
    n       bigint;
BEGIN
    worked := 0;
    missed := false;
    SELECT array_agg(o.place), array_agg(DISTINCT o.id), count(*) INTO notes, ended, n FROM (
        SELECT e.ctid AS place, e.id FROM "schema_of_a_release".ended_note AS e LIMIT most FOR UPDATE SKIP LOCKED) AS o;
    IF n = 0 THEN
        RETURN;
    END IF;
    PERFORM "schema_of_a_release".await(ended);
    SELECT coalesce(array_agg(t.id) FILTER (WHERE t.awaited), '{}'), coalesce(array_agg(t.id) FILTER (WHERE t.awaited IS NULL), '{}')
    INTO live, stay FROM "schema_of_a_release".task AS t WHERE t.id = ANY (ended);
    SELECT array_agg(p.on_id), array_agg(p.task_id) INTO ons, waiting FROM (
        SELECT d.on_id, d.task_id FROM unnest(ended) AS e (id)
        CROSS JOIN LATERAL (SELECT r.on_id, r.task_id FROM "schema_of_a_release".dependency AS r WHERE r.on_id = e.id ORDER BY r.task_id LIMIT most) AS d
        WHERE (e.id IN (SELECT unnest(live || stay))) IS NOT TRUE LIMIT most) AS p;
    mine := ARRAY(SELECT d.task_id FROM "schema_of_a_release".dependent AS d WHERE d.task_id = ANY (waiting)
        ORDER BY d.task_id FOR UPDATE SKIP LOCKED);
    WITH over AS (
        DELETE FROM "schema_of_a_release".dependency AS d USING unnest(ons, waiting) AS p (on_id, task_id)
        WHERE d.on_id = p.on_id AND d.task_id = p.task_id AND (p.task_id IN (SELECT unnest(mine))) IS TRUE
        RETURNING d.task_id
    ), counted AS (
        SELECT o.task_id, count(*) AS n FROM over AS o GROUP BY o.task_id
    ), fewer AS (
        UPDATE "schema_of_a_release".dependent AS d SET unfinished = d.unfinished - c.n,
            stage = CASE WHEN d.stage = 'wait' AND d.unfinished = c.n THEN 'decide' ELSE d.stage END
        FROM counted AS c WHERE d.task_id = c.task_id
    )
    SELECT count(*) INTO n FROM over;
    worked := n;
    missed := cardinality(stay) > 0 OR n < coalesce(cardinality(ons), 0);
    DELETE FROM "schema_of_a_release".ended_note AS e WHERE e.ctid = ANY (notes) AND (e.id IN (SELECT unnest(stay))) IS NOT TRUE
        AND ((e.id IN (SELECT unnest(live))) IS TRUE
            OR (SELECT d.on_id FROM "schema_of_a_release".dependency AS d WHERE d.on_id = e.id LIMIT 1) IS NULL);
    GET DIAGNOSTICS n = ROW_COUNT;
    worked := worked + n;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".count_ends(bigint) FROM PUBLIC;

-- Puts down which rows are live that others name, and takes out which are no more. It takes as many ids of one row as there are, most of
-- them at a time, and further rows while there is room.
CREATE OR REPLACE FUNCTION "schema_of_a_release".look_at_predecessors(most bigint, OUT worked bigint, OUT missed boolean)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    mine  bigint[];
    tasks bigint[]; -- with ids: which row names which
    ids   bigint[];
    live  bigint[]; -- and marked
    stuck bigint[]; -- rows that name one which is live, and without a mark
BEGIN
    worked := 0;
    missed := false;
    mine := ARRAY(
        SELECT s.task_id FROM (
            SELECT d.task_id, sum(least(d.total - d.place, most)) OVER (ORDER BY d.task_id) - least(d.total - d.place, most) AS before
            FROM (SELECT e.task_id, e.total, e.place FROM "schema_of_a_release".dependent AS e WHERE e.stage = 'look'
                ORDER BY e.task_id LIMIT most FOR UPDATE SKIP LOCKED) AS d) AS s
        WHERE s.before < most);
    IF cardinality(mine) = 0 THEN
        RETURN;
    END IF;
    SELECT coalesce(array_agg(n.task_id), '{}'), coalesce(array_agg(n.id), '{}') INTO tasks, ids FROM (
        SELECT DISTINCT d.task_id, u.id FROM "schema_of_a_release".dependent AS d
        CROSS JOIN LATERAL (SELECT t.after FROM "schema_of_a_release".task AS t WHERE t.id = d.task_id AND t.held = 'after' LIMIT 1) AS t
        CROSS JOIN LATERAL unnest(t.after[d.place + 1 : d.place + most]) AS u (id)
        WHERE d.task_id = ANY (mine)) AS n;
    PERFORM "schema_of_a_release".await(ARRAY(SELECT DISTINCT unnest(ids)));
    SELECT coalesce(array_agg(r.id) FILTER (WHERE r.awaited), '{}'), coalesce(array_agg(r.id) FILTER (WHERE r.awaited IS NULL), '{}')
    INTO live, stuck FROM (
        SELECT t.id, t.awaited FROM "schema_of_a_release".task AS t WHERE t.id = ANY (ids)
        UNION ALL SELECT f.id, f.awaited FROM "schema_of_a_release".follow AS f WHERE f.id = ANY (ids)) AS r;
    stuck := ARRAY(SELECT DISTINCT p.task_id FROM unnest(tasks, ids) AS p (task_id, id) WHERE (p.id IN (SELECT unnest(stuck))) IS TRUE);
    missed := cardinality(stuck) > 0;
    WITH pair AS (
        SELECT p.task_id, p.id, (p.id IN (SELECT unnest(live))) IS TRUE AS live FROM unnest(tasks, ids) AS p (task_id, id)
        WHERE (p.task_id IN (SELECT unnest(stuck))) IS NOT TRUE
    ), added AS (
        INSERT INTO "schema_of_a_release".dependency AS d (on_id, task_id) SELECT p.id, p.task_id FROM pair AS p WHERE p.live
        ON CONFLICT (on_id, task_id) DO NOTHING RETURNING d.task_id
    ), over AS (
        DELETE FROM "schema_of_a_release".dependency AS d USING pair AS p WHERE NOT p.live AND d.on_id = p.id AND d.task_id = p.task_id
        RETURNING d.task_id
    ), counted AS (
        SELECT c.task_id, sum(c.added)::integer AS added, sum(c.over)::integer AS over FROM (
            SELECT a.task_id, 1 AS added, 0 AS over FROM added AS a
            UNION ALL SELECT o.task_id, 0, 1 FROM over AS o
            UNION ALL SELECT m.task_id, 0, 0 FROM unnest(mine) AS m (task_id)) AS c
        GROUP BY c.task_id
    )
    UPDATE "schema_of_a_release".dependent AS d SET
        unfinished = d.unfinished + c.added - c.over,
        place = CASE WHEN d.place + most < d.total THEN d.place + most ELSE 0 END,
        dirty = (d.dirty OR c.added > 0) AND d.place + most < d.total,
        stage = CASE WHEN d.place + most < d.total OR d.dirty OR c.added > 0 THEN 'look'
            WHEN d.unfinished - c.over > 0 THEN 'wait' ELSE 'decide' END
    FROM counted AS c WHERE d.task_id = c.task_id AND (d.task_id IN (SELECT unnest(stuck))) IS NOT TRUE;
    GET DIAGNOSTICS worked = ROW_COUNT;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".look_at_predecessors(bigint) FROM PUBLIC;

-- Frees rows that wait for no live row any more, or cancels those that name one which did not succeed, unless after_if is 'any'. What is
-- live again is waited for anew. A row is due no earlier than anything of those before it can be at work. One that has gone is forgotten.
CREATE OR REPLACE FUNCTION "schema_of_a_release".decide_dependents(
    most bigint, OUT freed bigint, OUT cancelled bigint, OUT worked bigint, OUT missed boolean
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    began   timestamptz := clock_timestamp();
    mine    bigint[];
    locked  bigint[];
    ready   bigint[];
    due     timestamptz[];
    again   bigint[]; -- a row that it names is live
    barred  bigint[];
    because bigint[];
    ended   timestamptz[]; -- when those because of which rows are barred have finished; NULL for one that has gone
    fixed   bigint[];
    states  text[];
    gone    bigint[];
    why     text[];
    recent  timestamptz := began - interval '2 days'; -- most have ended since: the tables of other days are read for the rest
BEGIN
    freed := 0;
    cancelled := 0;
    worked := 0;
    missed := false;
    mine := ARRAY(
        SELECT s.task_id FROM (
            SELECT d.task_id, sum(d.total) OVER (ORDER BY d.task_id) - d.total AS before
            FROM (SELECT e.task_id, e.total FROM "schema_of_a_release".dependent AS e WHERE e.stage = 'decide'
                ORDER BY e.task_id LIMIT most FOR UPDATE SKIP LOCKED) AS d) AS s
        WHERE s.before < most);
    IF cardinality(mine) = 0 THEN
        RETURN;
    END IF;
    locked := ARRAY(SELECT t.id FROM "schema_of_a_release".task AS t WHERE t.id = ANY (mine) AND t.held = 'after' ORDER BY t.id
        FOR NO KEY UPDATE SKIP LOCKED);
    -- Each row that is named is looked up once, in tables of other days only where it is in none of these.
    WITH named AS MATERIALIZED (
        SELECT t.id AS task_id, coalesce(t.after_if, 'succeeded') AS after_if, u.id FROM "schema_of_a_release".task AS t
        CROSS JOIN LATERAL unnest(t.after) AS u (id) WHERE t.id = ANY (locked)
    ), known AS MATERIALIZED (
        SELECT n.id, a.state, a.lease_until, a.finished_at,
            (SELECT t.id FROM "schema_of_a_release".task AS t WHERE t.id = n.id LIMIT 1) IS NOT NULL
            OR (SELECT f.id FROM "schema_of_a_release".follow AS f WHERE f.id = n.id LIMIT 1) IS NOT NULL AS live
        FROM (SELECT DISTINCT m.id FROM named AS m) AS n
        LEFT JOIN LATERAL (SELECT r.state, r.lease_until, r.finished_at FROM "schema_of_a_release".task_archive AS r
            WHERE r.id = n.id AND r.finished_at >= recent LIMIT 1) AS a ON true
    ), seen AS MATERIALIZED (
        SELECT k.id, k.live, coalesce(k.state, o.state) AS state, coalesce(k.lease_until, o.lease_until) AS lease_until,
            coalesce(k.finished_at, o.finished_at) AS finished_at
        FROM known AS k
        LEFT JOIN LATERAL (SELECT r.state, r.lease_until, r.finished_at FROM "schema_of_a_release".task_archive AS r
            WHERE NOT k.live AND k.state IS NULL AND r.id = k.id AND r.finished_at < recent LIMIT 1) AS o ON true
    ), verdict AS (
        SELECT n.task_id, bool_or(s.live) AS live, max(s.lease_until) AS lease_until,
            min(s.id) FILTER (WHERE s.state IS DISTINCT FROM 'succeeded' AND n.after_if <> 'any') AS bad
        FROM named AS n JOIN seen AS s ON s.id = n.id GROUP BY n.task_id
    )
    SELECT array_agg(v.task_id) FILTER (WHERE v.live), array_agg(v.task_id) FILTER (WHERE NOT v.live AND v.bad IS NULL),
        array_agg(v.lease_until) FILTER (WHERE NOT v.live AND v.bad IS NULL),
        array_agg(v.task_id) FILTER (WHERE NOT v.live AND v.bad IS NOT NULL),
        array_agg(v.bad) FILTER (WHERE NOT v.live AND v.bad IS NOT NULL),
        array_agg(v.finished_at) FILTER (WHERE NOT v.live AND v.bad IS NOT NULL)
    INTO again, ready, due, barred, because, ended FROM (
        SELECT d.task_id, d.live, d.lease_until, d.bad, s.finished_at FROM verdict AS d LEFT JOIN seen AS s ON s.id = d.bad
        ORDER BY d.task_id) AS v;
    UPDATE "schema_of_a_release".task AS t SET held = NULL, run_at = greatest(t.run_at, clock_timestamp(), r.due)
    FROM unnest(ready, due) AS r (id, due) WHERE t.id = r.id;
    GET DIAGNOSTICS freed = ROW_COUNT;
    IF cardinality(barred) > 0 THEN
        -- Who retries a row revives what was cancelled for it, and locks it in the archive before that: so it comes after this
        -- transaction, or has locked or moved the row by now, and the row that waits is decided about later. One that has gone is not retried.
        SELECT coalesce(array_agg(l.id), '{}'), coalesce(array_agg(l.state), '{}') INTO fixed, states
        FROM (SELECT DISTINCT b.id, b.finished_at FROM unnest(because, ended) AS b (id, finished_at)) AS u
        CROSS JOIN LATERAL (
            SELECT a.id, a.state FROM "schema_of_a_release".task_archive AS a
            WHERE a.id = u.id AND a.finished_at = u.finished_at AND a.state <> 'succeeded' LIMIT 1 FOR KEY SHARE SKIP LOCKED) AS l;
        gone := ARRAY(
            SELECT u.id FROM (SELECT DISTINCT b.id FROM unnest(because) AS b (id) WHERE (b.id IN (SELECT unnest(fixed))) IS NOT TRUE) AS u
            WHERE (SELECT a.id FROM "schema_of_a_release".task_archive AS a WHERE a.id = u.id LIMIT 1) IS NULL
              AND (SELECT t.id FROM "schema_of_a_release".task AS t WHERE t.id = u.id LIMIT 1) IS NULL);
        SELECT array_agg(b.id), array_agg(b.because), array_agg(format('task %s %s', f.id, CASE f.state WHEN 'failed' THEN 'failed' WHEN 'cancelled' THEN 'was cancelled'
    WHEN 'rolled_back' THEN 'was rolled back' WHEN 'split' THEN 'was split' WHEN 'rollback_failed' THEN 'could not be rolled back'
    ELSE 'is past its retention' END)) INTO barred, because, why
        FROM unnest(barred, because) AS b (id, because)
        JOIN unnest(fixed || gone, states || array_fill(NULL::text, ARRAY[cardinality(gone)])) AS f (id, state) ON f.id = b.because
        -- An application's transaction that keeps the row where it is is not waited for.
        JOIN (SELECT t.id FROM "schema_of_a_release".task AS t WHERE t.id = ANY (barred) ORDER BY t.id FOR UPDATE SKIP LOCKED) AS l ON l.id = b.id;
    END IF;
    IF cardinality(barred) > 0 THEN
        PERFORM "schema_of_a_release".cancel_rows(barred, array_fill(false, ARRAY[cardinality(barred)]), NULL);
        -- The server's clock may have been set back since this call began: the bound only keeps the tables of other days out.
        UPDATE "schema_of_a_release".task_archive AS a SET error = b.why, cancelled_for = b.because
        FROM unnest(barred, because, why) AS b (id, because, why)
        WHERE a.id = b.id AND a.finished_at >= least(began, clock_timestamp()) - interval '1 hour';
        GET DIAGNOSTICS cancelled = ROW_COUNT;
    END IF;
    UPDATE "schema_of_a_release".dependent AS d SET stage = 'look', place = 0, dirty = false WHERE d.task_id = ANY (again);
    -- What is left and not held any more has ended, or was freed.
    DELETE FROM "schema_of_a_release".dependent AS d WHERE d.task_id = ANY (mine)
        AND (SELECT t.id FROM "schema_of_a_release".task AS t WHERE t.id = d.task_id AND t.held = 'after' LIMIT 1) IS NULL;
    GET DIAGNOSTICS worked = ROW_COUNT;
    worked := worked + coalesce(cardinality(again), 0);
    missed := worked < cardinality(mine);
    IF freed > 0 AND EXISTS (SELECT FROM "schema_of_a_release".agent AS a WHERE a.idle AND a.present_until > now()) THEN
        PERFORM pg_notify('leasehold:schema_of_a_release', '');
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".decide_dependents(bigint) FROM PUBLIC;

-- Operations are carried out in steps of at most a thousand rows, which internal/batch decides on. The order of locks is: the
-- batch, its operation, the tasks; where it is another, nothing is waited for.

-- Applies a step where the operation has the version that was seen, and to rows that have the fence that was seen, in the
-- state that the list is for; locked rows are left out. was_missed to was_refused is how far the operation is then; missed
-- and refused rise by what is met here. stops: the operation is marked as stopped if nothing of the batch waits or runs
-- then, and no open transaction inserts into it. ends: the operation ends if all was applied or refused and, where it
-- stops, that holds. applied is false where another agent carries the operation on.
CREATE OR REPLACE FUNCTION "schema_of_a_release".apply_step(
    operation bigint, seen_version bigint, was_missed boolean, was_at timestamptz, was_id bigint, was_goal bigint,
    was_taken bigint, was_refused bigint, who text, ask bigint[], ask_fences bigint[], cancels bigint[],
    cancel_fences bigint[], cancel_rolls_back boolean[], revives bigint[], revive_fences bigint[],
    revive_dues timestamptz[], reopens boolean, stops boolean, ends boolean, OUT applied boolean, OUT changed bigint,
    OUT refused bigint, OUT missed boolean, OUT stopped boolean, OUT over boolean
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    o "schema_of_a_release".operation;
    s record;
BEGIN
    applied := false;
    SELECT r.* INTO o FROM "schema_of_a_release".operation AS r
    WHERE r.id = apply_step.operation AND r.version = seen_version AND r.ended_at IS NULL FOR UPDATE SKIP LOCKED;
    IF o.id IS NULL THEN
        RETURN;
    END IF;
    IF reopens AND o.batch_id IS NOT NULL THEN
        PERFORM FROM "schema_of_a_release".batch AS b WHERE b.id = o.batch_id FOR NO KEY UPDATE SKIP LOCKED;
        IF NOT FOUND THEN
            RETURN;
        END IF;
    END IF;
    applied := true;
    changed := 0;
    refused := 0;
    missed := false;
    IF cardinality(ask) > 0 THEN
        changed := changed + "schema_of_a_release".request_cancels(ask, ask_fences, who);
    END IF;
    IF cardinality(cancels) > 0 THEN
        changed := changed + "schema_of_a_release".cancel_all_waiting(cancels, cancel_fences, cancel_rolls_back, who);
    END IF;
    IF cardinality(revives) > 0 THEN
        SELECT * INTO s FROM "schema_of_a_release".step_revive(revives, revive_fences, revive_dues, o.verb);
        changed := changed + s.changed;
        refused := s.refused;
        missed := s.missed;
        IF reopens AND s.changed > 0 THEN
            PERFORM "schema_of_a_release".reopen_batch(o.batch_id);
        END IF;
    END IF;
    stopped := o.stopped OR stops AND "schema_of_a_release".has_stopped(o.batch_id);
    over := ends AND (stopped OR NOT stops)
        AND changed + refused = cardinality(ask) + cardinality(cancels) + cardinality(revives);
    UPDATE "schema_of_a_release".operation AS r SET
        version = r.version + 1, stopped = apply_step.stopped, missed = was_missed OR apply_step.missed,
        after_at = was_at, after_id = was_id, goal = was_goal, taken = was_taken, done = r.done + changed,
        refused = was_refused + apply_step.refused, ended_at = CASE WHEN over THEN clock_timestamp() END
    WHERE r.id = o.id;
    -- A fold has to look at the batch, whose row may be locked by a transaction that waits for the operation.
    IF over AND o.batch_id IS NOT NULL THEN
        INSERT INTO "schema_of_a_release".batch_delta (batch_id) VALUES (o.batch_id);
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".apply_step(bigint, bigint, boolean, timestamptz, bigint, bigint, bigint, bigint, text,
    bigint[], bigint[], bigint[], bigint[], boolean[], bigint[], bigint[], timestamptz[], boolean, boolean, boolean)
    FROM PUBLIC;

-- Reports whether nothing of a batch runs or waits to run, and no open transaction inserts into it.
CREATE OR REPLACE FUNCTION "schema_of_a_release".has_stopped(batch bigint) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
BEGIN
    IF NOT (SELECT v.live = v.rolling_back FROM "schema_of_a_release".batches AS v WHERE v.id = batch) THEN
        RETURN false;
    END IF;
    -- A transaction that has inserted a row and not committed holds the batch FOR KEY SHARE. What has committed by now,
    -- the next statement sees.
    PERFORM FROM "schema_of_a_release".batch AS b WHERE b.id = batch FOR UPDATE SKIP LOCKED;
    RETURN FOUND AND (SELECT v.live = v.rolling_back FROM "schema_of_a_release".batches AS v WHERE v.id = batch);
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".has_stopped(bigint) FROM PUBLIC;

-- Asks running rows to stop, and returns how many did not know of it.
CREATE OR REPLACE FUNCTION "schema_of_a_release".request_cancels(ids bigint[], fences bigint[], who text) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    n bigint;
BEGIN
    WITH hit AS MATERIALIZED (
        SELECT t.id FROM unnest(ids, fences) AS g (id, fence)
        CROSS JOIN LATERAL (
            SELECT r.id FROM "schema_of_a_release".task AS r
            WHERE r.id = g.id AND r.fence = g.fence AND r.state = 'running' AND r.cancel_requested_at IS NULL
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS t
    )
    UPDATE "schema_of_a_release".task AS t SET cancel_requested_at = clock_timestamp(), cancel_requested_by = who
    WHERE t.id = ANY (ARRAY(SELECT hit.id FROM hit));
    GET DIAGNOSTICS n = ROW_COUNT;
    IF n > 0 THEN
        PERFORM pg_notify('leasehold:schema_of_a_release', 'asked');
    END IF;
    RETURN n;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".request_cancels(bigint[], bigint[], text) FROM PUBLIC;

-- Moves a live row, as the caller has changed it, to the archive, inserts its follower, and notes that its lock is free, and that it
-- has ended if others wait for that. Agents create
-- the archive's partitions ahead; where no agent has run for days, today's is created here.
CREATE OR REPLACE FUNCTION "schema_of_a_release".archive(t "schema_of_a_release".task, began timestamptz) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    ended timestamptz := clock_timestamp();
BEGIN
    PERFORM "schema_of_a_release".ensure_partition(ended);
    DELETE FROM "schema_of_a_release".task AS r WHERE r.id = t.id;
    WITH leaving AS (
        SELECT t.*, coalesce(t.spilled_from, t.region) AS end_region,
            t.state AS end_state, t.fence AS end_fence, t.attempt AS end_attempt, t.deferrals AS end_deferrals,
            t.ever_started AS end_ever_started, t.outcome AS end_outcome, t.error AS end_error, t.result AS end_result,
            NULL AS end_output, began AS end_started_at, ended AS end_finished_at, t.lease_until AS end_lease_until,
            t.cancel_requested_at AS end_cancel_requested_at, t.cancel_requested_by AS end_cancel_requested_by,
            t.message AS end_message, t.progress AS end_progress, t.checkpoint AS end_checkpoint
    )
    INSERT INTO "schema_of_a_release".task_archive (
    id, type, priority, region, key, run_at, payload, rollback_payload, labels, traceparent, created_by, max_attempts,
    created_at, session, policy, claimed_at, deadline, batch_id, round, cause, lock, sequence, after, after_if, tenant, failed_task,
    state, fence, attempt, deferrals, ever_started, outcome, error, result, output, started_at, finished_at, lease_until,
    cancel_requested_at, cancel_requested_by, message, progress, checkpoint)
SELECT id, type, priority, end_region, key, run_at, payload, rollback_payload, labels, traceparent, created_by, max_attempts,
    created_at, session, policy, claimed_at, deadline, batch_id, round, cause, lock, sequence, after, after_if, tenant, failed_task,
    end_state, end_fence, end_attempt, end_deferrals, end_ever_started, end_outcome, end_error, end_result, end_output,
    end_started_at, end_finished_at, end_lease_until, end_cancel_requested_at, end_cancel_requested_by, end_message,
    end_progress, end_checkpoint
FROM leaving;
    IF t.lock IS NOT NULL THEN
        INSERT INTO "schema_of_a_release".lock_note (name) VALUES (t.lock);
    END IF;
    IF t.awaited THEN
        INSERT INTO "schema_of_a_release".ended_note (id) VALUES (t.id);
    END IF;
    IF t.key IS NOT NULL THEN
        PERFORM "schema_of_a_release".insert_followers(ARRAY[t.type], ARRAY[t.key], ARRAY[t.lease_until]);
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".archive("schema_of_a_release".task, timestamptz) FROM PUBLIC;

-- Returns how many rows of a type may start now, but for limits, rates and breakers; 10,000 at most. 0 while the type is paused. For autoscalers:
-- it reads no more than the type's entries in the indexes of waiting rows.
CREATE OR REPLACE FUNCTION "schema_of_a_release".backlog(type text) RETURNS bigint
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
    SELECT count(*) FROM (
        SELECT FROM "schema_of_a_release".task AS t WHERE t.type = backlog.type AND t.state IN ('pending', 'retry_pending') AND t.held IS NULL
            AND t.tenant IS NULL AND t.run_at <= now()
        UNION ALL
        SELECT FROM "schema_of_a_release".task AS t WHERE t.type = backlog.type AND t.state = 'rollback_pending' AND t.held IS NULL
            AND t.tenant IS NULL AND t.run_at <= now()
        UNION ALL
        SELECT FROM "schema_of_a_release".task AS t WHERE t.type = backlog.type AND t.state IN ('pending', 'retry_pending') AND t.held IS NULL
            AND t.tenant IS NOT NULL AND t.run_at <= now()
        UNION ALL
        SELECT FROM "schema_of_a_release".task AS t WHERE t.type = backlog.type AND t.state = 'rollback_pending' AND t.held IS NULL
            AND t.tenant IS NOT NULL AND t.run_at <= now()
        LIMIT 10000
    ) AS x WHERE NOT EXISTS (SELECT FROM "schema_of_a_release".type_pause AS p WHERE p.type = backlog.type)
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".backlog(text) FROM PUBLIC;

-- Counters of batches: whatever moves a row of a batch adds a delta, and a fold sums them.

-- Counts one row's transition between two states. gave_up: the row has failed by it. tried: an attempt has ended.
CREATE OR REPLACE FUNCTION "schema_of_a_release".count_transition(batch bigint, was text, became text, gave_up boolean, tried boolean)
    RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$leasehold$
BEGIN
    IF batch IS NULL THEN
        RETURN;
    END IF;
    INSERT INTO "schema_of_a_release".batch_delta (
        batch_id, running, succeeded, failed, cancelled, rolling_back, rolled_back, rollback_failed, failures, attempts)
    VALUES (batch, (became = 'running')::int - (was = 'running')::int,
        (became = 'succeeded')::int - (was = 'succeeded')::int, (became = 'failed')::int - (was = 'failed')::int,
        (became = 'cancelled')::int - (was = 'cancelled')::int,
        (became LIKE 'rollback\_%ing')::int - (was LIKE 'rollback\_%ing')::int,
        (became = 'rolled_back')::int - (was = 'rolled_back')::int,
        (became = 'rollback_failed')::int - (was = 'rollback_failed')::int, gave_up::int, tried::int);
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".count_transition(bigint, text, text, boolean, boolean) FROM PUBLIC;

-- Adds deltas of a batch, which the caller has locked, to its row, so many at most, and reports whether those were all.
CREATE OR REPLACE FUNCTION "schema_of_a_release".sum_deltas(batch bigint, most bigint) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    n bigint;
BEGIN
    WITH deleted AS (
        DELETE FROM "schema_of_a_release".batch_delta AS d WHERE d.ctid = ANY (ARRAY(
            SELECT e.ctid FROM "schema_of_a_release".batch_delta AS e WHERE e.batch_id = batch LIMIT most))
        RETURNING d.*
    ), s AS (
        SELECT count(*) AS n, sum(g.total) AS total, sum(g.running) AS running, sum(g.succeeded) AS succeeded,
            sum(g.failed) AS failed,
            sum(g.cancelled) AS cancelled, sum(g.rolling_back) AS rolling_back, sum(g.rolled_back) AS rolled_back,
            sum(g.rollback_failed) AS rollback_failed, sum(g.failures) AS failures, sum(g.attempts) AS attempts,
            min(g.first_id) AS first_id, max(g.last_id) AS last_id
        FROM deleted AS g
    ), summed AS (
        UPDATE "schema_of_a_release".batch AS b SET
            total = b.total + s.total, running = b.running + s.running, succeeded = b.succeeded + s.succeeded,
                failed = b.failed + s.failed,
            cancelled = b.cancelled + s.cancelled, rolling_back = b.rolling_back + s.rolling_back,
            rolled_back = b.rolled_back + s.rolled_back, rollback_failed = b.rollback_failed + s.rollback_failed,
            failures = b.failures + s.failures, attempts = b.attempts + s.attempts,
            first_id = least(b.first_id, s.first_id), last_id = greatest(b.last_id, s.last_id)
        FROM s WHERE b.id = batch AND s.n > 0
    )
    SELECT s.n INTO n FROM s;
    RETURN n < most OR NOT EXISTS (SELECT FROM "schema_of_a_release".batch_delta AS d WHERE d.batch_id = batch);
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".sum_deltas(bigint, bigint) FROM PUBLIC;

-- Locks the batch's gate exclusively, just before the transaction that stops the batch commits (see batch_gate_0).
CREATE OR REPLACE FUNCTION "schema_of_a_release".batch_stops() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS
$leasehold$
DECLARE
    gate text := format('%s.batch_gate_%s', '"schema_of_a_release"', NEW.id % 8);
BEGIN
    EXECUTE format('LOCK TABLE %s IN EXCLUSIVE MODE', gate);
    RETURN NULL;
EXCEPTION WHEN lock_not_available THEN
    RAISE EXCEPTION 'batch % is not stopped: a claim of its tasks takes longer than 5 s, held by %: try again', NEW.id,
        "schema_of_a_release".lock_holders(gate::regclass) USING ERRCODE = 'lock_not_available';
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".batch_stops() FROM PUBLIC;

-- Changes of all tasks that match a filter. They are carried out in steps that internal/batch decides on. The cursor moves in the transaction
-- that changes the rows, and only from the version that was seen: so a step that is repeated, or whose reply was lost, changes nothing twice.
-- Rows, batches and followers that another transaction has locked are skipped, and never waited for.

-- Starts a bulk change, and returns its id. batch bounds the ids that it looks at, where the filter names a batch.
CREATE OR REPLACE FUNCTION "schema_of_a_release".start_bulk(with_verb text, with_filter jsonb, batch bigint, by text, why text) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    who   text := "schema_of_a_release".requester(by);
    low   bigint;
    high  bigint;
    found bigint;
BEGIN
    IF octet_length(why) > 512 THEN
        RAISE EXCEPTION 'reason must be 512 bytes at most' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF batch IS NULL THEN
        low := 0;
        high := greatest((SELECT max(t.id) FROM "schema_of_a_release".task AS t), (SELECT max(f.id) FROM "schema_of_a_release".follow AS f),
            (SELECT max(a.id) FROM "schema_of_a_release".task_archive AS a), 0);
    ELSE
        SELECT coalesce(min(t.id) - 1, 0), coalesce(max(t.id), 0) INTO low, high FROM "schema_of_a_release".tasks AS t WHERE t.batch_id = batch;
    END IF;
    INSERT INTO "schema_of_a_release".bulk_change (verb, filter, requested_by, reason, from_id, after_id, up_to)
    VALUES (with_verb, with_filter, who, nullif(why, ''), low, low, high) RETURNING id INTO found;
    INSERT INTO "schema_of_a_release".audit (requested_by, verb, reason, answer)
    VALUES (who, with_verb, nullif(why, ''), format('bulk change %s: %s', found, left(with_filter::text, 1000)));
    PERFORM pg_notify('leasehold:schema_of_a_release', 'asked');
    RETURN found;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".start_bulk(text, jsonb, bigint, text, text) FROM PUBLIC;

-- Stops a bulk change: what it has changed stays so. It waits for a step that is being applied.
CREATE OR REPLACE FUNCTION "schema_of_a_release".stop_bulk(bulk bigint, by text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    who text := "schema_of_a_release".requester(by);
    of  text;
BEGIN
    UPDATE "schema_of_a_release".bulk_change AS c SET stopped = true, ended_at = clock_timestamp(), version = c.version + 1
    WHERE c.id = bulk AND c.ended_at IS NULL RETURNING c.verb INTO of;
    IF FOUND THEN
        INSERT INTO "schema_of_a_release".audit (requested_by, verb, answer) VALUES (who, of, format('bulk change %s stopped', bulk));
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".stop_bulk(bigint, text) FROM PUBLIC;

-- Applies a step where the change has the version that was seen, and to rows that have the fence that was seen, in the state that the list is
-- for. was_id, was_again and unable are how far the change is then; what is met here that is locked, or has changed, is to be looked at again.
-- passed: the change ends where there is nothing such, or patience (microseconds) is over. applied is false where another agent carries it on.
CREATE OR REPLACE FUNCTION "schema_of_a_release".apply_bulk(
    bulk bigint, seen_version bigint, was_id bigint, was_again bigint[], was_looked bigint, unable bigint, passed boolean, patience bigint,
    most_again integer, followers bigint[], cancels bigint[], cancel_fences bigint[], cancel_rolls_back boolean[], asks bigint[],
    ask_fences bigint[], revives bigint[], revive_fences bigint[], revive_batches bigint[],
    OUT applied boolean, OUT changed bigint, OUT refused bigint, OUT missed bigint[], OUT over boolean
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    o       "schema_of_a_release".bulk_change;
    s       record;
    stay    bigint[];
    until   timestamptz;
BEGIN
    IF cardinality(followers) + cardinality(cancels) > 0 THEN
        PERFORM "schema_of_a_release".ensure_partition(clock_timestamp()); -- it may wait, and no row is locked yet
    END IF;
    applied := false;
    SELECT r.* INTO o FROM "schema_of_a_release".bulk_change AS r
    WHERE r.id = bulk AND r.version = seen_version AND r.ended_at IS NULL FOR UPDATE SKIP LOCKED;
    IF o.id IS NULL THEN
        RETURN;
    END IF;
    applied := true;
    changed := 0;
    refused := 0;
    missed := '{}';
    IF cardinality(followers) > 0 THEN
        SELECT * INTO s FROM "schema_of_a_release".bulk_cancel_followers(o, followers);
        changed := changed + s.changed;
        missed := missed || s.missed;
    END IF;
    IF cardinality(cancels) > 0 THEN
        SELECT * INTO s FROM "schema_of_a_release".bulk_cancel(o, cancels, cancel_fences, cancel_rolls_back);
        changed := changed + s.changed;
        missed := missed || s.missed;
    END IF;
    IF cardinality(asks) > 0 THEN
        SELECT * INTO s FROM "schema_of_a_release".bulk_ask(o, asks, ask_fences);
        changed := changed + s.changed;
        missed := missed || s.missed;
    END IF;
    IF cardinality(revives) > 0 THEN
        SELECT * INTO s FROM "schema_of_a_release".bulk_revive(o, revives, revive_fences, revive_batches);
        changed := changed + s.changed;
        refused := s.refused;
        missed := missed || s.missed;
    END IF;
    stay := was_again || missed;
    IF passed THEN
        until := coalesce(o.again_until, clock_timestamp() + patience * interval '1 microsecond');
    END IF;
    over := passed AND (cardinality(stay) = 0 OR until <= clock_timestamp());
    UPDATE "schema_of_a_release".bulk_change AS r SET
        version = r.version + 1, after_id = was_id, looked = was_looked, done = r.done + changed, refused = unable + apply_bulk.refused,
        again = CASE WHEN over THEN '{}' ELSE stay[1:most_again] END, again_until = until,
        skipped = r.skipped + CASE WHEN over THEN cardinality(stay) ELSE greatest(cardinality(stay) - most_again, 0) END,
        ended_at = CASE WHEN over THEN clock_timestamp() END
    WHERE r.id = o.id;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".apply_bulk(bigint, bigint, bigint, bigint[], bigint, bigint, boolean, bigint, integer, bigint[], bigint[],
    bigint[], boolean[], bigint[], bigint[], bigint[], bigint[], bigint[]) FROM PUBLIC;

-- Cancels followers. The row that one follows is locked first: cancel_follower then waits for nothing.
CREATE OR REPLACE FUNCTION "schema_of_a_release".bulk_cancel_followers(
    o "schema_of_a_release".bulk_change, ids bigint[], OUT changed bigint, OUT missed bigint[]
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    one bigint;
    f   record;
BEGIN
    changed := 0;
    missed := '{}';
    FOREACH one IN ARRAY ids LOOP
        SELECT r.type, r.key INTO f FROM "schema_of_a_release".follow AS r WHERE r.id = one FOR UPDATE SKIP LOCKED;
        IF FOUND THEN
            PERFORM FROM "schema_of_a_release".task AS t WHERE t.type = f.type AND t.key = f.key FOR KEY SHARE SKIP LOCKED;
        END IF;
        IF FOUND AND "schema_of_a_release".cancel_follower(one, o.requested_by) THEN
            changed := changed + 1;
            INSERT INTO "schema_of_a_release".audit (requested_by, verb, task_id, reason, answer)
            VALUES (o.requested_by, o.verb, one, o.reason, 'cancelled');
        ELSE
            missed := missed || one;
        END IF;
    END LOOP;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".bulk_cancel_followers("schema_of_a_release".bulk_change, bigint[]) FROM PUBLIC;

-- Cancels waiting rows. One with true in its place waits for its rollback.
CREATE OR REPLACE FUNCTION "schema_of_a_release".bulk_cancel(
    o "schema_of_a_release".bulk_change, ids bigint[], fences bigint[], rolls_back boolean[], OUT changed bigint, OUT missed bigint[]
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    hit record;
BEGIN
    SELECT coalesce(array_agg(t.id), '{}') AS ids, coalesce(array_agg(g.rolls_back), '{}') AS rolls_back INTO hit
    FROM unnest(ids, fences, rolls_back) AS g (id, fence, rolls_back)
    CROSS JOIN LATERAL (
        SELECT r.id FROM "schema_of_a_release".task AS r
        WHERE r.id = g.id AND r.fence = g.fence AND r.state IN ('pending', 'retry_pending') FOR UPDATE SKIP LOCKED
    ) AS t;
    PERFORM "schema_of_a_release".cancel_rows(hit.ids, hit.rolls_back, o.requested_by);
    INSERT INTO "schema_of_a_release".audit (requested_by, verb, task_id, reason, answer)
    SELECT o.requested_by, o.verb, g.id, o.reason, CASE WHEN g.rolls_back THEN 'rollback_pending' ELSE 'cancelled' END
    FROM unnest(hit.ids, hit.rolls_back) AS g (id, rolls_back);
    changed := cardinality(hit.ids);
    missed := ARRAY(SELECT g.id FROM unnest(ids) AS g (id) WHERE g.id <> ALL (hit.ids));
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".bulk_cancel("schema_of_a_release".bulk_change, bigint[], bigint[], boolean[]) FROM PUBLIC;

-- Asks running rows to stop. Of a rollback, an operation for each rolls it back once it has ended.
CREATE OR REPLACE FUNCTION "schema_of_a_release".bulk_ask(
    o "schema_of_a_release".bulk_change, ids bigint[], fences bigint[], OUT changed bigint, OUT missed bigint[]
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    hit bigint[];
BEGIN
    hit := ARRAY(
        SELECT t.id FROM unnest(ids, fences) AS g (id, fence)
        CROSS JOIN LATERAL (
            SELECT r.id FROM "schema_of_a_release".task AS r WHERE r.id = g.id AND r.fence = g.fence AND r.state = 'running' FOR NO KEY UPDATE SKIP LOCKED
        ) AS t);
    UPDATE "schema_of_a_release".task AS t SET cancel_requested_at = clock_timestamp(), cancel_requested_by = o.requested_by
    WHERE t.id = ANY (hit) AND t.cancel_requested_at IS NULL;
    IF o.verb = 'rollback' THEN
        INSERT INTO "schema_of_a_release".operation (verb, batch_id, task_id, requested_at, requested_by)
        SELECT 'rollback', t.batch_id, t.id, clock_timestamp(), o.requested_by FROM "schema_of_a_release".task AS t
        WHERE t.id = ANY (hit) AND NOT EXISTS (SELECT FROM "schema_of_a_release".operation AS p WHERE p.task_id = t.id AND p.ended_at IS NULL);
    END IF;
    INSERT INTO "schema_of_a_release".audit (requested_by, verb, task_id, reason, answer)
    SELECT o.requested_by, o.verb, h.id, o.reason, 'cancelling' FROM unnest(hit) AS h (id);
    changed := cardinality(hit);
    missed := ARRAY(SELECT g.id FROM unnest(ids) AS g (id) WHERE g.id <> ALL (hit));
    IF changed > 0 THEN
        PERFORM pg_notify('leasehold:schema_of_a_release', 'asked');
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".bulk_ask("schema_of_a_release".bulk_change, bigint[], bigint[]) FROM PUBLIC;

-- Revives finished rows, to run again or to be rolled back. Their batches, which begin a new round where they had ended, are locked. Those are
-- refused whose key another live row has, and, of a retry, those of a batch that is being cancelled or rolled back, or that are to be rolled
-- back themselves.
CREATE OR REPLACE FUNCTION "schema_of_a_release".bulk_revive(
    o "schema_of_a_release".bulk_change, ids bigint[], fences bigint[], batches bigint[], OUT changed bigint, OUT refused bigint, OUT missed bigint[]
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    locked bigint[];
    c      record;
    s      record;
    keyed  bigint[];
BEGIN
    locked := ARRAY(SELECT b.id FROM "schema_of_a_release".batch AS b WHERE b.id = ANY (batches) ORDER BY b.id FOR NO KEY UPDATE SKIP LOCKED);
    SELECT coalesce(array_agg(u.id) FILTER (WHERE u.free AND NOT u.barred), '{}') AS ids,
        coalesce(array_agg(u.fence) FILTER (WHERE u.free AND NOT u.barred), '{}') AS fences,
        coalesce(array_agg(u.id) FILTER (WHERE NOT u.free), '{}') AS busy, count(*) FILTER (WHERE u.free AND u.barred) AS barred
    INTO c
    FROM (
        SELECT g.id, g.fence,
            g.batch_id IS NULL OR g.batch_id = ANY (locked)
                OR NOT EXISTS (SELECT FROM "schema_of_a_release".batch AS b WHERE b.id = g.batch_id) AS free,
            o.verb = 'retry' AND (
                EXISTS (SELECT FROM "schema_of_a_release".operation AS p WHERE p.task_id = g.id AND p.ended_at IS NULL)
                OR EXISTS (SELECT FROM "schema_of_a_release".batch AS b
                           WHERE b.id = g.batch_id AND b.requested IS NOT NULL AND b.ended_at IS NULL)) AS barred
        FROM unnest(ids, fences, batches) AS g (id, fence, batch_id)) AS u;
    SELECT r.revived INTO s
    FROM "schema_of_a_release".step_revive(c.ids, c.fences, array_fill(NULL::timestamptz, ARRAY[cardinality(c.ids)]), o.verb) AS r;
    keyed := ARRAY(
        SELECT a.id FROM "schema_of_a_release".task_archive AS a
        WHERE a.id = ANY (c.ids) AND a.id <> ALL (s.revived)
          AND EXISTS (SELECT FROM "schema_of_a_release".task AS t WHERE t.type = a.type AND t.key = a.key));
    changed := cardinality(s.revived);
    refused := c.barred + cardinality(keyed);
    missed := c.busy || ARRAY(SELECT g.id FROM unnest(c.ids) AS g (id) WHERE g.id <> ALL (s.revived) AND g.id <> ALL (keyed));
    PERFORM "schema_of_a_release".reopen_batch(b.id) FROM (
        SELECT DISTINCT g.batch_id AS id FROM unnest(ids, batches) AS g (id, batch_id)
        WHERE g.batch_id = ANY (locked) AND g.id = ANY (s.revived)) AS b;
    INSERT INTO "schema_of_a_release".audit (requested_by, verb, task_id, reason, answer)
    SELECT o.requested_by, o.verb, r.id, o.reason, CASE o.verb WHEN 'retry' THEN 'pending' ELSE 'rollback_pending' END
    FROM unnest(s.revived) AS r (id);
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".bulk_revive("schema_of_a_release".bulk_change, bigint[], bigint[], bigint[]) FROM PUBLIC;

-- Cancels waiting rows, which the caller has locked. One with true in its place is rolled back: it waits for that, due once
-- no earlier attempt can still be at work. The others end.
CREATE OR REPLACE FUNCTION "schema_of_a_release".cancel_rows(ids bigint[], rolls_back boolean[], who text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    ended timestamptz := clock_timestamp();
    keyed record;
BEGIN
    IF false = ANY (rolls_back) THEN
        PERFORM "schema_of_a_release".ensure_partition(ended);
    END IF;
    -- The lock, which the caller has, keeps the planner from anything but lookups by primary key.
    WITH hit AS MATERIALIZED (
        SELECT t.*, g.rolls_back,
            CASE WHEN t.ever_started THEN 'cancelled while it waited' ELSE 'cancelled before it started' END
                || coalesce(', by ' || who, '') AS why
        FROM unnest(ids, rolls_back) AS g (id, rolls_back)
        CROSS JOIN LATERAL (SELECT * FROM "schema_of_a_release".task AS r WHERE r.id = g.id FOR NO KEY UPDATE) AS t
    ), leaving AS (
        SELECT h.*, coalesce(h.spilled_from, h.region) AS end_region, 'cancelled' AS end_state, h.fence + 1 AS end_fence, h.attempt AS end_attempt,
            h.deferrals AS end_deferrals, h.ever_started AS end_ever_started, 'cancelled' AS end_outcome,
            h.why AS end_error, h.result AS end_result, NULL AS end_output, NULL::timestamptz AS end_started_at,
            ended AS end_finished_at, h.lease_until AS end_lease_until, ended AS end_cancel_requested_at,
            who AS end_cancel_requested_by, h.message AS end_message, h.progress AS end_progress, h.checkpoint AS end_checkpoint
        FROM hit AS h WHERE NOT h.rolls_back
    ), archived AS (
        INSERT INTO "schema_of_a_release".task_archive (
    id, type, priority, region, key, run_at, payload, rollback_payload, labels, traceparent, created_by, max_attempts,
    created_at, session, policy, claimed_at, deadline, batch_id, round, cause, lock, sequence, after, after_if, tenant, failed_task,
    state, fence, attempt, deferrals, ever_started, outcome, error, result, output, started_at, finished_at, lease_until,
    cancel_requested_at, cancel_requested_by, message, progress, checkpoint)
SELECT id, type, priority, end_region, key, run_at, payload, rollback_payload, labels, traceparent, created_by, max_attempts,
    created_at, session, policy, claimed_at, deadline, batch_id, round, cause, lock, sequence, after, after_if, tenant, failed_task,
    end_state, end_fence, end_attempt, end_deferrals, end_ever_started, end_outcome, end_error, end_result, end_output,
    end_started_at, end_finished_at, end_lease_until, end_cancel_requested_at, end_cancel_requested_by, end_message,
    end_progress, end_checkpoint
FROM leaving
    ), deleted AS (
        DELETE FROM "schema_of_a_release".task AS t WHERE t.id = ANY (ARRAY(SELECT h.id FROM hit AS h WHERE NOT h.rolls_back))
        RETURNING t.type, t.key, t.lease_until
    ), rolled_back AS (
        UPDATE "schema_of_a_release".task AS t SET
            state = 'rollback_pending', attempt = 0, deferrals = 0, run_at = greatest(ended, t.lease_until),
            first_due = NULL,
            fence = t.fence + 1, outcome = 'cancelled', cause = 'cancelled', held = NULL,
            error = 'cancelled while it waited' || coalesce(', by ' || who, '')
        WHERE t.id = ANY (ARRAY(SELECT h.id FROM hit AS h WHERE h.rolls_back))
    ), counted AS (
        INSERT INTO "schema_of_a_release".batch_delta (batch_id, cancelled, rolling_back)
        SELECT h.batch_id, count(*) FILTER (WHERE NOT h.rolls_back), count(*) FILTER (WHERE h.rolls_back) FROM hit AS h
        WHERE h.batch_id IS NOT NULL GROUP BY h.batch_id
    ), noted AS ( -- others may wait behind one that is not held
        INSERT INTO "schema_of_a_release".lock_note (name) SELECT h.lock FROM hit AS h WHERE h.lock IS NOT NULL AND h.held IS NULL
    ), ended_noted AS (
        INSERT INTO "schema_of_a_release".ended_note (id) SELECT h.id FROM hit AS h WHERE h.awaited AND NOT h.rolls_back
    )
    SELECT array_agg(d.type) AS types, array_agg(d.key) AS keys, array_agg(d.lease_until) AS until INTO keyed
    FROM deleted AS d WHERE d.key IS NOT NULL;
    PERFORM "schema_of_a_release".insert_followers(keyed.types, keyed.keys, keyed.until);
    IF true = ANY (rolls_back) THEN
        PERFORM pg_notify('leasehold:schema_of_a_release', '');
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".cancel_rows(bigint[], boolean[], text) FROM PUBLIC;

-- Cancels a waiting row, which the caller has locked, and returns its new state: cancelled, or, where it was ever started
-- and can be rolled back, rollback_pending. Go: task.RollsBack; a check compares the two.
CREATE OR REPLACE FUNCTION "schema_of_a_release".cancel_waiting(t "schema_of_a_release".task, who text, can boolean) RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    rolls_back boolean := t.ever_started AND can;
BEGIN
    PERFORM "schema_of_a_release".cancel_rows(ARRAY[t.id], ARRAY[rolls_back], who);
    RETURN CASE WHEN rolls_back THEN 'rollback_pending' ELSE 'cancelled' END;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".cancel_waiting("schema_of_a_release".task, text, boolean) FROM PUBLIC;

-- Cancels a task and returns its new state, or 'cancelling' where it runs and is asked to stop. A repeat changes nothing.
-- by is for the audit; NULL is the role that calls, and '' is none.
CREATE OR REPLACE FUNCTION "schema_of_a_release".cancel(id bigint, by text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    t      "schema_of_a_release".task;
    answer text;
    who    text := "schema_of_a_release".requester(by);
BEGIN
    LOOP
        -- An application that holds the row FOR KEY SHARE does not block this lock.
        SELECT r.* INTO t FROM "schema_of_a_release".task AS r WHERE r.id = cancel.id FOR NO KEY UPDATE;
        EXIT WHEN t.id IS NOT NULL;
        IF "schema_of_a_release".cancel_follower(cancel.id, who) THEN
            INSERT INTO "schema_of_a_release".audit (requested_by, verb, task_id, answer) VALUES (who, 'cancel', cancel.id, 'cancelled');
            RETURN 'cancelled';
        END IF;
        SELECT r.state INTO answer FROM "schema_of_a_release".tasks AS r WHERE r.id = cancel.id;
        IF answer IS NULL THEN
            RAISE EXCEPTION 'there is no task %', id USING ERRCODE = 'no_data_found';
        ELSIF answer IN ('succeeded', 'failed', 'cancelled', 'split', 'rolled_back', 'rollback_failed') THEN
            RETURN answer;
        END IF; -- it has just been revived, or was a follower until now
    END LOOP;
    IF t.state IN ('rollback_pending', 'rollback_running') THEN
        RETURN t.state;
    ELSIF t.state = 'running' THEN
        answer := 'cancelling';
        IF t.cancel_requested_at IS NOT NULL THEN
            RETURN answer;
        END IF;
        UPDATE "schema_of_a_release".task AS r SET cancel_requested_at = clock_timestamp(), cancel_requested_by = who
            WHERE r.id = cancel.id;
        PERFORM pg_notify('leasehold:schema_of_a_release', 'asked');
    ELSE
        answer := "schema_of_a_release".cancel_waiting(t, who, "schema_of_a_release".can_roll_back(NULL, t.policy));
    END IF;
    INSERT INTO "schema_of_a_release".audit (requested_by, verb, task_id, answer) VALUES (who, 'cancel', cancel.id, answer);
    RETURN answer;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".cancel(bigint, text) FROM PUBLIC;

-- Cancels waiting rows that have the fence that was seen, and returns how many; locked ones are left out. One with true in
-- its place in rolls_back waits for its rollback.
CREATE OR REPLACE FUNCTION "schema_of_a_release".cancel_all_waiting(
    ids bigint[], fences bigint[], rolls_back boolean[], who text
) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    hit record;
BEGIN
    PERFORM "schema_of_a_release".ensure_partition(clock_timestamp()); -- it may wait, and no row is locked yet
    SELECT coalesce(array_agg(t.id), '{}') AS ids, coalesce(array_agg(g.rolls_back), '{}') AS rolls_back INTO hit
    FROM unnest(ids, fences, rolls_back) AS g (id, fence, rolls_back)
    CROSS JOIN LATERAL (
        SELECT r.id FROM "schema_of_a_release".task AS r
        WHERE r.id = g.id AND r.fence = g.fence AND r.state IN ('pending', 'retry_pending') FOR UPDATE SKIP LOCKED
    ) AS t;
    PERFORM "schema_of_a_release".cancel_rows(hit.ids, hit.rolls_back, who);
    RETURN cardinality(hit.ids);
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".cancel_all_waiting(bigint[], bigint[], boolean[], text) FROM PUBLIC;

-- Cancels the waiting rows of a batch and stops the running ones. Once this has committed, nothing of it is claimed.
CREATE OR REPLACE FUNCTION "schema_of_a_release".cancel_batch(id bigint, by text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    who text := "schema_of_a_release".requester(by);
    b   "schema_of_a_release".batch := "schema_of_a_release".lock_batch(id);
BEGIN
    IF b.ended_at IS NOT NULL THEN
        RETURN (SELECT v.state FROM "schema_of_a_release".batches AS v WHERE v.id = cancel_batch.id);
    ELSIF b.requested IS NOT NULL THEN
        RETURN CASE b.requested WHEN 'rollback' THEN 'rolling_back' ELSE 'cancelling' END;
    END IF;
    RETURN "schema_of_a_release".start_operation(id, 'cancel', who, false, 'cancelling');
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".cancel_batch(bigint, text) FROM PUBLIC;

-- Has agents plan nothing more of a chunk plan; its tasks are run as ever. Returns 'paused', or 'unchanged' where it was.
CREATE OR REPLACE FUNCTION "schema_of_a_release".pause_chunks(name text, by text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    who text := "schema_of_a_release".requester(by);
    p   "schema_of_a_release".chunk_plan := "schema_of_a_release".lock_chunks(name);
BEGIN
    IF p.paused_at IS NOT NULL THEN
        RETURN 'unchanged';
    END IF;
    UPDATE "schema_of_a_release".chunk_plan AS r SET paused_at = date_trunc('milliseconds', now()), paused_by = who, version = r.version + 1
    WHERE r.name = p.name;
    INSERT INTO "schema_of_a_release".audit (requested_by, verb, chunks, answer) VALUES (who, 'pause', p.name, 'paused');
    RETURN 'paused';
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".pause_chunks(text, text) FROM PUBLIC;

-- Has agents go on with a chunk plan. Where the batch of its pass accepts no more rows, the next chunk of the pass gets a new one.
-- Returns 'resumed', or 'unchanged' where nothing kept agents from planning.
CREATE OR REPLACE FUNCTION "schema_of_a_release".resume_chunks(name text, by text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    who  text := "schema_of_a_release".requester(by);
    plan "schema_of_a_release".chunk_plan := "schema_of_a_release".lock_chunks(name);
BEGIN
    UPDATE "schema_of_a_release".chunk_pass AS r SET batch_id = NULL
    FROM "schema_of_a_release".chunk_plan AS p
    JOIN "schema_of_a_release".chunk_pass AS s ON s.plan = p.name AND s.pass = p.pass
    LEFT JOIN "schema_of_a_release".batch AS b ON b.id = s.batch_id
    WHERE p.name = plan.name AND r.plan = s.plan AND r.pass = s.pass AND (s.sealed_at IS NULL AND s.batch_id IS NOT NULL AND (b.id IS NULL OR b.sealed OR b.stopping OR b.ended_at IS NOT NULL));
    IF NOT FOUND AND plan.paused_at IS NULL THEN
        RETURN 'unchanged';
    END IF;
    UPDATE "schema_of_a_release".chunk_plan AS r SET paused_at = NULL, paused_by = NULL, version = r.version + 1 WHERE r.name = plan.name;
    INSERT INTO "schema_of_a_release".audit (requested_by, verb, chunks, answer) VALUES (who, 'resume', plan.name, 'resumed');
    RETURN 'resumed';
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".resume_chunks(text, text) FROM PUBLIC;

-- Locks a chunk plan and returns it.
CREATE OR REPLACE FUNCTION "schema_of_a_release".lock_chunks(plan text) RETURNS "schema_of_a_release".chunk_plan
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    p "schema_of_a_release".chunk_plan;
BEGIN
    SELECT r.* INTO p FROM "schema_of_a_release".chunk_plan AS r WHERE r.name = plan FOR NO KEY UPDATE;
    IF p.name IS NULL THEN
        RAISE EXCEPTION 'there is no chunk plan "%"', plan USING ERRCODE = 'no_data_found';
    END IF;
    RETURN p;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".lock_chunks(text) FROM PUBLIC;

-- Returns how many rows of a claim are taken, whose documents have these lengths in bytes: rows are taken in order until those
-- before come to that many bytes.
CREATE OR REPLACE FUNCTION "schema_of_a_release".claim_rows(lengths double precision[], most double precision) RETURNS bigint
    LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS
$leasehold$
    SELECT count(*) FROM (
        SELECT sum(u.length) OVER (ORDER BY u.place) - u.length AS before
        FROM unnest(lengths) WITH ORDINALITY AS u (length, place)
    ) AS taken
    WHERE taken.before < most
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".claim_rows(double precision[], double precision) FROM PUBLIC;

-- Returns about how many bytes a document takes without the spaces that jsonb writes. No search_path is set, so that the
-- planner can inline the function: everything is qualified with its schema.
CREATE OR REPLACE FUNCTION "schema_of_a_release".compact_length(document jsonb) RETURNS integer
    LANGUAGE sql IMMUTABLE AS
$leasehold$
    SELECT pg_catalog.octet_length(pg_catalog.replace(
        pg_catalog.replace(document::pg_catalog.text, '": ', '":'), ', ', ','))
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".compact_length(jsonb) FROM PUBLIC;

-- Ends the attempt with the fence as succeeded. Returns applied, ended (it has ended so before), lost, or busy where
-- another transaction has the row locked and wait is false. The start of the attempt itself is not known here: the time
-- of the claim stands for it.
CREATE OR REPLACE FUNCTION "schema_of_a_release".take_complete(of bigint, with_fence bigint, wait boolean, new_result jsonb)
    RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    t       "schema_of_a_release".task;
    was     text;
    as_type text;
BEGIN
    IF wait THEN
        SELECT r.* INTO t FROM "schema_of_a_release".task AS r WHERE r.id = of AND r.fence = with_fence AND r.claim > 0
        FOR UPDATE;
    ELSE
        SELECT r.* INTO t FROM "schema_of_a_release".task AS r WHERE r.id = of AND r.fence = with_fence AND r.claim > 0
        FOR UPDATE SKIP LOCKED;
    END IF;
    IF t.id IS NULL THEN
        -- In this order: a row moves from the live table to the archive. If it has been revived since, its history has it.
        IF EXISTS (SELECT FROM "schema_of_a_release".task AS r WHERE r.id = of AND r.fence = with_fence AND r.claim > 0) THEN
            RETURN 'busy';
        ELSIF EXISTS (SELECT FROM "schema_of_a_release".task_archive AS a
                      WHERE a.id = of AND a.fence = with_fence + 1 AND a.outcome = 'succeeded')
            OR EXISTS (SELECT FROM "schema_of_a_release".attempt AS h
                       WHERE h.task_id = of AND h.fence = with_fence AND h.outcome = 'succeeded') THEN
            RETURN 'ended';
        END IF;
        RETURN 'lost';
    END IF;
    was := t.state;
    t.state := CASE was WHEN 'running' THEN 'succeeded' ELSE 'rolled_back' END;
    IF NOT (t.state = 'succeeded' AND t.attempt = 1) THEN
        INSERT INTO "schema_of_a_release".attempt (
            task_id, fence, ran_fence, session, policy, phase, attempt, outcome, result, state, started_at, ended_at)
        VALUES (of, with_fence, with_fence, t.session, t.policy, CASE was WHEN 'running' THEN 'run' ELSE 'rollback' END,
            t.attempt, 'succeeded', new_result, t.state, t.claimed_at, clock_timestamp());
    END IF;
    IF t.state = 'succeeded' AND t.attempt = 1 OR was = 'running' AND new_result IS NOT NULL THEN -- that of a rollback is in the history only
        t.result := new_result;
    END IF;
    -- A task has failed that is rolled back by this end: Go's task.FailedForGood; a check compares the two.
    IF was <> 'running' AND t.failed_task IS NULL AND coalesce(t.cause, '') NOT IN ('succeeded', 'cancelled') THEN
        as_type := (SELECT p.body ->> 'on_failed' FROM "schema_of_a_release".policy AS p WHERE p.hash = t.policy);
        IF as_type IS NOT NULL THEN
            PERFORM "schema_of_a_release".insert_on_failed(as_type, of, t.type, t.state, NULL, NULL, t.cause, t.payload, t.labels, coalesce(t.spilled_from, t.region), t.tenant,
                t.traceparent, NULL);
            t.failed_task := of;
        END IF;
    END IF;
    t.fence := t.fence + 1;
    t.outcome := 'succeeded';
    t.error := NULL;
    t.deferrals := 0;
    t.ever_started := true;
    t.lease_until := NULL;
    PERFORM "schema_of_a_release".archive(t, t.claimed_at), "schema_of_a_release".count_transition(t.batch_id, was, t.state, false, true);
    RETURN 'applied';
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".take_complete(bigint, bigint, boolean, jsonb) FROM PUBLIC;

-- Completes a task in the caller's transaction. A repeat changes nothing and raises nothing.
CREATE OR REPLACE FUNCTION "schema_of_a_release".complete(id bigint, fence bigint, result jsonb DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$leasehold$
BEGIN
    IF "schema_of_a_release".compact_length(result) > 65536 THEN
        RAISE EXCEPTION 'result must be 64 KiB at most' USING ERRCODE = 'invalid_parameter_value';
    ELSIF "schema_of_a_release".take_complete(id, fence, true, result) NOT IN ('applied', 'ended') THEN
        PERFORM "schema_of_a_release".raise_lease_lost(id, fence);
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".complete(bigint, bigint, jsonb) FROM PUBLIC;

-- Returns the limits of row types that are to be in force by what sessions declare: of each name the newest declaration, and for each
-- type that of the newest. A session that has expired, and has not left, may be alive unless the caller vouches that
-- the clock has not jumped for its whole TTL (calm, microseconds; else 0): what it declares stays in force, but does not come into force.
CREATE OR REPLACE FUNCTION "schema_of_a_release".wanted_limits(calm bigint)
    RETURNS TABLE (type text, name text, declared bigint, most integer, rate double precision, burst integer,
        tenant_most integer, tenant_rate double precision, tenant_burst integer)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
    SELECT DISTINCT ON (k.type) k.type, d.name, d.number, (d.spec->>'most')::integer, (d.spec->>'rate')::double precision,
        (d.spec->>'burst')::integer, coalesce((d.spec->'tenant'->>'most')::integer, 0),
        coalesce((d.spec->'tenant'->>'rate')::double precision, 0), coalesce((d.spec->'tenant'->>'burst')::integer, 0)
    FROM (
        SELECT e.name, max(e.number) AS number
        FROM "schema_of_a_release".agent AS a
        JOIN "schema_of_a_release".limit_declarer AS r ON r.session = a.session
        JOIN "schema_of_a_release".limit_declaration AS e ON e.number = r.number
        WHERE a.present_until > now()
           OR a.present_until > a.seen_at AND a.present_until - a.seen_at > calm * interval '1 microsecond'
              AND EXISTS (SELECT FROM "schema_of_a_release".type_limit AS l WHERE l.declared = e.number)
        GROUP BY e.name
    ) AS newest
    JOIN "schema_of_a_release".limit_declaration AS d ON d.number = newest.number
    CROSS JOIN LATERAL jsonb_array_elements_text(d.spec->'types') AS k (type)
    ORDER BY k.type, d.number DESC
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".wanted_limits(bigint) FROM PUBLIC;

-- Notes the limits that a session declares, and no others, puts in force what is to be, and returns the row types that have a limit.
-- Where that is so already it only reads. One of several that change something does it at a time; what a session that declares nothing
-- new would change is left to the next heartbeat if another one is at it.
CREATE OR REPLACE FUNCTION "schema_of_a_release".declare_limits(
    by bigint, names text[], hashes text[], specs text[], view_at timestamptz, calm bigint, tolerance bigint
) RETURNS SETOF text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off SET lock_timeout = '2s' AS
$leasehold$
DECLARE
    sure   bigint := CASE WHEN abs(extract(epoch FROM now() - view_at) * 1000000) <= tolerance THEN calm ELSE 0 END;
    own    boolean := EXISTS (
        SELECT FROM unnest(names, hashes) AS w (name, hash)
        FULL JOIN (
            SELECT d.name, d.hash FROM "schema_of_a_release".limit_declarer AS r JOIN "schema_of_a_release".limit_declaration AS d ON d.number = r.number
            WHERE r.session = by
        ) AS h ON h.name = w.name AND h.hash = w.hash
        WHERE w.name IS NULL OR h.name IS NULL);
    differ boolean := own OR EXISTS (
        SELECT FROM "schema_of_a_release".wanted_limits(coalesce(sure, 0)) AS w
        FULL JOIN "schema_of_a_release".type_limit AS l ON l.type = w.type AND l.declared = w.declared AND l.name = w.name
        WHERE w.type IS NULL OR l.type IS NULL);
BEGIN
    IF differ THEN
        BEGIN
            LOCK TABLE "schema_of_a_release".limit_declaration IN SHARE ROW EXCLUSIVE MODE;
            PERFORM "schema_of_a_release".settle_limits(by, names, hashes, specs, coalesce(sure, 0));
        EXCEPTION WHEN lock_not_available THEN
            IF own THEN
                RAISE;
            END IF;
        END;
    END IF;
    RETURN QUERY SELECT l.type FROM "schema_of_a_release".type_limit AS l;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".declare_limits(bigint, text[], text[], text[], timestamptz, bigint, bigint) FROM PUBLIC;

-- Changes what declare_limits has found to differ, under its lock.
CREATE OR REPLACE FUNCTION "schema_of_a_release".settle_limits(by bigint, names text[], hashes text[], specs text[], sure bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
BEGIN
    INSERT INTO "schema_of_a_release".limit_declaration (name, hash, spec)
    SELECT w.name, w.hash, w.spec::jsonb FROM unnest(names, hashes, specs) AS w (name, hash, spec)
    WHERE NOT EXISTS (SELECT FROM "schema_of_a_release".limit_declaration AS d WHERE d.name = w.name AND d.hash = w.hash)
    ORDER BY w.name;

    DELETE FROM "schema_of_a_release".limit_declarer AS r
    WHERE r.session = by AND NOT EXISTS (
            SELECT FROM unnest(names, hashes) AS w (name, hash)
            JOIN "schema_of_a_release".limit_declaration AS d ON d.name = w.name AND d.hash = w.hash WHERE d.number = r.number)
       OR NOT EXISTS (SELECT FROM "schema_of_a_release".agent AS a WHERE a.session = r.session);

    INSERT INTO "schema_of_a_release".limit_declarer (session, number)
    SELECT by, d.number FROM unnest(names, hashes) AS w (name, hash)
    JOIN "schema_of_a_release".limit_declaration AS d ON d.name = w.name AND d.hash = w.hash
    ON CONFLICT (session, number) DO NOTHING;

    INSERT INTO "schema_of_a_release".type_limit AS l (type, name, declared, most, rate, burst, tenant_most, tenant_rate, tenant_burst)
    SELECT w.type, w.name, w.declared, w.most, w.rate, w.burst, w.tenant_most, w.tenant_rate, w.tenant_burst FROM "schema_of_a_release".wanted_limits(sure) AS w ORDER BY w.type
    ON CONFLICT (type) DO UPDATE SET
        name = excluded.name, declared = excluded.declared, most = excluded.most, rate = excluded.rate,
        burst = excluded.burst, tenant_most = excluded.tenant_most, tenant_rate = excluded.tenant_rate,
        tenant_burst = excluded.tenant_burst,
        counts_all = l.counts_all OR l.name <> excluded.name, crowded = true,
        since = CASE WHEN l.name <> excluded.name THEN now() ELSE l.since END
    WHERE l.declared <> excluded.declared OR l.name <> excluded.name;

    -- Of a type that joins a limit, rows may run that do not name it: the row that claims lock has to know.
    UPDATE "schema_of_a_release".type_limit AS l SET counts_all = true, crowded = true, since = now()
    WHERE EXISTS (SELECT FROM "schema_of_a_release".type_limit AS k WHERE k.name = l.type AND k.type <> l.type AND k.since = now());

    DELETE FROM "schema_of_a_release".limit_place AS p WHERE p.until <= now();

    DELETE FROM "schema_of_a_release".type_limit AS l
    WHERE NOT EXISTS (SELECT FROM "schema_of_a_release".wanted_limits(sure) AS w WHERE w.type = l.type);
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".settle_limits(bigint, text[], text[], text[], bigint) FROM PUBLIC;

-- Notes what a session declares of the sequences of row types, and no more, and puts in force what is to be: of each type the newest declaration
-- of a present session. What no present session declares stays in force unless one of them knows the type. Where all is so already it
-- only reads. What is blocked by a failure that blocks nothing any more gets a note, at each call: so a failure that was being written
-- when the rule changed is found by the next one.
CREATE OR REPLACE FUNCTION "schema_of_a_release".declare_sequences(by bigint, types text[], rules text[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off SET lock_timeout = '2s' AS
$leasehold$
DECLARE
    own boolean := EXISTS (
        SELECT FROM unnest(types, rules) AS w (type, rule)
        FULL JOIN (
            SELECT d.type, d.on_failure FROM "schema_of_a_release".sequence_declarer AS r
            JOIN "schema_of_a_release".sequence_declaration AS d ON d.number = r.number WHERE r.session = by
        ) AS h ON h.type = w.type AND h.on_failure = w.rule
        WHERE w.type IS NULL OR h.type IS NULL);
BEGIN
    IF own OR EXISTS (SELECT FROM "schema_of_a_release".wanted_sequences()) THEN
        BEGIN
            LOCK TABLE "schema_of_a_release".sequence_declaration IN SHARE ROW EXCLUSIVE MODE;
            INSERT INTO "schema_of_a_release".sequence_declaration (type, on_failure)
            SELECT w.type, w.rule FROM unnest(types, rules) AS w (type, rule)
            WHERE NOT EXISTS (SELECT FROM "schema_of_a_release".sequence_declaration AS d WHERE d.type = w.type AND d.on_failure = w.rule)
            ORDER BY w.type;
            DELETE FROM "schema_of_a_release".sequence_declarer AS r
            WHERE r.session = by AND NOT EXISTS (
                    SELECT FROM unnest(types, rules) AS w (type, rule)
                    JOIN "schema_of_a_release".sequence_declaration AS d ON d.type = w.type AND d.on_failure = w.rule WHERE d.number = r.number)
               OR NOT EXISTS (SELECT FROM "schema_of_a_release".agent AS a WHERE a.session = r.session);
            INSERT INTO "schema_of_a_release".sequence_declarer (session, number)
            SELECT by, d.number FROM unnest(types, rules) AS w (type, rule)
            JOIN "schema_of_a_release".sequence_declaration AS d ON d.type = w.type AND d.on_failure = w.rule
            ON CONFLICT (session, number) DO NOTHING;
            INSERT INTO "schema_of_a_release".sequence_rule (type, declared, on_failure)
            SELECT w.type, w.declared, w.on_failure FROM "schema_of_a_release".wanted_sequences() AS w WHERE w.declared IS NOT NULL ORDER BY w.type
            ON CONFLICT (type) DO UPDATE SET declared = excluded.declared, on_failure = excluded.on_failure;
            DELETE FROM "schema_of_a_release".sequence_rule AS s
            WHERE s.type IN (SELECT w.type FROM "schema_of_a_release".wanted_sequences() AS w WHERE w.declared IS NULL);
        EXCEPTION WHEN lock_not_available THEN
            IF own THEN
                RAISE;
            END IF;
        END;
    END IF;
    INSERT INTO "schema_of_a_release".sequence_note (type, name)
    SELECT DISTINCT f.type, f.name FROM "schema_of_a_release".sequence_rule AS s
    CROSS JOIN LATERAL (
        SELECT g.type, g.name FROM "schema_of_a_release".sequence_failure AS g WHERE g.type = s.type ORDER BY g.type, g.name LIMIT 1000) AS f
    WHERE s.on_failure = 'continue'
      AND NOT EXISTS (SELECT FROM "schema_of_a_release".sequence_note AS n WHERE n.type = f.type AND n.name = f.name);
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".declare_sequences(bigint, text[], text[]) FROM PUBLIC;

-- Returns the row types whose rule is to change, by what sessions declare; declared is NULL where it is to go.
CREATE OR REPLACE FUNCTION "schema_of_a_release".wanted_sequences() RETURNS TABLE (type text, declared bigint, on_failure text)
    LANGUAGE sql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
    SELECT coalesce(w.type, s.type), w.number, w.on_failure
    FROM (
        SELECT DISTINCT ON (d.type) d.type, d.number, d.on_failure FROM "schema_of_a_release".agent AS a
        JOIN "schema_of_a_release".sequence_declarer AS r ON r.session = a.session
        JOIN "schema_of_a_release".sequence_declaration AS d ON d.number = r.number
        WHERE a.present_until > now() ORDER BY d.type, d.number DESC
    ) AS w
    FULL JOIN "schema_of_a_release".sequence_rule AS s ON s.type = w.type
    WHERE s.declared IS DISTINCT FROM w.number AND (w.number IS NOT NULL OR EXISTS (
        SELECT FROM "schema_of_a_release".agent AS a WHERE a.present_until > now() AND s.type = ANY (a.types)))
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".wanted_sequences() FROM PUBLIC;

-- Inserts a task and returns its id, or the id of the live task with the same type and key. That one may finish between
-- the two statements, hence the loop: ten tries fail only if that happens ten times in a row. With on_live or debounce it is
-- enqueue_result.
CREATE OR REPLACE FUNCTION "schema_of_a_release".enqueue(
    type text, payload jsonb DEFAULT '{}', key text DEFAULT NULL, run_at timestamptz DEFAULT NULL,
    priority integer DEFAULT 0, region text DEFAULT NULL, max_attempts integer DEFAULT NULL, labels jsonb DEFAULT NULL,
    traceparent text DEFAULT NULL, created_by text DEFAULT NULL, batch_id bigint DEFAULT NULL,
    rollback_payload jsonb DEFAULT NULL, on_live text DEFAULT NULL, debounce interval DEFAULT NULL,
    debounce_max interval DEFAULT NULL, lock text DEFAULT NULL, sequence text DEFAULT NULL,
    after bigint[] DEFAULT NULL, after_if text DEFAULT NULL, tenant text DEFAULT NULL
) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$leasehold$
#variable_conflict use_column
DECLARE
    found_id bigint;
BEGIN
    IF enqueue.on_live <> 'keep' OR enqueue.debounce IS NOT NULL OR enqueue.debounce_max IS NOT NULL THEN
        RETURN (SELECT r.id FROM "schema_of_a_release".enqueue_result(enqueue.type, enqueue.payload, enqueue.key, enqueue.run_at,
            enqueue.priority, enqueue.region, enqueue.max_attempts, enqueue.labels, enqueue.traceparent, enqueue.created_by,
            enqueue.batch_id, enqueue.rollback_payload, enqueue.on_live, enqueue.debounce, enqueue.debounce_max, enqueue.lock,
            enqueue.sequence,
            enqueue.after, enqueue.after_if,
            enqueue.tenant) AS r);
    END IF;
    FOR round IN 1..10 LOOP
        INSERT INTO "schema_of_a_release".task AS t (type, payload, key, run_at, priority, region, max_attempts, labels,
                                        traceparent, created_by, batch_id, rollback_payload, lock, sequence, after, after_if, tenant)
        VALUES (enqueue.type, coalesce(enqueue.payload, '{}'), enqueue.key, coalesce(enqueue.run_at, now()),
                coalesce(enqueue.priority, 0), enqueue.region, enqueue.max_attempts, enqueue.labels,
                enqueue.traceparent, enqueue.created_by, enqueue.batch_id, enqueue.rollback_payload, enqueue.lock,
                enqueue.sequence, enqueue.after, enqueue.after_if,
                enqueue.tenant)
        ON CONFLICT (type, key) WHERE key IS NOT NULL DO NOTHING
        RETURNING t.id INTO found_id;
        IF found_id IS NOT NULL THEN
            RETURN found_id;
        END IF;
        SELECT t.id INTO found_id FROM "schema_of_a_release".task AS t WHERE t.type = enqueue.type AND t.key = enqueue.key;
        IF found_id IS NOT NULL THEN
            RETURN found_id;
        END IF;
    END LOOP;
    RAISE EXCEPTION 'task of type % with key % came and went ten times: try again', enqueue.type, enqueue.key
        USING ERRCODE = 'serialization_failure';
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".enqueue(text, jsonb, text, timestamptz, integer, text, integer, jsonb, text, text, bigint,
    jsonb, text, interval, interval, text, text, bigint[], text, text)
    FROM PUBLIC;

-- Does what enqueue does, and says what that was: inserted, kept (the live task with the same type and key), replaced (that task's
-- values, since it has never started) or follows (it becomes a task once that one has ended for good; id is the follower's).
CREATE OR REPLACE FUNCTION "schema_of_a_release".enqueue_result(
    type text, payload jsonb DEFAULT '{}', key text DEFAULT NULL, run_at timestamptz DEFAULT NULL,
    priority integer DEFAULT 0, region text DEFAULT NULL, max_attempts integer DEFAULT NULL, labels jsonb DEFAULT NULL,
    traceparent text DEFAULT NULL, created_by text DEFAULT NULL, batch_id bigint DEFAULT NULL,
    rollback_payload jsonb DEFAULT NULL, on_live text DEFAULT NULL, debounce interval DEFAULT NULL,
    debounce_max interval DEFAULT NULL, lock text DEFAULT NULL, sequence text DEFAULT NULL,
    after bigint[] DEFAULT NULL, after_if text DEFAULT NULL,
    tenant text DEFAULT NULL, OUT id bigint, OUT answer text
)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
#variable_conflict use_column
DECLARE
    live  text := "schema_of_a_release".check_on_live(key, batch_id, run_at, on_live, debounce, debounce_max, after);
    due   timestamptz := CASE WHEN debounce IS NULL THEN coalesce(run_at, now()) ELSE clock_timestamp() + debounce END;
    got   bigint;
BEGIN
    FOR round IN 1..10 LOOP
        INSERT INTO "schema_of_a_release".task AS t (type, payload, key, run_at, priority, region, max_attempts, labels,
                                        traceparent, created_by, batch_id, rollback_payload, lock, sequence, after, after_if, tenant)
        VALUES (enqueue_result.type, coalesce(enqueue_result.payload, '{}'), enqueue_result.key, due,
                coalesce(enqueue_result.priority, 0), enqueue_result.region, enqueue_result.max_attempts, enqueue_result.labels,
                enqueue_result.traceparent, enqueue_result.created_by, enqueue_result.batch_id, enqueue_result.rollback_payload,
                enqueue_result.lock, enqueue_result.sequence, enqueue_result.after, enqueue_result.after_if, enqueue_result.tenant)
        ON CONFLICT (type, key) WHERE key IS NOT NULL DO NOTHING
        RETURNING t.id INTO got;
        IF got IS NOT NULL THEN
            id := got;
            answer := 'inserted';
            RETURN;
        END IF;
        IF live = 'replace' THEN
            got := "schema_of_a_release".replace_live(enqueue_result.type, enqueue_result.payload, enqueue_result.key, due,
                enqueue_result.priority, enqueue_result.region, enqueue_result.max_attempts, enqueue_result.labels,
                enqueue_result.traceparent, enqueue_result.created_by, enqueue_result.rollback_payload, enqueue_result.debounce_max,
                enqueue_result.lock, enqueue_result.sequence, enqueue_result.tenant);
            IF got IS NOT NULL THEN
                id := got;
                answer := 'replaced';
                RETURN;
            END IF;
        END IF;
        -- The lock of a row that is to be followed lasts until the caller's transaction ends: the row does not end before. It keeps
        -- no renewal from being written.
        IF live = 'keep' THEN
            SELECT t.id INTO got FROM "schema_of_a_release".task AS t WHERE t.type = enqueue_result.type AND t.key = enqueue_result.key;
        ELSE
            SELECT t.id INTO got FROM "schema_of_a_release".task AS t WHERE t.type = enqueue_result.type AND t.key = enqueue_result.key
            FOR KEY SHARE;
        END IF;
        CONTINUE WHEN got IS NULL; -- it has just ended
        id := got;
        answer := 'kept';
        IF live <> 'keep' THEN
            INSERT INTO "schema_of_a_release".follow AS f (id, type, payload, key, run_at, priority, region, max_attempts, labels, traceparent,
                                              created_by, rollback_payload, lock, sequence, tenant)
            VALUES (nextval(pg_get_serial_sequence('"schema_of_a_release"' || '.task', 'id')), enqueue_result.type,
                    coalesce(enqueue_result.payload, '{}'), enqueue_result.key, due, coalesce(enqueue_result.priority, 0),
                    enqueue_result.region, enqueue_result.max_attempts, enqueue_result.labels, enqueue_result.traceparent,
                    enqueue_result.created_by, enqueue_result.rollback_payload, enqueue_result.lock, enqueue_result.sequence,
                    enqueue_result.tenant)
            ON CONFLICT (type, key) DO UPDATE SET
                payload = excluded.payload, rollback_payload = excluded.rollback_payload, priority = excluded.priority,
                region = excluded.region, max_attempts = excluded.max_attempts, labels = excluded.labels,
                traceparent = excluded.traceparent, created_by = excluded.created_by, lock = excluded.lock,
                sequence = excluded.sequence,
                tenant = excluded.tenant,
                run_at = least(excluded.run_at, f.created_at + enqueue_result.debounce_max)
            RETURNING f.id INTO got;
            id := got;
            answer := 'follows';
        END IF;
        RETURN;
    END LOOP;
    RAISE EXCEPTION 'task of type % with key % came and went ten times: try again', enqueue_result.type, enqueue_result.key
        USING ERRCODE = 'serialization_failure';
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".enqueue_result(text, jsonb, text, timestamptz, integer, text, integer, jsonb, text, text, bigint,
    jsonb, text, interval, interval, text, text, bigint[], text, text)
    FROM PUBLIC;

-- Returns what is to become of a live row, keep, replace or again, and raises where the request contradicts itself. Go:
-- store.EnqueueRequest.Check.
CREATE OR REPLACE FUNCTION "schema_of_a_release".check_on_live(
    key text, batch_id bigint, run_at timestamptz, on_live text, debounce interval, debounce_max interval, after bigint[]
) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS
$leasehold$
DECLARE
    refusal text;
    live    text := coalesce(on_live, CASE WHEN debounce IS NULL THEN 'keep' ELSE 'replace' END);
BEGIN
    IF live NOT IN ('keep', 'replace', 'again') THEN
        refusal := 'on_live must be keep, replace or again';
    ELSIF debounce_max IS NOT NULL AND debounce IS NULL THEN
        refusal := 'debounce_max needs a debounce';
    ELSIF debounce <= interval '0' THEN
        refusal := 'debounce must be positive';
    ELSIF debounce_max < debounce THEN
        refusal := 'debounce_max must be debounce at least';
    ELSIF debounce IS NOT NULL AND live <> 'replace' THEN
        refusal := 'debounce replaces the live row: on_live must be replace, or left out';
    ELSIF debounce IS NOT NULL AND run_at IS NOT NULL THEN
        refusal := 'debounce sets the due time: run_at must be left out';
    ELSIF live <> 'keep' AND key IS NULL THEN
        refusal := 'on_live and debounce need a key';
    ELSIF live <> 'keep' AND cardinality(after) > 0 THEN
        refusal := 'a row that waits for others replaces and follows none: on_live must be keep';
    ELSIF live <> 'keep' AND batch_id IS NOT NULL THEN
        refusal := 'a row of a batch replaces and follows none: on_live must be keep';
    END IF;
    IF refusal IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = refusal;
    END IF;
    RETURN live;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".check_on_live(text, bigint, timestamptz, text, interval, interval, bigint[]) FROM PUBLIC;

-- Gives the live row of a type and key the values of a new one, and returns its id; NULL where there is none, it was ever
-- started, or it has a follower, which is later than the row. One that a claim has locked is waited for, and runs by then. The
-- values were checked by the INSERT that met the row.
CREATE OR REPLACE FUNCTION "schema_of_a_release".replace_live(
    of_type text, payload jsonb, of_key text, due timestamptz, priority integer, region text, max_attempts integer, labels jsonb,
    traceparent text, created_by text, rollback_payload jsonb, debounce_max interval, lock text,
    sequence text, tenant text
) RETURNS bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
#variable_conflict use_column
DECLARE
    replaced bigint;
BEGIN
    WITH was AS MATERIALIZED (
        SELECT t.id, t.lock, t.held, t.type, t.sequence FROM "schema_of_a_release".task AS t
        WHERE t.type = of_type AND t.key = of_key AND t.state = 'pending' AND NOT t.ever_started
          AND NOT EXISTS (SELECT FROM "schema_of_a_release".follow AS f WHERE f.type = of_type AND f.key = of_key)
        FOR NO KEY UPDATE
    ), noted AS ( -- others may wait for the lock behind one that is not held
        INSERT INTO "schema_of_a_release".lock_note (name) SELECT w.lock FROM was AS w WHERE w.lock IS NOT NULL AND w.held IS NULL
    ), passed_on AS ( -- it may have been the head of a sequence
        INSERT INTO "schema_of_a_release".sequence_note (type, name) SELECT w.type, w.sequence FROM was AS w WHERE w.sequence IS NOT NULL
    ), changed AS (
        UPDATE "schema_of_a_release".task AS t SET
            payload = coalesce(replace_live.payload, '{}'), rollback_payload = replace_live.rollback_payload,
            run_at = least(due, t.created_at + debounce_max),
            priority = coalesce(replace_live.priority, 0), region = replace_live.region, spilled_from = NULL, first_due = NULL,
            max_attempts = replace_live.max_attempts, labels = replace_live.labels, traceparent = replace_live.traceparent, created_by = replace_live.created_by, deadline = NULL,
            lock = replace_live.lock, sequence = replace_live.sequence, tenant = replace_live.tenant, held = CASE WHEN w.held = 'after' THEN w.held END
        FROM was AS w WHERE t.id = w.id
        RETURNING t.id
    )
    SELECT c.id INTO replaced FROM changed AS c;
    -- As after an insert: the row may be due sooner now.
    IF replaced IS NOT NULL AND EXISTS (SELECT FROM "schema_of_a_release".agent AS a WHERE a.idle AND a.present_until > now()) THEN
        PERFORM pg_notify('leasehold:schema_of_a_release', '');
    END IF;
    RETURN replaced;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".replace_live(text, jsonb, text, timestamptz, integer, text, integer, jsonb, text, text, jsonb, interval,
    text, text, text) FROM PUBLIC;

-- A fold sums the deltas of batches, and does what follows: once a second or so, by any agent. internal/batch decides what
-- follows. A batch that is locked is left for another time.

-- Sums the deltas of so many batches at most: of those with deltas, and of those that are marked. They come in random order,
-- so that some that cannot be ended yet do not keep the others from it. Returns those that have not ended. Each for which
-- there is something to do stays marked by needs_fold, also if the caller dies now. Conclude of internal/batch decides what
-- that is; the rule for the mark is the same, and a test compares them.
CREATE OR REPLACE FUNCTION "schema_of_a_release".sum_batches(most bigint) RETURNS TABLE (
    id bigint, version text, name text, round integer, on_failure text, requested text, by_failure boolean, sealed boolean,
    summed boolean, operated boolean, task_operated boolean, total bigint, rolling_back bigint, succeeded bigint,
    failed bigint, cancelled bigint, rolled_back bigint, rollback_failed bigint, failures bigint, failures_seen bigint
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
#variable_conflict use_column
DECLARE
    one    bigint;
    b      record;
    live   bigint;
    all_of boolean;
    marked boolean;
BEGIN
    FOR one IN
        -- One step along the index of deltas for each batch: DISTINCT would read every delta.
        WITH RECURSIVE counted (id) AS (
            (SELECT d.batch_id FROM "schema_of_a_release".batch_delta AS d ORDER BY d.batch_id LIMIT 1)
            UNION ALL
            SELECT (SELECT d.batch_id FROM "schema_of_a_release".batch_delta AS d WHERE d.batch_id > c.id ORDER BY d.batch_id LIMIT 1)
            FROM counted AS c WHERE c.id IS NOT NULL
        )
        SELECT u.id FROM (
            SELECT c.id FROM (SELECT c.id FROM counted AS c WHERE c.id IS NOT NULL LIMIT most) AS c
            UNION
            SELECT l.id FROM (SELECT r.id FROM "schema_of_a_release".batch AS r WHERE r.needs_fold ORDER BY random() LIMIT most) AS l
        ) AS u ORDER BY random() LIMIT most
    LOOP
        PERFORM FROM "schema_of_a_release".batch AS r WHERE r.id = one FOR NO KEY UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        all_of := "schema_of_a_release".sum_deltas(one, 20000);
        SELECT r.*,
            EXISTS (SELECT FROM "schema_of_a_release".operation AS o
                    WHERE o.batch_id = r.id AND o.task_id IS NULL AND o.ended_at IS NULL) AS operated,
            EXISTS (SELECT FROM "schema_of_a_release".operation AS o
                    WHERE o.batch_id = r.id AND o.task_id IS NOT NULL AND o.ended_at IS NULL)
                OR EXISTS (SELECT FROM "schema_of_a_release".revived_note AS n WHERE n.batch_id = r.id) AS task_operated
        INTO b FROM "schema_of_a_release".batch AS r WHERE r.id = one;
        live := b.total - b.succeeded - b.failed - b.cancelled - b.rolled_back - b.rollback_failed;
        marked := b.ended_at IS NULL AND (
            b.requested IS NULL AND b.on_failure <> 'continue' AND b.failures > b.failures_seen
            OR b.requested IS NOT NULL AND live > b.rolling_back AND NOT b.operated
            OR b.sealed AND all_of AND live = 0 AND NOT b.operated AND NOT b.task_operated);
        IF b.needs_fold <> marked THEN
            UPDATE "schema_of_a_release".batch AS r SET needs_fold = marked WHERE r.id = one;
        END IF;
        RETURN QUERY SELECT r.id, r.xmin::text, r.name, r.round, r.on_failure, r.requested, r.by_failure, r.sealed,
            all_of, b.operated, b.task_operated, r.total, r.rolling_back, r.succeeded,
            r.failed, r.cancelled, r.rolled_back, r.rollback_failed, r.failures, r.failures_seen
        FROM "schema_of_a_release".batch AS r WHERE r.id = one AND r.ended_at IS NULL;
    END LOOP;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".sum_batches(bigint) FROM PUBLIC;

-- Applies what follows to batches that are in the round and, except where a failure is followed, at the version that were
-- seen. Returns those to which it was applied. Batches that are stopped lock their gates at the commit, in the order in which
-- they come here.
CREATE OR REPLACE FUNCTION "schema_of_a_release".apply_fold(ids bigint[], rounds integer[], versions text[], acts text[])
    RETURNS SETOF bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    c record;
    b "schema_of_a_release".batch;
BEGIN
    FOR c IN
        SELECT u.id, u.round, u.version, u.act FROM unnest(ids, rounds, versions, acts) AS u (id, round, version, act)
        ORDER BY u.id % 8, u.id
    LOOP
        -- A transaction that has inserted a row and not committed holds the batch FOR KEY SHARE, which keeps it from ending.
        -- What has committed by now, the next statement sees.
        IF c.act = 'end' THEN
            PERFORM FROM "schema_of_a_release".batch AS r WHERE r.id = c.id FOR UPDATE SKIP LOCKED;
        ELSE
            PERFORM FROM "schema_of_a_release".batch AS r WHERE r.id = c.id FOR NO KEY UPDATE SKIP LOCKED;
        END IF;
        CONTINUE WHEN NOT FOUND;
        SELECT r.* INTO b FROM "schema_of_a_release".batch AS r
        WHERE r.id = c.id AND r.ended_at IS NULL AND r.round = c.round AND (c.act = 'follow' OR r.xmin::text = c.version);
        CONTINUE WHEN NOT FOUND;
        CASE c.act
            WHEN 'follow' THEN
                CONTINUE WHEN b.requested IS NOT NULL;
                PERFORM "schema_of_a_release".start_operation(b.id, b.on_failure, 'on_failure', false,
                    CASE b.on_failure WHEN 'cancel' THEN 'cancelling' ELSE 'rolling_back' END);
            WHEN 'resume' THEN
                -- Rows have come that the operation's transaction could not see: from one with an older snapshot.
                INSERT INTO "schema_of_a_release".operation (verb, batch_id, requested_at, requested_by)
                SELECT b.requested, b.id, clock_timestamp(), b.requested_by
                WHERE NOT EXISTS (SELECT FROM "schema_of_a_release".operation AS o
                                  WHERE o.batch_id = b.id AND o.task_id IS NULL AND o.ended_at IS NULL);
                CONTINUE WHEN NOT FOUND;
            WHEN 'end' THEN
                CONTINUE WHEN NOT "schema_of_a_release".end_batch(b);
        END CASE;
        RETURN NEXT c.id;
    END LOOP;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".apply_fold(bigint[], integer[], text[], text[]) FROM PUBLIC;

-- Ends a batch that is done, which the caller has locked FOR UPDATE, and reports whether it did: not if something was counted
-- or requested since. The row of finish_type is inserted in the same transaction.
CREATE OR REPLACE FUNCTION "schema_of_a_release".end_batch(b "schema_of_a_release".batch) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    v record;
BEGIN
    IF EXISTS (SELECT FROM "schema_of_a_release".operation AS o WHERE o.batch_id = b.id AND o.ended_at IS NULL)
        OR EXISTS (SELECT FROM "schema_of_a_release".revived_note AS n WHERE n.batch_id = b.id)
        OR EXISTS (SELECT FROM "schema_of_a_release".batch_delta AS d WHERE d.batch_id = b.id) THEN
        RETURN false;
    END IF;
    UPDATE "schema_of_a_release".batch AS r SET ended_at = clock_timestamp(), needs_fold = false WHERE r.id = b.id;
    IF b.finish_type IS NOT NULL THEN
        SELECT r.* INTO v FROM "schema_of_a_release".batches AS r WHERE r.id = b.id;
        INSERT INTO "schema_of_a_release".task (type, payload, created_by)
        VALUES (b.finish_type, b.finish_payload || jsonb_build_object('batch', jsonb_build_object(
            'id', v.id, 'name', v.name, 'state', v.state, 'round', v.round, 'total', v.total, 'succeeded', v.succeeded,
            'failed', v.failed, 'cancelled', v.cancelled, 'rolled_back', v.rolled_back,
            'rollback_failed', v.rollback_failed)), 'leasehold');
    END IF;
    RETURN true;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".end_batch("schema_of_a_release".batch) FROM PUBLIC;

-- Rows that follow the live row of their type and key (on_live): the table follow.

-- Makes tasks of the followers of rows that have ended for good, and returns how many. The caller has deleted these rows in the
-- same transaction. A follower is due no earlier than the time in its place: something of the row may be at work until then.
--
-- It looks in statements of its own, whose snapshots are newer than the locks on the rows: the caller's statement does not
-- see a follower whose transaction has committed while it waited for such a lock. The rows of follow are free: see there. They get a
-- fence, as revived rows do: their values were checked when they came, and by now a lower bound on payloads must not keep the row
-- before them from ending.
CREATE OR REPLACE FUNCTION "schema_of_a_release".insert_followers(types text[], keys text[], until timestamptz[]) RETURNS bigint
    LANGUAGE plpgsql STRICT SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    n bigint;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        -- All statements see what the first one saw. This one fails where there is a follower that they do not see
        -- (serialization_failure), so that the transaction is tried again.
        WITH tried AS (
            INSERT INTO "schema_of_a_release".follow AS f (type, key, id)
            SELECT g.type, g.key, -1 - floor(random() * 4611686018427387904)::bigint FROM unnest(types, keys) AS g (type, key)
            ON CONFLICT (type, key) DO NOTHING
            RETURNING f.id
        )
        SELECT count(*) INTO n FROM tried;
        DELETE FROM "schema_of_a_release".follow AS f
        USING unnest(types, keys) AS g (type, key) WHERE f.type = g.type AND f.key = g.key AND f.id < 0;
    END IF;
    PERFORM FROM unnest(types, keys) AS g (type, key)
    CROSS JOIN LATERAL (SELECT FROM "schema_of_a_release".follow AS r WHERE r.type = g.type AND r.key = g.key LIMIT 1) AS f;
    IF NOT FOUND THEN
        RETURN 0; -- which is most of the time: an INSERT of no rows costs as much as one of a few
    END IF;
    WITH due AS (
        DELETE FROM "schema_of_a_release".follow AS f USING unnest(types, keys, until) AS g (type, key, until)
        WHERE f.type = g.type AND f.key = g.key
        RETURNING f.id, f.type, f.key, greatest(f.run_at, g.until) AS run_at, f.created_at, f.priority, f.region, f.payload,
            f.rollback_payload, f.labels, f.traceparent, f.created_by, f.max_attempts, f.lock, f.sequence, f.awaited, f.tenant
    )
    INSERT INTO "schema_of_a_release".task (id, type, key, run_at, created_at, priority, region, payload, rollback_payload, labels, traceparent,
        created_by, max_attempts, lock, sequence, awaited, tenant, fence)
    OVERRIDING SYSTEM VALUE
    SELECT d.id, d.type, d.key, d.run_at, d.created_at, d.priority, d.region, d.payload, d.rollback_payload, d.labels, d.traceparent,
        d.created_by, d.max_attempts, d.lock, d.sequence, d.awaited, d.tenant, 1
    FROM due AS d;
    GET DIAGNOSTICS n = ROW_COUNT;
    RETURN n;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".insert_followers(text[], text[], timestamptz[]) FROM PUBLIC;

-- Cancels a follower, and reports whether there was one with the id: it goes to the archive. One that has just become a task is
-- none any more.
CREATE OR REPLACE FUNCTION "schema_of_a_release".cancel_follower(of bigint, who text) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    f     "schema_of_a_release".follow;
    ended timestamptz := clock_timestamp();
BEGIN
    SELECT r.* INTO f FROM "schema_of_a_release".follow AS r WHERE r.id = of;
    IF f.id IS NULL THEN
        RETURN false;
    END IF;
    PERFORM "schema_of_a_release".ensure_partition(ended); -- it may wait, and no row is locked yet
    PERFORM FROM "schema_of_a_release".task AS t WHERE t.type = f.type AND t.key = f.key FOR KEY SHARE;
    DELETE FROM "schema_of_a_release".follow AS r WHERE r.id = of RETURNING r.* INTO f;
    IF f.id IS NULL THEN
        RETURN false;
    END IF;
    WITH leaving AS (
        SELECT f.*, coalesce(f.spilled_from, f.region) AS end_region,
            'cancelled' AS end_state, f.fence + 1 AS end_fence, f.attempt AS end_attempt, f.deferrals AS end_deferrals,
            f.ever_started AS end_ever_started, 'cancelled' AS end_outcome,
            'cancelled before it started' || coalesce(', by ' || who, '') AS end_error, f.result AS end_result, NULL AS end_output,
            NULL::timestamptz AS end_started_at, ended AS end_finished_at, f.lease_until AS end_lease_until,
            ended AS end_cancel_requested_at, who AS end_cancel_requested_by, f.message AS end_message,
            f.progress AS end_progress, f.checkpoint AS end_checkpoint
    )
    INSERT INTO "schema_of_a_release".task_archive (
    id, type, priority, region, key, run_at, payload, rollback_payload, labels, traceparent, created_by, max_attempts,
    created_at, session, policy, claimed_at, deadline, batch_id, round, cause, lock, sequence, after, after_if, tenant, failed_task,
    state, fence, attempt, deferrals, ever_started, outcome, error, result, output, started_at, finished_at, lease_until,
    cancel_requested_at, cancel_requested_by, message, progress, checkpoint)
SELECT id, type, priority, end_region, key, run_at, payload, rollback_payload, labels, traceparent, created_by, max_attempts,
    created_at, session, policy, claimed_at, deadline, batch_id, round, cause, lock, sequence, after, after_if, tenant, failed_task,
    end_state, end_fence, end_attempt, end_deferrals, end_ever_started, end_outcome, end_error, end_result, end_output,
    end_started_at, end_finished_at, end_lease_until, end_cancel_requested_at, end_cancel_requested_by, end_message,
    end_progress, end_checkpoint
FROM leaving;
    IF f.awaited THEN
        INSERT INTO "schema_of_a_release".ended_note (id) VALUES (f.id);
    END IF;
    RETURN true;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".cancel_follower(bigint, text) FROM PUBLIC;

-- Locks the row until the caller's transaction ends, and raises unless the attempt still holds it. Renewals, pings and
-- cancellations are not blocked by this lock; whatever takes rows away skips them.
CREATE OR REPLACE FUNCTION "schema_of_a_release".hold(id bigint, fence bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
BEGIN
    PERFORM FROM "schema_of_a_release".task AS t
    WHERE t.id = hold.id AND t.fence = hold.fence AND t.claim > 0 AND t.lease_until > clock_timestamp()
    FOR KEY SHARE;
    IF NOT FOUND THEN
        PERFORM "schema_of_a_release".raise_lease_lost(id, fence);
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".hold(bigint, bigint) FROM PUBLIC;

-- Inserts the row of on_failed for a task that ends by this statement: of that type, with what has become of the task as its payload. The
-- caller has seen that the task has no failed_task, and sets it. The row is due no earlier than until: something of the task may be at
-- work until then.
--
-- Of a task that was rolled back, outcome and error are those of its last run. A row that was checked when it came must not keep
-- its task from ending now: so it has a fence, as revived rows do, and data that could make it too large to be claimed is left out.
CREATE OR REPLACE FUNCTION "schema_of_a_release".insert_on_failed(as_type text, of bigint, of_type text, ended text, verdict text, why text,
    rolled_back_for text, data jsonb, labels jsonb, region text, tenant text, traceparent text, until timestamptz) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    undone text;
BEGIN
    IF ended <> 'failed' THEN
        IF ended = 'rollback_failed' THEN
            undone := why;
        END IF;
        verdict := rolled_back_for;
        why := (SELECT a.error FROM "schema_of_a_release".attempt AS a WHERE a.task_id = of AND a.phase = 'run' ORDER BY a.fence DESC LIMIT 1);
    END IF;
    INSERT INTO "schema_of_a_release".task (type, run_at, payload, labels, region, tenant, traceparent, created_by, failed_task, fence)
    VALUES (as_type, greatest(now(), until), jsonb_build_object('id', of, 'type', of_type, 'state', ended, 'outcome', verdict,
        'error', why, 'rollback_error', undone, 'data', CASE WHEN "schema_of_a_release".weight(data) <= 66060288 THEN data END),
        insert_on_failed.labels, insert_on_failed.region, insert_on_failed.tenant, insert_on_failed.traceparent, 'leasehold', of, 1);
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".insert_on_failed(text, bigint, text, text, text, text, text, jsonb, jsonb, text, text, text, timestamptz)
    FROM PUBLIC;

-- Returns how many rows a claim may take of each of these row types, for all types with the same limit (name) together, and where it is the
-- rate that leaves no more, in how many microseconds one may start (wait; 0: now; else NULL). Where there is no limit name is NULL, and where other
-- claims are under way for too long rooms is. It is called once by each claim of types with a limit, as a statement of its own:
-- the claim (claim_limited.sql) follows in the same transaction and finds the rooms in the setting leasehold.rooms.
--
-- It locks the limits first, and counts what runs in later statements, each of which sees what has committed by then: the claim that
-- held the lock before, which the snapshot of the calling statement may not. The claim that follows sees that, too. The lock lasts until the calling claim has committed. Claims
-- wait for one another, in turn and for a moment only: each then takes all the room that there is by its turn. To come back for it would cost
-- more.
CREATE OR REPLACE FUNCTION "schema_of_a_release".limit_rooms(kinds text[]) RETURNS TABLE (kind text, name text, rooms bigint, wait bigint)
    LANGUAGE plpgsql VOLATILE ROWS 10 SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off SET lock_timeout = '20ms' AS
$leasehold$
DECLARE
    held    record;
    found   jsonb;
    running bigint;
    tokens double precision;
    free   bigint;
    names  text[] := '{}';
    frees  bigint[] := '{}';
    waits  bigint[] := '{}';
BEGIN
    BEGIN
        FOR held IN
            SELECT l.type, l.most, l.rate, l.burst, l.since, l.counts_all, l.crowded FROM "schema_of_a_release".type_limit AS l
            WHERE l.type = ANY (ARRAY(SELECT k.name FROM "schema_of_a_release".type_limit AS k WHERE k.type = ANY (kinds)))
            ORDER BY l.type
            FOR UPDATE
        LOOP
            free := 1000000000;
            wait := NULL;
            IF held.most > 0 THEN
                IF held.counts_all THEN
                    running := "schema_of_a_release".limit_unnamed(held.type, held.since);
                ELSE
                    SELECT count(*) INTO running FROM "schema_of_a_release".task AS t
                    WHERE t.limited IS NOT NULL AND t.limited = held.type AND t.state IN ('running', 'rollback_running');
                END IF;
                IF EXISTS (SELECT FROM "schema_of_a_release".limit_place AS p WHERE p.name = held.type) THEN
                    running := running + "schema_of_a_release".kept_places(held.type);
                END IF;
                IF held.crowded <> (running > held.most) THEN
                    UPDATE "schema_of_a_release".type_limit AS l SET crowded = running > held.most WHERE l.type = held.type;
                END IF;
                free := greatest(held.most - running, 0);
            END IF;
            IF held.rate > 0 THEN
                tokens := "schema_of_a_release".refill_tokens(held.type, held.rate, held.burst);
                IF least(floor(greatest(tokens, 0))::bigint, held.burst) < free THEN
                    free := least(floor(greatest(tokens, 0))::bigint, held.burst);
                    wait := CASE WHEN free = 0 THEN greatest(((1 - tokens) / held.rate * 1000000)::bigint, 1) ELSE 0 END;
                END IF;
            END IF;
            names := names || held.type;
            waits := array_append(waits, wait);
            frees := frees || free;
        END LOOP;
    EXCEPTION WHEN lock_not_available THEN
        frees := '{}';
    END;
    SELECT coalesce(jsonb_agg(jsonb_build_object('kind', k.kind, 'name', l.name, 'rooms', frees[array_position(names, l.name)],
        'wait', waits[array_position(names, l.name)], 'rated', l.rate > 0)), '[]') INTO found
    FROM unnest(kinds) AS k (kind) LEFT JOIN "schema_of_a_release".type_limit AS l ON l.type = k.kind;
    PERFORM set_config('leasehold.rooms', found::text, true);
    RETURN QUERY SELECT r.kind, r.name, r.rooms, r.wait
        FROM jsonb_to_recordset(found) AS r (kind text, name text, rooms bigint, wait bigint);
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".limit_rooms(text[]) FROM PUBLIC;

-- Returns how many rows run of a limit that is new, which the caller has locked. Rows may run that name no limit: they were claimed before.
-- They are found by their type, until none is left and no claim can be under way that began before the limit was there: it would have
-- lasted longer than any statement may.
CREATE OR REPLACE FUNCTION "schema_of_a_release".limit_unnamed(limit_name text, since timestamptz) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    running bigint;
    unnamed bigint;
BEGIN
    SELECT count(*), count(*) FILTER (WHERE t.limited IS DISTINCT FROM limit_name) INTO running, unnamed
    FROM "schema_of_a_release".task AS t
    WHERE t.state IN ('running', 'rollback_running') AND (t.limited = limit_name OR t.type = ANY (ARRAY(
        SELECT k.type FROM "schema_of_a_release".type_limit AS k WHERE k.name = limit_name)));
    IF unnamed = 0 AND since < now() - interval '1 minute' THEN
        UPDATE "schema_of_a_release".type_limit AS l SET counts_all = false WHERE l.type = limit_name;
    END IF;
    RETURN running;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".limit_unnamed(text, timestamptz) FROM PUBLIC;

-- Returns how many places of a limit, which the caller has locked, are kept by attempts that do not run any more, and frees those whose time
-- is over. The caller counts what runs before: of an attempt that is settled in between, both count, and never none. Where the clock was set
-- back, a place lasts no longer than it was to last.
CREATE OR REPLACE FUNCTION "schema_of_a_release".kept_places(limit_name text) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
BEGIN
    UPDATE "schema_of_a_release".limit_place AS p SET until = now() + (p.until - p.kept_at), kept_at = now()
    WHERE p.name = limit_name AND p.kept_at > now() + interval '1 second';
    DELETE FROM "schema_of_a_release".limit_place AS p WHERE p.name = limit_name AND p.until <= now();
    RETURN (SELECT count(*) FROM "schema_of_a_release".limit_place AS p WHERE p.name = limit_name);
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".kept_places(text) FROM PUBLIC;

-- Counts the tokens of a limit, which the caller has locked: what its rate has brought since they were counted last, and what was given
-- back. The rule is that of store.Bucket.
CREATE OR REPLACE FUNCTION "schema_of_a_release".refill_tokens(limit_name text, rate double precision, burst integer) RETURNS double precision
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    back   bigint;
    filled double precision;
BEGIN
    back := "schema_of_a_release".returned_tokens(limit_name);
    UPDATE "schema_of_a_release".limit_bucket AS b SET counted_at = clock_timestamp(), tokens = least(
        b.tokens + greatest(extract(epoch FROM clock_timestamp() - b.counted_at), 0)::double precision * rate + back,
        burst + rate * 0.025)
    WHERE b.name = limit_name RETURNING b.tokens INTO filled;
    IF NOT FOUND THEN
        INSERT INTO "schema_of_a_release".limit_bucket AS b (name, tokens) VALUES (limit_name, burst) RETURNING b.tokens INTO filled;
    END IF;
    RETURN filled;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".refill_tokens(text, double precision, integer) FROM PUBLIC;

-- Takes tokens for rows that a claim starts; it has locked the limit.
CREATE OR REPLACE FUNCTION "schema_of_a_release".spend_tokens(limit_name text, n bigint) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
BEGIN
    UPDATE "schema_of_a_release".limit_bucket AS b SET tokens = b.tokens - n WHERE b.name = limit_name;
    RETURN true;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".spend_tokens(text, bigint) FROM PUBLIC;

-- Locks a batch and returns it.
CREATE OR REPLACE FUNCTION "schema_of_a_release".lock_batch(batch bigint) RETURNS "schema_of_a_release".batch
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    b "schema_of_a_release".batch;
BEGIN
    SELECT r.* INTO b FROM "schema_of_a_release".batch AS r WHERE r.id = batch FOR NO KEY UPDATE;
    IF b.id IS NULL THEN
        RAISE EXCEPTION 'there is no batch %', batch USING ERRCODE = 'no_data_found';
    END IF;
    RETURN b;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".lock_batch(bigint) FROM PUBLIC;

-- Starts a new round of a batch that has ended. The caller has locked it.
CREATE OR REPLACE FUNCTION "schema_of_a_release".reopen_batch(batch bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
BEGIN
    UPDATE "schema_of_a_release".batch AS b SET
        ended_at = NULL, round = b.round + 1, requested = NULL, requested_by = NULL, by_failure = false, stopping = false,
            needs_fold = true,
        failures_seen = b.failures + coalesce((
            SELECT sum(d.failures) FROM "schema_of_a_release".batch_delta AS d WHERE d.batch_id = b.id), 0)
    WHERE b.id = batch AND b.ended_at IS NOT NULL;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".reopen_batch(bigint) FROM PUBLIC;

-- Returns who holds a lock on the table, human-readable: process id, role and application of each session.
CREATE OR REPLACE FUNCTION "schema_of_a_release".lock_holders(of regclass) RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$leasehold$
BEGIN
    RETURN coalesce((
        SELECT string_agg(DISTINCT coalesce(format('pid %s (role %s, application %s)', l.pid, a.usename,
            coalesce(nullif(a.application_name, ''), 'unknown')), 'a prepared transaction'), ', ')
        FROM pg_locks AS l LEFT JOIN pg_stat_activity AS a ON a.pid = l.pid
        WHERE l.locktype = 'relation' AND l.relation = of AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
          AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
    ), 'one that has just ended');
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".lock_holders(regclass) FROM PUBLIC;

-- Locks of tasks. A row with a lock comes as a candidate, which claims look at. A claim gives each free lock to its first candidate and
-- holds the others back (held); a promotion lets the first of those become candidates again once the lock is free. So a lock is held
-- by the row in lock_holder, while that runs and after it until a promotion, or another claim, has seen that it has ended.
--
-- Claims and promotions lock the row in lock_holder first, and look at what has committed by then in a later statement of theirs:
-- the snapshot of one statement is older than its locks. They skip what another has locked, and leave its candidates and notes as
-- they are. So whatever is held back was so by a transaction that saw the lock held, and kept its row locked until the commit: the end of
-- the one that held it leaves a note, which no promotion can have taken by then.
--
-- x IN (SELECT unnest(y)) is looked up in a hash table; the elements of an array of texts are found one after another.

-- Gives free locks to rows that a claim has picked and locked, in their order, and returns which rows may start; batches has NULL for a
-- row of none. The others of a lock that is held, or has just been given away, are held back. Those of a lock that another transaction
-- works on are left. INFO with LH001 says that rows were held back, and LH002 that some were left: it reaches the caller whatever
-- its settings are, and needs no row of the result.
CREATE OR REPLACE FUNCTION "schema_of_a_release".take_locks(ids bigint[], names text[], batches bigint[]) RETURNS bigint[]
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    barred bigint[] := '{}';
    fresh  text[];   -- locks that were free
    mine   text[];   -- locks that are held, or were, and whose row is locked here
    free   text[];   -- of those, the ones whose holder has ended
    known  text[];   -- locks of which rows are held back, but those that start
    taken  bigint[];
    n      bigint;
    one    bigint;
BEGIN
    FOR one, n IN SELECT b.batch, count(*) FROM unnest(batches) AS b (batch) WHERE b.batch IS NOT NULL GROUP BY b.batch LOOP
        IF NOT "schema_of_a_release".reserve_start(one, n) THEN
            barred := barred || one;
        END IF;
    END LOOP;
    IF cardinality(barred) > 0 THEN
        SELECT array_agg(u.id ORDER BY u.place), array_agg(u.name ORDER BY u.place), array_agg(u.batch ORDER BY u.place)
        INTO ids, names, batches
        FROM unnest(ids, names, batches) WITH ORDINALITY AS u (id, name, batch, place)
        WHERE u.batch IS NULL OR u.batch <> ALL (barred);
    END IF;
    mine := ARRAY(SELECT h.name FROM "schema_of_a_release".lock_holder AS h
        WHERE h.name = ANY (ARRAY(SELECT DISTINCT u.name FROM unnest(names) AS u (name))) ORDER BY h.name FOR UPDATE SKIP LOCKED);
    -- Claims that need the same new locks wait for each other, in the order of the names and for as long as one takes. An INSERT of one that
    -- is there would wait for a promotion that has changed its row.
    WITH made AS (
        INSERT INTO "schema_of_a_release".lock_holder AS h (name, task_id)
        SELECT n.name, n.id FROM (
            SELECT DISTINCT ON (u.name COLLATE "C") u.name COLLATE "C" AS name, u.id, u.place
            FROM unnest(ids, names) WITH ORDINALITY AS u (id, name, place)
            WHERE (u.name IN (SELECT m.name FROM unnest(mine) AS m (name))) IS NOT TRUE
            ORDER BY u.name COLLATE "C", u.place) AS n
        WHERE (SELECT k.name FROM "schema_of_a_release".lock_holder AS k WHERE k.name = n.name LIMIT 1) IS NULL
        ORDER BY n.name
        ON CONFLICT (name) DO NOTHING
        RETURNING h.name, h.task_id
    )
    SELECT coalesce(array_agg(m.name ORDER BY m.name), '{}'), coalesce(array_agg(m.task_id), '{}') INTO fresh, taken FROM made AS m;
    IF cardinality(taken) < cardinality(ids) THEN
        IF cardinality(mine) + cardinality(fresh) < (SELECT count(DISTINCT u.name) FROM unnest(names) AS u (name)) THEN -- another has made them
            mine := mine || ARRAY(SELECT h.name FROM "schema_of_a_release".lock_holder AS h
                WHERE h.name = ANY (names) AND (h.name IN (SELECT k.name FROM unnest(mine || fresh) AS k (name))) IS NOT TRUE
                ORDER BY h.name FOR UPDATE SKIP LOCKED);
        END IF;
        free := ARRAY(SELECT h.name FROM "schema_of_a_release".lock_holder AS h
            WHERE h.name = ANY (mine) AND (SELECT t.id FROM "schema_of_a_release".task AS t WHERE t.id = h.task_id AND t.claim IS NOT NULL LIMIT 1) IS NULL
        AND (SELECT o.name FROM "schema_of_a_release".lock_note AS o
            WHERE o.until IS NOT NULL AND o.name = h.name AND o.until > clock_timestamp() LIMIT 1) IS NULL ORDER BY h.name);
        IF cardinality(free) > 0 THEN
            WITH followed AS (
                UPDATE "schema_of_a_release".lock_holder AS h SET task_id = f.id FROM (
                    SELECT DISTINCT ON (u.name COLLATE "C") u.name COLLATE "C" AS name, u.id
                    FROM unnest(ids, names) WITH ORDINALITY AS u (id, name, place)
                    WHERE (u.name IN (SELECT e.name FROM unnest(free) AS e (name))) IS TRUE
                    ORDER BY u.name COLLATE "C", u.place) AS f
                WHERE h.name = f.name RETURNING h.task_id
            )
            SELECT taken || array_agg(f.task_id) INTO taken FROM followed AS f;
        END IF;
        known := fresh || mine;
        UPDATE "schema_of_a_release".task AS t SET held = 'lock' WHERE t.id = ANY (ARRAY(
            SELECT u.id FROM unnest(ids, names) AS u (id, name)
            WHERE (u.id IN (SELECT s.id FROM unnest(taken) AS s (id))) IS NOT TRUE
              AND (u.name IN (SELECT k.name FROM unnest(known) AS k (name))) IS TRUE));
        GET DIAGNOSTICS n = ROW_COUNT;
        IF n > 0 THEN
            RAISE INFO 'leasehold: % tasks wait for their locks', n USING ERRCODE = 'LH001';
        END IF;
        IF cardinality(taken) + n < cardinality(ids) THEN
            RAISE INFO 'leasehold: locks are being passed on' USING ERRCODE = 'LH002';
        END IF;
        -- reserve_start has counted those of batches that do not start.
        INSERT INTO "schema_of_a_release".batch_delta (batch_id, running)
        SELECT u.batch, -count(*) FROM unnest(ids, batches) AS u (id, batch)
        WHERE u.batch IS NOT NULL AND (u.id IN (SELECT s.id FROM unnest(taken) AS s (id))) IS NOT TRUE GROUP BY u.batch;
    END IF;
    RETURN taken;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".take_locks(bigint[], text[], bigint[]) FROM PUBLIC;

-- Lets the locks go that notes are about, so many notes at most: where the holder has ended, the first row of each class that waits for
-- the lock becomes a candidate, and an idle agent is woken. A class is what one want claims: a type, a region, to be run or to be
-- rolled back. noted is how many notes were looked at, missed that some of them stay, because another transaction has locked what they
-- are about, and next_us in how many microseconds the next note is due that is not yet. With a claim, rows that it would take first
-- start at once (start_first): they are among the promoted.
CREATE OR REPLACE FUNCTION "schema_of_a_release".promote_locks(
    most bigint, ask jsonb DEFAULT NULL,
    OUT promoted bigint, OUT noted bigint, OUT missed boolean, OUT next_us bigint, OUT started bigint[]
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    notes tid[];
    names text[];   -- of the locks; and then of those that are free
    mine  text[];   -- those whose row is locked here
    busy  text[];   -- those that are still held
    stay  text[] := '{}'; -- those that another transaction works on
    stuck text[];   -- those of which it has locked all rows of a class
    wanted text[];  -- those that rows wait for
    first bigint[]; -- what becomes a candidate
    owned text[];   -- the locks of these
BEGIN
    promoted := 0;
    missed := false;
    started := '{}';
    next_us := (SELECT (extract(epoch FROM min(o.until) - clock_timestamp()) * 1000000)::bigint FROM "schema_of_a_release".lock_note AS o
        WHERE o.until IS NOT NULL AND o.until > clock_timestamp());
    SELECT array_agg(o.place), array_agg(DISTINCT o.name ORDER BY o.name), count(*) INTO notes, names, noted FROM (
        SELECT p.ctid AS place, p.name FROM "schema_of_a_release".lock_note AS p WHERE p.until IS NULL OR p.until <= clock_timestamp()
        LIMIT most FOR UPDATE SKIP LOCKED) AS o;
    IF noted = 0 THEN -- a claim leaves to others what they are passing on
        missed := ask IS NULL AND EXISTS (SELECT FROM "schema_of_a_release".lock_note AS o WHERE o.until IS NULL OR o.until <= clock_timestamp());
        RETURN;
    END IF;
    mine := ARRAY(SELECT h.name FROM "schema_of_a_release".lock_holder AS h WHERE h.name = ANY (names) ORDER BY h.name FOR UPDATE SKIP LOCKED);
    IF cardinality(mine) < cardinality(names) THEN
        stay := ARRAY(SELECT h.name FROM "schema_of_a_release".lock_holder AS h
            WHERE h.name = ANY (names) AND (h.name IN (SELECT m.name FROM unnest(mine) AS m (name))) IS NOT TRUE);
    END IF;
    busy := ARRAY(SELECT h.name FROM "schema_of_a_release".lock_holder AS h WHERE h.name = ANY (mine) AND NOT ((SELECT t.id FROM "schema_of_a_release".task AS t WHERE t.id = h.task_id AND t.claim IS NOT NULL LIMIT 1) IS NULL
        AND (SELECT o.name FROM "schema_of_a_release".lock_note AS o
            WHERE o.until IS NOT NULL AND o.name = h.name AND o.until > clock_timestamp() LIMIT 1) IS NULL));
    names := ARRAY(SELECT u.name FROM unnest(names) AS u (name)
        WHERE (u.name IN (SELECT s.name FROM unnest(stay) AS s (name))) IS NOT TRUE
          AND (u.name IN (SELECT b.name FROM unnest(busy) AS b (name))) IS NOT TRUE);
    WITH RECURSIVE class AS ( -- each with its first row
        SELECT u.name, c.type, c.region, c.back, c.id FROM unnest(names) AS u (name) CROSS JOIN LATERAL (
            SELECT t.type, coalesce(t.region, '') AS region, t.state = 'rollback_pending' AS back, t.id FROM "schema_of_a_release".task AS t
            WHERE t.held = 'lock' AND t.lock = u.name
            ORDER BY t.type, coalesce(t.region, ''), (t.state = 'rollback_pending'), t.priority DESC, t.run_at, t.id LIMIT 1) AS c
        UNION ALL
        SELECT k.name, c.type, c.region, c.back, c.id FROM class AS k CROSS JOIN LATERAL (
            SELECT t.type, coalesce(t.region, '') AS region, t.state = 'rollback_pending' AS back, t.id FROM "schema_of_a_release".task AS t
            WHERE t.held = 'lock' AND t.lock = k.name
              AND (t.type, coalesce(t.region, ''), (t.state = 'rollback_pending')) > (k.type, k.region, k.back)
            ORDER BY t.type, coalesce(t.region, ''), (t.state = 'rollback_pending'), t.priority DESC, t.run_at, t.id LIMIT 1) AS c
    ), found AS MATERIALIZED ( -- coalesce: by primary key. Where another transaction works on the first row of a class, the next one.
        SELECT k.name, coalesce(e.id, f.id) AS id FROM class AS k LEFT JOIN LATERAL (
            SELECT t.id FROM "schema_of_a_release".task AS t
            WHERE t.id = k.id AND coalesce(t.held, '') = 'lock' AND t.lock = k.name AND t.type = k.type
              AND coalesce(t.region, '') = k.region AND (t.state = 'rollback_pending') = k.back
            LIMIT 1 FOR UPDATE SKIP LOCKED) AS e ON true LEFT JOIN LATERAL (
            SELECT t.id FROM "schema_of_a_release".task AS t
            WHERE e.id IS NULL AND t.held = 'lock' AND t.lock = k.name AND t.type = k.type AND coalesce(t.region, '') = k.region
              AND (t.state = 'rollback_pending') = k.back
            ORDER BY t.priority DESC, t.run_at, t.id LIMIT 1 FOR UPDATE SKIP LOCKED) AS f ON true
    )
    SELECT coalesce(array_agg(f.id) FILTER (WHERE f.id IS NOT NULL), '{}'),
        coalesce(array_agg(f.name) FILTER (WHERE f.id IS NOT NULL), '{}'),
        coalesce(array_agg(DISTINCT f.name) FILTER (WHERE f.id IS NULL), '{}'), coalesce(array_agg(DISTINCT f.name), '{}')
    INTO first, owned, stuck, wanted FROM found AS f;
    promoted := cardinality(first);
    IF ask IS NOT NULL AND promoted > 0 THEN -- of several classes it is for claims to say which one gets the lock
        started := "schema_of_a_release".start_first(first, ARRAY(
            SELECT min(u.id) FROM unnest(first, owned) AS u (id, name)
            WHERE u.name IN (SELECT m.name FROM unnest(mine) AS m (name))
              AND (u.name IN (SELECT s.name FROM unnest(stuck) AS s (name))) IS NOT TRUE
            GROUP BY u.name HAVING count(*) = 1), ask);
        UPDATE "schema_of_a_release".lock_holder AS h SET task_id = s.id FROM (
            SELECT u.id, u.name COLLATE "C" AS name FROM unnest(first, owned) AS u (id, name)
            WHERE u.id IN (SELECT e.id FROM unnest(started) AS e (id)) OFFSET 0) AS s
        WHERE h.name = s.name;
    END IF;
    UPDATE "schema_of_a_release".task AS t SET held = NULL WHERE t.id = ANY (ARRAY(
        SELECT u.id FROM unnest(first) AS u (id) WHERE (u.id IN (SELECT s.id FROM unnest(started) AS s (id))) IS NOT TRUE));
    -- What is promoted is about to take the lock: its row stays, and is cheaper to write than another.
    names := ARRAY(SELECT m.name FROM unnest(mine) AS m (name)
        WHERE (m.name IN (SELECT b.name FROM unnest(busy || wanted) AS b (name))) IS NOT TRUE);
    IF cardinality(names) > 0 THEN
        DELETE FROM "schema_of_a_release".lock_holder AS h WHERE h.name = ANY (names);
    END IF;
    DELETE FROM "schema_of_a_release".lock_note AS o WHERE o.ctid = ANY (notes)
        AND (o.until IS NULL OR o.until <= clock_timestamp()) -- else the clock was set back meanwhile, and it lay ahead for what is asked above
        AND (o.name IN (SELECT s.name FROM unnest(stay || stuck) AS s (name))) IS NOT TRUE;
    missed := cardinality(stay) + cardinality(stuck) > 0;
    IF promoted > cardinality(started) AND EXISTS (SELECT FROM "schema_of_a_release".agent AS a WHERE a.idle AND a.present_until > now()) THEN
        PERFORM pg_notify('leasehold:schema_of_a_release', '');
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".promote_locks(bigint, jsonb) FROM PUBLIC;

-- What an attempt of a type with require_progress has reported. The rules are those of Go's task.Marks, and a check
-- compares them.

-- Returns 16 hexadecimal digits that name a JSON value of a kind: the same for equal values, whatever the order of their
-- members and the notation of their numbers. A value is the set of its nodes, each with an id that says where it stands;
-- the digest is the hash of the sorted hashes of all nodes. Go's task.digest returns the same.
CREATE OR REPLACE FUNCTION "schema_of_a_release".digest_of(kind text, document jsonb) RETURNS text
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp SET jit = off AS
$leasehold$
BEGIN
    RETURN (
        WITH RECURSIVE node (id, value) AS (
            SELECT sha256(convert_to(kind, 'UTF8')), document
            UNION ALL
            SELECT sha256(n.id || convert_to(below.name, 'UTF8')), below.value
            FROM node AS n CROSS JOIN LATERAL (
                SELECT 'k' || m.key AS name, m.value
                FROM jsonb_each(CASE jsonb_typeof(n.value) WHEN 'object' THEN n.value ELSE '{}' END) AS m
                UNION ALL
                SELECT 'i' || (e.n - 1), e.value
                FROM jsonb_array_elements(CASE jsonb_typeof(n.value) WHEN 'array' THEN n.value ELSE '[]' END)
                    WITH ORDINALITY AS e (value, n)
            ) AS below
        ), hashed AS (
            SELECT sha256(n.id || convert_to(CASE jsonb_typeof(n.value)
                WHEN 'object' THEN 'o'
                WHEN 'array' THEN 'a'
                WHEN 'string' THEN 's' || (n.value #>> '{}')
                WHEN 'number' THEN '#' || trim_scale((n.value #>> '{}')::numeric)
                WHEN 'boolean' THEN left(n.value::text, 1)
                ELSE 'n' END, 'UTF8')) AS hash
            FROM node AS n
        )
        SELECT encode(substr(sha256(string_agg(h.hash, ''::bytea ORDER BY h.hash)), 1, 8), 'hex') FROM hashed AS h
    );
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".digest_of(text, jsonb) FROM PUBLIC;

-- Returns the marks of the attempt with the fence together with more of them: the highest numbers, and the last 8
-- digests. Marks with another fence belong to another attempt and are dropped. Go: task.Marks.Merge.
CREATE OR REPLACE FUNCTION "schema_of_a_release".merge_marks(marks jsonb, with_fence bigint, more jsonb) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS
$leasehold$
DECLARE
    name text;
    seen jsonb;
BEGIN
    IF (marks ->> 'fence')::bigint IS DISTINCT FROM with_fence THEN
        marks := jsonb_build_object('fence', with_fence);
    END IF;
    IF (more ->> 'fence')::bigint IS DISTINCT FROM with_fence THEN
        RETURN marks;
    END IF;
    FOREACH name IN ARRAY ARRAY['number', 'done'] LOOP
        IF (more ->> name)::numeric > coalesce((marks ->> name)::numeric, '-Infinity') THEN
            marks := marks || jsonb_build_object(name, more -> name);
        END IF;
    END LOOP;
    seen := coalesce(marks -> 'seen', '[]');
    FOR name IN SELECT e.digest FROM jsonb_array_elements_text(more -> 'seen') AS e (digest) LOOP
        IF NOT seen ? name THEN
            seen := seen || to_jsonb(name);
            IF jsonb_array_length(seen) > 8 THEN
                seen := seen - 0;
            END IF;
        END IF;
    END LOOP;
    RETURN CASE WHEN seen = '[]' THEN marks ELSE marks || jsonb_build_object('seen', seen) END;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".merge_marks(jsonb, bigint, jsonb) FROM PUBLIC;

-- Returns the marks of the attempt with the fence after it reported this, or NULL where the report is no progress. Go:
-- task.Marks.Advance.
CREATE OR REPLACE FUNCTION "schema_of_a_release".advance(marks jsonb, with_fence bigint, progress jsonb, checkpoint jsonb) RETURNS jsonb
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS
$leasehold$
DECLARE
    report jsonb;
    seen   jsonb := '[]';
BEGIN
    IF (marks ->> 'fence')::bigint IS DISTINCT FROM with_fence THEN
        marks := jsonb_build_object('fence', with_fence);
    END IF;
    report := jsonb_build_object('fence', with_fence);
    IF jsonb_typeof(progress) = 'number' THEN
        report := report || jsonb_build_object('number', progress);
    ELSIF jsonb_typeof(progress -> 'done') = 'number' THEN
        report := report || jsonb_build_object('done', progress -> 'done');
    ELSIF progress IS NOT NULL THEN
        seen := seen || to_jsonb("schema_of_a_release".digest_of('p', progress));
    END IF;
    IF checkpoint IS NOT NULL THEN
        seen := seen || to_jsonb("schema_of_a_release".digest_of('c', checkpoint));
    END IF;
    report := "schema_of_a_release".merge_marks(marks, with_fence, report || jsonb_build_object('seen', seen));
    RETURN CASE WHEN report <> marks THEN report END;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".advance(jsonb, bigint, jsonb, jsonb) FROM PUBLIC;

-- What the holder of a named lease does with it. Each of these raises unless (name, fence) is held: no one has taken the
-- lease, and it has not lapsed. They wait 5 s at most for another transaction that has locked the row.

-- Reports whether a lease has lapsed: it has expired, and that is not the effect of a jump of the clock. Either an agent that
-- had seen no jump for its session's whole TTL has written a heartbeat since the expiry. Or, without such an agent, another
-- that asked for the lease saw it expired one session TTL ago, 15 s at least, and it was not renewed in that time.
CREATE OR REPLACE FUNCTION "schema_of_a_release".lease_lapsed(expires_at timestamptz, expiry_seen_at timestamptz) RETURNS boolean
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    clock timestamptz := clock_timestamp();
BEGIN
    IF expires_at > clock THEN
        RETURN false;
    END IF;
    RETURN EXISTS (SELECT FROM "schema_of_a_release".agent AS a WHERE a.calm_at BETWEEN expires_at AND clock)
        OR coalesce(expiry_seen_at <= clock - greatest(interval '15 seconds',
            (SELECT max(a.present_until - a.seen_at) FROM "schema_of_a_release".agent AS a)), false);
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".lease_lapsed(timestamptz, timestamptz) FROM PUBLIC;

-- Raises the error of a holder that has lost its lease, which names who has it now.
CREATE OR REPLACE FUNCTION "schema_of_a_release".raise_named_lease_lost(of text, with_fence bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    l      "schema_of_a_release".lease;
    became text;
BEGIN
    SELECT r.* INTO l FROM "schema_of_a_release".lease AS r WHERE r.name = of;
    became := CASE
        WHEN l.name IS NULL THEN 'is free'
        WHEN l.fence = with_fence THEN format('of "%s" expired at %s', l.holder,
            to_char(l.expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))
        ELSE format('is held by "%s" with fence %s until %s', l.holder, l.fence,
            to_char(l.expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')) END;
    RAISE EXCEPTION 'lease "%" %, and is not held with fence % any more: stop, and commit nothing', of, became, with_fence
        USING ERRCODE = 'LH410';
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".raise_named_lease_lost(text, bigint) FROM PUBLIC;

-- Renews a lease for the ttl that it was acquired with, and returns when it expires now. Call it in a transaction of its own.
CREATE OR REPLACE FUNCTION "schema_of_a_release".renew_lease(name text, fence bigint) RETURNS timestamptz
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off
        SET lock_timeout = '5s' AS
$leasehold$
DECLARE
    l "schema_of_a_release".lease;
BEGIN
    SELECT r.* INTO l FROM "schema_of_a_release".lease AS r WHERE r.name = renew_lease.name AND r.fence = renew_lease.fence
    FOR NO KEY UPDATE;
    IF NOT FOUND OR "schema_of_a_release".lease_lapsed(l.expires_at, l.expiry_seen_at) THEN
        PERFORM "schema_of_a_release".raise_named_lease_lost(name, fence);
    END IF;
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true); -- see acquire
    END IF;
    UPDATE "schema_of_a_release".lease AS r SET expires_at = clock_timestamp() + r.ttl, expiry_seen_at = NULL
    WHERE r.name = renew_lease.name
    RETURNING r.expires_at INTO l.expires_at;
    RETURN l.expires_at;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".renew_lease(text, bigint) FROM PUBLIC;

-- Gives a lease up: once this is committed, the next who asks gets it.
CREATE OR REPLACE FUNCTION "schema_of_a_release".release_lease(name text, fence bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off
        SET lock_timeout = '5s' AS
$leasehold$
DECLARE
    l "schema_of_a_release".lease;
BEGIN
    SELECT r.* INTO l FROM "schema_of_a_release".lease AS r WHERE r.name = release_lease.name AND r.fence = release_lease.fence
    FOR UPDATE;
    IF NOT FOUND OR "schema_of_a_release".lease_lapsed(l.expires_at, l.expiry_seen_at) THEN
        PERFORM "schema_of_a_release".raise_named_lease_lost(name, fence);
    END IF;
    DELETE FROM "schema_of_a_release".lease AS r WHERE r.name = release_lease.name;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".release_lease(text, bigint) FROM PUBLIC;

-- Keeps a lease until the caller's transaction ends: until then no one takes it, even if it expires. Renewals are not blocked
-- by this lock; those who take leases skip it.
CREATE OR REPLACE FUNCTION "schema_of_a_release".hold_lease(name text, fence bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off
        SET lock_timeout = '5s' AS
$leasehold$
DECLARE
    l "schema_of_a_release".lease;
BEGIN
    SELECT r.* INTO l FROM "schema_of_a_release".lease AS r WHERE r.name = hold_lease.name AND r.fence = hold_lease.fence
    FOR KEY SHARE;
    IF NOT FOUND OR "schema_of_a_release".lease_lapsed(l.expires_at, l.expiry_seen_at) THEN
        PERFORM "schema_of_a_release".raise_named_lease_lost(name, fence);
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".hold_lease(text, bigint) FROM PUBLIC;

-- Has the present sessions with that name or number claim nothing more ('cordon'), claim again ('uncordon'), or exit once what runs has
-- ended ('drain', which cannot be taken back). They learn of it with their next heartbeats. Returns them, each with the state that it
-- gets and whether that changes anything: the members are those of store.AgentOrdered.
CREATE OR REPLACE FUNCTION "schema_of_a_release".order_agent(agent text, verb text, by text DEFAULT NULL) RETURNS jsonb
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    who  text := "schema_of_a_release".requester(by);
    list jsonb := '[]';
    a    "schema_of_a_release".agent;
    had  text;
    want text := nullif(verb, 'uncordon');
BEGIN
    IF verb IS NULL OR verb NOT IN ('cordon', 'uncordon', 'drain') THEN
        RAISE EXCEPTION 'verb must be cordon, uncordon or drain' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    FOR a IN
        SELECT r.* FROM "schema_of_a_release".agent AS r
        WHERE r.present_until > now() AND (r.name = order_agent.agent OR r.session::text = order_agent.agent)
        ORDER BY r.session FOR NO KEY UPDATE
    LOOP
        had := CASE WHEN a.draining THEN 'drain' ELSE a.ordered END;
        IF had IS DISTINCT FROM want AND had IS DISTINCT FROM 'drain' THEN
            UPDATE "schema_of_a_release".agent AS r SET ordered = want, ordered_by = CASE WHEN want IS NOT NULL THEN who END
            WHERE r.session = a.session;
            INSERT INTO "schema_of_a_release".audit (requested_by, verb, agent, answer) VALUES (who, verb, a.session, 'requested');
        END IF;
        list := list || jsonb_build_object('session', a.session, 'name', a.name,
            'changed', had IS DISTINCT FROM want AND had IS DISTINCT FROM 'drain', 'state', CASE
                WHEN had = 'drain' OR want = 'drain' THEN 'draining' WHEN a.workers = 0 THEN 'observer'
                WHEN want = 'cordon' THEN 'cordoned' ELSE 'working' END);
    END LOOP;
    IF list = '[]' THEN
        RAISE EXCEPTION 'no agent "%" is present', agent USING ERRCODE = 'no_data_found';
    END IF;
    RETURN list;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".order_agent(text, text, text) FROM PUBLIC;

-- What operators do with the waiting rows of a type that no present agent declares. Each call is one step of at most a thousand changed rows,
-- and returns as JSON how many it has changed, what it left and why, and where the next one is to begin. Agents may claim meanwhile, and
-- begin to declare the type: a step changes only rows that it has locked, and skips what another transaction has locked.

-- Raises where rows of a type are no orphans, because a present agent declares it, and where arguments are wrong.
CREATE OR REPLACE FUNCTION "schema_of_a_release".check_orphans(of_type text, why text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    declarer text;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'the isolation level must be READ COMMITTED' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF of_type IS NULL OR of_type = '' OR octet_length(of_type) > 255 THEN
        RAISE EXCEPTION 'type must have 1 to 255 bytes' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF octet_length(why) > 512 THEN
        RAISE EXCEPTION 'reason must be 512 bytes at most' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT a.name INTO declarer FROM "schema_of_a_release".agent AS a
    WHERE a.present_until > now() AND a.workers > 0 AND check_orphans.of_type = ANY (a.types) ORDER BY a.name LIMIT 1;
    IF declarer IS NOT NULL THEN
        PERFORM "schema_of_a_release".raise_conflict(format('agent %s declares the type %s: its tasks are no orphans', to_json(declarer), to_json(of_type)));
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".check_orphans(text, text) FROM PUBLIC;

-- Finds the next waiting rows of a type behind an id, at most a thousand, and looks at ten thousand rows at most. last is the one that it
-- looked at last, and done that there are no more.
CREATE OR REPLACE FUNCTION "schema_of_a_release".find_orphans(
    of_type text, after bigint, to_cancel boolean, OUT ids bigint[], OUT last bigint, OUT done boolean
)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
BEGIN
    SELECT coalesce(array_agg(w.id ORDER BY w.id) FILTER (WHERE w.hit), '{}'), coalesce(max(w.id), after), count(*) < 10000
    INTO ids, last, done
    FROM (
        SELECT r.id, r.type = find_orphans.of_type
            AND (r.state IN ('pending', 'retry_pending') OR r.state = 'rollback_pending' AND NOT find_orphans.to_cancel)
            AND (r.sequence IS NULL OR find_orphans.to_cancel) AS hit
        FROM "schema_of_a_release".task AS r WHERE r.id > find_orphans.after ORDER BY r.id LIMIT 10000
    ) AS w;
    IF cardinality(ids) > 1000 THEN
        ids := ids[1:1000];
        last := ids[1000];
        done := false;
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".find_orphans(text, bigint, boolean) FROM PUBLIC;

-- Cancels the next waiting rows of a type that no present agent declares, as cancel does. after is "next" of the step before. With preview
-- it changes nothing, and counts.
CREATE OR REPLACE FUNCTION "schema_of_a_release".cancel_orphans(
    type text, after jsonb DEFAULT NULL, preview boolean DEFAULT false, reason text DEFAULT NULL, by text DEFAULT NULL
) RETURNS jsonb
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    who  text := "schema_of_a_release".requester(by);
    why  text := nullif(reason, '');
    seen record;
    mine bigint[];
    hit  record;
    busy jsonb := '[]';
BEGIN
    PERFORM "schema_of_a_release".check_orphans(type, why);
    SELECT * INTO seen FROM "schema_of_a_release".find_orphans(type, coalesce((after ->> 'id')::bigint, 0), true);
    IF NOT preview AND cardinality(seen.ids) > 0 THEN
        PERFORM "schema_of_a_release".ensure_partition(clock_timestamp()); -- it may wait, and no row is locked yet
        mine := ARRAY(SELECT t.id FROM unnest(seen.ids) AS u (id) CROSS JOIN LATERAL (
            SELECT r.id FROM "schema_of_a_release".task AS r
            WHERE r.id = u.id AND r.type = cancel_orphans.type AND r.state IN ('pending', 'retry_pending') LIMIT 1 FOR UPDATE SKIP LOCKED) AS t);
        busy := (SELECT coalesce(jsonb_agg(jsonb_build_object('task_id', t.id, 'reason', 'busy', 'rows', 1) ORDER BY t.id), '[]')
            FROM unnest(seen.ids) AS u (id) CROSS JOIN LATERAL (
                SELECT r.id FROM "schema_of_a_release".task AS r
                WHERE r.id = u.id AND r.type = cancel_orphans.type AND r.state IN ('pending', 'retry_pending') LIMIT 1) AS t
            WHERE (t.id IN (SELECT m.id FROM unnest(mine) AS m (id))) IS NOT TRUE);
        seen.ids := mine;
    END IF;
    SELECT coalesce(array_agg(t.id ORDER BY t.id), '{}') AS ids, coalesce(array_agg(t.back ORDER BY t.id), '{}') AS rolls_back,
        count(*) FILTER (WHERE t.back) AS backs INTO hit
    FROM (
        SELECT r.id, r.ever_started AND "schema_of_a_release".can_roll_back(NULL, r.policy) AS back
        FROM unnest(seen.ids) AS u (id)
        CROSS JOIN LATERAL (SELECT e.id, e.ever_started, e.policy FROM "schema_of_a_release".task AS e WHERE e.id = u.id LIMIT 1) AS r
    ) AS t;
    IF NOT preview AND cardinality(hit.ids) > 0 THEN
        PERFORM "schema_of_a_release".cancel_rows(hit.ids, hit.rolls_back, who);
        INSERT INTO "schema_of_a_release".audit (requested_by, verb, task_id, reason, answer)
        SELECT who, 'cancel', u.id, why, CASE WHEN u.back THEN 'rollback_pending' ELSE 'cancelled' END
        FROM unnest(hit.ids, hit.rolls_back) AS u (id, back);
        INSERT INTO "schema_of_a_release".audit (requested_by, verb, type, reason, answer)
        VALUES (who, 'cancel', cancel_orphans.type, why, format('cancelled %s', cardinality(hit.ids)));
    END IF;
    RETURN jsonb_build_object('changed', cardinality(hit.ids), 'rolls_back', hit.backs, 'left', busy, 'next', jsonb_build_object('id', seen.last),
        'done', seen.done);
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".cancel_orphans(text, jsonb, boolean, text, text) FROM PUBLIC;

-- Gives rows another type, which the caller has locked (FOR UPDATE, so that no follower of theirs can come meanwhile), and their followers
-- with them. What waited for its turn in a sequence of the old type is a candidate of the new one. Notes have promotions look at the locks,
-- since rows wait by type, and at the sequences that are left. A key that another row has in the meantime fails (unique_violation).
CREATE OR REPLACE FUNCTION "schema_of_a_release".move_rows(ids bigint[], of_type text, into_type text, who text, why text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    owned text[];
BEGIN
    WITH moved AS (
        UPDATE "schema_of_a_release".task AS t SET type = move_rows.into_type, held = nullif(t.held, 'sequence'),
            -- The bound on payloads may have been lowered since the row was inserted: it is for those with fence 0.
            fence = CASE WHEN greatest(pg_column_size(t.payload), pg_column_size(t.rollback_payload))
                > (SELECT s.max_payload FROM "schema_of_a_release".setting AS s) THEN greatest(t.fence, 1) ELSE t.fence END
        WHERE t.id = ANY (move_rows.ids) RETURNING t.id, t.key, t.lock, t.sequence
    ), unlocked AS (
        INSERT INTO "schema_of_a_release".lock_note (name) SELECT DISTINCT m.lock FROM moved AS m WHERE m.lock IS NOT NULL
    ), turned AS (
        INSERT INTO "schema_of_a_release".sequence_note (type, name)
        SELECT DISTINCT move_rows.of_type, m.sequence FROM moved AS m WHERE m.sequence IS NOT NULL
    ), noted AS (
        INSERT INTO "schema_of_a_release".audit (requested_by, verb, task_id, reason, answer)
        SELECT move_rows.who, 'move', m.id, move_rows.why,
            format('moved from %s to %s', to_json(move_rows.of_type), to_json(move_rows.into_type))
        FROM moved AS m ORDER BY m.id
    )
    SELECT array_agg(m.key) INTO owned FROM moved AS m WHERE m.key IS NOT NULL;
    IF owned IS NOT NULL THEN
        UPDATE "schema_of_a_release".follow AS f SET type = move_rows.into_type,
            fence = CASE WHEN greatest(pg_column_size(f.payload), pg_column_size(f.rollback_payload))
                > (SELECT s.max_payload FROM "schema_of_a_release".setting AS s) THEN greatest(f.fence, 1) ELSE f.fence END
        WHERE f.type = move_rows.of_type AND f.key = ANY (owned);
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".move_rows(bigint[], text, text, text, text) FROM PUBLIC;

-- Finds the next sequences of a type behind one, with a thousand rows at most in all, or one that has more.
CREATE OR REPLACE FUNCTION "schema_of_a_release".find_orphan_sequences(
    of_type text, after text, OUT names text[], OUT last text, OUT done boolean
)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    seen bigint;
BEGIN
    SELECT coalesce(array_agg(DISTINCT w.name), '{}'), max(w.name), count(*) INTO names, last, seen
    FROM (
        SELECT r.sequence AS name FROM "schema_of_a_release".task AS r
        WHERE r.type = find_orphan_sequences.of_type AND r.sequence IS NOT NULL AND r.sequence > find_orphan_sequences.after
        ORDER BY r.type, r.sequence, r.id LIMIT 1001
    ) AS w;
    done := seen <= 1000;
    IF done THEN
        last := coalesce(last, after);
    ELSIF cardinality(names) > 1 THEN -- the last one may have more rows
        names := ARRAY(SELECT u.name FROM unnest(names) AS u (name) WHERE u.name COLLATE "C" < last COLLATE "C");
        last := (SELECT max(u.name COLLATE "C") FROM unnest(names) AS u (name));
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".find_orphan_sequences(text, text) FROM PUBLIC;

-- Judges waiting rows: those of ids, and all of sequences of a type. good are those that may get another type, with their sequences, and
-- stay says of the others why not. A sequence is moved as a whole or not at all, as two types would not wait for each other. mine are the rows
-- that are locked; NULL: that does not matter.
CREATE OR REPLACE FUNCTION "schema_of_a_release".judge_orphans(
    of_type text, into_type text, ids bigint[], names text[], mine bigint[], OUT good bigint[], OUT good_names text[], OUT stay jsonb
)
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    capable bigint[] := (SELECT c.hashes FROM "schema_of_a_release".with_rollback() AS c);
    able    boolean := "schema_of_a_release".can_roll_back(into_type, NULL);
    blocks  boolean := (SELECT p.on_failure FROM "schema_of_a_release".sequence_rule AS p WHERE p.type = judge_orphans.of_type) IS DISTINCT FROM 'continue';
BEGIN
    WITH found AS MATERIALIZED (
        SELECT t.id, t.sequence, t.state, t.key, t.ever_started, t.policy FROM unnest(judge_orphans.ids) AS u (id)
        CROSS JOIN LATERAL (
            SELECT r.* FROM "schema_of_a_release".task AS r WHERE r.id = u.id AND r.type = judge_orphans.of_type AND r.sequence IS NULL
                AND r.state IN ('pending', 'retry_pending', 'rollback_pending') LIMIT 1) AS t
        UNION ALL
        SELECT t.id, t.sequence, t.state, t.key, t.ever_started, t.policy FROM unnest(judge_orphans.names) AS u (name)
        CROSS JOIN LATERAL (
            SELECT r.* FROM "schema_of_a_release".task AS r WHERE r.type = judge_orphans.of_type AND r.sequence = u.name COLLATE "C"
            ORDER BY r.type, r.sequence, r.id LIMIT 1001) AS t
    ), judged AS MATERIALIZED (
        SELECT f.id, f.sequence AS name, f.state NOT IN ('running', 'rollback_running') AS waits, CASE
            WHEN f.state IN ('running', 'rollback_running') THEN 'running'
            WHEN judge_orphans.mine IS NOT NULL AND (f.id IN (SELECT m.id FROM unnest(judge_orphans.mine) AS m (id))) IS NOT TRUE THEN 'busy'
            WHEN (f.state = 'rollback_pending' OR f.ever_started AND f.policy = ANY (capable)) AND NOT able THEN 'no_rollback'
            WHEN f.key IS NOT NULL AND (SELECT k.id FROM "schema_of_a_release".task AS k
                WHERE k.type = judge_orphans.into_type AND k.key = f.key LIMIT 1) IS NOT NULL THEN 'key' END AS why
        FROM found AS f
    ), whole AS MATERIALIZED (
        SELECT s.name, s.waiting, coalesce(s.of, s.least) AS of, CASE
            WHEN s.why IS NOT NULL THEN s.why
            WHEN s.total > 1000 THEN 'long'
            WHEN blocks AND (SELECT x.task_id FROM "schema_of_a_release".sequence_failure AS x
                WHERE x.type = judge_orphans.of_type AND x.name = s.name LIMIT 1) IS NOT NULL THEN 'failure'
            WHEN (SELECT o.name FROM "schema_of_a_release".sequence_note AS o WHERE o.until IS NOT NULL AND o.type = judge_orphans.of_type
                AND o.name = s.name AND o.until > clock_timestamp() LIMIT 1) IS NOT NULL THEN 'running' END AS why
        FROM (
            SELECT j.name, count(*) AS total, count(*) FILTER (WHERE j.waits) AS waiting, min(j.id) AS least,
                (array_agg(j.why ORDER BY j.id) FILTER (WHERE j.why IS NOT NULL))[1] AS why,
                min(j.id) FILTER (WHERE j.why IS NOT NULL) AS of
            FROM judged AS j WHERE j.name IS NOT NULL GROUP BY j.name
        ) AS s WHERE s.waiting > 0
    ), fine AS MATERIALIZED (
        SELECT j.id, j.name FROM judged AS j WHERE j.name IS NULL AND j.why IS NULL
        UNION ALL
        SELECT j.id, j.name FROM judged AS j JOIN whole AS w ON w.name = j.name AND w.why IS NULL
    ), bad AS (
        SELECT j.id, jsonb_build_object('task_id', j.id, 'reason', j.why, 'rows', 1) AS of FROM judged AS j
        WHERE j.name IS NULL AND j.why IS NOT NULL
        UNION ALL
        SELECT w.of, jsonb_build_object('task_id', w.of, 'sequence', w.name, 'reason', w.why, 'rows', w.waiting) FROM whole AS w
        WHERE w.why IS NOT NULL
    )
    SELECT coalesce((SELECT array_agg(f.id ORDER BY f.id) FROM fine AS f), '{}'),
        coalesce((SELECT array_agg(f.name ORDER BY f.id) FROM fine AS f), '{}'),
        coalesce((SELECT jsonb_agg(b.of ORDER BY b.id) FROM bad AS b), '[]')
    INTO good, good_names, stay;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".judge_orphans(text, text, bigint[], text[], bigint[]) FROM PUBLIC;

-- Gives the next waiting rows of a type that no present agent declares another type: first those without a sequence, then whole sequences.
-- after is "next" of the step before. With preview it changes nothing, and counts. It waits for no transaction for long: a row whose key
-- another is about to insert under the other type stays, as busy.
CREATE OR REPLACE FUNCTION "schema_of_a_release".move_orphans(
    type text, into_type text, after jsonb DEFAULT NULL, preview boolean DEFAULT false, reason text DEFAULT NULL, by text DEFAULT NULL
) RETURNS jsonb
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off SET lock_timeout = '200ms' AS
$leasehold$
DECLARE
    who    text := "schema_of_a_release".requester(by);
    why    text := nullif(reason, '');
    rows   bigint[] := '{}'; -- without a sequence
    names  text[] := '{}';
    next   jsonb;
    done   boolean := false;
    seen   record;
    mine   bigint[];
    hit    record;
    moved  integer := 0;
    busy   integer := 0;
    part   record;
    reject text;
BEGIN
    PERFORM "schema_of_a_release".check_orphans(type, why);
    IF into_type IS NULL OR into_type = '' OR octet_length(into_type) > 255 OR into_type = type THEN
        RAISE EXCEPTION 'the other type must have 1 to 255 bytes, and be another' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF coalesce((after ->> 'sequences')::boolean, false) THEN
        SELECT * INTO seen FROM "schema_of_a_release".find_orphan_sequences(type, coalesce(after ->> 'sequence', ''));
        names := seen.names;
        next := jsonb_build_object('sequences', true, 'sequence', seen.last);
        done := seen.done;
    ELSE
        SELECT * INTO seen FROM "schema_of_a_release".find_orphans(type, coalesce((after ->> 'id')::bigint, 0), false);
        rows := seen.ids;
        next := CASE WHEN seen.done THEN jsonb_build_object('sequences', true) ELSE jsonb_build_object('id', seen.last) END;
    END IF;
    IF NOT preview THEN
        mine := ARRAY(
            SELECT t.id FROM unnest(rows) AS u (id) CROSS JOIN LATERAL (
                SELECT r.id FROM "schema_of_a_release".task AS r WHERE r.id = u.id AND r.type = move_orphans.type AND r.sequence IS NULL
                    AND r.state IN ('pending', 'retry_pending', 'rollback_pending') LIMIT 1 FOR UPDATE SKIP LOCKED) AS t
        ) || ARRAY(
            SELECT t.id FROM unnest(names) AS u (name) CROSS JOIN LATERAL (
                SELECT r.id FROM "schema_of_a_release".task AS r WHERE r.type = move_orphans.type AND r.sequence = u.name COLLATE "C"
                    AND r.state IN ('pending', 'retry_pending', 'rollback_pending')
                ORDER BY r.type, r.sequence, r.id LIMIT 1001 FOR UPDATE SKIP LOCKED) AS t);
    END IF;
    SELECT * INTO hit FROM "schema_of_a_release".judge_orphans(type, into_type, rows, names, mine); -- it sees what has committed by now
    IF preview THEN
        moved := cardinality(hit.good);
    ELSIF cardinality(hit.good) > 0 THEN
        BEGIN
            PERFORM "schema_of_a_release".move_rows(hit.good, type, into_type, who, why);
            moved := cardinality(hit.good);
        EXCEPTION WHEN unique_violation OR lock_not_available OR deadlock_detected THEN
            -- Another transaction inserts one of the keys. Each row, or sequence, is tried alone, but no more once several had to wait.
            FOR part IN SELECT array_agg(u.id ORDER BY u.id) AS ids, u.name FROM unnest(hit.good, hit.good_names) AS u (id, name)
                GROUP BY u.name, CASE WHEN u.name IS NULL THEN u.id END ORDER BY min(u.id)
            LOOP
                reject := CASE WHEN busy > 5 THEN 'busy' END;
                IF reject IS NULL THEN
                    BEGIN
                        PERFORM "schema_of_a_release".move_rows(part.ids, type, into_type, who, why);
                        moved := moved + cardinality(part.ids);
                    EXCEPTION WHEN unique_violation THEN
                        reject := 'key';
                    WHEN lock_not_available OR deadlock_detected THEN
                        reject := 'busy';
                        busy := busy + 1;
                    END;
                END IF;
                IF reject IS NOT NULL THEN
                    hit.stay := hit.stay || jsonb_strip_nulls(jsonb_build_object(
                        'task_id', part.ids[1], 'sequence', part.name, 'reason', reject, 'rows', cardinality(part.ids)));
                END IF;
            END LOOP;
        END;
    END IF;
    IF moved > 0 AND NOT preview THEN
        INSERT INTO "schema_of_a_release".audit (requested_by, verb, type, reason, answer)
        VALUES (who, 'move', move_orphans.type, why, format('moved %s to %s', moved, to_json(into_type)));
        PERFORM pg_notify('leasehold:schema_of_a_release', '');
    END IF;
    RETURN jsonb_build_object('changed', moved, 'left', hit.stay, 'next', next, 'done', done);
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".move_orphans(text, text, jsonb, boolean, text, text) FROM PUBLIC;

-- Creates the archive's partition for a day unless it exists. An agent need not own the schema, so this runs with the
-- owner's rights, and only for days around today; each role with a privilege on the archive gets the same on the new
-- table. CREATE TABLE … PARTITION OF would lock the whole archive against every reader and writer. Attaching a table that
-- was created apart locks it only against others that attach.
CREATE OR REPLACE FUNCTION "schema_of_a_release".ensure_partition(at timestamptz) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS
$leasehold$
DECLARE
    today date := (at AT TIME ZONE 'UTC')::date;
    part  text := '"schema_of_a_release"' || '.task_archive_' || to_char(today, 'YYYYMMDD');
    given record;
BEGIN
    IF to_regclass(part) IS NOT NULL THEN
        RETURN;
    ELSIF today NOT BETWEEN current_date - 3 AND current_date + 5 THEN
        RAISE EXCEPTION 'the archive gets partitions for days around today, not for %', today
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    BEGIN
        LOCK TABLE "schema_of_a_release".schema_version IN SHARE ROW EXCLUSIVE MODE;
    EXCEPTION WHEN lock_not_available THEN
        RAISE EXCEPTION 'the schema is being changed by %: try again',
            "schema_of_a_release".lock_holders(('"schema_of_a_release"' || '.schema_version')::regclass)
            USING ERRCODE = 'lock_not_available';
    END;
    IF to_regclass(part) IS NOT NULL THEN
        RETURN;
    END IF;
    EXECUTE format('CREATE TABLE %s (LIKE %s.task_archive INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part, '"schema_of_a_release"');
    FOR given IN
        SELECT a.privilege_type, a.grantee FROM pg_class AS c, aclexplode(c.relacl) AS a
        WHERE c.oid = ('"schema_of_a_release"' || '.task_archive')::regclass AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('GRANT %s ON %s TO %s', given.privilege_type, part,
            CASE given.grantee WHEN 0 THEN 'PUBLIC' ELSE given.grantee::regrole::text END);
    END LOOP;
    EXECUTE format('ALTER TABLE %s.task_archive ATTACH PARTITION %s FOR VALUES FROM (%L) TO (%L)',
        '"schema_of_a_release"', part, to_char(today, 'YYYY-MM-DD') || ' 00:00:00+00', to_char(today + 1,
            'YYYY-MM-DD') || ' 00:00:00+00');
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".ensure_partition(timestamptz) FROM PUBLIC;

-- Detaches the partition of a day that is over, for agents that do not own the schema: an owner detaches CONCURRENTLY,
-- which no function can. It locks the archive exclusively for a moment, and waits for that lock half a second at most.
CREATE OR REPLACE FUNCTION "schema_of_a_release".detach_partition(day date) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '500ms' AS
$leasehold$
DECLARE
    part text := '"schema_of_a_release"' || '.task_archive_' || to_char(day, 'YYYYMMDD');
    half boolean;
BEGIN
    IF (day < (clock_timestamp() AT TIME ZONE 'UTC')::date) IS NOT TRUE THEN
        RAISE EXCEPTION 'the day % is not over', day USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT i.inhdetachpending INTO half FROM pg_inherits AS i
    WHERE i.inhrelid = to_regclass(part) AND i.inhparent = ('"schema_of_a_release"' || '.task_archive')::regclass;
    IF FOUND THEN
        EXECUTE format('ALTER TABLE %s.task_archive DETACH PARTITION %s %s', '"schema_of_a_release"', part,
            CASE WHEN half THEN 'FINALIZE' END);
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".detach_partition(date) FROM PUBLIC;

-- Drops the table of a day that has been detached from the archive.
CREATE OR REPLACE FUNCTION "schema_of_a_release".drop_partition(day date) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS
$leasehold$
DECLARE
    part text := '"schema_of_a_release"' || '.task_archive_' || to_char(day, 'YYYYMMDD');
BEGIN
    IF EXISTS (SELECT FROM pg_inherits AS i WHERE i.inhrelid = to_regclass(part)) THEN
        RAISE EXCEPTION 'the day % is still part of the archive', day USING ERRCODE = 'object_in_use';
    END IF;
    EXECUTE format('DROP TABLE IF EXISTS %s', part);
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".drop_partition(date) FROM PUBLIC;

-- Has agents claim no rows of a type, neither to run nor to roll back; what runs goes on. They learn of it at once where they are notified,
-- and else within a second. reason is what people are told. Returns 'paused', or 'unchanged' where it was.
CREATE OR REPLACE FUNCTION "schema_of_a_release".pause(type text, reason text DEFAULT NULL, by text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    who text := "schema_of_a_release".requester(by);
BEGIN
    IF pause.type IS NULL OR pause.type = '' OR octet_length(pause.type) > 255 THEN
        RAISE EXCEPTION 'type must have 1 to 255 bytes' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF octet_length(pause.reason) > 512 THEN
        RAISE EXCEPTION 'reason must be 512 bytes at most' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO "schema_of_a_release".type_pause AS p (type, paused_by, reason) VALUES (pause.type, who, nullif(pause.reason, ''))
    ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN 'unchanged';
    END IF;
    INSERT INTO "schema_of_a_release".audit (requested_by, verb, type, reason, answer)
    VALUES (who, 'pause', pause.type, nullif(pause.reason, ''), 'paused');
    PERFORM pg_notify('leasehold:schema_of_a_release', 'pause');
    RETURN 'paused';
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".pause(text, text, text) FROM PUBLIC;

-- Has agents claim rows of a type again. Returns 'resumed', or 'unchanged' where it was not paused.
CREATE OR REPLACE FUNCTION "schema_of_a_release".resume(type text, by text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    who text := "schema_of_a_release".requester(by);
BEGIN
    DELETE FROM "schema_of_a_release".type_pause AS p WHERE p.type = resume.type;
    IF NOT FOUND THEN
        RETURN 'unchanged';
    END IF;
    INSERT INTO "schema_of_a_release".audit (requested_by, verb, type, answer) VALUES (who, 'resume', resume.type, 'resumed');
    PERFORM pg_notify('leasehold:schema_of_a_release', 'pause');
    RETURN 'resumed';
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".resume(text, text) FROM PUBLIC;

-- Records a ping by SQL. progress is a number from 0 to 1, an object of done and total, or any other text, which names a
-- position. Call it in a transaction of its own: nothing is known of the ping until that commits.
CREATE OR REPLACE FUNCTION "schema_of_a_release".ping(
    id bigint, fence bigint, progress text DEFAULT NULL, checkpoint jsonb DEFAULT NULL, message text DEFAULT NULL,
    next_within_s double precision DEFAULT NULL
) RETURNS jsonb
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    said  jsonb;
    reply  record;
    over  integer;
BEGIN
    IF progress ~ '^(0(\.[0-9]{1,30})?|1(\.0{1,30})?|[1-9](\.[0-9]{1,30})?[eE]-[0-9]{1,2})$' THEN
        said := progress::jsonb;
    ELSIF progress LIKE '{%' AND octet_length(progress) <= 1024 THEN
        BEGIN
            said := progress::jsonb;
            IF NOT (said ?& ARRAY['done', 'total'] AND said - 'done' - 'total' = '{}'
                    AND jsonb_typeof(said -> 'done') = 'number' AND jsonb_typeof(said -> 'total') = 'number') THEN
                said := to_jsonb(progress);
            END IF;
        EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
            said := to_jsonb(progress);
        END;
    ELSIF progress <> '' THEN
        said := to_jsonb(progress);
    END IF;
    IF octet_length(said::text) > 1024 THEN
        RAISE EXCEPTION 'progress must be 1 KiB at most' USING ERRCODE = 'invalid_parameter_value';
    ELSIF "schema_of_a_release".compact_length(checkpoint) > 65536 THEN
        RAISE EXCEPTION 'checkpoint must be 64 KiB at most' USING ERRCODE = 'invalid_parameter_value';
    ELSIF next_within_s <= 0 OR next_within_s = 'NaN' THEN
        RAISE EXCEPTION 'next_within_s must be positive' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- A message is cut rather than refused, between characters, each of which takes 4 bytes at most.
    LOOP
        over := octet_length(message) - 4096;
        EXIT WHEN over <= 0 OR over IS NULL;
        message := left(message, -greatest(over / 4, 1));
    END LOOP;
    -- Wait for a transaction that has the row locked.
    PERFORM FROM "schema_of_a_release".task AS t WHERE t.id = ping.id AND t.fence = ping.fence FOR NO KEY UPDATE;
    SELECT * INTO reply FROM "schema_of_a_release".take_pings(ARRAY[id], ARRAY[fence], ARRAY[said::text], ARRAY[message],
        ARRAY[checkpoint::text], ARRAY[next_within_s]);
    IF reply.answer <> 'applied' THEN
        PERFORM "schema_of_a_release".raise_lease_lost(id, fence);
    END IF;
    RETURN jsonb_strip_nulls(jsonb_build_object('counted', reply.counted, 'cancel', reply.cancel, 'reason', reply.reason,
        'remaining_s', round(reply.remaining_s::numeric, 3)));
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".ping(bigint, bigint, text, jsonb, text, double precision) FROM PUBLIC;

-- Returns a duration of a policy, which has it in nanoseconds, or NULL where it is absent or 0. No search_path is set, so
-- that the planner can inline the function: everything is qualified with its schema.
CREATE OR REPLACE FUNCTION "schema_of_a_release".policy_interval(policy jsonb, name text) RETURNS interval
    LANGUAGE sql IMMUTABLE AS
$leasehold$
    SELECT CASE WHEN (policy OPERATOR(pg_catalog.->>) name)::bigint OPERATOR(pg_catalog.<>) 0 THEN
        ((policy OPERATOR(pg_catalog.->>) name)::bigint OPERATOR(pg_catalog./) 1000)
            OPERATOR(pg_catalog.*) interval '1 microsecond' END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".policy_interval(jsonb, text) FROM PUBLIC;

-- Errors that applications and operators see. Each of these functions raises, or returns nothing.

-- Raises the error of an attempt that no longer holds its row.
CREATE OR REPLACE FUNCTION "schema_of_a_release".raise_lease_lost(of bigint, with_fence bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$leasehold$
BEGIN
    RAISE EXCEPTION 'task % is not held with fence % any more: stop, and commit nothing', of, with_fence
        USING ERRCODE = 'LH410';
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".raise_lease_lost(bigint, bigint) FROM PUBLIC;

-- Raises the error of a request that cannot be granted in the present state. Nothing has changed.
CREATE OR REPLACE FUNCTION "schema_of_a_release".raise_conflict(reason text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$leasehold$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'LH409', MESSAGE = reason;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".raise_conflict(text) FROM PUBLIC;

-- Raises "there is no task" from the tenth try on. An archived row that another transaction moves is found at the second
-- try. One that is past its retention may never be: while its partition is being detached, a statement that was planned
-- before sees it, and one that is planned later does not, as long as the transaction lasts; and the detaching waits for
-- that transaction.
CREATE OR REPLACE FUNCTION "schema_of_a_release".limit_tries(id bigint, try integer) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$leasehold$
BEGIN
    IF try >= 10 THEN
        RAISE EXCEPTION 'there is no task %', id USING ERRCODE = 'no_data_found';
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".limit_tries(bigint, integer) FROM PUBLIC;

-- Returns who requests an operation, for the audit: the argument, by default the role that calls, and NULL for an empty
-- one.
CREATE OR REPLACE FUNCTION "schema_of_a_release".requester(by text) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS
$leasehold$
BEGIN
    IF octet_length(by) > 512 THEN
        RAISE EXCEPTION 'by must be 512 bytes at most' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN nullif(coalesce(by, session_user), '');
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".requester(text) FROM PUBLIC;

-- Reports whether a claim may start so many rows of the batch, and counts them if so. It is volatile, so it sees what has
-- committed by now, which the statement that calls it does not. Agents call it for each batch of a claim: like
-- task_inserted it has no search_path of its own and qualifies all names. It never waits.
CREATE OR REPLACE FUNCTION "schema_of_a_release".reserve_start(batch bigint, n bigint) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS
$leasehold$
DECLARE
    gate bigint := batch OPERATOR(pg_catalog.%) 8;
BEGIN
    BEGIN
        IF    gate OPERATOR(pg_catalog.=) 0 THEN LOCK TABLE "schema_of_a_release".batch_gate_0 IN ROW SHARE MODE NOWAIT;
        ELSIF gate OPERATOR(pg_catalog.=) 1 THEN LOCK TABLE "schema_of_a_release".batch_gate_1 IN ROW SHARE MODE NOWAIT;
        ELSIF gate OPERATOR(pg_catalog.=) 2 THEN LOCK TABLE "schema_of_a_release".batch_gate_2 IN ROW SHARE MODE NOWAIT;
        ELSIF gate OPERATOR(pg_catalog.=) 3 THEN LOCK TABLE "schema_of_a_release".batch_gate_3 IN ROW SHARE MODE NOWAIT;
        ELSIF gate OPERATOR(pg_catalog.=) 4 THEN LOCK TABLE "schema_of_a_release".batch_gate_4 IN ROW SHARE MODE NOWAIT;
        ELSIF gate OPERATOR(pg_catalog.=) 5 THEN LOCK TABLE "schema_of_a_release".batch_gate_5 IN ROW SHARE MODE NOWAIT;
        ELSIF gate OPERATOR(pg_catalog.=) 6 THEN LOCK TABLE "schema_of_a_release".batch_gate_6 IN ROW SHARE MODE NOWAIT;
        ELSE LOCK TABLE "schema_of_a_release".batch_gate_7 IN ROW SHARE MODE NOWAIT;
        END IF;
    EXCEPTION WHEN lock_not_available THEN
        RETURN false;
    END;
    IF EXISTS (SELECT FROM "schema_of_a_release".batch AS b WHERE b.id OPERATOR(pg_catalog.=) batch AND b.stopping) THEN
        RETURN false;
    END IF;
    INSERT INTO "schema_of_a_release".batch_delta (batch_id, running) VALUES (batch, n);
    RETURN true;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".reserve_start(bigint, bigint) FROM PUBLIC;

-- Revives a task that has failed, was cancelled or was rolled back, and returns its state. payload, unless it is NULL, takes the place of
-- the task's from then on; then a task in any other state is an error, because it does not get it.
CREATE OR REPLACE FUNCTION "schema_of_a_release".retry(id bigint, by text DEFAULT NULL, payload jsonb DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    seen record;
    b    "schema_of_a_release".batch;
    a    "schema_of_a_release".task_archive;
    who  text := "schema_of_a_release".requester(by);
BEGIN
    FOR try IN 1..10 LOOP
        SELECT r.state, r.batch_id INTO seen FROM "schema_of_a_release".tasks AS r WHERE r.id = retry.id;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'there is no task %', id USING ERRCODE = 'no_data_found';
        ELSIF seen.state NOT IN ('failed', 'cancelled', 'rolled_back') THEN
            IF payload IS NOT NULL THEN
                PERFORM "schema_of_a_release".raise_conflict(format('only a task that failed, was cancelled or was rolled back can be retried with '
                    'another payload: this one is %s', seen.state));
            END IF;
            RETURN seen.state;
        END IF;
        SELECT r.* INTO b FROM "schema_of_a_release".batch AS r WHERE r.id = seen.batch_id FOR NO KEY UPDATE;
        SELECT r.* INTO a FROM "schema_of_a_release".task_archive AS r WHERE r.id = retry.id FOR UPDATE;
        EXIT WHEN a.id IS NOT NULL; -- else another has just revived it, or it is being removed
        PERFORM "schema_of_a_release".limit_tries(retry.id, try);
    END LOOP;
    IF EXISTS (SELECT FROM "schema_of_a_release".operation AS o WHERE o.task_id = retry.id AND o.ended_at IS NULL) THEN
        PERFORM "schema_of_a_release".raise_conflict(format('task %s is to be rolled back: wait for that', id));
    ELSIF b.requested IS NOT NULL AND b.ended_at IS NULL THEN
        PERFORM "schema_of_a_release".raise_conflict(format('task %s belongs to batch %s, of which a %s is under way: wait until the batch has '
            'ended', id, b.id, b.requested));
    END IF;
    IF payload IS NOT NULL THEN
        PERFORM "schema_of_a_release".replace_payload(a.id, payload);
    END IF;
    PERFORM "schema_of_a_release".revive_one(a, 'retry');
    INSERT INTO "schema_of_a_release".audit (requested_by, verb, task_id, reason, answer)
    VALUES (who, 'retry', retry.id, CASE WHEN payload IS NOT NULL THEN 'with another payload' END, 'pending');
    RETURN 'pending';
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".retry(bigint, text, jsonb) FROM PUBLIC;

-- Gives an archived task another payload, within the bound on new ones. The caller has locked it. A chunk's payload is its range.
CREATE OR REPLACE FUNCTION "schema_of_a_release".replace_payload(of bigint, document jsonb) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    bytes bigint := (SELECT s.max_payload FROM "schema_of_a_release".setting AS s);
BEGIN
    IF EXISTS (SELECT FROM "schema_of_a_release".chunk_range AS c WHERE c.task_id = of) THEN
        PERFORM "schema_of_a_release".raise_conflict(format('task %s is a chunk, and its payload is its range: retry it without another payload', of));
    ELSIF pg_column_size(document) > bytes THEN
        RAISE EXCEPTION 'the payload is too large' USING ERRCODE = 'check_violation', CONSTRAINT = format(
            'payload must be %s at most: see migrate --max-payload', CASE WHEN bytes % 1048576 = 0 THEN bytes / 1048576 || ' MiB'
                WHEN bytes % 1024 = 0 THEN bytes / 1024 || ' KiB' ELSE bytes || ' bytes' END);
    END IF;
    UPDATE "schema_of_a_release".task_archive AS r SET payload = document WHERE r.id = of;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".replace_payload(bigint, jsonb) FROM PUBLIC;

-- Retries the rows of a batch that failed.
CREATE OR REPLACE FUNCTION "schema_of_a_release".retry_batch(id bigint, by text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    who text := "schema_of_a_release".requester(by);
    b   "schema_of_a_release".batch := "schema_of_a_release".lock_batch(id);
BEGIN
    IF b.requested IS NOT NULL AND b.ended_at IS NULL THEN
        PERFORM "schema_of_a_release".raise_conflict(format('a %s of batch %s is under way: wait until the batch has ended',
            b.requested, id));
    ELSIF EXISTS (SELECT FROM "schema_of_a_release".operation AS o
                  WHERE o.batch_id = retry_batch.id AND o.task_id IS NULL AND o.ended_at IS NULL) THEN
        RETURN 'retrying';
    ELSIF NOT EXISTS (
        SELECT FROM "schema_of_a_release".task_archive AS a
        WHERE a.batch_id = retry_batch.id AND (a.state IN ('failed', 'rollback_failed')
        OR a.state = 'rolled_back' AND coalesce(a.cause, '') NOT IN ('succeeded', 'cancelled')) AND a.state <> 'rollback_failed'
    ) THEN
        RETURN (SELECT v.state FROM "schema_of_a_release".batches AS v WHERE v.id = retry_batch.id);
    END IF;
    RETURN "schema_of_a_release".start_operation(id, 'retry', who, false, 'retrying');
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".retry_batch(bigint, text) FROM PUBLIC;

-- Moves finished rows back to the live table, to run again ('retry') or to be rolled back ('rollback'), and returns their
-- ids, sorted. Each is due at the time in its place, and not before every earlier attempt is over. Locked rows are
-- skipped, and rows whose key another live row has. A run that succeeded at its first try gets its row of the history
-- now; all others got theirs when they were settled. One that has never started waits anew for those that it names in after. If others were
-- cancelled on account of a row that is retried, a note says that they are to be revived, too (revived_note). The cause of a rollback is Go's task.Cause; a check compares the two.
CREATE OR REPLACE FUNCTION "schema_of_a_release".revive(
    ids bigint[], dues timestamptz[], verb text, fences bigint[] DEFAULT NULL
) RETURNS SETOF bigint
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    revived bigint[];
BEGIN
    WITH hit AS MATERIALIZED (
        SELECT a.*, g.due, verb = 'retry' AS again FROM unnest(ids, dues, fences) AS g (id, due, fence)
        CROSS JOIN LATERAL (
            SELECT * FROM "schema_of_a_release".task_archive AS r WHERE r.id = g.id AND (fences IS NULL OR r.fence = g.fence)
            FOR UPDATE SKIP LOCKED
        ) AS a
    ), back AS (
        INSERT INTO "schema_of_a_release".task (
            id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
            created_at, ever_started, fence, session, policy, deadline, outcome, error, result, message, progress, checkpoint,
            lease_until, batch_id, round, cause, rollback_payload, lock, sequence, after, after_if, held, tenant,
            failed_task)
        OVERRIDING SYSTEM VALUE
        SELECT h.id, h.type, CASE WHEN h.again THEN 'pending' ELSE 'rollback_pending' END, h.priority, h.region, h.key,
            greatest(h.due, h.lease_until), h.payload, h.labels, h.traceparent,
            h.created_by, h.max_attempts, h.created_at, h.ever_started AND h.state <> 'rolled_back', h.fence + 1, h.session,
            h.policy, CASE WHEN NOT h.again THEN h.deadline END, h.outcome, h.error,
            CASE WHEN NOT h.again THEN h.result END, CASE WHEN NOT h.again THEN h.message END,
            CASE WHEN NOT h.again THEN h.progress END, h.checkpoint, h.lease_until, h.batch_id,
            CASE WHEN h.again THEN coalesce(h.round, 0) + 1 ELSE h.round END,
            CASE WHEN h.again THEN NULL WHEN h.state = 'rollback_failed' THEN h.cause WHEN h.state = 'cancelled' THEN h.state
                 WHEN h.outcome IN ('deferred', 'superseded', 'undelivered', 'drained') THEN 'failed'
                 ELSE coalesce(h.outcome, h.state) END,
            h.rollback_payload, h.lock, h.sequence, h.after, h.after_if, CASE WHEN h.again AND NOT h.ever_started AND cardinality(h.after) > 0 THEN 'after' END, h.tenant,
            CASE WHEN NOT h.again OR h.failed_task <> h.id THEN h.failed_task END
        FROM hit AS h
        ON CONFLICT (type, key) WHERE key IS NOT NULL DO NOTHING
        RETURNING id
    ), waiting AS (
        INSERT INTO "schema_of_a_release".dependent AS d (task_id, total)
        SELECT h.id, cardinality(h.after) FROM hit AS h
        WHERE CASE WHEN h.again AND NOT h.ever_started AND cardinality(h.after) > 0 THEN 'after' END = 'after' AND h.id = ANY (ARRAY(SELECT b.id FROM back AS b))
        ON CONFLICT (task_id) DO UPDATE SET stage = 'look', place = 0
    ), deleted AS (
        DELETE FROM "schema_of_a_release".task_archive AS r WHERE r.id = ANY (ARRAY(SELECT b.id FROM back AS b))
    ), remembered AS (
        INSERT INTO "schema_of_a_release".attempt (
            task_id, fence, ran_fence, session, policy, phase, attempt, outcome, error, output, result, state, started_at, ended_at)
        SELECT h.id, h.fence - 1, h.fence - 1, h.session, h.policy, 'run', 1, 'succeeded', NULL, h.output, h.result, 'succeeded',
            h.started_at, h.finished_at
        FROM hit AS h
        WHERE h.id = ANY (ARRAY(SELECT b.id FROM back AS b)) AND h.state = 'succeeded' AND h.attempt = 1
        ON CONFLICT (task_id, fence) DO NOTHING
    ), counted AS (
        INSERT INTO "schema_of_a_release".batch_delta (batch_id, succeeded, failed, cancelled, rolling_back, rolled_back,
            rollback_failed)
        SELECT h.batch_id, -count(*) FILTER (WHERE h.state = 'succeeded'), -count(*) FILTER (WHERE h.state = 'failed'),
            -count(*) FILTER (WHERE h.state = 'cancelled'), count(*) FILTER (WHERE NOT h.again),
            -count(*) FILTER (WHERE h.state = 'rolled_back'), -count(*) FILTER (WHERE h.state = 'rollback_failed')
        FROM hit AS h
        WHERE h.batch_id IS NOT NULL AND h.id = ANY (ARRAY(SELECT b.id FROM back AS b))
        GROUP BY h.batch_id
    ), resolved AS ( -- a failure that its sequence waits for
        DELETE FROM "schema_of_a_release".sequence_failure AS f USING hit AS h
        WHERE h.sequence IS NOT NULL AND f.type = h.type AND f.name = h.sequence AND f.task_id = h.id
          AND h.id = ANY (ARRAY(SELECT b.id FROM back AS b))
    ), opened AS ( -- also where it is open: a step that notes that it has finished locks the archived row first
        UPDATE "schema_of_a_release".chunk_range AS c SET state = 'reopened' WHERE c.task_id = ANY (ARRAY(SELECT b.id FROM back AS b))
    )
    SELECT array_agg(b.id) INTO revived FROM back AS b;
    -- What was cancelled on account of one is to be revived, too. An isolation level at which this statement sees no more than
    -- the first of the transaction may miss some: agents look.
    IF verb = 'retry' THEN
        INSERT INTO "schema_of_a_release".revived_note (id, batch_id)
        SELECT t.id, t.batch_id FROM "schema_of_a_release".task AS t WHERE t.id = ANY (revived)
          AND (current_setting('transaction_isolation') <> 'read committed'
              OR (SELECT a.id FROM "schema_of_a_release".task_archive AS a WHERE a.cancelled_for = t.id LIMIT 1) IS NOT NULL)
        ORDER BY t.id;
    END IF;
    RETURN QUERY SELECT unnest(revived);
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".revive(bigint[], timestamptz[], text, bigint[]) FROM PUBLIC;

-- Revives one row, which the caller has locked together with its batch. A batch that had ended is reopened.
CREATE OR REPLACE FUNCTION "schema_of_a_release".revive_one(a "schema_of_a_release".task_archive, verb text) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    live bigint;
BEGIN
    FOR try IN 1..10 LOOP
        SELECT r.id INTO live FROM "schema_of_a_release".task AS r WHERE r.type = a.type AND r.key = a.key;
        IF live IS NOT NULL THEN
            PERFORM "schema_of_a_release".raise_conflict(format('task %s is live with the key %s: wait for it or cancel it', live,
                to_json(a.key)));
        END IF;
        PERFORM FROM "schema_of_a_release".revive(ARRAY[a.id], ARRAY[clock_timestamp()], verb);
        EXIT WHEN FOUND; -- else another row had the key for a moment, or this one is being removed
        PERFORM "schema_of_a_release".limit_tries(a.id, try);
    END LOOP;
    PERFORM "schema_of_a_release".reopen_batch(a.batch_id);
    PERFORM pg_notify('leasehold:schema_of_a_release', '');
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".revive_one("schema_of_a_release".task_archive, text) FROM PUBLIC;

-- Revives rows that were cancelled on account of others which have been retried (revived_note): each waits again for those that it
-- names. One step of about so many rows at most. A row whose key is taken, or whose batch has ended or is being stopped, stays
-- cancelled, and its error says so. worked is how many rows and notes it has come further with; missed: others are at work on some.
--
-- A retry and a decision to cancel do not miss each other: each locks the row that was waited for, in the archive (decide_dependents).
-- Those that are revived leave notes in turn.
CREATE OR REPLACE FUNCTION "schema_of_a_release".revive_dependents(most bigint, OUT revived bigint, OUT worked bigint, OUT missed boolean)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    notes bigint[];
    note  bigint;
    s     record;
BEGIN
    revived := 0;
    worked := 0;
    missed := false;
    -- Each note may have to be looked for in the tables of many days.
    notes := ARRAY(SELECT r.number FROM "schema_of_a_release".revived_note AS r ORDER BY r.number LIMIT least(most, 200) FOR UPDATE SKIP LOCKED);
    FOREACH note IN ARRAY notes LOOP
        EXIT WHEN revived >= most;
        SELECT r.revived, r.worked, r.missed INTO s FROM "schema_of_a_release".revive_dependents_of(note, most - revived) AS r;
        revived := revived + s.revived;
        worked := worked + s.worked;
        missed := missed OR s.missed;
    END LOOP;
    missed := missed OR cardinality(notes) = 0 AND EXISTS (SELECT FROM "schema_of_a_release".revived_note AS r);
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".revive_dependents(bigint) FROM PUBLIC;

-- Does so for one note, which the caller has locked.
CREATE OR REPLACE FUNCTION "schema_of_a_release".revive_dependents_of(
    note bigint, most bigint, OUT revived bigint, OUT worked bigint, OUT missed boolean
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    o       "schema_of_a_release".revived_note;
    ids     bigint[];
    fences  bigint[];
    types   text[];
    keys    text[];
    batches bigint[];
    locked  bigint[]; -- batches: while they are, they neither end nor stop
    good    bigint[];
    barred  bigint[];
    reasons text[];
    stuck   bigint;   -- the first that another has locked, or the batch of which
    upto    bigint;
BEGIN
    SELECT r.* INTO o FROM "schema_of_a_release".revived_note AS r WHERE r.number = note;
    SELECT array_agg(c.id), array_agg(c.fence), array_agg(c.type), array_agg(c.key), array_agg(c.batch_id)
    INTO ids, fences, types, keys, batches FROM (
        SELECT a.id, a.fence, a.type, a.key, a.batch_id FROM "schema_of_a_release".task_archive AS a
        WHERE a.cancelled_for = o.id AND a.id > o.place ORDER BY a.id LIMIT most) AS c;
    revived := 0;
    IF ids IS NOT NULL THEN
        locked := ARRAY(SELECT b.id FROM "schema_of_a_release".batch AS b WHERE b.id = ANY (batches) ORDER BY b.id FOR NO KEY UPDATE SKIP LOCKED);
        SELECT array_agg(c.id) FILTER (WHERE c.free AND c.why IS NULL), array_agg(c.fence) FILTER (WHERE c.free AND c.why IS NULL),
            array_agg(c.id) FILTER (WHERE c.free AND c.why IS NOT NULL), array_agg(c.why) FILTER (WHERE c.free AND c.why IS NOT NULL),
            min(c.id) FILTER (WHERE NOT c.free)
        INTO good, fences, barred, reasons, stuck FROM (
            SELECT u.id, u.fence, coalesce(
    (SELECT format('task %s is live with its key', l.id) FROM "schema_of_a_release".task AS l WHERE l.type = u.type AND l.key = u.key LIMIT 1),
    (SELECT CASE WHEN b.ended_at IS NOT NULL THEN format('batch %s has ended', b.id)
            WHEN b.requested IS NOT NULL THEN format('a %s of batch %s is under way', b.requested, b.id) END
        FROM "schema_of_a_release".batch AS b WHERE b.id = u.batch_id LIMIT 1)) AS why,
                u.batch_id IS NULL OR u.batch_id = ANY (locked)
                    OR (SELECT b.id FROM "schema_of_a_release".batch AS b WHERE b.id = u.batch_id LIMIT 1) IS NULL AS free
            FROM unnest(ids, fences, types, keys, batches) AS u (id, fence, type, key, batch_id)) AS c;
        IF good IS NOT NULL THEN
            SELECT r.changed INTO revived FROM "schema_of_a_release".step_revive(good, fences, array_fill(NULL::timestamptz, ARRAY[cardinality(good)]),
                'retry') AS r;
        END IF;
        IF revived < cardinality(good) THEN -- the key of one was taken meanwhile, or it is locked
            SELECT barred || array_agg(c.id) FILTER (WHERE c.why IS NOT NULL), reasons || array_agg(c.why) FILTER (WHERE c.why IS NOT NULL),
                least(stuck, min(c.id) FILTER (WHERE c.why IS NULL))
            INTO barred, reasons, stuck FROM (
                SELECT a.id, coalesce(
    (SELECT format('task %s is live with its key', l.id) FROM "schema_of_a_release".task AS l WHERE l.type = a.type AND l.key = a.key LIMIT 1),
    (SELECT CASE WHEN b.ended_at IS NOT NULL THEN format('batch %s has ended', b.id)
            WHEN b.requested IS NOT NULL THEN format('a %s of batch %s is under way', b.requested, b.id) END
        FROM "schema_of_a_release".batch AS b WHERE b.id = a.batch_id LIMIT 1)) AS why FROM "schema_of_a_release".task_archive AS a
                WHERE a.cancelled_for = o.id AND a.id = ANY (good)) AS c;
        END IF;
        WITH mine AS MATERIALIZED (
            SELECT a.id FROM "schema_of_a_release".task_archive AS a WHERE a.cancelled_for = o.id AND a.id = ANY (barred) FOR UPDATE SKIP LOCKED
        )
        UPDATE "schema_of_a_release".task_archive AS a SET error = split_part(a.error, '; not retried with it: ', 1) || '; not retried with it: ' || b.why
        FROM unnest(barred, reasons) AS b (id, why)
        WHERE a.cancelled_for = o.id AND a.id = b.id AND a.id = ANY (ARRAY(SELECT m.id FROM mine AS m));
    END IF;
    missed := stuck IS NOT NULL;
    IF stuck IS NULL AND coalesce(cardinality(ids), 0) < most THEN
        DELETE FROM "schema_of_a_release".revived_note AS r WHERE r.number = note;
        -- A fold has to look at the batch, which may be done.
        INSERT INTO "schema_of_a_release".batch_delta (batch_id) SELECT o.batch_id WHERE o.batch_id IS NOT NULL;
        worked := revived + 1;
        RETURN;
    END IF;
    upto := coalesce(stuck - 1, ids[cardinality(ids)]);
    UPDATE "schema_of_a_release".revived_note AS r SET place = upto WHERE r.number = note AND r.place < upto;
    worked := revived + CASE WHEN FOUND THEN 1 ELSE 0 END;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".revive_dependents_of(bigint, bigint) FROM PUBLIC;

-- Does what rollback does, for a row that is live and locked by the caller. A running one is asked to stop, and the
-- request is kept as an operation.
CREATE OR REPLACE FUNCTION "schema_of_a_release".rollback_live(t "schema_of_a_release".task, who text) RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    answer text;
BEGIN
    IF t.state IN ('rollback_pending', 'rollback_running') THEN
        RETURN t.state;
    ELSIF NOT "schema_of_a_release".can_roll_back(t.type, t.policy) THEN
        PERFORM "schema_of_a_release".raise_conflict(format('the type %s has no rollback', to_json(t.type)));
    ELSIF t.state = 'running' THEN
        answer := 'cancelling';
        IF t.cancel_requested_at IS NULL THEN
            UPDATE "schema_of_a_release".task AS r SET cancel_requested_at = clock_timestamp(), cancel_requested_by = who
                WHERE r.id = t.id;
            PERFORM pg_notify('leasehold:schema_of_a_release', 'asked');
        END IF;
        IF EXISTS (SELECT FROM "schema_of_a_release".operation AS o WHERE o.task_id = t.id AND o.ended_at IS NULL) THEN
            RETURN answer;
        END IF;
        INSERT INTO "schema_of_a_release".operation (verb, batch_id, task_id, requested_at, requested_by)
        VALUES ('rollback', t.batch_id, t.id, clock_timestamp(), who);
    ELSE
        answer := "schema_of_a_release".cancel_waiting(t, who, true);
    END IF;
    INSERT INTO "schema_of_a_release".audit (requested_by, verb, task_id, answer) VALUES (who, 'rollback', t.id, answer);
    RETURN answer;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".rollback_live("schema_of_a_release".task, text) FROM PUBLIC;

-- Rolls a task back if its type has a rollback, and returns its new state, or 'cancelling' where it runs and is asked to
-- stop.
CREATE OR REPLACE FUNCTION "schema_of_a_release".rollback(id bigint, by text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    seen record;
    t    "schema_of_a_release".task;
    a    "schema_of_a_release".task_archive;
    who  text := "schema_of_a_release".requester(by);
BEGIN
    FOR try IN 1..10 LOOP
        SELECT r.state, r.batch_id, r.type, r.follows INTO seen FROM "schema_of_a_release".tasks AS r WHERE r.id = rollback.id;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'there is no task %', id USING ERRCODE = 'no_data_found';
        END IF;
        PERFORM FROM "schema_of_a_release".batch AS b WHERE b.id = seen.batch_id FOR NO KEY UPDATE;
        SELECT r.* INTO t FROM "schema_of_a_release".task AS r WHERE r.id = rollback.id FOR NO KEY UPDATE;
        IF t.id IS NOT NULL THEN
            RETURN "schema_of_a_release".rollback_live(t, who);
        END IF;
        IF seen.follows IS NOT NULL AND NOT "schema_of_a_release".can_roll_back(seen.type, NULL) THEN
            PERFORM "schema_of_a_release".raise_conflict(format('the type %s has no rollback', to_json(seen.type)));
        ELSIF "schema_of_a_release".cancel_follower(rollback.id, who) THEN
            INSERT INTO "schema_of_a_release".audit (requested_by, verb, task_id, answer) VALUES (who, 'rollback', rollback.id, 'cancelled');
            RETURN 'cancelled';
        END IF;
        SELECT r.* INTO a FROM "schema_of_a_release".task_archive AS r WHERE r.id = rollback.id FOR UPDATE;
        EXIT WHEN a.id IS NOT NULL; -- else it has just moved between the tables, or is being removed
        PERFORM "schema_of_a_release".limit_tries(rollback.id, try);
    END LOOP;
    IF a.state IN ('rolled_back', 'split') THEN -- what was split is rolled back as its halves
        RETURN a.state;
    ELSIF NOT "schema_of_a_release".can_roll_back(a.type, a.policy) THEN
        PERFORM "schema_of_a_release".raise_conflict(format('the type %s has no rollback', to_json(a.type)));
    ELSIF NOT a.ever_started THEN
        RETURN a.state;
    END IF;
    PERFORM "schema_of_a_release".revive_one(a, 'rollback');
    INSERT INTO "schema_of_a_release".audit (requested_by, verb, task_id, answer) VALUES (who, 'rollback', rollback.id,
        'rollback_pending');
    RETURN 'rollback_pending';
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".rollback(bigint, text) FROM PUBLIC;

-- Cancels the waiting rows of a batch, stops the running ones and rolls back the finished ones. Where rows are past their
-- retention that is refused, unless force says to roll back the rows that are left.
CREATE OR REPLACE FUNCTION "schema_of_a_release".rollback_batch(id bigint, by text DEFAULT NULL, force boolean DEFAULT false) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    who  text := "schema_of_a_release".requester(by);
    b    "schema_of_a_release".batch := "schema_of_a_release".lock_batch(id);
    v    record;
    here bigint;
BEGIN
    IF b.requested = 'rollback' AND b.ended_at IS NULL THEN
        RETURN 'rolling_back';
    END IF;
    SELECT r.state, r.total, r.live INTO v FROM "schema_of_a_release".batches AS r WHERE r.id = rollback_batch.id;
    IF b.rows_expired AND force IS NOT TRUE THEN
        SELECT v.live + count(*) INTO here FROM "schema_of_a_release".task_archive AS a WHERE a.batch_id = rollback_batch.id;
        PERFORM "schema_of_a_release".raise_conflict(CASE WHEN here < v.total
            THEN format('%s of the %s tasks of batch %s are past their retention and cannot be rolled back: use force to '
                'roll back the %s that are left', v.total - here, v.total, id, here)
            ELSE format('some of the %s tasks of batch %s are past their retention and are being removed: use force to roll '
                'back what is left of the %s', v.total, id, here) END);
    ELSIF b.ended_at IS NOT NULL AND NOT EXISTS (
        SELECT FROM "schema_of_a_release".task_archive AS a, "schema_of_a_release".with_rollback() AS u
        WHERE a.batch_id = rollback_batch.id
          AND CASE WHEN a.ever_started AND a.state IN ('succeeded', 'failed', 'cancelled')
        THEN coalesce(a.started_at, a.finished_at) END IS NOT NULL
          AND (a.policy = ANY (u.hashes) OR a.type = ANY (u.types))
    ) THEN
        RETURN v.state;
    END IF;
    RETURN "schema_of_a_release".start_operation(id, 'rollback', who, coalesce(force, false), 'rolling_back');
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".rollback_batch(bigint, text, boolean) FROM PUBLIC;

-- Reports whether a row can be rolled back: the policy that its last attempt started with has a rollback, or any other
-- policy of its type, which may have got one later. Without a type (NULL) only that policy counts, as for a cancellation.
CREATE OR REPLACE FUNCTION "schema_of_a_release".can_roll_back(of_type text, with_policy bigint) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS
$leasehold$
BEGIN
    RETURN EXISTS (SELECT FROM "schema_of_a_release".policy AS p
                   WHERE (p.hash = with_policy OR p.type = of_type) AND p.body ? 'rollback');
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".can_roll_back(text, bigint) FROM PUBLIC;

-- Returns the policies and the types that have a rollback: can_roll_back for many rows.
CREATE OR REPLACE FUNCTION "schema_of_a_release".with_rollback(OUT hashes bigint[], OUT types text[])
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS
$leasehold$
BEGIN
    SELECT coalesce(array_agg(p.hash), '{}'), coalesce(array_agg(DISTINCT p.type), '{}') INTO hashes, types
    FROM "schema_of_a_release".policy AS p WHERE p.body ? 'rollback';
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".with_rollback() FROM PUBLIC;

-- Has a schedule go on from a change of what it declares: a firing that was decided before is not applied, an agent looks at it
-- at once, and where its slots changed, those of the new declaration count from now on. Rows of HCL are changed by agents only,
-- which write another number of a declaration with them.
CREATE OR REPLACE FUNCTION "schema_of_a_release".schedule_changed() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$leasehold$
BEGIN
    IF OLD.source = 'hcl' AND NEW.declared IS NOT DISTINCT FROM OLD.declared THEN
        RAISE EXCEPTION 'schedule "%" is declared in HCL: change it there', OLD.name USING ERRCODE = 'LH409';
    END IF;
    NEW.version := OLD.version + 1;
    NEW.next_at := date_trunc('milliseconds', now());
    NEW.invalid := NULL;
    IF (NEW.cron, NEW.every, NEW.after, NEW.timezone, NEW.from_at, NEW.until_at)
            IS DISTINCT FROM (OLD.cron, OLD.every, OLD.after, OLD.timezone, OLD.from_at, OLD.until_at) THEN
        NEW.cursor_at := greatest(OLD.cursor_at, date_trunc('milliseconds', now()));
    END IF;
    RETURN NEW;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".schedule_changed() FROM PUBLIC;

-- Refuses to delete a schedule that would be inserted again at once.
CREATE OR REPLACE FUNCTION "schema_of_a_release".schedule_deleted() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$leasehold$
BEGIN
    IF EXISTS (
        SELECT FROM "schema_of_a_release".schedule_declaration AS d
        JOIN "schema_of_a_release".schedule_declarer AS r ON r.number = d.number
        JOIN "schema_of_a_release".agent AS a ON a.session = r.session
        WHERE d.name = OLD.name AND d.spec->>'task' = OLD.task AND a.present_until > now()
    ) THEN
        RAISE EXCEPTION 'schedule "%": an agent that is present declares it: take it out of its configuration first', OLD.name
            USING ERRCODE = 'LH409';
    END IF;
    RETURN OLD;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".schedule_deleted() FROM PUBLIC;

-- What a schedule may declare: the rules of schedule.New in Go, and no others (test/storetest compares the two). Each function
-- returns what it read, or raises what is wrong with it.

-- Reads a duration in milliseconds: whole numbers of d, h, m, s and ms, in this order. NULL where there is none.
CREATE OR REPLACE FUNCTION "schema_of_a_release".schedule_duration(field text, value text, lowest bigint) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS
$leasehold$
DECLARE
    most  CONSTANT bigint := 366::bigint * 86400000;
    parts text[] := regexp_match(value, '^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?([0-9]+ms)?$');
    ms    numeric;
BEGIN
    IF coalesce(value, '') = '' THEN
        RETURN NULL;
    ELSIF parts IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'LH409', MESSAGE =
            field || ': use whole numbers of d, h, m, s and ms, in this order, as in ''1h30m''';
    END IF;
    ms := coalesce(rtrim(parts[1], 'd')::numeric, 0) * 86400000 + coalesce(rtrim(parts[2], 'h')::numeric, 0) * 3600000
        + coalesce(rtrim(parts[3], 'm')::numeric, 0) * 60000 + coalesce(rtrim(parts[4], 's')::numeric, 0) * 1000
        + coalesce(rtrim(parts[5], 'ms')::numeric, 0);
    IF ms < lowest OR ms > most THEN
        RAISE EXCEPTION USING ERRCODE = 'LH409', MESSAGE =
            field || ': it must be from ' || CASE lowest WHEN 0 THEN '0s' ELSE '1s' END || ' to 366d';
    END IF;
    RETURN ms;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".schedule_duration(text, text, bigint) FROM PUBLIC;

-- Reads a moment, RFC 3339 with milliseconds at most, as milliseconds since 1970. NULL where there is none.
CREATE OR REPLACE FUNCTION "schema_of_a_release".schedule_moment(field text, value text) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS
$leasehold$
DECLARE
    p  text[] := regexp_match(value, '^([0-9]{4})-(0[1-9]|1[0-2])-([0-9]{2})T([01][0-9]|2[0-3]):([0-5][0-9]):([0-5][0-9])'
        || '(?:\.([0-9]{1,3}))?(?:Z|([+-])(0[0-9]|1[0-4]):([0-5][0-9]))$');
    first date;
    ms bigint;
BEGIN
    IF coalesce(value, '') = '' THEN
        RETURN NULL;
    END IF;
    IF p IS NOT NULL AND p[1] >= '1969' THEN
        first := make_date(p[1]::integer, p[2]::integer, 1);
        IF p[3]::integer BETWEEN 1 AND extract(day FROM first + interval '1 month' - interval '1 day') THEN
            ms := ((((first - date '1970-01-01' + p[3]::bigint - 1) * 24 + p[4]::bigint) * 60 + p[5]::bigint) * 60 + p[6]::bigint)
                * 1000 + rpad(coalesce(p[7], ''), 3, '0')::bigint
                - CASE p[8] WHEN '+' THEN 1 WHEN '-' THEN -1 ELSE 0 END
                    * coalesce(p[9]::bigint * 60 + p[10]::bigint, 0) * 60000;
        END IF;
    ELSIF p IS NOT NULL THEN
        ms := -1;
    END IF;
    IF ms IS NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'LH409', MESSAGE =
            field || ': write RFC 3339 with milliseconds at most, as in 2026-12-01T00:00:00Z or 2026-12-01T08:00:00+08:00';
    ELSIF ms < 0 OR ms > 253402300799999 THEN
        RAISE EXCEPTION USING ERRCODE = 'LH409', MESSAGE = field || ': use a year from 1970 to 9999';
    END IF;
    RETURN ms;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".schedule_moment(text, text) FROM PUBLIC;

-- Reads one value of a field of a cron expression: a number of one or two digits, or a name of three letters. NULL: it is none.
CREATE OR REPLACE FUNCTION "schema_of_a_release".cron_value(value text, lo integer, hi integer, names text) RETURNS integer
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS
$leasehold$
DECLARE
    n integer;
BEGIN
    IF length(value) = 3 AND strpos(names, value) % 3 = 1 THEN
        n := lo + strpos(names, value) / 3;
    ELSIF value ~ '^[0-9]{1,2}$' THEN
        n := value::integer;
    END IF;
    RETURN CASE WHEN n BETWEEN lo AND hi THEN n END;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".cron_value(text, integer, integer, text) FROM PUBLIC;

-- Returns the values that a field of a cron expression lists. steps is the largest step.
CREATE OR REPLACE FUNCTION "schema_of_a_release".cron_values(
    field text, word text, lo integer, hi integer, steps integer, names text DEFAULT ''
) RETURNS integer[]
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS
$leasehold$
DECLARE
    item  text;
    p     text[];
    a     integer;
    b     integer;
    n     integer;
    found integer[] := '{}';
BEGIN
    FOREACH item IN ARRAY string_to_array(word, ',') LOOP
        -- The values, and the step; the ends of a range.
        p := regexp_match(item, '^(?:(\*)|([^-/]*)(-)?([^/]*))(?:(/)(.*))?$');
        a := CASE WHEN p[1] IS NULL THEN "schema_of_a_release".cron_value(p[2], lo, hi, names) ELSE lo END;
        b := CASE WHEN p[1] IS NOT NULL THEN CASE hi WHEN 7 THEN 6 ELSE hi END
            WHEN p[3] IS NOT NULL THEN "schema_of_a_release".cron_value(p[4], lo, hi, names)
            WHEN p[4] = '' AND p[5] IS NULL THEN a END;
        n := CASE WHEN p[5] IS NULL THEN 1 WHEN p[6] ~ '^[0-9]{1,2}$' THEN p[6]::integer END;
        IF p IS NULL OR a IS NULL OR b IS NULL OR n IS NULL OR a > b OR n NOT BETWEEN 1 AND steps THEN
            RAISE EXCEPTION USING ERRCODE = 'LH409', MESSAGE = 'cron: ' || field || ' must be a list of *, */n, a, a-b and a-b/n, with '
                || 'values from ' || lo || ' to ' || hi || CASE names WHEN '' THEN '' ELSE ' or names of three letters' END
                || ' and steps to ' || steps;
        END IF;
        found := found || ARRAY(SELECT v FROM generate_series(a, b, n) AS v);
    END LOOP;
    RETURN found;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".cron_values(text, text, integer, integer, integer, text) FROM PUBLIC;

-- Checks a cron expression, and returns the shortest time between two of its times of day in minutes, as if it fired on every day.
CREATE OR REPLACE FUNCTION "schema_of_a_release".check_cron(expr text) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE SET search_path = pg_catalog, pg_temp AS
$leasehold$
DECLARE
    -- Only ASCII letters become small: no other is right, and none must become one.
    line   text := btrim(translate(expr, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ', 'abcdefghijklmnopqrstuvwxyz'), E' \t');
    words  text[];
    minute integer[];
    hour   integer[];
    dom    integer[];
    month  integer[];
    dow    integer[];
    needs_both boolean;
BEGIN
    IF octet_length(expr) > 512 THEN
        RAISE EXCEPTION USING ERRCODE = 'LH409', MESSAGE = 'cron: the expression must be 512 bytes at most';
    END IF;
    IF left(line, 1) = '@' THEN
        line := CASE WHEN line IN ('@yearly', '@annually') THEN '0 0 1 1 *' WHEN line = '@monthly' THEN '0 0 1 * *'
            WHEN line = '@weekly' THEN '0 0 * * 0' WHEN line IN ('@daily', '@midnight') THEN '0 0 * * *'
            WHEN line = '@hourly' THEN '0 * * * *' ELSE '' END;
    END IF;
    words := regexp_split_to_array(line, E'[ \t]+');
    IF array_length(words, 1) <> 5 THEN
        RAISE EXCEPTION USING ERRCODE = 'LH409', MESSAGE = 'cron: write five fields, as in ''0 3 * * mon-fri'': minute, hour, day of '
            || 'month, month and day of week; or @yearly, @annually, @monthly, @weekly, @daily, @midnight or @hourly';
    END IF;
    minute := "schema_of_a_release".cron_values('minute', words[1], 0, 59, 60);
    hour := "schema_of_a_release".cron_values('hour', words[2], 0, 23, 24);
    dom := "schema_of_a_release".cron_values('day of month', words[3], 1, 31, 31);
    month := "schema_of_a_release".cron_values('month', words[4], 1, 12, 12, 'janfebmaraprmayjunjulaugsepoctnovdec');
    dow := ARRAY(SELECT d % 7 FROM unnest("schema_of_a_release".cron_values('day of week', words[5], 0, 7, 7, 'sunmontuewedthufrisat')) AS d);
    needs_both := left(words[3], 1) = '*' OR left(words[5], 1) = '*';
    IF needs_both AND NOT EXISTS (SELECT FROM unnest(month) AS m, unnest(dom) AS d
            WHERE d <= CASE WHEN m = 2 THEN 29 WHEN m IN (4, 6, 9, 11) THEN 30 ELSE 31 END) THEN
        RAISE EXCEPTION USING ERRCODE = 'LH409', MESSAGE = 'cron: the expression never fires: none of its months has such a day';
    END IF;
    RETURN (SELECT least(min(t.at - t.before), 1440 + min(t.at) - max(t.at)) FROM (
        SELECT h * 60 + m AS at, lag(h * 60 + m) OVER (ORDER BY h * 60 + m) AS before
        FROM (SELECT DISTINCT unnest(hour)) AS a (h), (SELECT DISTINCT unnest(minute)) AS b (m)
    ) AS t);
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".check_cron(text) FROM PUBLIC;

-- Refuses a schedule that agents could not use. It runs with its owner's rights, since applications may not call the functions
-- above or read schedule_zone.
CREATE OR REPLACE FUNCTION "schema_of_a_release".schedule_declared() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    kinds  integer := (coalesce(NEW.cron, '') <> '')::integer + (coalesce(NEW.every, '') <> '')::integer
        + (coalesce(NEW.after, '') <> '')::integer;
    jitter bigint := "schema_of_a_release".schedule_duration('jitter', NEW.jitter, 0);
    gap    bigint; -- in milliseconds
    wrong  text;
BEGIN
    wrong := CASE
        WHEN kinds = 0 THEN 'cron: none of cron, every and after is set: set one of them'
        WHEN kinds > 1 THEN 'cron: more than one of cron, every and after is set: a schedule has one of them'
        WHEN NEW.timezone <> '' AND coalesce(NEW.cron, '') = '' THEN 'timezone: it has an effect only with cron: leave it out'
        WHEN NEW.timezone <> '' AND NOT EXISTS (SELECT FROM "schema_of_a_release".schedule_zone AS z WHERE z.name = NEW.timezone)
            THEN 'timezone: there is no such time zone: use an IANA name, as in Asia/Singapore or UTC'
        WHEN pg_column_size(NEW.payload) > (SELECT s.max_payload FROM "schema_of_a_release".setting AS s)
            THEN 'payload: it is larger than the bound on payloads: see option max-payload of leasehold migrate'
        WHEN NEW.missed NOT IN ('', 'one', 'all', 'none') THEN 'missed: use one, all or none'
        WHEN NEW.overlap NOT IN ('', 'skip', 'queue') THEN 'overlap: use skip or queue'
        WHEN "schema_of_a_release".schedule_moment('from_at', NEW.from_at) >= "schema_of_a_release".schedule_moment('until_at', NEW.until_at)
            THEN 'until_at: it is not after from_at: no slot is between them'
    END;
    PERFORM "schema_of_a_release".schedule_moment('until_at', NEW.until_at), "schema_of_a_release".schedule_duration('catch_up', NEW.catch_up, 0);
    gap := coalesce("schema_of_a_release".schedule_duration('every', NEW.every, 1000), "schema_of_a_release".schedule_duration('after', NEW.after, 1000));
    IF wrong IS NULL AND gap IS NULL THEN
        gap := "schema_of_a_release".check_cron(NEW.cron) * 60000;
    END IF;
    IF wrong IS NULL AND jitter > 0 AND jitter >= gap THEN
        wrong := CASE WHEN NEW.cron <> '' THEN 'jitter: it is not shorter than the shortest time between two of its times of day'
            ELSE 'jitter: it is not shorter than the time between two slots' END;
    END IF;
    IF wrong IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'LH409', MESSAGE = wrong;
    END IF;
    RETURN NEW;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".schedule_declared() FROM PUBLIC;

-- Has agents leave a schedule alone. Returns 'paused', or 'unchanged' where it was.
CREATE OR REPLACE FUNCTION "schema_of_a_release".pause_schedule(name text, by text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    who text := "schema_of_a_release".requester(by);
    s   "schema_of_a_release".schedule := "schema_of_a_release".lock_schedule(name);
BEGIN
    IF s.paused_at IS NOT NULL THEN
        RETURN 'unchanged';
    END IF;
    UPDATE "schema_of_a_release".schedule AS r SET paused_at = date_trunc('milliseconds', now()), paused_by = who, version = r.version + 1
    WHERE r.name = s.name;
    INSERT INTO "schema_of_a_release".audit (requested_by, verb, schedule, answer) VALUES (who, 'pause', s.name, 'paused');
    RETURN 'paused';
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".pause_schedule(text, text) FROM PUBLIC;

-- Has agents go on with a schedule: slots that came meanwhile were missed, and an agent decides about them at once. Returns
-- 'resumed', or 'unchanged' where it was not paused.
CREATE OR REPLACE FUNCTION "schema_of_a_release".resume_schedule(name text, by text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    who text := "schema_of_a_release".requester(by);
    s   "schema_of_a_release".schedule := "schema_of_a_release".lock_schedule(name);
BEGIN
    IF s.paused_at IS NULL THEN
        RETURN 'unchanged';
    END IF;
    UPDATE "schema_of_a_release".schedule AS r SET paused_at = NULL, paused_by = NULL, version = r.version + 1,
        next_at = CASE WHEN r.invalid IS NULL THEN date_trunc('milliseconds', now()) END
    WHERE r.name = s.name;
    INSERT INTO "schema_of_a_release".audit (requested_by, verb, schedule, answer) VALUES (who, 'resume', s.name, 'resumed');
    RETURN 'resumed';
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".resume_schedule(text, text) FROM PUBLIC;

-- Deletes a schedule; its tasks stay. Returns 'removed', or 'unchanged' where there is none. Refused where a present agent
-- declares it, since it would be inserted again at once. Applications delete by this function: who has the right to DELETE may
-- also lock the table.
CREATE OR REPLACE FUNCTION "schema_of_a_release".remove_schedule(name text, by text DEFAULT NULL) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    who text := "schema_of_a_release".requester(by);
BEGIN
    DELETE FROM "schema_of_a_release".schedule AS s WHERE s.name = remove_schedule.name;
    IF NOT FOUND THEN
        RETURN 'unchanged';
    END IF;
    INSERT INTO "schema_of_a_release".audit (requested_by, verb, schedule, answer) VALUES (who, 'remove', remove_schedule.name, 'removed');
    RETURN 'removed';
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".remove_schedule(text, text) FROM PUBLIC;

-- Locks a schedule and returns it.
CREATE OR REPLACE FUNCTION "schema_of_a_release".lock_schedule(schedule text) RETURNS "schema_of_a_release".schedule
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    s "schema_of_a_release".schedule;
BEGIN
    SELECT r.* INTO s FROM "schema_of_a_release".schedule AS r WHERE r.name = schedule FOR NO KEY UPDATE;
    IF s.name IS NULL THEN
        RAISE EXCEPTION 'there is no schedule "%"', schedule USING ERRCODE = 'no_data_found';
    END IF;
    RETURN s;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".lock_schedule(text) FROM PUBLIC;

-- Declares that no more rows will come. Returns 'sealed', or the state in which the batch has ended.
CREATE OR REPLACE FUNCTION "schema_of_a_release".seal_batch(id bigint) RETURNS text
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    b "schema_of_a_release".batch := "schema_of_a_release".lock_batch(id);
BEGIN
    IF b.ended_at IS NOT NULL THEN
        RETURN (SELECT v.state FROM "schema_of_a_release".batches AS v WHERE v.id = seal_batch.id);
    ELSIF NOT b.sealed THEN
        UPDATE "schema_of_a_release".batch AS r SET sealed = true, needs_fold = true WHERE r.id = seal_batch.id;
        PERFORM pg_notify('leasehold:schema_of_a_release', 'asked');
    END IF;
    RETURN 'sealed';
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".seal_batch(bigint) FROM PUBLIC;

-- What operators do with the sequences of a type. None of these functions locks the sequence's row: an operator's transaction that stays open
-- must not keep rows from starting. They leave notes, and agents go on from there.

-- Returns the failed row that blocks a sequence; NULL where none does.
CREATE OR REPLACE FUNCTION "schema_of_a_release".sequence_blocked(of_type text, of_name text) RETURNS bigint
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    failed bigint := (SELECT f.task_id FROM "schema_of_a_release".sequence_failure AS f WHERE f.type = of_type AND f.name = of_name
        ORDER BY f.type, f.name, f.task_id LIMIT 1);
BEGIN
    IF failed IS NULL
       OR EXISTS (SELECT FROM "schema_of_a_release".sequence_rule AS p WHERE p.type = of_type AND p.on_failure = 'continue')
       OR EXISTS (SELECT FROM "schema_of_a_release".sequence_holder AS h JOIN "schema_of_a_release".task AS t ON t.id = h.task_id
            WHERE h.type = of_type AND h.name = of_name AND t.type = of_type AND t.sequence = of_name)
       OR EXISTS (SELECT FROM "schema_of_a_release".task AS t WHERE t.type = of_type AND t.sequence = of_name AND t.state = 'rollback_pending')
       OR (SELECT t.id FROM "schema_of_a_release".task AS t WHERE t.type = of_type AND t.sequence = of_name
            ORDER BY t.type, t.sequence, t.id LIMIT 1) < failed THEN
        RETURN NULL;
    END IF;
    RETURN failed;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".sequence_blocked(text, text) FROM PUBLIC;

-- Returns the failed row that blocks a sequence, and raises where none does, or not the one that is meant.
CREATE OR REPLACE FUNCTION "schema_of_a_release".blocking_failure(of_type text, of_name text, meant bigint) RETURNS bigint
    LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    failed bigint := "schema_of_a_release".sequence_blocked(of_type, of_name);
BEGIN
    IF failed IS NULL THEN
        PERFORM FROM "schema_of_a_release".task AS t WHERE t.type = of_type AND t.sequence = of_name
        UNION ALL SELECT FROM "schema_of_a_release".sequence_failure AS f WHERE f.type = of_type AND f.name = of_name;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'there is no sequence % of type %', to_json(of_name), to_json(of_type) USING ERRCODE = 'no_data_found';
        END IF;
        PERFORM "schema_of_a_release".raise_conflict(format('no failure blocks the sequence %s of type %s', to_json(of_name), to_json(of_type)));
    ELSIF failed <> meant THEN
        PERFORM "schema_of_a_release".raise_conflict(format('it is not task %s that blocks the sequence %s, but task %s', meant, to_json(of_name), failed));
    END IF;
    RETURN failed;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".blocking_failure(text, text, bigint) FROM PUBLIC;

-- Resolves the failure that blocks a sequence, so that the rows behind it go on, and returns the failed row. task_id is the one that is meant;
-- NULL is whichever it is.
CREATE OR REPLACE FUNCTION "schema_of_a_release".sequence_skip(type text, name text, task_id bigint DEFAULT NULL, by text DEFAULT NULL) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    who    text := "schema_of_a_release".requester(by);
    failed bigint := "schema_of_a_release".blocking_failure(type, name, task_id);
BEGIN
    DELETE FROM "schema_of_a_release".sequence_failure AS f
    WHERE f.type = sequence_skip.type AND f.name = sequence_skip.name AND f.task_id = failed;
    IF NOT FOUND THEN
        PERFORM "schema_of_a_release".raise_conflict(format('the failure of task %s has just been resolved', failed));
    END IF;
    INSERT INTO "schema_of_a_release".sequence_note (type, name) VALUES (sequence_skip.type, sequence_skip.name);
    INSERT INTO "schema_of_a_release".audit (requested_by, verb, task_id, answer) VALUES (who, 'skip', failed, 'skipped');
    RETURN failed;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".sequence_skip(text, text, bigint, text) FROM PUBLIC;

-- Retries the failed row that blocks a sequence, and returns it.
CREATE OR REPLACE FUNCTION "schema_of_a_release".sequence_retry(type text, name text, task_id bigint DEFAULT NULL, by text DEFAULT NULL) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    failed bigint := "schema_of_a_release".blocking_failure(type, name, task_id);
BEGIN
    IF "schema_of_a_release".retry(failed, by) = 'rollback_failed' THEN
        PERFORM "schema_of_a_release".raise_conflict(format('the rollback of task %s has failed: roll it back again, or skip it', failed));
    END IF;
    RETURN failed;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".sequence_retry(text, text, bigint, text) FROM PUBLIC;

-- Cancels waiting rows of a sequence, so many at most, and resolves its failures, theirs included. Returns how many rows it has cancelled: call
-- it until there are none. What runs goes on, and so do rollbacks.
CREATE OR REPLACE FUNCTION "schema_of_a_release".sequence_cancel(type text, name text, most integer DEFAULT 1000, by text DEFAULT NULL) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    who text := "schema_of_a_release".requester(by);
    hit record;
BEGIN
    PERFORM "schema_of_a_release".ensure_partition(clock_timestamp()); -- it may wait, and no row is locked yet
    SELECT coalesce(array_agg(t.id), '{}') AS ids,
        coalesce(array_agg(t.ever_started AND "schema_of_a_release".can_roll_back(NULL, t.policy)), '{}') AS rolls_back INTO hit
    FROM (
        SELECT r.id, r.ever_started, r.policy FROM "schema_of_a_release".task AS r
        WHERE r.type = sequence_cancel.type AND r.sequence = sequence_cancel.name AND r.state IN ('pending', 'retry_pending')
        ORDER BY r.type, r.sequence, r.id LIMIT least(greatest(most, 1), 1000) FOR UPDATE SKIP LOCKED
    ) AS t;
    PERFORM "schema_of_a_release".cancel_rows(hit.ids, hit.rolls_back, who);
    DELETE FROM "schema_of_a_release".sequence_failure AS f WHERE f.type = sequence_cancel.type AND f.name = sequence_cancel.name;
    INSERT INTO "schema_of_a_release".sequence_note (type, name) SELECT sequence_cancel.type, sequence_cancel.name WHERE FOUND;
    INSERT INTO "schema_of_a_release".audit (requested_by, verb, task_id, answer)
    SELECT who, 'cancel', u.id, CASE WHEN u.back THEN 'rollback_pending' ELSE 'cancelled' END FROM unnest(hit.ids, hit.rolls_back) AS u (id, back);
    RETURN cardinality(hit.ids);
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".sequence_cancel(text, text, integer, text) FROM PUBLIC;

-- Sets the bound on payloads and rollback payloads of new rows, in bytes. Existing rows are not checked, so it takes no
-- longer than the lock does, for which it waits 3 s at most. Only the table's owner may.
CREATE OR REPLACE FUNCTION "schema_of_a_release".set_max_payload(bytes bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s' AS
$leasehold$
DECLARE
    size text := CASE WHEN bytes % 1048576 = 0 THEN bytes / 1048576 || ' MiB' WHEN bytes % 1024 = 0
        THEN bytes / 1024 || ' KiB'
        ELSE bytes || ' bytes' END;
    names text[] := ARRAY[format('payload must be %s at most: see migrate --max-payload', size),
        format('rollback_payload must be %s at most: see --max-payload', size)];
    there text[];
    change text;
    relation text;
BEGIN
    IF bytes IS NULL OR bytes NOT BETWEEN 131072 AND 67108864 THEN
        RAISE EXCEPTION 'the bound on payloads must be between 128 KiB and 64 MiB' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    UPDATE "schema_of_a_release".setting SET max_payload = bytes;
    FOREACH relation IN ARRAY ARRAY['task', 'follow'] LOOP
        there := ARRAY(SELECT c.conname::text FROM pg_constraint AS c
            WHERE c.conrelid = ('"schema_of_a_release"' || '.' || relation)::regclass AND c.contype = 'c'
              AND (c.conname LIKE 'payload must be % at most%' OR c.conname LIKE 'rollback\_payload must be % at most%'));
        CONTINUE WHEN there @> names AND there <@ names;
        change := (SELECT coalesce(string_agg(format('DROP CONSTRAINT %I, ', n), ''), '') FROM unnest(there) AS n);
        EXECUTE format('ALTER TABLE %s.%s %s ADD CONSTRAINT %I CHECK (fence > 0 OR pg_column_size(payload) <= %s) NOT VALID, '
            'ADD CONSTRAINT %I CHECK (fence > 0 OR pg_column_size(rollback_payload) <= %s) NOT VALID',
            '"schema_of_a_release"', relation, change, names[1], bytes, names[2], bytes);
    END LOOP;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".set_max_payload(bigint) FROM PUBLIC;

-- Starts rows that a promotion has locked and would make candidates of: those that the claim would take, and returns
-- them. ids are all rows that are promoted, may those that get their lock, or have their turn. ask is the claim: session, number, wants (each a
-- type, of which rows without a region are to be run), low-water marks, and how many bytes the documents may have.
--
-- So those rows start that the claim would have taken among all that are due: the candidates before a row count towards what is wanted, and
-- towards the bytes. Where one of the promoted rows comes first that only a claim starts, those behind it are left to claims, too: rows of
-- batches, which are counted before; with a tenant or of a type with a limit, which take turns; with both a lock and a sequence; and with
-- large documents.
CREATE OR REPLACE FUNCTION "schema_of_a_release".start_first(ids bigint[], may bigint[], ask jsonb) RETURNS bigint[]
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    low_times timestamptz[] := ARRAY(SELECT e.at::timestamptz FROM jsonb_array_elements_text(ask -> 'low_times') WITH ORDINALITY AS e (at, n) ORDER BY e.n);
    low_ids   bigint[] := ARRAY(SELECT e.id::bigint FROM jsonb_array_elements_text(ask -> 'low_ids') WITH ORDINALITY AS e (id, n) ORDER BY e.n);
    chosen    bigint[];
BEGIN
    WITH want AS MATERIALIZED (
        SELECT w.type, w.n, e.place
        FROM jsonb_array_elements(ask -> 'wants') WITH ORDINALITY AS e (want, place)
        CROSS JOIN LATERAL jsonb_to_record(e.want) AS w (type text, n bigint)
        WHERE NOT EXISTS (SELECT FROM "schema_of_a_release".type_limit AS l WHERE l.type = w.type)
    ), line AS MATERIALIZED (
        SELECT w.n, w.place, r.type, r.priority, r.run_at, r.id, r.bytes,
            r.plain AND r.bytes <= 65536 AND u.id IN (SELECT m.id FROM unnest(may) AS m (id)) AS fit
        FROM unnest(ids) AS u (id) CROSS JOIN LATERAL (
            SELECT t.id, t.type, t.priority, t.run_at,
                t.tenant IS NULL AND t.batch_id IS NULL AND (t.lock IS NULL OR t.sequence IS NULL) AS plain, CASE WHEN pg_column_compression(t.payload) IS NULL THEN 1::float8 ELSE 32 END
                    * pg_column_size(t.payload)
                + CASE WHEN t.rollback_payload IS NULL AND t.result IS NULL AND t.checkpoint IS NULL THEN 0
                    ELSE 131072 + 32 * coalesce(pg_column_size(t.rollback_payload), 0)::float8 END AS bytes
            FROM "schema_of_a_release".task AS t
            WHERE t.id = u.id AND coalesce(t.region, '') = '' AND t.state IN ('pending', 'retry_pending') AND t.run_at <= now() LIMIT 1
        ) AS r JOIN want AS w ON w.type = r.type
    ), candidate AS MATERIALIZED ( -- in proportion to what is promoted: a row behind all that are looked at is left to claims
        SELECT w.n, w.place, w.seen, c.priority, c.run_at, c.id, c.bytes FROM (
            SELECT l.n, l.type, l.place, least(l.n, 4 * count(*)) AS seen FROM line AS l GROUP BY l.n, l.type, l.place
        ) AS w CROSS JOIN LATERAL (
            SELECT p.priority, r.run_at, r.id, r.bytes
            FROM generate_series(
            coalesce((SELECT 10 FROM "schema_of_a_release".task AS h WHERE h.state IN ('pending','retry_pending') AND h.held IS NULL AND h.tenant IS NULL AND h.type = w.type
                AND coalesce(h.region, '') = '' AND h.priority > 0 LIMIT 1), 0),
            coalesce((SELECT -10 FROM "schema_of_a_release".task AS h WHERE h.state IN ('pending','retry_pending') AND h.held IS NULL AND h.tenant IS NULL AND h.type = w.type
                AND coalesce(h.region, '') = '' AND h.priority < 0 LIMIT 1), 0), -1) AS p (priority) CROSS JOIN LATERAL (
                SELECT t.run_at, t.id, CASE WHEN pg_column_compression(t.payload) IS NULL THEN 1::float8 ELSE 32 END
                    * pg_column_size(t.payload)
                + CASE WHEN t.rollback_payload IS NULL AND t.result IS NULL AND t.checkpoint IS NULL THEN 0
                    ELSE 131072 + 32 * coalesce(pg_column_size(t.rollback_payload), 0)::float8 END AS bytes FROM "schema_of_a_release".task AS t
                WHERE t.state IN ('pending','retry_pending') AND t.held IS NULL AND t.tenant IS NULL AND t.type = w.type
                  AND coalesce(t.region, '') = '' AND t.priority = p.priority AND t.run_at <= now()
                  AND (t.run_at, t.id) > (coalesce(low_times[(w.place-1)*21+11-p.priority], '-infinity'),
                                          coalesce(low_ids[(w.place-1)*21+11-p.priority], 0))
                ORDER BY t.run_at, t.id LIMIT w.seen
            ) AS r LIMIT w.seen
        ) AS c
    )
    SELECT array_agg(o.id) INTO chosen FROM (
        SELECT u.id, u.n, u.promoted, row_number() OVER before AS rank, sum(u.bytes) OVER all_before AS bytes,
            bool_and(u.fit) OVER before AND (u.seen >= u.n OR count(*) FILTER (WHERE NOT u.promoted) OVER before < u.seen) AS first
        FROM (
            SELECT l.n, l.place, l.priority, l.run_at, l.id, l.bytes, l.fit, true AS promoted,
                least(l.n, 4 * count(*) OVER (PARTITION BY l.place)) AS seen FROM line AS l
            UNION ALL SELECT c.n, c.place, c.priority, c.run_at, c.id, c.bytes, true, false, c.seen FROM candidate AS c
        ) AS u
        WINDOW before AS (PARTITION BY u.place ORDER BY u.priority DESC, u.run_at, u.id ROWS UNBOUNDED PRECEDING),
            all_before AS (ORDER BY u.place, u.priority DESC, u.run_at, u.id ROWS UNBOUNDED PRECEDING)
    ) AS o WHERE o.promoted AND o.first AND o.rank <= o.n AND o.bytes <= coalesce((ask ->> 'bytes')::float8, 'infinity');
    IF chosen IS NULL THEN
        RETURN '{}';
    END IF;
    UPDATE "schema_of_a_release".task AS t SET
        state = 'running', held = NULL, session = (ask ->> 'session')::bigint, claim = (ask ->> 'number')::bigint,
        fence = greatest(least(t.fence, 4611686018426339328), 0) + 1, attempt = greatest(least(t.attempt, 1000000), 0) + 1,
        policy = w.policy, claimed_at = now(), lease_until = now() + w.length * interval '1 microsecond',
        deadline = coalesce(t.deadline, t.run_at + nullif(w.deadline, 0) * interval '1 microsecond')
    FROM jsonb_to_recordset(ask -> 'wants') AS w (type text, length bigint, policy bigint, deadline bigint)
    WHERE t.id = ANY (chosen) AND w.type = t.type;
    RETURN chosen;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".start_first(bigint[], bigint[], jsonb) FROM PUBLIC;

-- Starts an operation on a batch that the caller has locked, in place of any other. A batch that is cancelled or rolled
-- back accepts no rows any more, and nothing of it starts.
CREATE OR REPLACE FUNCTION "schema_of_a_release".start_operation(batch bigint, with_verb text, by text, with_force boolean,
    with_answer text) RETURNS text
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
BEGIN
    UPDATE "schema_of_a_release".operation AS o SET ended_at = clock_timestamp(), superseded = true
    WHERE o.batch_id = batch AND o.task_id IS NULL AND o.ended_at IS NULL;
    PERFORM "schema_of_a_release".reopen_batch(batch);
    IF with_verb <> 'retry' THEN
        UPDATE "schema_of_a_release".batch AS b SET
            stopping = true, sealed = true, requested = with_verb, requested_by = by,
                by_failure = by IS NOT DISTINCT FROM 'on_failure',
            failures_seen = b.failures, needs_fold = true
        WHERE b.id = batch;
    END IF;
    INSERT INTO "schema_of_a_release".operation (verb, batch_id, requested_at, force, requested_by)
    VALUES (with_verb, batch, clock_timestamp(), with_force, by);
    INSERT INTO "schema_of_a_release".audit (requested_by, verb, batch_id, answer) VALUES (by, with_verb, batch, with_answer);
    PERFORM pg_notify('leasehold:schema_of_a_release', 'asked');
    RETURN with_answer;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".start_operation(bigint, text, text, boolean, text) FROM PUBLIC;

-- Revives those of finished rows that it can, each due at the time in its place, or now. Of the others, those whose key
-- another live row has are refused; the rest are missed: locked, or no longer what was seen. A transaction that inserts a
-- row with the key of one of these, and has not committed, is waited for a short time and no longer. revived are those that it has revived.
CREATE OR REPLACE FUNCTION "schema_of_a_release".step_revive(
    ids bigint[], fences bigint[], dues timestamptz[], verb text, OUT changed bigint, OUT refused bigint,
    OUT missed boolean, OUT revived bigint[]
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off
    SET lock_timeout = '200ms' AS
$leasehold$
DECLARE
    back bigint[];
BEGIN
    dues := ARRAY(SELECT coalesce(g.due, clock_timestamp()) FROM unnest(dues) WITH ORDINALITY AS g (due, n) ORDER BY g.n);
    BEGIN
        back := ARRAY(SELECT "schema_of_a_release".revive(ids, dues, verb, fences));
    EXCEPTION
        WHEN lock_not_available THEN -- without those that have a key
            back := ARRAY(SELECT "schema_of_a_release".revive(g.ids, g.dues, verb, g.fences) FROM (
                SELECT array_agg(u.id ORDER BY u.n) AS ids, array_agg(u.fence ORDER BY u.n) AS fences,
                    array_agg(u.due ORDER BY u.n) AS dues
                FROM unnest(ids, fences, dues) WITH ORDINALITY AS u (id, fence, due, n)
                WHERE EXISTS (SELECT FROM "schema_of_a_release".task_archive AS a WHERE a.id = u.id AND a.key IS NULL)
            ) AS g);
    END;
    changed := cardinality(back);
    revived := back;
    refused := 0;
    IF changed < cardinality(ids) THEN
        SELECT count(*) INTO refused FROM "schema_of_a_release".task_archive AS a
        WHERE a.id = ANY (ids) AND a.id <> ALL (back)
          AND EXISTS (SELECT FROM "schema_of_a_release".task AS t WHERE t.type = a.type AND t.key = a.key);
    END IF;
    missed := changed + refused < cardinality(ids);
    IF changed > 0 THEN
        PERFORM pg_notify('leasehold:schema_of_a_release', '');
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".step_revive(bigint[], bigint[], timestamptz[], text) FROM PUBLIC;

-- Records pings of attempts that are known by id and fence, each of which is listed once. An array that is NULL stands
-- for one of NULLs. answer: applied, lost, or busy where another transaction has the row locked. Only a row that a claim
-- holds can be pinged: one that is being reaped (claim 0) has no holder. However few pings the planner expects, rows have
-- to be found by the primary key, and the joins of the intermediate results must not be nested loops: hence the settings.
CREATE OR REPLACE FUNCTION "schema_of_a_release".take_pings(
    ids bigint[], fences bigint[], progresses text[], messages text[], checkpoints text[], withins double precision[]
) RETURNS TABLE (
    place bigint, answer text, counted boolean, cancel boolean, reason text, remaining_s double precision
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET enable_nestloop = off
    SET jit = off SET plan_cache_mode = force_generic_plan AS
$leasehold$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH said AS MATERIALIZED (
        SELECT u.place, u.id, u.fence, nullif(u.progress, '')::jsonb AS said_progress,
            nullif(u.message, '') AS said_message, nullif(u.checkpoint, '')::jsonb AS said_checkpoint, u.within
        FROM unnest(ids, fences, progresses, messages, checkpoints, withins)
            WITH ORDINALITY AS u (id, fence, progress, message, checkpoint, within, place)
    ), hit AS MATERIALIZED (
        SELECT i.*, t.* FROM said AS i LEFT JOIN LATERAL (
            SELECT r.id AS held, r.state, r.policy, r.claimed_at, r.lease_until, r.deadline, r.cancel_requested_by,
                r.progress,
                r.checkpoint,
                r.marks, r.state = 'running' AND r.cancel_requested_at IS NOT NULL AS asked, clock_timestamp() AS heard
            FROM "schema_of_a_release".task AS r
            WHERE r.id = i.id AND r.fence = i.fence AND r.claim > 0 AND r.lease_until > clock_timestamp()
            FOR NO KEY UPDATE SKIP LOCKED
        ) AS t ON true
    ), under AS MATERIALIZED ( -- the terms of the row's policy, for its phase; none where the policy is not there
        SELECT h.*, coalesce((p.terms ->> 'require_progress')::boolean, false) AS strict,
            "schema_of_a_release".policy_interval(p.terms, 'heartbeat') AS beat, "schema_of_a_release".policy_interval(p.terms, 'stop') AS stop,
            "schema_of_a_release".policy_interval(p.terms, 'max_heartbeat') AS longest,
            -- 1 s: how long the row may wait inside its agent.
            least(coalesce(h.claimed_at + interval '1 second' + "schema_of_a_release".policy_interval(p.terms, 'timeout')
                      + coalesce("schema_of_a_release".policy_interval(p.terms, 'check'), '0'), h.lease_until),
                  CASE h.state WHEN 'running' THEN h.deadline END) AS ends
        FROM hit AS h LEFT JOIN LATERAL (
            SELECT CASE h.state WHEN 'running' THEN p.body ELSE coalesce(p.body -> 'rollback', p.body - 'check') END AS terms
            FROM "schema_of_a_release".policy AS p WHERE p.hash = h.policy LIMIT 1
        ) AS p ON true
    ), moved AS MATERIALIZED (
        SELECT u.*, CASE WHEN u.strict AND u.held IS NOT NULL
            THEN "schema_of_a_release".advance(u.marks, u.fence, u.said_progress, u.said_checkpoint) END AS advanced
        FROM under AS u
    ), decided AS MATERIALIZED (
        SELECT u.*, c.counted,
            -- A ping may request a longer window, never a shorter one.
            CASE WHEN c.counted AND u.held IS NOT NULL AND u.beat IS NOT NULL THEN least(u.ends, u.heard + greatest(u.beat,
                CASE WHEN u.within IS NOT NULL
                    THEN least(least(u.within, 1e9) * interval '1 second', coalesce(u.longest, '0')) END)) END AS due
        FROM moved AS u CROSS JOIN LATERAL (SELECT NOT u.strict OR u.advanced IS NOT NULL AS counted) AS c
    ), written AS (
        UPDATE "schema_of_a_release".task AS r SET
            ping_due = coalesce(j.due, r.ping_due),
            lease_until = greatest(r.lease_until, j.due + coalesce(j.stop, '0')),
            progress = coalesce(j.said_progress, r.progress), message = coalesce(j.said_message, r.message),
            checkpoint = coalesce(j.said_checkpoint, r.checkpoint), marks = coalesce(j.advanced, r.marks)
        FROM decided AS j
        WHERE r.id = ANY (ARRAY(
            SELECT w.held FROM decided AS w WHERE w.due IS NOT NULL OR w.said_progress IS NOT NULL
                OR w.said_message IS NOT NULL OR w.said_checkpoint IS NOT NULL)) AND j.held = r.id
    )
    SELECT j.place, CASE WHEN j.held IS NOT NULL THEN 'applied' WHEN kept.id IS NOT NULL THEN 'busy' ELSE 'lost' END,
        j.held IS NOT NULL AND j.counted, coalesce(j.asked, false),
        CASE WHEN j.asked THEN 'cancellation requested' || coalesce(' by ' || j.cancel_requested_by, '')
             WHEN NOT j.counted THEN 'progress did not change' END,
        coalesce(greatest(extract(epoch FROM j.ends - j.heard), 0), 0)::double precision
    FROM decided AS j LEFT JOIN LATERAL (
        SELECT r.id FROM "schema_of_a_release".task AS r
        WHERE j.held IS NULL AND r.id = j.id AND r.fence = j.fence AND r.claim > 0
          AND r.lease_until > clock_timestamp() LIMIT 1
    ) AS kept ON true
    ORDER BY j.place;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".take_pings(bigint[], bigint[], text[], text[], text[], double precision[]) FROM PUBLIC;

-- Whether the columns of a new row are within their bounds that most rows leave empty, or that rarely are wrong: it is true, or says what is
-- wrong, as a constraint of that name would. The table has one constraint in their place (triggers.sql), which calls it only for rows that
-- have one of these columns. A constraint costs each INSERT about 2 us, which reads its text anew, whatever the row has.
--
-- The function has no search_path of its own, since to set one costs more than all else here: everything is qualified with its schema.
-- Lengths are compared in place of texts, of which the collations differ.
CREATE OR REPLACE FUNCTION "schema_of_a_release".task_fits(
    type text, region text, key text, lock text, sequence text, tenant text, after_if text, max_attempts integer, labels jsonb,
    traceparent text, created_by text
) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE AS
$leasehold$
DECLARE
    wrong pg_catalog.text;
BEGIN
    -- Each expression costs something before it is evaluated, so those of columns that the row does not have are passed over.
    IF key IS NOT NULL THEN
        wrong := CASE
            WHEN pg_catalog.octet_length(key) OPERATOR(pg_catalog.=) 0 THEN 'key must not be empty: leave it out instead'
            WHEN pg_catalog.octet_length(key) OPERATOR(pg_catalog.>) 1024 THEN 'key must be 1 KiB at most' END;
    END IF;
    IF labels IS NOT NULL AND wrong IS NULL THEN
        wrong := CASE
            -- strict: the lax mode looks into lists, and would accept one of strings as a string
            WHEN pg_catalog.jsonb_typeof(labels) COLLATE pg_catalog."C" OPERATOR(pg_catalog.<>) 'object'
                OR pg_catalog.jsonb_path_exists(labels, 'strict $.* ? (@.type() != "string")', '{}', true)
                THEN 'labels must be a JSON object of strings'
            WHEN pg_catalog.octet_length(labels::pg_catalog.text) OPERATOR(pg_catalog.>) 4096 THEN 'labels must be 4 KiB at most' END;
    END IF;
    IF COALESCE(region, traceparent, created_by) IS NOT NULL AND wrong IS NULL THEN
        wrong := CASE
            WHEN pg_catalog.octet_length(region) OPERATOR(pg_catalog.>) 255 THEN 'region must be 255 bytes at most'
            WHEN pg_catalog.octet_length(traceparent) OPERATOR(pg_catalog.>) 512 THEN 'traceparent must be 512 bytes at most'
            WHEN pg_catalog.octet_length(created_by) OPERATOR(pg_catalog.>) 512 THEN 'created_by must be 512 bytes at most' END;
    END IF;
    IF COALESCE(lock, sequence, tenant, after_if) IS NOT NULL AND wrong IS NULL THEN
        wrong := CASE
            WHEN pg_catalog.octet_length(lock) OPERATOR(pg_catalog.=) 0 THEN 'lock must not be empty: leave it out instead'
            WHEN pg_catalog.octet_length(lock) OPERATOR(pg_catalog.>) 1024 THEN 'lock must be 1 KiB at most'
            WHEN pg_catalog.octet_length(sequence) OPERATOR(pg_catalog.=) 0 THEN 'sequence must not be empty: leave it out instead'
            WHEN pg_catalog.octet_length(sequence) OPERATOR(pg_catalog.>) 1024 THEN 'sequence must be 1 KiB at most'
            WHEN pg_catalog.octet_length(tenant) OPERATOR(pg_catalog.=) 0 THEN 'tenant must not be empty: leave it out instead'
            WHEN pg_catalog.octet_length(tenant) OPERATOR(pg_catalog.>) 1024 THEN 'tenant must be 1 KiB at most'
            WHEN after_if COLLATE pg_catalog."C" OPERATOR(pg_catalog.<>) 'succeeded'
                AND after_if COLLATE pg_catalog."C" OPERATOR(pg_catalog.<>) 'any' THEN 'after_if must be succeeded or any' END;
    END IF;
    IF wrong IS NULL THEN
        wrong := CASE
            WHEN pg_catalog.octet_length(type) OPERATOR(pg_catalog.=) 0 THEN 'type must not be empty'
            WHEN pg_catalog.octet_length(type) OPERATOR(pg_catalog.>) 255 THEN 'type must be 255 bytes at most'
            WHEN max_attempts OPERATOR(pg_catalog.<) 1 OR max_attempts OPERATOR(pg_catalog.>) 1000
                THEN 'max_attempts must be between 1 and 1000' END;
    END IF;
    IF wrong IS NULL THEN
        RETURN true;
    END IF;
    RAISE EXCEPTION USING ERRCODE = 'check_violation', SCHEMA = '"schema_of_a_release"', TABLE = 'task', CONSTRAINT = wrong,
        MESSAGE = pg_catalog.format('new row for relation "task" violates check constraint "%s"', wrong);
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".task_fits(text, text, text, text, text, text, text, integer, jsonb, text, text) FROM PUBLIC;

-- Wakes idle agents, counts new rows of batches, and has rows wait that name others (after); rows that are revived from the archive (fence > 0) are counted where
-- that happens. NOTIFY takes a lock at commit that the whole database shares, so a producer pays for it only while an
-- agent is idle. It runs with its owner's rights, since producers may not read agent.
--
-- The function has no search_path of its own: to set one costs each insert a good part of its time. So everything that
-- could be looked up in a path is qualified with its schema: tables, functions, operators, and types, which are looked up
-- in the caller's pg_temp first. A type that is a keyword (boolean, bigint) is always that of pg_catalog; record is no
-- keyword.
CREATE OR REPLACE FUNCTION "schema_of_a_release".task_inserted() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER AS
$leasehold$
DECLARE
    idle    boolean;
    batched boolean;
    waiting bigint[];
    one     bigint;
    n       bigint;
    low     bigint;
    high    bigint;
BEGIN
    -- Mostly there is neither an idle agent nor a batch nor a row that waits. PERFORM finds that out for a sixth less than SELECT INTO takes.
    PERFORM FROM "schema_of_a_release".agent AS a WHERE a.idle AND a.present_until OPERATOR(pg_catalog.>) pg_catalog.now()
    UNION ALL
    SELECT FROM inserted AS i WHERE (i.batch_id IS NOT NULL OR i.after IS NOT NULL) AND i.fence OPERATOR(pg_catalog.=) 0;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    SELECT EXISTS (SELECT FROM "schema_of_a_release".agent AS a WHERE a.idle AND a.present_until OPERATOR(pg_catalog.>) pg_catalog.now()),
        EXISTS (SELECT FROM inserted AS i WHERE i.batch_id IS NOT NULL AND i.fence OPERATOR(pg_catalog.=) 0)
    INTO idle, batched;
    IF idle THEN
        PERFORM pg_catalog.pg_notify('leasehold:schema_of_a_release', '');
    END IF;
    waiting := ARRAY(SELECT i.id FROM inserted AS i
        WHERE i.after IS NOT NULL AND pg_catalog.cardinality(i.after) OPERATOR(pg_catalog.>) 0 AND i.fence OPERATOR(pg_catalog.=) 0);
    IF pg_catalog.cardinality(waiting) OPERATOR(pg_catalog.>) 0 THEN
        PERFORM "schema_of_a_release".begin_waiting(waiting);
        IF idle THEN
            PERFORM pg_catalog.pg_notify('leasehold:schema_of_a_release', 'after');
        END IF;
    END IF;
    IF batched THEN
        FOR one, n, low, high IN
            SELECT i.batch_id, pg_catalog.count(*), pg_catalog.min(i.id), pg_catalog.max(i.id) FROM inserted AS i
            WHERE i.batch_id IS NOT NULL AND i.fence OPERATOR(pg_catalog.=) 0
            GROUP BY i.batch_id ORDER BY i.batch_id
        LOOP
            PERFORM "schema_of_a_release".admit_to_batch(one);
            INSERT INTO "schema_of_a_release".batch_delta (batch_id, total, first_id, last_id) VALUES (one, n, low, high);
        END LOOP;
    END IF;
    RETURN NULL;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".task_inserted() FROM PUBLIC;

-- Returns, in order, how many rows of each of these tenants a claim may take of a row type, as far as the bounds of each tenant go, and where it
-- is the rate that lets none start, in how many microseconds one may (wait; else NULL). It returns nothing where tenants have no bounds. It is called
-- after limit_rooms in the same transaction, so the limit's row is locked: that is the lock of all its tenants, and what the claims before have
-- taken is seen. The claim (claim_limited_tenants.sql) follows and finds the rooms in the setting leasehold.tenant_rooms; 'none': no bounds.
CREATE OR REPLACE FUNCTION "schema_of_a_release".tenant_rooms(kind text, tenants text[]) RETURNS TABLE (rooms bigint, wait bigint)
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off
        SET plan_cache_mode = force_generic_plan AS
$leasehold$
DECLARE
    held    record;
    unnamed jsonb := '{}'; -- by tenant: rows that run and do not name the limit
    frees   bigint[];
    waits   bigint[];
BEGIN
    PERFORM set_config('leasehold.tenant_rooms', 'none', true);
    SELECT l.type, l.most, l.rate, l.since, l.counts_all, l.tenant_most, l.tenant_rate, l.tenant_burst INTO held
    FROM "schema_of_a_release".type_limit AS k JOIN "schema_of_a_release".type_limit AS l ON l.type = k.name WHERE k.type = kind;
    IF NOT FOUND OR held.tenant_most = 0 AND held.tenant_rate = 0 OR EXISTS ( -- the limit leaves no room, or is not locked
        SELECT FROM jsonb_to_recordset(current_setting('leasehold.rooms')::jsonb) AS r (kind text, name text, rooms bigint)
        WHERE r.kind = tenant_rooms.kind AND r.name IS NOT NULL AND coalesce(r.rooms, 0) = 0
    ) THEN
        RETURN;
    END IF;
    IF held.tenant_most > 0 THEN
        IF EXISTS (SELECT FROM "schema_of_a_release".limit_place AS p WHERE p.name = held.type) THEN
            PERFORM "schema_of_a_release".kept_places(held.type);
        END IF;
        IF held.counts_all THEN
            PERFORM "schema_of_a_release".limit_unnamed(held.type, held.since);
            unnamed := coalesce((
                SELECT jsonb_object_agg(r.tenant, r.n) FROM (
                    SELECT t.tenant, count(*) AS n FROM "schema_of_a_release".task AS t
                    WHERE t.state IN ('running', 'rollback_running') AND t.tenant IN (SELECT u.tenant FROM unnest(tenants) AS u (tenant))
                      AND t.limited IS DISTINCT FROM held.type
                      AND t.type = ANY (ARRAY(SELECT k.type FROM "schema_of_a_release".type_limit AS k WHERE k.name = held.type))
                    GROUP BY t.tenant) AS r), '{}');
        END IF;
    END IF;
    IF held.tenant_rate > 0 THEN
        IF held.rate = 0 THEN -- else limit_rooms has done it
            PERFORM "schema_of_a_release".returned_tokens(held.type);
        END IF;
        UPDATE "schema_of_a_release".tenant_bucket AS b SET counted_at = clock_timestamp() -- the clock was set back
        WHERE b.name = held.type AND b.tenant = ANY (tenants) AND b.counted_at > clock_timestamp();
    END IF;
    SELECT array_agg(CASE WHEN held.tenant_rate > 0 THEN least(m.free, floor(greatest(m.tokens, 0))::bigint, held.tenant_burst) ELSE m.free END
            ORDER BY m.place),
        array_agg(CASE WHEN held.tenant_rate > 0 AND m.free > 0 AND m.tokens < 1
            THEN greatest(((1 - m.tokens) / held.tenant_rate * 1000000)::bigint, 1) END ORDER BY m.place)
    INTO frees, waits
    FROM (
        SELECT u.place, CASE WHEN held.tenant_most > 0 THEN greatest(held.tenant_most - coalesce((unnamed->>u.tenant)::bigint, 0) - (
                SELECT count(*) FROM (
                    SELECT FROM "schema_of_a_release".task AS t
                    WHERE t.limited IS NOT NULL AND t.limited = held.type AND t.tenant = u.tenant AND t.state IN ('running', 'rollback_running')
                    LIMIT held.tenant_most) AS r) - (
                SELECT count(*) FROM "schema_of_a_release".limit_place AS p WHERE p.name = held.type AND p.tenant = u.tenant), 0)
            ELSE 1000000000 END AS free,
            CASE WHEN held.tenant_rate > 0 THEN coalesce((
                SELECT least(b.tokens + greatest(extract(epoch FROM clock_timestamp() - b.counted_at), 0)::double precision * held.tenant_rate,
                    held.tenant_burst + held.tenant_rate * 0.025)
                FROM "schema_of_a_release".tenant_bucket AS b WHERE b.name = held.type AND b.tenant = u.tenant LIMIT 1), held.tenant_burst) END AS tokens
        FROM unnest(tenants) WITH ORDINALITY AS u (tenant, place)
    ) AS m;
    PERFORM set_config('leasehold.tenant_rooms', frees::text, true);
    RETURN QUERY SELECT f.rooms, f.wait FROM unnest(frees, waits) WITH ORDINALITY AS f (rooms, wait, place) ORDER BY f.place;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".tenant_rooms(text, text[]) FROM PUBLIC;

-- Takes tokens of tenants for rows that a claim starts; it has locked the limit. The rule is that of store.Bucket.
CREATE OR REPLACE FUNCTION "schema_of_a_release".spend_tenant_tokens(limit_name text, tenants text[], ns bigint[]) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    per   double precision;
    burst integer;
BEGIN
    SELECT l.tenant_rate, l.tenant_burst INTO per, burst FROM "schema_of_a_release".type_limit AS l WHERE l.type = limit_name;
    IF per > 0 THEN
        INSERT INTO "schema_of_a_release".tenant_bucket AS b (name, tenant, tokens, counted_at, full_at)
        SELECT limit_name, m.tenant, m.tokens, clock_timestamp(), clock_timestamp() + make_interval(secs => (burst - m.tokens) / per + 0.025)
        FROM (
            SELECT u.tenant, coalesce((
                SELECT least(k.tokens + greatest(extract(epoch FROM clock_timestamp() - k.counted_at), 0)::double precision * per,
                    burst + per * 0.025)
                FROM "schema_of_a_release".tenant_bucket AS k WHERE k.name = limit_name AND k.tenant = u.tenant LIMIT 1), burst) - u.n AS tokens
            FROM unnest(tenants, ns) AS u (tenant, n)
        ) AS m ORDER BY m.tenant COLLATE "C"
        ON CONFLICT (name, tenant) DO UPDATE SET tokens = excluded.tokens, counted_at = excluded.counted_at, full_at = excluded.full_at;
    END IF;
    RETURN true;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".spend_tenant_tokens(text, text[], bigint[]) FROM PUBLIC;

-- Takes the notes of tokens of a limit that were returned, whose attempts are over, and returns how many they were. The tenants get theirs
-- here; a bucket that is full has no row, and gets none. The caller has locked the limit.
CREATE OR REPLACE FUNCTION "schema_of_a_release".returned_tokens(limit_name text) RETURNS bigint
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, pg_temp SET enable_seqscan = off SET jit = off AS
$leasehold$
DECLARE
    back bigint;
BEGIN
    WITH gone AS (
        DELETE FROM "schema_of_a_release".limit_token AS n WHERE n.name = limit_name AND NOT EXISTS (
            SELECT FROM "schema_of_a_release".task AS t
            WHERE t.id = n.task_id AND t.fence = n.fence AND t.state IN ('running', 'rollback_running'))
        RETURNING n.tenant
    ), returned AS (
        UPDATE "schema_of_a_release".tenant_bucket AS b SET tokens = b.tokens + r.n
        FROM (SELECT g.tenant, count(*) AS n FROM gone AS g WHERE g.tenant IS NOT NULL GROUP BY g.tenant) AS r
        WHERE b.name = limit_name AND b.tenant = r.tenant
    )
    SELECT count(*) INTO back FROM gone;
    RETURN back;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".returned_tokens(text) FROM PUBLIC;

-- Turns of sequences. Rows of a type with the same sequence run one after another. A row comes as a candidate, which claims look at. The
-- first claim that meets a row of a sequence chooses its head, which alone may start; the others are held back (held). The head keeps its
-- turn until it is archived, through backoff and rollback; then a promotion, or another claim, chooses the next one.
--
-- As with locks (functions/locks.sql), claims and promotions lock the sequence's row in sequence_holder first, skip what another has locked,
-- and look at what has committed by then in later statements. A row is held back only by a transaction that saw that another one is the
-- head, or that a failure blocks the sequence. What ends the one or resolves the other leaves a note.

-- Chooses the heads of sequences whose rows in sequence_holder the caller has locked, where there is none any more. heads are those that it has
-- found there, and becomes what they are now. freed are those that are held back, locked: the caller makes candidates of them, or starts them.
-- Sequences whose head another transaction has locked are stuck: it is the head all the same, and is freed by the next call. Where fresh is
-- set, only new heads are freed.
CREATE OR REPLACE FUNCTION "schema_of_a_release".choose_heads(
    types text[], names text[], fresh boolean, INOUT heads bigint[], OUT freed bigint[], OUT stuck_types text[], OUT stuck_names text[]
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    before bigint[] := heads;
BEGIN
    heads := ARRAY(SELECT n.id FROM (
        SELECT s.place, CASE WHEN s.over THEN (SELECT coalesce(
    (SELECT t.id FROM "schema_of_a_release".task AS t
        WHERE t.type = s.type AND t.sequence = s.name AND t.state = 'rollback_pending' ORDER BY t.type DESC, t.sequence DESC, t.id DESC LIMIT 1),
    (SELECT e.id FROM (
            SELECT r.id FROM "schema_of_a_release".task AS r WHERE r.type = s.type AND r.sequence = s.name ORDER BY r.type, r.sequence, r.id LIMIT 1
        ) AS e
        WHERE coalesce(e.id < (
            SELECT f.task_id FROM "schema_of_a_release".sequence_failure AS f WHERE f.type = s.type AND f.name = s.name
            ORDER BY f.type, f.name, f.task_id LIMIT 1
        ), true) OR (SELECT p.on_failure FROM "schema_of_a_release".sequence_rule AS p WHERE p.type = s.type) IS NOT DISTINCT FROM 'continue' LIMIT 1))) ELSE s.task_id END AS id FROM (
            SELECT h.place, h.type, h.name, h.task_id, ((SELECT t.id FROM "schema_of_a_release".task AS t WHERE t.id = h.task_id AND t.type = h.type AND t.sequence = h.name
            AND coalesce(t.held, '') <> 'after' LIMIT 1) IS NULL
        AND (SELECT o.name FROM "schema_of_a_release".sequence_note AS o
            WHERE o.until IS NOT NULL AND o.type = h.type AND o.name = h.name AND o.until > clock_timestamp() LIMIT 1) IS NULL) AS over
            FROM unnest(types, names, heads) WITH ORDINALITY AS h (type, name, task_id, place) OFFSET 0
        ) AS s OFFSET 0) AS n ORDER BY n.place);
    UPDATE "schema_of_a_release".sequence_holder AS h SET task_id = n.id FROM (
        SELECT u.type, u.name, u.id FROM unnest(types, names, before, heads) AS u (type, name, was, id)
        WHERE u.was IS DISTINCT FROM u.id OFFSET 0) AS n
    WHERE h.type = n.type AND h.name = n.name;
    freed := ARRAY(
        SELECT t.id FROM unnest(types, names, before, heads) AS u (type, name, was, id)
        CROSS JOIN LATERAL (
            SELECT r.id FROM "schema_of_a_release".task AS r WHERE r.id = u.id AND r.held = 'sequence' AND r.type = u.type AND r.sequence = u.name
            LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) AS t
        WHERE NOT fresh OR u.was IS DISTINCT FROM u.id);
    stuck_types := '{}';
    stuck_names := '{}';
    IF cardinality(freed) < (SELECT count(u.id) FROM unnest(before, heads) AS u (was, id) WHERE NOT fresh OR u.was IS DISTINCT FROM u.id) THEN
        SELECT coalesce(array_agg(u.type), '{}'), coalesce(array_agg(u.name), '{}') INTO stuck_types, stuck_names
        FROM unnest(types, names, heads) AS u (type, name, id)
        CROSS JOIN LATERAL (
            SELECT FROM "schema_of_a_release".task AS r WHERE r.id = u.id AND r.held = 'sequence' AND r.type = u.type AND r.sequence = u.name
            LIMIT 1) AS t
        WHERE (u.id IN (SELECT d.id FROM unnest(freed) AS d (id))) IS NOT TRUE;
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".choose_heads(text[], text[], boolean, bigint[]) FROM PUBLIC;

-- Returns which of the rows that a claim has picked and locked have their turn. The others are held back. Those of a sequence that another
-- transaction works on are left. INFO says so, as for take_locks.
CREATE OR REPLACE FUNCTION "schema_of_a_release".take_turns(ids bigint[]) RETURNS bigint[]
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    types      text[];
    names      text[];
    all_types  text[];   -- sequences, each once
    all_names  text[];
    mine_types text[];   -- those whose row is locked here
    mine_names text[];
    heads      bigint[]; -- of these
    new_types  text[];   -- those whose head is to be chosen
    new_names  text[];
    new_heads  bigint[];
    mine       bigint[]; -- rows of those that are locked here
    taken      bigint[];
    chosen     record;
    n          bigint;
BEGIN
    SELECT array_agg(r.type ORDER BY u.place), array_agg(r.sequence ORDER BY u.place) INTO types, names
    FROM unnest(ids) WITH ORDINALITY AS u (id, place)
    CROSS JOIN LATERAL (SELECT t.type, t.sequence FROM "schema_of_a_release".task AS t WHERE t.id = u.id LIMIT 1) AS r;
    SELECT array_agg(u.type), array_agg(u.name) INTO all_types, all_names FROM (
        SELECT DISTINCT e.type, e.name COLLATE "C" AS name FROM unnest(types, names) AS e (type, name)
        ORDER BY e.type, e.name COLLATE "C") AS u;
    FOR round IN 1..2 LOOP
        SELECT coalesce(array_agg(h.type), '{}'), coalesce(array_agg(h.name), '{}'), coalesce(array_agg(h.task_id), '{}')
        INTO mine_types, mine_names, heads
        FROM unnest(all_types, all_names) AS u (type, name)
        CROSS JOIN LATERAL (
            SELECT k.type, k.name, k.task_id FROM "schema_of_a_release".sequence_holder AS k WHERE k.type = u.type AND k.name = u.name
            LIMIT 1 FOR UPDATE SKIP LOCKED) AS h;
        EXIT WHEN round = 2 OR cardinality(mine_names) = cardinality(all_names);
        -- Claims that need the same new sequences wait for each other, in the order of the names and for as long as one takes. An INSERT of one
        -- that is there would wait for a promotion that has changed its row.
        INSERT INTO "schema_of_a_release".sequence_holder (type, name)
        SELECT u.type, u.name FROM unnest(all_types, all_names) AS u (type, name)
        WHERE (SELECT k.type FROM "schema_of_a_release".sequence_holder AS k WHERE k.type = u.type AND k.name = u.name LIMIT 1) IS NULL
        ORDER BY u.type, u.name
        ON CONFLICT (type, name) DO NOTHING;
    END LOOP;
    -- Most candidates are heads that a promotion has chosen. A head that is held back all the same has a note: promotions see to it. A head may
    -- be in another sequence by now, where its turn of this one counts for nothing.
    SELECT array_agg(u.type), array_agg(u.name), array_agg(u.head) INTO new_types, new_names, new_heads
    FROM unnest(mine_types, mine_names, heads) AS u (type, name, head)
    WHERE ((u.head, u.type, u.name) IN (SELECT e.id, e.type, e.name FROM unnest(ids, types, names) AS e (id, type, name))) IS NOT TRUE;
    IF new_types IS NOT NULL THEN
        SELECT * FROM "schema_of_a_release".choose_heads(new_types, new_names, true, new_heads) INTO chosen;
        new_heads := chosen.heads;
        UPDATE "schema_of_a_release".task AS t SET held = NULL WHERE t.id = ANY (chosen.freed);
        INSERT INTO "schema_of_a_release".sequence_note (type, name)
        SELECT u.type, u.name FROM unnest(chosen.stuck_types, chosen.stuck_names) AS u (type, name);
    END IF;
    SELECT array_agg(u.id), array_agg(u.id) FILTER (WHERE (u.id, u.type, u.name) IN (
        SELECT h.head, h.type, h.name
        FROM unnest(mine_types || new_types, mine_names || new_names, heads || new_heads) AS h (type, name, head))) INTO mine, taken
    FROM unnest(ids, types, names) AS u (id, type, name)
    JOIN unnest(mine_types, mine_names) AS m (type, name) ON m.type = u.type AND m.name = u.name COLLATE "C";
    n := coalesce(cardinality(mine), 0) - coalesce(cardinality(taken), 0);
    IF n > 0 THEN
        UPDATE "schema_of_a_release".task AS t SET held = 'sequence' WHERE t.id = ANY (ARRAY(
            SELECT u.id FROM unnest(mine) AS u (id) WHERE (u.id IN (SELECT s.id FROM unnest(taken) AS s (id))) IS NOT TRUE));
        RAISE INFO 'leasehold: % tasks wait for their turns', n USING ERRCODE = 'LH001';
    END IF;
    IF coalesce(cardinality(mine), 0) < cardinality(ids) THEN
        RAISE INFO 'leasehold: turns are being passed on' USING ERRCODE = 'LH002';
    END IF;
    RETURN taken;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".take_turns(bigint[]) FROM PUBLIC;

-- Passes turns on that notes are about, so many notes at most, as promote_locks does for locks.
CREATE OR REPLACE FUNCTION "schema_of_a_release".promote_turns(
    most bigint, ask jsonb DEFAULT NULL,
    OUT promoted bigint, OUT noted bigint, OUT missed boolean, OUT next_us bigint, OUT started bigint[]
)
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
        SET plan_cache_mode = force_generic_plan SET jit = off AS
$leasehold$
DECLARE
    notes      tid[];
    types      text[];
    names      text[];
    mine_types text[]; -- those whose row is locked here
    mine_names text[];
    heads      bigint[];
    stay_types text[] := '{}'; -- those whose notes stay
    stay_names text[] := '{}';
    patience   text := current_setting('lock_timeout');
    late       boolean := false; -- a claim that makes one of them has not committed yet
    chosen     record;
BEGIN
    promoted := 0;
    missed := false;
    started := '{}';
    next_us := (SELECT (extract(epoch FROM min(o.until) - clock_timestamp()) * 1000000)::bigint FROM "schema_of_a_release".sequence_note AS o
        WHERE o.until IS NOT NULL AND o.until > clock_timestamp());
    SELECT array_agg(o.place), count(*) INTO notes, noted FROM (
        SELECT p.ctid AS place FROM "schema_of_a_release".sequence_note AS p WHERE p.until IS NULL OR p.until <= clock_timestamp()
        LIMIT most FOR UPDATE SKIP LOCKED) AS o;
    IF noted = 0 THEN -- a claim leaves to others what they are passing on
        missed := ask IS NULL AND EXISTS (SELECT FROM "schema_of_a_release".sequence_note AS o WHERE o.until IS NULL OR o.until <= clock_timestamp());
        RETURN;
    END IF;
    SELECT array_agg(e.type), array_agg(e.name) INTO types, names FROM (
        SELECT DISTINCT o.type, o.name FROM "schema_of_a_release".sequence_note AS o WHERE o.ctid = ANY (notes) ORDER BY o.type, o.name) AS e;
    FOR round IN 1..2 LOOP
        SELECT coalesce(array_agg(h.type), '{}'), coalesce(array_agg(h.name), '{}'), coalesce(array_agg(h.task_id), '{}')
        INTO mine_types, mine_names, heads
        FROM unnest(types, names) AS u (type, name)
        CROSS JOIN LATERAL (
            SELECT k.type, k.name, k.task_id FROM "schema_of_a_release".sequence_holder AS k WHERE k.type = u.type AND k.name = u.name
            LIMIT 1 FOR UPDATE SKIP LOCKED) AS h;
        EXIT WHEN round = 2 OR cardinality(mine_names) = cardinality(names);
        -- The first claim of a sequence may be holding rows back, for a reason that is over by now, and not have committed yet. It is waited
        -- for, as claims wait for each other, but only for a moment: then the notes stay.
        BEGIN
            PERFORM set_config('lock_timeout', '20ms', true);
            INSERT INTO "schema_of_a_release".sequence_holder (type, name)
            SELECT u.type, u.name FROM unnest(types, names) AS u (type, name)
            WHERE (SELECT k.type FROM "schema_of_a_release".sequence_holder AS k WHERE k.type = u.type AND k.name = u.name LIMIT 1) IS NULL
              AND (SELECT t.id FROM "schema_of_a_release".task AS t WHERE t.type = u.type AND t.sequence = u.name LIMIT 1) IS NOT NULL
            ORDER BY u.type, u.name
            ON CONFLICT (type, name) DO NOTHING;
            PERFORM set_config('lock_timeout', patience, true);
        EXCEPTION WHEN lock_not_available THEN
            late := true;
        END;
    END LOOP;
    IF cardinality(mine_names) < cardinality(names) THEN
        SELECT coalesce(array_agg(u.type), '{}'), coalesce(array_agg(u.name), '{}') INTO stay_types, stay_names
        FROM unnest(types, names) AS u (type, name)
        WHERE ((u.type, u.name) IN (SELECT m.type, m.name FROM unnest(mine_types, mine_names) AS m (type, name))) IS NOT TRUE
          AND (EXISTS (SELECT FROM "schema_of_a_release".sequence_holder AS k WHERE k.type = u.type AND k.name = u.name)
              OR late AND (SELECT t.id FROM "schema_of_a_release".task AS t WHERE t.type = u.type AND t.sequence = u.name LIMIT 1) IS NOT NULL);
    END IF;
    -- Where failures block nothing they are forgotten. One that is being revived goes with that.
    PERFORM FROM "schema_of_a_release".sequence_rule AS p WHERE p.type = ANY (types) AND p.on_failure = 'continue';
    IF FOUND THEN
        DELETE FROM "schema_of_a_release".sequence_failure AS f WHERE f.ctid = ANY (ARRAY(
            SELECT g.ctid FROM unnest(types, names) AS u (type, name)
            CROSS JOIN LATERAL (
                SELECT FROM "schema_of_a_release".sequence_rule AS p WHERE p.type = u.type AND p.on_failure = 'continue' LIMIT 1) AS c
            CROSS JOIN LATERAL (
                SELECT e.ctid FROM "schema_of_a_release".sequence_failure AS e WHERE e.type = u.type AND e.name = u.name FOR UPDATE SKIP LOCKED) AS g));
    END IF;
    SELECT * FROM "schema_of_a_release".choose_heads(mine_types, mine_names, false, heads) INTO chosen;
    promoted := cardinality(chosen.freed);
    IF ask IS NOT NULL AND promoted > 0 THEN
        started := "schema_of_a_release".start_first(chosen.freed, chosen.freed, ask);
    END IF;
    UPDATE "schema_of_a_release".task AS t SET held = NULL WHERE t.id = ANY (ARRAY(
        SELECT u.id FROM unnest(chosen.freed) AS u (id) WHERE (u.id IN (SELECT s.id FROM unnest(started) AS s (id))) IS NOT TRUE));
    stay_types := stay_types || chosen.stuck_types;
    stay_names := stay_names || chosen.stuck_names;
    DELETE FROM "schema_of_a_release".sequence_holder AS h USING (
        SELECT u.type, u.name FROM unnest(mine_types, mine_names, chosen.heads) AS u (type, name, head) WHERE u.head IS NULL OFFSET 0) AS u
    WHERE h.type = u.type AND h.name = u.name AND h.task_id IS NULL
      AND (SELECT t.id FROM "schema_of_a_release".task AS t WHERE t.type = h.type AND t.sequence = h.name LIMIT 1) IS NULL -- h: only where there is no head
      AND (SELECT f.task_id FROM "schema_of_a_release".sequence_failure AS f WHERE f.type = h.type AND f.name = h.name LIMIT 1) IS NULL;
    DELETE FROM "schema_of_a_release".sequence_note AS o WHERE o.ctid = ANY (notes)
        AND (o.until IS NULL OR o.until <= clock_timestamp()) -- else the clock was set back meanwhile, and it lay ahead for choose_heads
        AND ((o.type, o.name) IN (SELECT s.type, s.name FROM unnest(stay_types, stay_names) AS s (type, name))) IS NOT TRUE;
    missed := cardinality(stay_types) > 0;
    IF promoted > cardinality(started) AND EXISTS (SELECT FROM "schema_of_a_release".agent AS a WHERE a.idle AND a.present_until > now()) THEN
        PERFORM pg_notify('leasehold:schema_of_a_release', '');
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".promote_turns(bigint, jsonb) FROM PUBLIC;

-- Notes that a row with a sequence has been archived, and whether it has failed. What had succeeded, and was rolled back on request, has not.
CREATE OR REPLACE FUNCTION "schema_of_a_release".sequence_left() RETURNS trigger
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$leasehold$
BEGIN
    INSERT INTO "schema_of_a_release".sequence_note (until, type, name) VALUES (NEW.lease_until, NEW.type, NEW.sequence);
    IF NEW.state IN ('failed', 'cancelled', 'rollback_failed') OR NEW.state = 'rolled_back' AND NEW.cause IS DISTINCT FROM 'succeeded' THEN
        INSERT INTO "schema_of_a_release".sequence_failure (task_id, type, name) VALUES (NEW.id, NEW.type, NEW.sequence) ON CONFLICT DO NOTHING;
    END IF;
    RETURN NULL;
END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".sequence_left() FROM PUBLIC;

-- Returns the length of a document in bytes, as far as it is known without reading it: a large one is stored out of line,
-- and its size as pg_column_size gives it stands in the row. An agent gets the document's text, which may be several
-- times as long, and a hundred times where the document is compressed. So a compressed document counts 32 times while it
-- is small, and is read where it is not; so is every document beyond 1 MiB, up to the size that no agent takes anyway.
CREATE OR REPLACE FUNCTION "schema_of_a_release".weight(document jsonb) RETURNS double precision
    LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS
$leasehold$
    SELECT CASE
        WHEN pg_column_compression(document) IS NULL AND pg_column_size(document) <= 1048576
            OR pg_column_size(document) > 67108864 THEN pg_column_size(document)
        WHEN pg_column_size(document) <= 4096 THEN 32 * pg_column_size(document)
        ELSE octet_length(document::text) END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".weight(jsonb) FROM PUBLIC;

-- Returns the document, or NULL where it is too large for an agent.
CREATE OR REPLACE FUNCTION "schema_of_a_release".fit(document jsonb) RETURNS jsonb
    LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS
$leasehold$
    SELECT CASE WHEN "schema_of_a_release".weight(document) <= 67108864 THEN document END
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".fit(jsonb) FROM PUBLIC;

-- Returns the reason why no agent takes a row with these documents, or NULL where all of them fit.
CREATE OR REPLACE FUNCTION "schema_of_a_release".unfit(payload jsonb, rollback_payload jsonb, result jsonb, checkpoint jsonb) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS
$leasehold$
    SELECT format('its %s is %s bytes, and agents take 64 MiB at most: keep what is large elsewhere, and where it is in the '
        'payload', d.what, d.bytes)
    FROM (VALUES ('payload', "schema_of_a_release".weight(payload)), ('rollback payload', "schema_of_a_release".weight(rollback_payload)),
        ('result', "schema_of_a_release".weight(result)), ('checkpoint', "schema_of_a_release".weight(checkpoint))) AS d (what, bytes)
    WHERE d.bytes > 67108864 LIMIT 1
$leasehold$;
REVOKE ALL ON FUNCTION "schema_of_a_release".unfit(jsonb, jsonb, jsonb, jsonb) FROM PUBLIC;

-- triggers
-- Constraints and triggers, which need both the tables and the functions.

-- In place of a constraint for each column: see functions/task_fits.sql. What a row has is checked when it comes, as all else is.
ALTER TABLE "schema_of_a_release".task ADD CONSTRAINT "columns must be within their bounds" CHECK (
    fence > 0 OR octet_length(type) BETWEEN 1 AND 255 AND labels IS NULL AND max_attempts IS NULL
        AND coalesce(region, key, lock, sequence, tenant, after_if, traceparent, created_by) IS NULL
    OR "schema_of_a_release".task_fits(type, region, key, lock, sequence, tenant, after_if, max_attempts, labels, traceparent, created_by));
ALTER TABLE "schema_of_a_release".follow ADD CONSTRAINT "columns must be within their bounds" CHECK (
    fence > 0 OR octet_length(type) BETWEEN 1 AND 255 AND labels IS NULL AND max_attempts IS NULL
        AND coalesce(region, key, lock, sequence, tenant, after_if, traceparent, created_by) IS NULL
    OR "schema_of_a_release".task_fits(type, region, key, lock, sequence, tenant, after_if, max_attempts, labels, traceparent, created_by));

-- A row trigger WHEN (NEW.batch_id IS NOT NULL) would cost each row of a batch two thirds of what it costs to insert it,
-- and need somewhere to count that no application can write to. The transition table costs a row without a batch some
-- hundredths of its insert where it comes alone, and up to a sixth in an INSERT of thousands.
CREATE TRIGGER task_inserted AFTER INSERT ON "schema_of_a_release".task
    REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT EXECUTE FUNCTION "schema_of_a_release".task_inserted();

-- Deferred: it runs just before the commit.
CREATE CONSTRAINT TRIGGER batch_stops AFTER UPDATE OF stopping ON "schema_of_a_release".batch DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.stopping AND NOT OLD.stopping) EXECUTE FUNCTION "schema_of_a_release".batch_stops();

-- An agent has checked what HCL declares, by rules that may be newer than these.
CREATE TRIGGER schedule_declared BEFORE INSERT OR UPDATE OF name, task, cron, every, after, timezone, payload, jitter, from_at,
    until_at, missed, catch_up, overlap, source ON "schema_of_a_release".schedule
    FOR EACH ROW WHEN (NEW.source = 'sql') EXECUTE FUNCTION "schema_of_a_release".schedule_declared();

-- It runs before schedule_declared: triggers of one kind run in the order of their names.
CREATE TRIGGER schedule_changed BEFORE UPDATE OF task, cron, every, after, timezone, payload, jitter, from_at, until_at, missed,
    catch_up, overlap, source ON "schema_of_a_release".schedule
    FOR EACH ROW EXECUTE FUNCTION "schema_of_a_release".schedule_changed();

CREATE TRIGGER schedule_deleted BEFORE DELETE ON "schema_of_a_release".schedule
    FOR EACH ROW WHEN (OLD.source = 'hcl') EXECUTE FUNCTION "schema_of_a_release".schedule_deleted();

-- Rows without a sequence pay for the condition.
CREATE TRIGGER sequence_left AFTER INSERT ON "schema_of_a_release".task_archive
    FOR EACH ROW WHEN (NEW.sequence IS NOT NULL) EXECUTE FUNCTION "schema_of_a_release".sequence_left();

INSERT INTO "schema_of_a_release".schema_version (version, name, oldest) VALUES (1, 'schema', 1);
COMMIT;
