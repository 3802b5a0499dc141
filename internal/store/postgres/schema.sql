-- The schema as it is. Functions are in functions/, triggers in triggers.sql; how an older schema becomes this one is in
-- migrations/. {schema} and {channel_literal} are filled in, quoted, before this runs. schema_version is not here: the
-- migrator creates it first, and locks it.

-- Live tasks only. Applications insert type, payload, run_at, priority, region, key, max_attempts, labels, traceparent,
-- created_by, batch_id, rollback_payload, lock, sequence, after, after_if and tenant; the other columns belong to the agents. The name of a
-- constraint is the message that an application gets; task_fits has those of more columns. Columns of a fixed width come first: a row is written three times in its life, and
-- this order wastes nothing on alignment. A column that is NULL takes no room.
CREATE TABLE {schema}.task (
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
CREATE INDEX task_due ON {schema}.task (type, coalesce(region, ''), priority DESC, run_at, id)
    WHERE state IN ('pending', 'retry_pending') AND held IS NULL AND tenant IS NULL;
CREATE INDEX task_rollback ON {schema}.task (type, coalesce(region, ''), priority DESC, run_at, id)
    WHERE state = 'rollback_pending' AND held IS NULL AND tenant IS NULL;
-- Rows with a tenant: a claim walks one (type, region, tenant, priority) of these in order, and finds tenants one after another.
CREATE INDEX task_tenant ON {schema}.task (type, coalesce(region, ''), tenant, priority DESC, run_at, id)
    WHERE state IN ('pending', 'retry_pending') AND held IS NULL AND tenant IS NOT NULL;
CREATE INDEX task_tenant_rollback ON {schema}.task (type, coalesce(region, ''), tenant, priority DESC, run_at, id)
    WHERE state = 'rollback_pending' AND held IS NULL AND tenant IS NOT NULL;
-- Rows that wait for their lock, by class: a claim may want one class of them and not another. A promotion takes the first of each.
CREATE INDEX task_held ON {schema}.task (lock, type, coalesce(region, ''), (state = 'rollback_pending'), priority DESC, run_at, id)
    WHERE held = 'lock';
-- Rows with a sequence, in its order; those that are to be rolled back go first, the last one before the others.
CREATE INDEX task_sequence ON {schema}.task (type, sequence, id) WHERE sequence IS NOT NULL;
CREATE INDEX task_sequence_rollback ON {schema}.task (type, sequence, id) WHERE sequence IS NOT NULL AND state = 'rollback_pending';
-- Rows of regions, by how long they have waited: agents of other regions may take what has waited too long.
CREATE INDEX task_spill ON {schema}.task (type, region, coalesce(first_due, run_at), id)
    WHERE region IS NOT NULL AND held IS NULL AND state IN ('pending', 'retry_pending', 'rollback_pending');
-- Of the rows to be rolled back that are held back, which are few: for lists.
CREATE INDEX task_rollback_held ON {schema}.task (id) WHERE state = 'rollback_pending' AND held IS NOT NULL;
-- lease_until is in no index and no predicate: a renewal writes nothing but its row.
CREATE INDEX task_running ON {schema}.task (session)
    WHERE state IN ('running', 'rollback_running');
-- What runs of types with a limit, and of each tenant of these: claims of them count it.
CREATE INDEX task_limited ON {schema}.task (limited, tenant)
    WHERE limited IS NOT NULL AND state IN ('running', 'rollback_running');
CREATE UNIQUE INDEX task_key ON {schema}.task (type, key) WHERE key IS NOT NULL;
-- Running rows are not in it: each claim would have to enter them.
CREATE INDEX task_batch ON {schema}.task (batch_id, id)
    WHERE batch_id IS NOT NULL AND state IN ('pending', 'retry_pending', 'rollback_pending');

-- Followers: rows that wait until the live row of their type and key has ended for good, one for each. They become tasks then
-- (insert_followers). Columns and constraints are those of task: what task would refuse is refused when the follower comes. Only a
-- transaction that keeps the live row from ending (FOR KEY SHARE), or has ended it, writes a follower. So the end of a row
-- never waits for one.
CREATE TABLE {schema}.follow (
    LIKE {schema}.task INCLUDING CONSTRAINTS INCLUDING DEFAULTS,
    PRIMARY KEY (type, key)
) WITH (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 10000
);
CREATE UNIQUE INDEX follow_id ON {schema}.follow (id);

-- Finished tasks: the row as it was, and how it ended. One partition for each day (UTC), created ahead by the agents.
CREATE TABLE {schema}.task_archive (
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

CREATE INDEX task_archive_id ON {schema}.task_archive (id);
CREATE INDEX task_archive_type ON {schema}.task_archive (type, id);
-- Nearly every row succeeds: only the others pay for being found.
CREATE INDEX task_archive_unsuccessful ON {schema}.task_archive (id) WHERE state <> 'succeeded';
CREATE INDEX task_archive_rollback_failed ON {schema}.task_archive (id) WHERE state = 'rollback_failed';
CREATE INDEX task_archive_key ON {schema}.task_archive (key) WHERE key IS NOT NULL;
-- Rows that were cancelled on account of another, which a retry of that one revives, too.
CREATE INDEX task_archive_cancelled_for ON {schema}.task_archive (cancelled_for, id) WHERE cancelled_for IS NOT NULL;
-- All finished rows of a batch: first those that a rollback may revive, in the order in which it does (read backwards).
-- Another index, by id, would make lists quicker, and cost each settlement an entry.
CREATE INDEX task_archive_batch ON {schema}.task_archive (
    batch_id,
    ({began of=task_archive.}),
    id
) WHERE batch_id IS NOT NULL;
-- What a retry of the batch revives, and what could not be rolled back.
CREATE INDEX task_archive_batch_failed ON {schema}.task_archive (batch_id, id)
    WHERE batch_id IS NOT NULL AND {has_failed of=task_archive.};

-- The history: one row for each attempt that was settled, except where a task was done at its first try.
CREATE TABLE {schema}.attempt (
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
CREATE VIEW {schema}.tasks AS
    SELECT id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
           created_at, attempt, deferrals, ever_started, fence, session, claim, policy, lease_until, claimed_at, deadline,
           outcome, {shown_error of=t.} AS error, result, output, started_at, finished_at, progress, message, checkpoint, cancel_requested_at,
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
        FROM {schema}.task
        UNION ALL
        SELECT id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
               created_at, attempt, deferrals, ever_started, fence, session, claim, policy, lease_until, claimed_at, deadline,
               outcome, error, result, output, started_at, finished_at, progress, message, checkpoint, cancel_requested_at,
               cancel_requested_by, false, batch_id, rollback_payload, cause, coalesce(round, 0), NULL, lock, NULL, sequence, after,
               CASE WHEN after IS NOT NULL THEN coalesce(after_if, 'succeeded') END, cancelled_for, tenant, false,
               nullif(failed_task, id)
        FROM {schema}.task_archive
        UNION ALL
        SELECT id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
               created_at, attempt, deferrals, ever_started, fence, session, claim, policy, lease_until, claimed_at, deadline,
               outcome, error, result, NULL, NULL, NULL, progress, message, checkpoint, cancel_requested_at,
               cancel_requested_by, false, batch_id, rollback_payload, cause, 0, {followed of=follow.}, lock, NULL, sequence, NULL, NULL, NULL, tenant,
               false, NULL
        FROM {schema}.follow
    ) AS t;

-- Locks that are held, each by a row that runs, or has ended and not been followed yet. Nothing but claims and promotions write it,
-- and each of them locks the lock's row first, skipping what another has locked, and looks at tasks and notes in a later statement:
-- functions/locks.sql.
CREATE TABLE {schema}.lock_holder (
    task_id bigint NOT NULL,
    name    text COLLATE "C" PRIMARY KEY
) WITH (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);

-- What promotions have to look at: a row with a lock has stopped to run, or to wait without being held. It is written in the
-- transaction that moves the row, and waits for nothing.
CREATE TABLE {schema}.lock_note (
    until timestamptz,   -- what the row ran may be at work until then, and the lock stays held; NULL: it has ended
    name  text COLLATE "C" NOT NULL
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 50000
);
CREATE INDEX lock_note_until ON {schema}.lock_note (name) WHERE until IS NOT NULL;

-- Sequences that claims have met, and whose turn it is. task_id is the head: it keeps its turn for as long as it is in task. NULL: there is none,
-- because nothing waits, or because a failure blocks the sequence. Nothing but claims and promotions write it, as lock_holder:
-- functions/turns.sql.
CREATE TABLE {schema}.sequence_holder (
    task_id bigint,
    type    text NOT NULL,
    name    text COLLATE "C" NOT NULL,
    PRIMARY KEY (type, name)
) WITH (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0
);

-- What promotions have to look at: a row with a sequence has ended, as lock_note.
CREATE TABLE {schema}.sequence_note (
    until timestamptz,   -- what the row ran may be at work until then, and no other has its turn; NULL: it has ended
    type  text NOT NULL,
    name  text COLLATE "C" NOT NULL
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 50000
);
CREATE INDEX sequence_note_until ON {schema}.sequence_note (type, name) WHERE until IS NOT NULL;

-- Finished rows of sequences that have not succeeded, until that is resolved: the archived row is kept as long. The transaction that
-- archives the row writes it, and one that revives the row removes it. What it means, whether it blocks the rows behind it, is decided when
-- its turn comes, by sequence_rule.
CREATE TABLE {schema}.sequence_failure (
    task_id bigint NOT NULL,
    type    text NOT NULL,
    name    text COLLATE "C" NOT NULL,
    PRIMARY KEY (type, name, task_id)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- What a failure does to the sequences of a row type, as the newest declaration of the present agents says: 'block' or 'continue'. A type
-- that is not in here blocks.
CREATE TABLE {schema}.sequence_rule (
    declared   bigint NOT NULL,               -- number of the declaration in force
    type       text PRIMARY KEY,
    on_failure text NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

-- Declarations of them, and the sessions that declare them, as those of limits.
CREATE TABLE {schema}.sequence_declaration (
    number     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    first_at   timestamptz NOT NULL DEFAULT now(),
    type       text NOT NULL,
    on_failure text NOT NULL,
    UNIQUE (type, on_failure)
);
CREATE TABLE {schema}.sequence_declarer (
    session bigint NOT NULL,
    number  bigint NOT NULL,
    PRIMARY KEY (session, number)
);

-- Rows that wait for others (after): functions/after.sql. An INSERT of a task adds its row here, and agents do the rest.
CREATE TABLE {schema}.dependent (
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
CREATE INDEX dependent_look ON {schema}.dependent (task_id) WHERE stage = 'look';
CREATE INDEX dependent_decide ON {schema}.dependent (task_id) WHERE stage = 'decide';

-- Which live rows, and followers, it is that rows wait for. Only agents write it, each for rows of dependent that it has locked.
CREATE TABLE {schema}.dependency (
    on_id   bigint NOT NULL,
    task_id bigint NOT NULL,
    PRIMARY KEY (on_id, task_id)
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 50000
);

-- Rows that have ended for good and that others wait for. It is written in the transaction that moves the row, and waits for nothing.
CREATE TABLE {schema}.ended_note (
    id bigint NOT NULL
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 50000
);

-- Rows that were retried: those that were cancelled on account of them are to be revived, too (functions/revive_dependents.sql). It is
-- written in the transaction that revives the row, and waits for nothing.
CREATE TABLE {schema}.revived_note (
    number   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id       bigint NOT NULL,
    place    bigint NOT NULL DEFAULT 0, -- those with ids up to this one have been looked at
    batch_id bigint                     -- the row's batch, which does not end before they are back
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 50000
);
CREATE INDEX revived_note_batch ON {schema}.revived_note (batch_id) WHERE batch_id IS NOT NULL;

-- Batches. Applications insert name, on_failure, finish_type, finish_payload, labels, created_by and sealed; the other
-- columns belong to the agents. The counters are the sum of the deltas that folds have found; batch_delta has the others.
CREATE TABLE {schema}.batch (
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
CREATE UNIQUE INDEX batch_ended ON {schema}.batch (id, ended_at);
CREATE INDEX batch_open ON {schema}.batch (id) WHERE ended_at IS NULL;
CREATE INDEX batch_needs_fold ON {schema}.batch (id) WHERE needs_fold;
CREATE INDEX batch_stopping ON {schema}.batch (id) WHERE stopping AND ended_at IS NULL;

-- What was counted and not summed yet: one row for each statement and batch, in the transaction that moved the tasks.
CREATE TABLE {schema}.batch_delta (
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
CREATE INDEX batch_delta_batch ON {schema}.batch_delta (batch_id);

-- Claims in flight and a transaction that stops a batch. A claim locks the batch's gate (its id modulo 8), shared, from
-- before its last look at the batch until its end (reserve_start). A transaction that stops the batch locks it
-- exclusively just before its commit (batch_stops). So once that has committed nothing of the batch starts, and until
-- then an open transaction blocks no claim. A lock on a table is fair (later claims do not overtake one that waits),
-- writes nothing, and takes a privilege on the table, which no application has. There are eight gates so that batches
-- seldom share one: a batch that does is skipped by the claims that come while another is being stopped.
CREATE TABLE {schema}.batch_gate_0 ();
CREATE TABLE {schema}.batch_gate_1 ();
CREATE TABLE {schema}.batch_gate_2 ();
CREATE TABLE {schema}.batch_gate_3 ();
CREATE TABLE {schema}.batch_gate_4 ();
CREATE TABLE {schema}.batch_gate_5 ();
CREATE TABLE {schema}.batch_gate_6 ();
CREATE TABLE {schema}.batch_gate_7 ();

-- What operators request of a batch, or of a task that runs. Agents carry it out in steps.
CREATE TABLE {schema}.operation (
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
CREATE INDEX operation_open ON {schema}.operation (id) WHERE ended_at IS NULL;
CREATE INDEX operation_batch ON {schema}.operation (batch_id, id) WHERE batch_id IS NOT NULL;
CREATE INDEX operation_task ON {schema}.operation (task_id) WHERE task_id IS NOT NULL;

-- Who requested each change. A row stays as long as the task or the batch. requested_by is what the caller says; role is
-- the role that the session logged in with, which no caller chooses.
CREATE TABLE {schema}.audit (
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
CREATE INDEX audit_task ON {schema}.audit (task_id, id) WHERE task_id IS NOT NULL;
CREATE INDEX audit_batch ON {schema}.audit (batch_id, id) WHERE batch_id IS NOT NULL;

-- Changes of all tasks that match a filter: functions/bulk.sql. Agents look at tasks by rising ids, up to up_to, and move after_id in the
-- transaction that changes them. So each is changed once at most.
CREATE TABLE {schema}.bulk_change (
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
CREATE INDEX bulk_change_open ON {schema}.bulk_change (id) WHERE ended_at IS NULL;

-- The same with how far each is.
CREATE VIEW {schema}.bulk_changes AS
    SELECT c.id, c.verb, c.filter, c.requested_at, c.requested_by, c.reason,
        CASE WHEN c.ended_at IS NULL THEN 'running' WHEN c.stopped THEN 'stopped' ELSE 'ended' END AS state,
        CASE WHEN c.ended_at IS NOT NULL AND NOT c.stopped OR c.up_to <= c.from_id THEN 1
             ELSE (c.after_id - c.from_id)::double precision / (c.up_to - c.from_id) END AS progress,
        c.looked, c.done, c.refused, cardinality(c.again) AS locked, c.skipped, c.from_id, c.up_to, c.after_id, c.ended_at
    FROM {schema}.bulk_change AS c;

-- Batches with their state and all counts, those of batch_delta included.
CREATE VIEW {schema}.batches AS
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
    FROM {schema}.batch AS b
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
        FROM {schema}.batch_delta AS d WHERE d.batch_id = b.id
    ) AS s
    CROSS JOIN LATERAL (
        SELECT s.*, s.total - s.succeeded - s.failed - s.cancelled - s.rolled_back - s.rollback_failed AS live
    ) AS n
    LEFT JOIN LATERAL (
        SELECT o.verb FROM {schema}.operation AS o
        WHERE o.batch_id = b.id AND o.task_id IS NULL AND o.ended_at IS NULL ORDER BY o.id DESC LIMIT 1
    ) AS o ON true;

-- Names of time zones that a schedule may have: those that Go embeds, so that agents know each of them.
CREATE TABLE {schema}.schedule_zone (name text PRIMARY KEY);
INSERT INTO {schema}.schedule_zone (name) VALUES
    {zones};

-- What inserts tasks again and again, and where each of them stands. Slots (cursor_at, last_slot, queued_slot) are whole
-- milliseconds. NULL and '' are the default of a declared column. Applications insert name, task, cron, every, after, timezone,
-- payload, jitter, from_at, until_at, missed, catch_up and overlap, and change all of these but name. The trigger
-- schedule_declared checks them, and schedule_changed has the schedule go on from a change. Both are for rows of source 'sql'
-- and 'hcl' alike, except that an agent checks what HCL declares.
CREATE TABLE {schema}.schedule (
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
CREATE INDEX schedule_next ON {schema}.schedule (next_at, name) WHERE {may_fire of=schedule.};

-- What configurations declare: one row for each schedule and each of its declarations that was ever loaded. The highest number
-- is the newest one.
CREATE TABLE {schema}.schedule_declaration (
    number   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    first_at timestamptz NOT NULL DEFAULT now(),
    name     text NOT NULL,
    hash     text NOT NULL,                      -- of spec
    spec     jsonb NOT NULL,
    UNIQUE (name, hash)
);

-- Which sessions declare what. It counts while the session is present.
CREATE TABLE {schema}.schedule_declarer (
    session bigint NOT NULL,
    number  bigint NOT NULL,
    PRIMARY KEY (session, number)
);

-- Schedules for operators and applications. The end of last_task is in tasks.
CREATE VIEW {schema}.schedules AS
    SELECT s.name, s.task, s.cron, s.every, s.after, s.timezone, s.payload, s.jitter, s.from_at, s.until_at, s.missed,
        s.catch_up, s.overlap, s.source, s.created_at, s.next_at, s.last_slot, s.last_task, s.last_by, s.queued_slot,
        s.missed_slots, s.paused_at, s.paused_by, s.parked_at, s.invalid
    FROM {schema}.schedule AS s;

-- Plans that cut a big table into ranges of its key (chunks), each of which becomes a task. The
-- names of its columns are those of store.ChunkPlan. Agents declare them, and an agent checks what is declared.
CREATE TABLE {schema}.chunk_plan (
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
CREATE TABLE {schema}.chunk_declaration (
    number   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    first_at timestamptz NOT NULL DEFAULT now(),
    name     text NOT NULL,
    hash     text NOT NULL,                      -- of spec
    spec     jsonb NOT NULL,
    UNIQUE (name, hash)
);
CREATE TABLE {schema}.chunk_declarer (
    session bigint NOT NULL,
    number  bigint NOT NULL,
    PRIMARY KEY (session, number)
);

-- Limits of task types over all agents, as the present ones declare them (declare_limits): a row for each row type that has one. The
-- types of one declaration share its limit, and claims of them lock the row whose type is the limit's name (limit_rooms).
CREATE TABLE {schema}.type_limit (
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
CREATE TABLE {schema}.limit_bucket (
    counted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    tokens     double precision NOT NULL,
    name       text PRIMARY KEY
) WITH (fillfactor = 30, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200);

-- What a rate of tenants allows to start, by limit and tenant. A bucket that is not here is full, so what is full again is removed (forget_buckets).
CREATE TABLE {schema}.tenant_bucket (
    counted_at timestamptz NOT NULL,
    full_at    timestamptz NOT NULL,          -- when it will be full if nothing starts
    tokens     double precision NOT NULL,
    name       text NOT NULL,                 -- of the limit
    tenant     text COLLATE "C" NOT NULL,
    PRIMARY KEY (name, tenant)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);

-- Tokens that are returned for rows which were claimed and never started. A session writes them before it releases the rows; one counts
-- once its attempt is over.
CREATE TABLE {schema}.limit_token (
    task_id bigint NOT NULL,
    fence   bigint NOT NULL,
    name    text NOT NULL,                    -- of the limit
    tenant  text COLLATE "C",
    PRIMARY KEY (task_id, fence)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
CREATE INDEX limit_token_name ON {schema}.limit_token (name, tenant);

-- Places that attempts keep which have been settled and may still be at work, until their leases end. The settlement writes them, so none is
-- of an attempt that runs.
CREATE TABLE {schema}.limit_place (
    task_id bigint NOT NULL,
    fence   bigint NOT NULL,
    kept_at timestamptz NOT NULL DEFAULT now(),
    until   timestamptz NOT NULL,
    name    text NOT NULL,                    -- of the limit
    tenant  text COLLATE "C",
    PRIMARY KEY (task_id, fence)
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
CREATE INDEX limit_place_name ON {schema}.limit_place (name, tenant);

-- Declarations of limits, and the sessions that declare them, as those of schedules.
CREATE TABLE {schema}.limit_declaration (
    number   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    first_at timestamptz NOT NULL DEFAULT now(),
    name     text NOT NULL,
    hash     text NOT NULL,                      -- of spec
    spec     jsonb NOT NULL,
    UNIQUE (name, hash)
);
CREATE TABLE {schema}.limit_declarer (
    session bigint NOT NULL,
    number  bigint NOT NULL,
    PRIMARY KEY (session, number)
);

-- The ledger: the passes of plans. A pass has cut the table behind from_key and up to through_key without a gap, since a step is
-- applied only where its ranges continue those before. A pass without chunks goes when it ends, the others stay for ever.
CREATE TABLE {schema}.chunk_pass (
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
CREATE TABLE {schema}.chunk_range (
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
CREATE INDEX chunk_range_open ON {schema}.chunk_range (plan, pass, step, item, part) WHERE state = 'open';
CREATE INDEX chunk_range_left ON {schema}.chunk_range (plan, pass, step, item, part) WHERE state IN ('failed', 'reopened');

-- Sessions: one row for each start of an agent. A number is never used again.
CREATE TABLE {schema}.agent (
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
CREATE VIEW {schema}.agents AS
    SELECT session, name,
        CASE WHEN present_until <= seen_at THEN 'left' WHEN present_until <= now() THEN 'absent'
             WHEN draining OR ordered = 'drain' THEN 'draining' WHEN workers = 0 THEN 'observer'
             WHEN ordered = 'cordon' THEN 'cordoned' ELSE 'working' END AS state,
        region, version, config, workers, running, done, minute AS done_per_minute, types, started_at, seen_at, ordered_by, condition
    FROM {schema}.agent;

-- What configurations have declared, without secrets: the change log of definitions. A block that was never loaded before gets the next
-- number; the same one again is the same row.
CREATE TABLE {schema}.declaration (
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
CREATE TABLE {schema}.declarer (
    session bigint NOT NULL,
    number  bigint NOT NULL,
    PRIMARY KEY (session, number)
);

-- Members that are masked where documents of a row type are shown, as the configuration has it that was loaded last: of types that have ever had
-- some.
CREATE TABLE {schema}.redaction (
    type  text PRIMARY KEY,
    names jsonb NOT NULL -- a list
);

-- All that are masked: also what other present agents declare.
CREATE VIEW {schema}.redactions AS
    SELECT r.type, n.name FROM {schema}.redaction AS r CROSS JOIN LATERAL jsonb_array_elements_text(r.names) AS n (name)
    UNION
    SELECT d.type, n.name FROM {schema}.agent AS a CROSS JOIN LATERAL jsonb_each(a.redact) AS d (type, names)
    CROSS JOIN LATERAL jsonb_array_elements_text(d.names) AS n (name)
    WHERE a.present_until > now();

-- What each session has counted of the attempts of a type, by intervals of the store's clock: of one minute, kept for two hours, and of
-- an hour, kept for two days. A session sets its own rows and no others. So a write may be repeated, and two never meet.
CREATE TABLE {schema}.activity (
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
CREATE VIEW {schema}.activities AS
    SELECT a.step AS minutes, a.at, a.type, a.session, a.started, a.ended,
        a.succeeded, a.failed, a.rejected, a.stalled, a.timed_out, a.lost, a.cancelled, a.deferred, a.superseded,
        a.undelivered, a.drained,
        ARRAY[a.latency_1, a.latency_2, a.latency_3, a.latency_4, a.latency_5, a.latency_6, a.latency_7, a.latency_8,
            a.latency_9, a.latency_10, a.latency_11, a.latency_12, a.latency_13, a.latency_14, a.latency_15,
            a.latency_16, a.latency_17] AS latency
    FROM {schema}.activity AS a;

-- Named leases: one row for each name that is held, or was held and expired without a release. Only functions write it:
-- acquire, renew_lease and release_lease.
CREATE TABLE {schema}.lease (
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
CREATE INDEX lease_acquired ON {schema}.lease (acquired_at);

CREATE VIEW {schema}.leases AS
    SELECT l.name, l.holder, l.fence, l.acquired_at, l.expires_at FROM {schema}.lease AS l;

-- The policies of all configurations that agents have had: any agent can decide what becomes of a dead agent's row.
CREATE TABLE {schema}.policy (
    hash bigint PRIMARY KEY,
    type text NOT NULL,
    body jsonb NOT NULL
);

-- Types that operators have paused: agents claim no rows of these. Each agent reads it more often than once a second.
CREATE TABLE {schema}.type_pause (
    type      text PRIMARY KEY,
    paused_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    paused_by text,
    reason    text
);

-- Types of waiting rows that no present agent with workers declares, neither as the name of a task type nor as an alias. declared_at is when
-- one last did, and declared_as the name of the task type.
CREATE VIEW {schema}.orphans AS
    SELECT o.type, o.waiting, o.running, o.oldest_at, d.last_at AS declared_at, d.last_by AS declared_by, d.name AS declared_as
    FROM (
        SELECT t.type, count(*) FILTER (WHERE t.state NOT IN ('running', 'rollback_running')) AS waiting,
            count(*) FILTER (WHERE t.state IN ('running', 'rollback_running')) AS running,
            min(t.created_at) FILTER (WHERE t.state NOT IN ('running', 'rollback_running')) AS oldest_at
        FROM {schema}.task AS t GROUP BY t.type
    ) AS o
    LEFT JOIN LATERAL (
        SELECT e.last_at, e.last_by, e.name FROM {schema}.declaration AS e
        WHERE e.kind = 'task' AND (e.name = o.type OR strpos(e.body->>'aliases', to_json(o.type)::text) > 0)
        ORDER BY e.last_at DESC, e.number DESC LIMIT 1) AS d ON true
    WHERE o.waiting > 0 AND NOT EXISTS (
        SELECT FROM {schema}.agent AS a WHERE a.present_until > now() AND a.workers > 0 AND o.type = ANY (a.types));

-- Settings of the whole store.
CREATE TABLE {schema}.setting (
    only_one    boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    max_payload bigint NOT NULL DEFAULT 1048576 -- bytes of a payload, and of a rollback payload, when it is inserted
);
INSERT INTO {schema}.setting DEFAULT VALUES;

-- The store's own key for ping URLs. It is granted to no application.
CREATE TABLE {schema}.secret (
    only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    key      bytea NOT NULL
);
INSERT INTO {schema}.secret (key)
    SELECT sha256(convert_to(string_agg(gen_random_uuid()::text, ''), 'UTF8')) FROM generate_series(1, 4);

-- A removal of old days locks this table, so that one agent at a time does it. Locks are those of private tables, never
-- advisory ones: any role that may connect could hold an advisory lock, but to lock a table takes a privilege on it.
CREATE TABLE {schema}.removal ();

-- Sequences with rows that wait, run or have failed, for operators. task_id is the row whose turn it is, or the failed one that blocks the
-- sequence; waiting counts the rows that have yet to start, but that one; since is when the row was claimed, is due, or has failed.
CREATE VIEW {schema}.sequences AS
    SELECT k.type, k.sequence,
        CASE WHEN k.blocked THEN 'blocked' WHEN t.state IN ('running', 'rollback_running') THEN 'running' ELSE 'waiting' END AS state,
        CASE WHEN k.blocked THEN k.failed ELSE coalesce(k.head, k.first) END AS task_id,
        k.live - CASE WHEN k.blocked THEN 0 ELSE 1 END AS waiting,
        CASE WHEN k.blocked THEN (SELECT a.finished_at FROM {schema}.task_archive AS a WHERE a.id = k.failed)
            WHEN t.state IN ('running', 'rollback_running') THEN t.claimed_at ELSE t.run_at END AS since,
        (SELECT count(*) FROM {schema}.sequence_failure AS f WHERE f.type = k.type AND f.name = k.sequence) AS failures
    FROM (
        SELECT g.type, g.sequence, g.live, g.failed, g.head, coalesce(g.back, g.least) AS first,
            g.head IS NULL AND g.back IS NULL AND g.failed IS NOT NULL AND coalesce(g.failed < g.least, true)
                AND NOT EXISTS (SELECT FROM {schema}.sequence_rule AS p WHERE p.type = g.type AND p.on_failure = 'continue') AS blocked
        FROM (
            SELECT e.type, e.sequence, sum(e.live)::bigint AS live, min(e.least) AS least, max(e.back) AS back, min(e.failed) AS failed,
                (SELECT o.id FROM {schema}.sequence_holder AS h JOIN {schema}.task AS o ON o.id = h.task_id
                    AND o.type = h.type AND o.sequence = h.name WHERE h.type = e.type AND h.name = e.sequence) AS head
            FROM (
                SELECT r.type, r.sequence, count(*) AS live, min(r.id) AS least,
                    max(r.id) FILTER (WHERE r.state = 'rollback_pending') AS back, NULL::bigint AS failed
                FROM {schema}.task AS r WHERE r.sequence IS NOT NULL GROUP BY r.type, r.sequence
                UNION ALL
                SELECT f.type, f.name, 0, NULL, NULL, min(f.task_id) FROM {schema}.sequence_failure AS f GROUP BY f.type, f.name
            ) AS e GROUP BY e.type, e.sequence
        ) AS g
    ) AS k
    LEFT JOIN {schema}.task AS t ON t.id = coalesce(k.head, k.first)
    WHERE k.live > 0 OR k.blocked;

-- Plans of chunks and their passes, for operators.
CREATE VIEW {schema}.chunk_plans AS
    SELECT p.name, p.task, p.table_name, p.key_name, p.source, p.ahead, p.follow_us, p.target_us,
        CASE WHEN p.size > 0 THEN p.size ELSE p.size_start END AS size, p.per_row, p.pass,
        p.done_rows + (SELECT coalesce(sum(c.rows), 0) FROM {open_chunks} AS c
            JOIN {schema}.task_archive AS a ON a.id = c.task_id AND a.state = 'succeeded')::bigint AS done_rows, p.high, p.over,
        p.created_at, p.paused_at, p.paused_by,
        EXISTS (SELECT FROM {schema}.chunk_declaration AS d JOIN {schema}.chunk_declarer AS r ON r.number = d.number
            JOIN {schema}.agent AS a ON a.session = r.session WHERE d.name = p.name AND a.present_until > now()) AS declared,
        {chunk_stopped} AS halted, s.pass IS NOT NULL AND s.sealed_at IS NULL AS planning,
        (SELECT count(*) FROM {open_chunks} AS c JOIN {schema}.task AS t ON t.id = c.task_id) AS live,
        (SELECT count(*) FROM {schema}.chunk_range AS c
            WHERE c.plan = p.name AND c.state IN ('failed', 'reopened') AND c.state = 'failed' AND c.failures + 1 >= 3) AS held
    FROM {schema}.chunk_plan AS p
    LEFT JOIN {schema}.chunk_pass AS s ON s.plan = p.name AND s.pass = p.pass
    LEFT JOIN {schema}.batch AS b ON b.id = s.batch_id;
CREATE VIEW {schema}.chunk_passes AS
    SELECT s.plan, s.pass, s.whole, s.from_key, s.through_key, s.ranges, s.chunks, s.rows, s.began_at, s.sealed_at, s.batch_id,
        b.state AS batch_state, b.total, b.live, b.succeeded, b.failed, b.ended_at, s.sizes, s.first_key, s.last_key
    FROM {schema}.chunk_pass AS s LEFT JOIN {schema}.batches AS b ON b.id = s.batch_id;
