-- What a queue of this kind needs at the least, in the form that Leasehold's tables have: live rows with four partial
-- indexes, finished rows in a partitioned archive. It does not change with the product.
CREATE TABLE task (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_at      timestamptz NOT NULL DEFAULT now(),
    created_at  timestamptz NOT NULL DEFAULT now(),
    fence       bigint NOT NULL DEFAULT 0,
    session     bigint,
    claim       bigint,
    lease_until timestamptz,
    claimed_at  timestamptz,
    attempt     integer NOT NULL DEFAULT 0,
    priority    smallint NOT NULL DEFAULT 0,
    state       text NOT NULL DEFAULT 'pending',
    type        text NOT NULL,
    region      text,
    key         text,
    payload     jsonb NOT NULL DEFAULT '{}'
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX task_due ON task (type, coalesce(region, ''), priority DESC, run_at, id) WHERE state = 'pending';
CREATE INDEX task_undo ON task (type, coalesce(region, ''), priority DESC, run_at, id) WHERE state = 'rollback_pending';
CREATE INDEX task_running ON task (session) WHERE state = 'running';
CREATE UNIQUE INDEX task_key ON task (type, key) WHERE key IS NOT NULL;

CREATE TABLE archive (LIKE task, finished_at timestamptz NOT NULL, started_at timestamptz, result jsonb) PARTITION BY RANGE (finished_at);
CREATE TABLE archive_all PARTITION OF archive FOR VALUES FROM (MINVALUE) TO (MAXVALUE);
CREATE INDEX archive_id ON archive (id);
CREATE INDEX archive_type ON archive (type, id);

CREATE FUNCTION inserted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NOTIFY task; RETURN NULL; END';
