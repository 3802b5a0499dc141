-- What a row has of a batch and of its undoing. All of it is NULL in rows that use none of it, and takes no room there.
ALTER TABLE {schema}.task
    ADD COLUMN batch_id         bigint,
    ADD COLUMN round            integer, -- how many operator's retries so far; NULL: none
    ADD COLUMN cause            text,    -- how the forward life of a row ended that is to be rolled back
    ADD COLUMN rollback_payload jsonb
        CONSTRAINT "rollback_payload must be 1 MiB at most: see --max-payload"
            CHECK (fence > 0 OR pg_column_size(rollback_payload) <= 1048576);
ALTER TABLE {schema}.task_archive
    ADD COLUMN batch_id         bigint,
    ADD COLUMN round            integer,
    ADD COLUMN cause            text,
    ADD COLUMN rollback_payload jsonb;

-- Sets the bound on payloads and rollback payloads of rows to come, in bytes. Rows that are there are not looked at: it
-- takes no longer than the lock does, for which it waits some seconds at most. Only the table's owner may.
CREATE FUNCTION {schema}.set_max_payload(bytes bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET lock_timeout = '3s' AS
$leasehold$
DECLARE
    size text := CASE WHEN bytes % 1048576 = 0 THEN bytes / 1048576 || ' MiB' WHEN bytes % 1024 = 0 THEN bytes / 1024 || ' KiB'
        ELSE bytes || ' bytes' END;
    names text[] := ARRAY[format('payload must be %s at most: see migrate --max-payload', size),
        format('rollback_payload must be %s at most: see --max-payload', size)];
    there text[];
    change text;
BEGIN
    IF bytes IS NULL OR bytes NOT BETWEEN 131072 AND 67108864 THEN
        RAISE EXCEPTION 'the bound on payloads must be between 128 KiB and 64 MiB' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    UPDATE {schema}.setting SET max_payload = bytes;
    there := ARRAY(SELECT c.conname::text FROM pg_constraint AS c
        WHERE c.conrelid = ({schema_literal} || '.task')::regclass AND c.contype = 'c'
          AND (c.conname LIKE 'payload must be % at most%' OR c.conname LIKE 'rollback\_payload must be % at most%'));
    IF there @> names AND there <@ names THEN
        RETURN;
    END IF;
    change := (SELECT coalesce(string_agg(format('DROP CONSTRAINT %I, ', n), ''), '') FROM unnest(there) AS n);
    EXECUTE format('ALTER TABLE %s.task %s ADD CONSTRAINT %I CHECK (fence > 0 OR pg_column_size(payload) <= %s) NOT VALID, '
        'ADD CONSTRAINT %I CHECK (fence > 0 OR pg_column_size(rollback_payload) <= %s) NOT VALID',
        {schema_literal}, change, names[1], bytes, names[2], bytes);
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.set_max_payload(bigint) FROM PUBLIC;

-- Rows without a batch are in none of these; and in the first none that run: each claim would have to enter them.
CREATE INDEX task_batch ON {schema}.task (batch_id, id)
    WHERE batch_id IS NOT NULL AND state IN ('pending', 'retry_pending', 'rollback_pending');
-- All of a batch that is finished: first what a rollback may bring back, in the order in which it does (read backwards).
-- One more index, by id, would make lists quicker, and cost each settlement an entry.
CREATE INDEX task_archive_batch ON {schema}.task_archive (
    batch_id,
    (CASE WHEN ever_started AND state IN ('succeeded', 'failed', 'cancelled') THEN coalesce(started_at, finished_at) END),
    id
) WHERE batch_id IS NOT NULL;
-- What a retry of the batch brings back, and what could not be undone.
CREATE INDEX task_archive_batch_unwell ON {schema}.task_archive (batch_id, id)
    WHERE batch_id IS NOT NULL AND (state IN ('failed', 'rollback_failed')
        OR state = 'rolled_back' AND coalesce(cause, '') NOT IN ('succeeded', 'cancelled'));

CREATE OR REPLACE VIEW {schema}.tasks AS
    SELECT id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
           created_at, attempt, deferrals, ever_started, fence, session, claim, policy, lease_until, claimed_at, deadline,
           outcome, error, result, NULL::text AS output, NULL::timestamptz AS started_at,
           NULL::timestamptz AS finished_at, progress, message, checkpoint, cancel_asked, cancel_by,
           coalesce(detached, false) AS detached, batch_id, rollback_payload, cause, coalesce(round, 0) AS round
    FROM {schema}.task
    UNION ALL
    SELECT id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
           created_at, attempt, deferrals, ever_started, fence, session, claim, policy, lease_until, claimed_at, deadline,
           outcome, error, result, output, started_at, finished_at, progress, message, checkpoint, cancel_asked,
           cancel_by, false, batch_id, rollback_payload, cause, coalesce(round, 0)
    FROM {schema}.task_archive;

-- Batches. Applications insert name, on_failure, finish_type, finish_payload, labels, created_by and sealed; the other
-- columns belong to the agents. The counters are the sum of what folds have come by; what was counted since stands in
-- batch_delta.
CREATE TABLE {schema}.batch (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    created_at      timestamptz NOT NULL DEFAULT now(),
    ended_at        timestamptz,
    born            xid8 NOT NULL DEFAULT pg_current_xact_id(), -- the transaction that may insert rows though it is sealed
    total           bigint NOT NULL DEFAULT 0,
    running         bigint NOT NULL DEFAULT 0,
    succeeded       bigint NOT NULL DEFAULT 0,
    failed          bigint NOT NULL DEFAULT 0,
    cancelled       bigint NOT NULL DEFAULT 0,
    undoing         bigint NOT NULL DEFAULT 0, -- rollback_pending or rollback_running
    rolled_back     bigint NOT NULL DEFAULT 0,
    rollback_failed bigint NOT NULL DEFAULT 0,
    failures        bigint NOT NULL DEFAULT 0, -- how often a row was given up as failed
    attempts        bigint NOT NULL DEFAULT 0, -- that have ended
    failures_seen   bigint NOT NULL DEFAULT 0, -- of failures, what has been acted on
    round           integer NOT NULL DEFAULT 0,
    sealed          boolean NOT NULL DEFAULT true,
    stopping        boolean NOT NULL DEFAULT false, -- nothing of it is claimed any more
    by_failure      boolean NOT NULL DEFAULT false, -- the request follows a failure
    thinned         boolean NOT NULL DEFAULT false, -- rows of it are past retention, or about to be
    look            boolean NOT NULL DEFAULT true,  -- a fold is to look at it, whether or not something was counted
    name            text NOT NULL DEFAULT ''
                    CONSTRAINT "name must be 255 bytes at most" CHECK (octet_length(name) <= 255),
    on_failure      text NOT NULL DEFAULT 'continue'
                    CONSTRAINT "on_failure must be continue, cancel or rollback" CHECK (
                        on_failure IN ('continue', 'cancel', 'rollback')),
    requested            text CHECK (requested IN ('cancel', 'rollback')),
    requested_by         text,
    finish_type     text
                    CONSTRAINT "finish_type must not be empty: leave it out instead" CHECK (finish_type <> '')
                    CONSTRAINT "finish_type must be 255 bytes at most" CHECK (octet_length(finish_type) <= 255),
    created_by      text
                    CONSTRAINT "created_by must be 512 bytes at most" CHECK (octet_length(created_by) <= 512),
    finish_payload  jsonb NOT NULL DEFAULT '{}'
                    CONSTRAINT "finish_payload must be a JSON object" CHECK (jsonb_typeof(finish_payload) = 'object')
                    -- with what is added to it at the batch's end it is below the least bound on payloads
                    CONSTRAINT "finish_payload must be 64 KiB at most" CHECK (pg_column_size(finish_payload) <= 65536),
    labels          jsonb
                    CONSTRAINT "labels must be a JSON object of strings" CHECK (jsonb_typeof(labels) = 'object'
                        AND NOT jsonb_path_exists(labels, 'strict $.* ? (@.type() != "string")', '{}', true))
                    CONSTRAINT "labels must be 4 KiB at most" CHECK (octet_length(labels::text) <= 4096)
) WITH (
    -- Few rows, written every second while their tasks run.
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500
);
-- This makes ended_at a part of the row's key. So who ends a batch or opens it again, and he alone, gets in the way of
-- transactions that have inserted rows into it (FOR KEY SHARE), even of one whose snapshot is too old to see it.
CREATE UNIQUE INDEX batch_ended ON {schema}.batch (id, ended_at);
CREATE INDEX batch_open ON {schema}.batch (id) WHERE ended_at IS NULL;
CREATE INDEX batch_look ON {schema}.batch (id) WHERE look;
CREATE INDEX batch_stopping ON {schema}.batch (id) WHERE stopping AND ended_at IS NULL;

-- What was counted and not summed yet: one row for each statement and batch, in the transaction that moved the tasks.
CREATE TABLE {schema}.batch_delta (
    batch_id        bigint NOT NULL,
    total           bigint NOT NULL DEFAULT 0,
    running         bigint NOT NULL DEFAULT 0,
    succeeded       bigint NOT NULL DEFAULT 0,
    failed          bigint NOT NULL DEFAULT 0,
    cancelled       bigint NOT NULL DEFAULT 0,
    undoing         bigint NOT NULL DEFAULT 0,
    rolled_back     bigint NOT NULL DEFAULT 0,
    rollback_failed bigint NOT NULL DEFAULT 0,
    failures        bigint NOT NULL DEFAULT 0,
    attempts        bigint NOT NULL DEFAULT 0
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0,
        autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 50000,
        autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 50000);
CREATE INDEX batch_delta_batch ON {schema}.batch_delta (batch_id);

-- What operators want of a batch, or of a task that ran when they asked. Agents carry it on in steps.
CREATE TABLE {schema}.operation (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    verb       text NOT NULL CHECK (verb IN ('cancel', 'retry', 'rollback')),
    batch_id   bigint,
    task_id    bigint,                         -- not NULL: it is about this task; batch_id is then the task's
    asked_at   timestamptz NOT NULL,
    ended_at   timestamptz,
    force      boolean NOT NULL DEFAULT false,
    superseded boolean NOT NULL DEFAULT false, -- another took its place
    undoes     boolean NOT NULL DEFAULT false, -- of a rollback: everything has stopped, finished rows come next
    missed     boolean NOT NULL DEFAULT false, -- somebody kept a row behind the cursor: there has to be another pass
    after_at   timestamptz,                    -- the cursor: the row looked at last
    after_id   bigint,
    done       bigint NOT NULL DEFAULT 0,
    refused    bigint NOT NULL DEFAULT 0,
    who        text
);
CREATE INDEX operation_open ON {schema}.operation (id) WHERE ended_at IS NULL;
CREATE INDEX operation_batch ON {schema}.operation (batch_id, id) WHERE batch_id IS NOT NULL;
CREATE INDEX operation_task ON {schema}.operation (task_id) WHERE task_id IS NOT NULL;

-- Who had what changed. It stays as long as what it is about. who is what the caller says; role is the role that the
-- session logged in with, which no caller chooses.
CREATE TABLE {schema}.audit (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    who      text,
    role     text NOT NULL DEFAULT session_user,
    verb     text NOT NULL,
    task_id  bigint,
    batch_id bigint,
    answer   text NOT NULL
);
CREATE INDEX audit_task ON {schema}.audit (task_id) WHERE task_id IS NOT NULL;
CREATE INDEX audit_batch ON {schema}.audit (batch_id) WHERE batch_id IS NOT NULL;

-- Batches as people look at them.
CREATE VIEW {schema}.batches AS
    SELECT b.id, b.name,
        CASE
            WHEN b.ended_at IS NULL THEN CASE
                WHEN b.requested = 'rollback' OR n.undoing > 0 AND n.live = n.undoing THEN 'rolling_back'
                WHEN n.attempts > 0 OR n.running > 0 OR n.undoing > 0 OR n.live < n.total THEN 'running'
                ELSE 'pending' END
            WHEN n.rollback_failed > 0 THEN 'rollback_failed'
            WHEN b.requested = 'rollback' THEN 'rolled_back'
            WHEN b.requested = 'cancel' AND NOT b.by_failure AND n.cancelled > 0 THEN 'cancelled'
            WHEN n.total > 0 AND n.rolled_back = n.total THEN 'rolled_back'
            WHEN n.failed + n.rolled_back > 0 THEN CASE WHEN n.succeeded > 0 THEN 'partially_failed' ELSE 'failed' END
            WHEN n.cancelled > 0 THEN 'cancelled'
            ELSE 'succeeded'
        END AS state,
        b.on_failure, b.sealed, b.stopping, b.round, n.total, n.live, n.live - n.undoing - n.running AS waiting,
        n.running, n.undoing, n.succeeded, n.failed, n.cancelled, n.rolled_back, n.rollback_failed, n.failures,
        CASE WHEN n.total > 0 THEN (n.total - n.live)::double precision / n.total END AS progress,
        b.finish_type, b.labels, b.created_by, b.created_at, b.ended_at, o.verb AS operation, b.requested_by
    FROM {schema}.batch AS b
    CROSS JOIN LATERAL (
        SELECT b.total + coalesce(sum(d.total), 0)::bigint AS total,
            b.running + coalesce(sum(d.running), 0)::bigint AS running,
            b.succeeded + coalesce(sum(d.succeeded), 0)::bigint AS succeeded,
            b.failed + coalesce(sum(d.failed), 0)::bigint AS failed,
            b.cancelled + coalesce(sum(d.cancelled), 0)::bigint AS cancelled,
            b.undoing + coalesce(sum(d.undoing), 0)::bigint AS undoing,
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

-- Counts one row's step from one state to another. gave_up: it was given up as failed by it; tried: an attempt has ended.
CREATE FUNCTION {schema}.count_step(batch bigint, was text, became text, gave_up boolean, tried boolean) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS
$leasehold$
BEGIN
    IF batch IS NULL THEN
        RETURN;
    END IF;
    INSERT INTO {schema}.batch_delta (
        batch_id, running, succeeded, failed, cancelled, undoing, rolled_back, rollback_failed, failures, attempts)
    VALUES (batch, (became = 'running')::int - (was = 'running')::int,
        (became = 'succeeded')::int - (was = 'succeeded')::int, (became = 'failed')::int - (was = 'failed')::int,
        (became = 'cancelled')::int - (was = 'cancelled')::int,
        (became LIKE 'rollback\_%ing')::int - (was LIKE 'rollback\_%ing')::int,
        (became = 'rolled_back')::int - (was = 'rolled_back')::int,
        (became = 'rollback_failed')::int - (was = 'rollback_failed')::int, gave_up::int, tried::int);
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.count_step(bigint, text, text, boolean, boolean) FROM PUBLIC;

-- Refuses a row whose batch takes none any more. The lock keeps the batch from ending until the caller's transaction ends,
-- and stands in the way of nothing else.
CREATE FUNCTION {schema}.admit(batch bigint) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS
$leasehold$
DECLARE
    b       {schema}.batch;
    refusal text;
BEGIN
    SELECT r.* INTO b FROM {schema}.batch AS r WHERE r.id = batch FOR KEY SHARE;
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
REVOKE ALL ON FUNCTION {schema}.admit(bigint) FROM PUBLIC;

-- NOTIFY takes a lock at commit that the whole database shares, so a producer pays for it only while some agent is idle.
-- Rows of batches are counted here, but not those that come back from the archive. A search_path of its own would have to
-- be set for each insert, which takes a good part of all its time. So whatever could be looked up there is named with its
-- schema: tables, functions, operators, and types, which are looked up in the caller's pg_temp first. A type that is a
-- keyword (boolean, bigint) is always that of pg_catalog; record is none.
CREATE OR REPLACE FUNCTION {schema}.task_inserted() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER AS
$leasehold$
DECLARE
    idle    boolean;
    batched boolean;
    one     bigint;
    n       bigint;
BEGIN
    SELECT EXISTS (SELECT FROM {schema}.agent AS a WHERE a.idle AND a.present_until OPERATOR(pg_catalog.>) pg_catalog.now()),
        EXISTS (SELECT FROM inserted AS i WHERE i.batch_id IS NOT NULL AND i.fence OPERATOR(pg_catalog.=) 0)
    INTO idle, batched;
    IF idle THEN
        PERFORM pg_catalog.pg_notify({channel_literal}, '');
    END IF;
    IF batched THEN
        FOR one, n IN
            SELECT i.batch_id, pg_catalog.count(*) FROM inserted AS i
            WHERE i.batch_id IS NOT NULL AND i.fence OPERATOR(pg_catalog.=) 0
            GROUP BY i.batch_id ORDER BY i.batch_id
        LOOP
            PERFORM {schema}.admit(one);
            INSERT INTO {schema}.batch_delta (batch_id, total) VALUES (one, n);
        END LOOP;
    END IF;
    RETURN NULL;
END
$leasehold$;

-- A row trigger WHEN (NEW.batch_id IS NOT NULL) would cost each row of a batch two thirds of what it costs to insert it, and
-- need somewhere to count that no application can write to. The transition table costs a row without a batch some
-- hundredths of its insert where it comes alone, and up to a sixth in an INSERT of thousands.
DROP TRIGGER task_inserted ON {schema}.task;
CREATE TRIGGER task_inserted AFTER INSERT ON {schema}.task
    REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT EXECUTE FUNCTION {schema}.task_inserted();

-- Claims in flight and a transaction that stops a batch: a claim holds the lock of the batch's gate, shared, from before its last look
-- until its end; the transaction that stops the batch takes it alone just before its commit. So once that has committed nothing of the batch starts,
-- and until then an open transaction blocks no claim. A lock on a table is fair (claims that come later do not pass the one who
-- waits), writes nothing, and takes a right on the table, which no application has. There are eight gates, so that
-- batches seldom share one: who does is passed over by the claims that come by while another is being stopped.
CREATE TABLE {schema}.batch_gate_0 ();
CREATE TABLE {schema}.batch_gate_1 ();
CREATE TABLE {schema}.batch_gate_2 ();
CREATE TABLE {schema}.batch_gate_3 ();
CREATE TABLE {schema}.batch_gate_4 ();
CREATE TABLE {schema}.batch_gate_5 ();
CREATE TABLE {schema}.batch_gate_6 ();
CREATE TABLE {schema}.batch_gate_7 ();

CREATE FUNCTION {schema}.batch_stops() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS
$leasehold$
DECLARE
    gate text := format('%s.batch_gate_%s', {schema_literal}, NEW.id % 8);
BEGIN
    EXECUTE format('LOCK TABLE %s IN EXCLUSIVE MODE', gate);
    RETURN NULL;
EXCEPTION WHEN lock_not_available THEN
    RAISE EXCEPTION 'batch % is not stopped: a claim of its tasks takes longer than 5 s, held by %: try again', NEW.id,
        {schema}.lock_holders(gate::regclass) USING ERRCODE = 'lock_not_available';
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.batch_stops() FROM PUBLIC;
CREATE CONSTRAINT TRIGGER batch_stops AFTER UPDATE OF stopping ON {schema}.batch DEFERRABLE INITIALLY DEFERRED
    FOR EACH ROW WHEN (NEW.stopping AND NOT OLD.stopping) EXECUTE FUNCTION {schema}.batch_stops();

-- Whether a claim may start so many rows of the batch; if so they are counted. A volatile function sees what has committed
-- by now, which the statement that calls it does not. Agents call it for each batch of a claim: like task_inserted it has no
-- search_path of its own, and names all with its schema. It never waits.
CREATE FUNCTION {schema}.may_start(batch bigint, n bigint) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET enable_seqscan = off AS
$leasehold$
DECLARE
    gate bigint := batch OPERATOR(pg_catalog.%) 8;
BEGIN
    BEGIN
        IF    gate OPERATOR(pg_catalog.=) 0 THEN LOCK TABLE {schema}.batch_gate_0 IN ROW SHARE MODE NOWAIT;
        ELSIF gate OPERATOR(pg_catalog.=) 1 THEN LOCK TABLE {schema}.batch_gate_1 IN ROW SHARE MODE NOWAIT;
        ELSIF gate OPERATOR(pg_catalog.=) 2 THEN LOCK TABLE {schema}.batch_gate_2 IN ROW SHARE MODE NOWAIT;
        ELSIF gate OPERATOR(pg_catalog.=) 3 THEN LOCK TABLE {schema}.batch_gate_3 IN ROW SHARE MODE NOWAIT;
        ELSIF gate OPERATOR(pg_catalog.=) 4 THEN LOCK TABLE {schema}.batch_gate_4 IN ROW SHARE MODE NOWAIT;
        ELSIF gate OPERATOR(pg_catalog.=) 5 THEN LOCK TABLE {schema}.batch_gate_5 IN ROW SHARE MODE NOWAIT;
        ELSIF gate OPERATOR(pg_catalog.=) 6 THEN LOCK TABLE {schema}.batch_gate_6 IN ROW SHARE MODE NOWAIT;
        ELSE LOCK TABLE {schema}.batch_gate_7 IN ROW SHARE MODE NOWAIT;
        END IF;
    EXCEPTION WHEN lock_not_available THEN
        RETURN false;
    END;
    IF EXISTS (SELECT FROM {schema}.batch AS b WHERE b.id OPERATOR(pg_catalog.=) batch AND b.stopping) THEN
        RETURN false;
    END IF;
    INSERT INTO {schema}.batch_delta (batch_id, running) VALUES (batch, n);
    RETURN true;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.may_start(bigint, bigint) FROM PUBLIC;

-- enqueue with two more parameters, in the place of the one without; who was allowed to call that may call this.
CREATE FUNCTION {schema}.enqueue(
    type text, payload jsonb DEFAULT '{}', key text DEFAULT NULL, run_at timestamptz DEFAULT NULL,
    priority integer DEFAULT 0, region text DEFAULT NULL, max_attempts integer DEFAULT NULL, labels jsonb DEFAULT NULL,
    traceparent text DEFAULT NULL, created_by text DEFAULT NULL, batch_id bigint DEFAULT NULL,
    rollback_payload jsonb DEFAULT NULL
) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$leasehold$
#variable_conflict use_column
DECLARE
    found_id bigint;
BEGIN
    FOR round IN 1..10 LOOP
        INSERT INTO {schema}.task AS t (type, payload, key, run_at, priority, region, max_attempts, labels,
                                        traceparent, created_by, batch_id, rollback_payload)
        VALUES (enqueue.type, coalesce(enqueue.payload, '{}'), enqueue.key, coalesce(enqueue.run_at, now()),
                coalesce(enqueue.priority, 0), enqueue.region, enqueue.max_attempts, enqueue.labels,
                enqueue.traceparent, enqueue.created_by, enqueue.batch_id, enqueue.rollback_payload)
        ON CONFLICT (type, key) WHERE key IS NOT NULL DO NOTHING
        RETURNING t.id INTO found_id;
        IF found_id IS NOT NULL THEN
            RETURN found_id;
        END IF;
        SELECT t.id INTO found_id FROM {schema}.task AS t WHERE t.type = enqueue.type AND t.key = enqueue.key;
        IF found_id IS NOT NULL THEN
            RETURN found_id;
        END IF;
    END LOOP;
    RAISE EXCEPTION 'task of type % with key % came and went ten times: try again', enqueue.type, enqueue.key
        USING ERRCODE = 'serialization_failure';
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.enqueue(text, jsonb, text, timestamptz, integer, text, integer, jsonb, text, text, bigint, jsonb)
    FROM PUBLIC;
DO $leasehold$
DECLARE
    grantee regrole;
BEGIN
    FOR grantee IN
        SELECT DISTINCT a.grantee::regrole FROM pg_proc AS p, aclexplode(p.proacl) AS a
        WHERE p.oid = ({schema_literal} || '.enqueue(text, jsonb, text, timestamptz, integer, text, integer, jsonb, text, text)')::regprocedure
          AND a.privilege_type = 'EXECUTE' AND a.grantee NOT IN (0, p.proowner)
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s.enqueue(text, jsonb, text, timestamptz, integer, text, integer, jsonb, '
            'text, text, bigint, jsonb) TO %s', {schema_literal}, grantee);
    END LOOP;
END
$leasehold$;
DROP FUNCTION {schema}.enqueue(text, jsonb, text, timestamptz, integer, text, integer, jsonb, text, text);
