-- {schema} and {channel_literal} are filled in, quoted, before this runs. A constraint's name is the message that
-- people see when they run into it.

-- Live tasks only. Applications insert type, payload, run_at, priority, region, key, max_attempts, labels, traceparent
-- and created_by; the other columns belong to the agents. Columns of a fixed width stand first: the row is written
-- three times in its life, and this order wastes nothing on alignment.
CREATE TABLE {schema}.task (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_at       timestamptz NOT NULL DEFAULT now()
                 CONSTRAINT "run_at must be within the years 1 to 9999" CHECK (
                     run_at >= '0001-01-02 00:00:00+00' AND run_at < '9999-12-31 00:00:00+00'),
    created_at   timestamptz NOT NULL DEFAULT now(),
    -- A row's fence is 0 until it is first claimed, and applications cannot set it. So what is checked only where it is 0 is
    -- checked once, when the row is inserted, and costs claims, renewals and what comes back from the archive nothing.
    fence        bigint NOT NULL DEFAULT 0
                 CONSTRAINT "fence must be between 0 and 2^62" CHECK (fence BETWEEN 0 AND 4611686018427387904),
    session      bigint,
    claim        bigint,
    policy       bigint,
    lease_until  timestamptz,
    claimed_at   timestamptz,
    deadline     timestamptz,
    attempt      integer NOT NULL DEFAULT 0,
    deferrals   integer NOT NULL DEFAULT 0,
    max_attempts integer
                 CONSTRAINT "max_attempts must be between 1 and 1000" CHECK (max_attempts BETWEEN 1 AND 1000),
    priority     smallint NOT NULL DEFAULT 0
                 CONSTRAINT "priority must be between -10 and 10" CHECK (priority BETWEEN -10 AND 10),
    ever_started      boolean NOT NULL DEFAULT false,
    state        text NOT NULL DEFAULT 'pending'
                 CONSTRAINT "state must be that of a live task" CHECK (state IN
                     ('pending', 'running', 'retry_pending', 'rollback_pending', 'rollback_running')),
    type         text NOT NULL
                 CONSTRAINT "type must not be empty" CHECK (type <> '')
                 CONSTRAINT "type must be 255 bytes at most" CHECK (octet_length(type) <= 255),
    region       text
                 CONSTRAINT "region must be 255 bytes at most" CHECK (octet_length(region) <= 255),
    key          text
                 CONSTRAINT "key must not be empty: leave it out instead" CHECK (key <> '')
                 CONSTRAINT "key must be 1 KiB at most" CHECK (octet_length(key) <= 1024),
    payload      jsonb NOT NULL DEFAULT '{}' -- pg_column_size reads only the header; set_max_payload changes the bound
                 CONSTRAINT "payload must be 1 MiB at most: see migrate --max-payload"
                     CHECK (fence > 0 OR pg_column_size(payload) <= 1048576),
    labels       jsonb
                 -- strict: the lax mode would look into lists, and let one of strings pass for a string
                 CONSTRAINT "labels must be a JSON object of strings" CHECK (fence > 0 OR jsonb_typeof(labels) = 'object'
                     AND NOT jsonb_path_exists(labels, 'strict $.* ? (@.type() != "string")', '{}', true))
                 CONSTRAINT "labels must be 4 KiB at most" CHECK (fence > 0 OR octet_length(labels::text) <= 4096),
    traceparent  text
                 CONSTRAINT "traceparent must be 512 bytes at most" CHECK (octet_length(traceparent) <= 512),
    created_by   text
                 CONSTRAINT "created_by must be 512 bytes at most" CHECK (octet_length(created_by) <= 512),
    outcome      text,
    error        text,
    result       jsonb
) WITH (
    -- Room on the page for the claim's and the renewals' versions of a row: renewals stay heap-only updates, and a
    -- claim that finds no room costs an extra record in the log.
    fillfactor = 40,
    -- The table turns over many times an hour whatever its size, so its size decides nothing.
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 50000,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 10000,
    autovacuum_vacuum_cost_delay = 0,
    toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 5000,
    toast.autovacuum_vacuum_cost_delay = 0
);

-- What is set for the whole store.
CREATE TABLE {schema}.setting (
    only_one    boolean PRIMARY KEY DEFAULT true CHECK (only_one),
    max_payload bigint NOT NULL DEFAULT 1048576 -- bytes of a payload, and of a rollback payload, when it is inserted
);
INSERT INTO {schema}.setting DEFAULT VALUES;

-- A claim walks one (type, region, priority) of these in order.
CREATE INDEX task_due ON {schema}.task (type, coalesce(region, ''), priority DESC, run_at, id)
    WHERE state IN ('pending', 'retry_pending');
CREATE INDEX task_undo ON {schema}.task (type, coalesce(region, ''), priority DESC, run_at, id)
    WHERE state = 'rollback_pending';
-- lease_until is in no index and no predicate: a renewal touches nothing but its row.
CREATE INDEX task_running ON {schema}.task (session)
    WHERE state IN ('running', 'rollback_running');
CREATE UNIQUE INDEX task_key ON {schema}.task (type, key) WHERE key IS NOT NULL;

-- Finished tasks: the row as it was, and how it ended. One partition for each day (UTC), made ahead by the agents.
CREATE TABLE {schema}.task_archive (
    id           bigint NOT NULL,
    run_at       timestamptz NOT NULL,
    created_at   timestamptz NOT NULL,
    finished_at  timestamptz NOT NULL,
    fence        bigint NOT NULL,
    session      bigint,
    claim        bigint,
    policy       bigint,
    lease_until  timestamptz,
    claimed_at   timestamptz,
    started_at   timestamptz,
    deadline     timestamptz,
    attempt      integer NOT NULL,
    deferrals   integer NOT NULL,
    max_attempts integer,
    priority     smallint NOT NULL,
    ever_started      boolean NOT NULL,
    state        text NOT NULL,
    type         text NOT NULL,
    region       text,
    key          text,
    payload      jsonb NOT NULL,
    labels       jsonb,
    traceparent  text,
    created_by   text,
    outcome      text,
    error        text,
    result       jsonb,
    output       text
) PARTITION BY RANGE (finished_at);

CREATE INDEX task_archive_id ON {schema}.task_archive (id);
CREATE INDEX task_archive_type ON {schema}.task_archive (type, id);
-- Nearly every row succeeds: to find the others costs only them an index entry.
CREATE INDEX task_archive_unwell ON {schema}.task_archive (id) WHERE state <> 'succeeded';
CREATE INDEX task_archive_key ON {schema}.task_archive (key) WHERE key IS NOT NULL;

-- The history: one row for each hold that was settled, but for tasks that were done at first try.
CREATE TABLE {schema}.attempt (
    task_id    bigint NOT NULL,
    fence      bigint NOT NULL, -- that the settlement carried
    ran_fence  bigint NOT NULL, -- that the task was given
    session    bigint NOT NULL,
    started_at timestamptz,
    ended_at   timestamptz NOT NULL,
    attempt    integer NOT NULL,
    phase      text NOT NULL,
    outcome    text NOT NULL,
    state      text NOT NULL,   -- what the task became
    error      text,
    output     text,
    result     jsonb,
    PRIMARY KEY (task_id, fence)
);

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
    idle          boolean NOT NULL DEFAULT false,
    draining      boolean NOT NULL DEFAULT false,
    running       integer NOT NULL DEFAULT 0,
    done          bigint NOT NULL DEFAULT 0
) WITH (
    -- Few rows, written every few seconds: heap-only updates, and a page or two at most for the trigger to read.
    fillfactor = 30, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200
);

CREATE TABLE {schema}.policy (
    hash bigint PRIMARY KEY,
    type text NOT NULL,
    body jsonb NOT NULL
);

-- A removal of old days holds this table's lock, so that one agent does. Locks are those of private tables, never advisory
-- ones: any role that may connect could hold an advisory lock, but to lock a table takes a right on it.
CREATE TABLE {schema}.removal ();

-- Who holds a lock on the table, in human-readable form: pid, role and application.
CREATE FUNCTION {schema}.lock_holders(of regclass) RETURNS text
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
REVOKE ALL ON FUNCTION {schema}.lock_holders(regclass) FROM PUBLIC;

-- How long a document is, as far as that can be told without reading it: what is large is kept elsewhere, and what
-- pg_column_size says of that stands in the row. It is not what an agent gets, which is the document's text: that may be
-- several times as long, and of what was compressed a hundred times. So what is compressed is reckoned to be of use 32 times
-- over while it is small, and is read where it is not; so is all beyond a MiB, up to what no agent takes anyway.
CREATE FUNCTION {schema}.weight(document jsonb) RETURNS double precision
    LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS
$leasehold$
    SELECT CASE
        WHEN pg_column_compression(document) IS NULL AND pg_column_size(document) <= 1048576
            OR pg_column_size(document) > 67108864 THEN pg_column_size(document)
        WHEN pg_column_size(document) <= 4096 THEN 32 * pg_column_size(document)
        ELSE octet_length(document::text) END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.weight(jsonb) FROM PUBLIC;

-- The document, unless it is too long for an agent.
CREATE FUNCTION {schema}.fit(document jsonb) RETURNS jsonb
    LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS
$leasehold$
    SELECT CASE WHEN {schema}.weight(document) <= 67108864 THEN document END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.fit(jsonb) FROM PUBLIC;

-- Why no agent takes a row with these documents; NULL: nothing keeps one from it.
CREATE FUNCTION {schema}.unfit(payload jsonb, rollback_payload jsonb, result jsonb, checkpoint jsonb) RETURNS text
    LANGUAGE sql STABLE PARALLEL SAFE SET search_path = pg_catalog, pg_temp AS
$leasehold$
    SELECT format('its %s is %s bytes, and agents take 64 MiB at most: keep what is large elsewhere, and where it is in the '
        'payload', d.what, d.bytes)
    FROM (VALUES ('payload', {schema}.weight(payload)), ('rollback payload', {schema}.weight(rollback_payload)),
        ('result', {schema}.weight(result)), ('checkpoint', {schema}.weight(checkpoint))) AS d (what, bytes)
    WHERE d.bytes > 67108864 LIMIT 1
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.unfit(jsonb, jsonb, jsonb, jsonb) FROM PUBLIC;

-- The archive's partition for a day, where there is none. An agent need not own the schema, so this runs with the owner's
-- rights, for days around today and no others; a role that has been granted something on the archive gets the same on the new
-- table. CREATE TABLE … PARTITION OF would lock the whole archive against every reader and writer; a table made apart
-- and attached locks it only against others that do the same.
CREATE FUNCTION {schema}.make_place(at timestamptz) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS
$leasehold$
DECLARE
    today date := (at AT TIME ZONE 'UTC')::date;
    part  text := {schema_literal} || '.task_archive_' || to_char(today, 'YYYYMMDD');
    given record;
BEGIN
    IF to_regclass(part) IS NOT NULL THEN
        RETURN;
    ELSIF today NOT BETWEEN current_date - 3 AND current_date + 5 THEN
        RAISE EXCEPTION 'the archive gets partitions for days around today, not for %', today
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    BEGIN
        LOCK TABLE {schema}.schema_version IN SHARE ROW EXCLUSIVE MODE;
    EXCEPTION WHEN lock_not_available THEN
        RAISE EXCEPTION 'the schema is being changed by %: try again', {schema}.lock_holders(({schema_literal} || '.schema_version')::regclass)
            USING ERRCODE = 'lock_not_available';
    END;
    IF to_regclass(part) IS NOT NULL THEN
        RETURN;
    END IF;
    EXECUTE format('CREATE TABLE %s (LIKE %s.task_archive INCLUDING DEFAULTS INCLUDING CONSTRAINTS)', part, {schema_literal});
    FOR given IN
        SELECT a.privilege_type, a.grantee FROM pg_class AS c, aclexplode(c.relacl) AS a
        WHERE c.oid = ({schema_literal} || '.task_archive')::regclass AND a.grantee <> c.relowner
    LOOP
        EXECUTE format('GRANT %s ON %s TO %s', given.privilege_type, part,
            CASE given.grantee WHEN 0 THEN 'PUBLIC' ELSE given.grantee::regrole::text END);
    END LOOP;
    EXECUTE format('ALTER TABLE %s.task_archive ATTACH PARTITION %s FOR VALUES FROM (%L) TO (%L)',
        {schema_literal}, part, to_char(today, 'YYYY-MM-DD') || ' 00:00:00+00', to_char(today + 1, 'YYYY-MM-DD') || ' 00:00:00+00');
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.make_place(timestamptz) FROM PUBLIC;

-- Takes a day that is over out of the archive, for agents that do not own the schema: an owner detaches CONCURRENTLY, which
-- no function can. It locks the archive against everybody, for a moment, and waits for that no longer than half a second.
CREATE FUNCTION {schema}.detach_partition(day date) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '500ms' AS
$leasehold$
DECLARE
    part text := {schema_literal} || '.task_archive_' || to_char(day, 'YYYYMMDD');
    half boolean;
BEGIN
    IF (day < (clock_timestamp() AT TIME ZONE 'UTC')::date) IS NOT TRUE THEN
        RAISE EXCEPTION 'the day % is not over', day USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT i.inhdetachpending INTO half FROM pg_inherits AS i
    WHERE i.inhrelid = to_regclass(part) AND i.inhparent = ({schema_literal} || '.task_archive')::regclass;
    IF FOUND THEN
        EXECUTE format('ALTER TABLE %s.task_archive DETACH PARTITION %s %s', {schema_literal}, part,
            CASE WHEN half THEN 'FINALIZE' END);
    END IF;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.detach_partition(date) FROM PUBLIC;

-- Drops the table of a day that is not part of the archive any more.
CREATE FUNCTION {schema}.drop_partition(day date) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET lock_timeout = '5s' AS
$leasehold$
DECLARE
    part text := {schema_literal} || '.task_archive_' || to_char(day, 'YYYYMMDD');
BEGIN
    IF EXISTS (SELECT FROM pg_inherits AS i WHERE i.inhrelid = to_regclass(part)) THEN
        RAISE EXCEPTION 'the day % is still part of the archive', day USING ERRCODE = 'object_in_use';
    END IF;
    EXECUTE format('DROP TABLE IF EXISTS %s', part);
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.drop_partition(date) FROM PUBLIC;

CREATE VIEW {schema}.tasks AS
    SELECT id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
           created_at, attempt, deferrals, ever_started, fence, session, claim, policy, lease_until, claimed_at, deadline,
           outcome, error, result, NULL::text AS output, NULL::timestamptz AS started_at,
           NULL::timestamptz AS finished_at
    FROM {schema}.task
    UNION ALL
    SELECT id, type, state, priority, region, key, run_at, payload, labels, traceparent, created_by, max_attempts,
           created_at, attempt, deferrals, ever_started, fence, session, claim, policy, lease_until, claimed_at, deadline,
           outcome, error, result, output, started_at, finished_at
    FROM {schema}.task_archive;

-- NOTIFY takes a lock at commit that the whole database shares, so a producer pays for it only while some agent is
-- idle. The function runs with its owner's rights: producers may not read agent.
CREATE FUNCTION {schema}.task_inserted() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$leasehold$
BEGIN
    IF EXISTS (SELECT FROM {schema}.agent AS a WHERE a.idle AND a.present_until > now()) THEN
        PERFORM pg_notify({channel_literal}, '');
    END IF;
    RETURN NULL;
END
$leasehold$;
REVOKE ALL ON FUNCTION {schema}.task_inserted() FROM PUBLIC;

CREATE TRIGGER task_inserted AFTER INSERT ON {schema}.task
    FOR EACH STATEMENT EXECUTE FUNCTION {schema}.task_inserted();

-- The id of a new row, or of the live one with the same type and key. The live one may finish between the two
-- statements, hence the loop; a tenth round takes ten such meetings in a row.
CREATE FUNCTION {schema}.enqueue(
    type text, payload jsonb DEFAULT '{}', key text DEFAULT NULL, run_at timestamptz DEFAULT NULL,
    priority integer DEFAULT 0, region text DEFAULT NULL, max_attempts integer DEFAULT NULL, labels jsonb DEFAULT NULL,
    traceparent text DEFAULT NULL, created_by text DEFAULT NULL
) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS
$leasehold$
#variable_conflict use_column
DECLARE
    found_id bigint;
BEGIN
    FOR round IN 1..10 LOOP
        INSERT INTO {schema}.task AS t (type, payload, key, run_at, priority, region, max_attempts, labels,
                                        traceparent, created_by)
        VALUES (enqueue.type, coalesce(enqueue.payload, '{}'), enqueue.key, coalesce(enqueue.run_at, now()),
                coalesce(enqueue.priority, 0), enqueue.region, enqueue.max_attempts, enqueue.labels,
                enqueue.traceparent, enqueue.created_by)
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
REVOKE ALL ON FUNCTION {schema}.enqueue(text, jsonb, text, timestamptz, integer, text, integer, jsonb, text, text)
    FROM PUBLIC;
