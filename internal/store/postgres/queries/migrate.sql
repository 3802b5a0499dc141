-- Changes of the schema. The table schema_version is the book of its versions.

-- name: server
-- Returns the server's version, and whether the schema and its book are there.
SELECT current_setting('server_version_num')::int,
    EXISTS (SELECT FROM pg_catalog.pg_namespace WHERE nspname = @schema), to_regclass(@book) IS NOT NULL

-- name: is_book
-- Reports whether the book is there. To read one that is not would be an error in the server's log.
SELECT to_regclass(@book) IS NOT NULL

-- name: create_book
CREATE TABLE IF NOT EXISTS {schema}.schema_version (
    version integer PRIMARY KEY, name text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now(),
    oldest integer NOT NULL CONSTRAINT "oldest must be between 1 and the version" CHECK (oldest BETWEEN 1 AND version)
)

-- name: lock_book
-- No advisory lock: any role that may connect could hold that. Reading the version does not wait for this one.
LOCK TABLE {schema}.schema_version IN SHARE ROW EXCLUSIVE MODE

-- name: schema_version
-- Returns the schema's version, and the oldest binary that may work on it; 0 where there is none.
SELECT coalesce(max(version), 0), coalesce(max(oldest), 0) FROM {schema}.schema_version

-- name: applied_steps
SELECT version, applied_at FROM {schema}.schema_version

-- name: record_step
-- Enters a step. A script has no arguments, so they are written into the text.
INSERT INTO {schema}.schema_version (version, name, oldest) VALUES ({version}, {name}, {oldest})

-- name: forget_step
DELETE FROM {schema}.schema_version WHERE version = @version RETURNING applied_at

-- name: lock_sessions
-- Keeps sessions from joining until the transaction ends.
LOCK TABLE {schema}.agent IN SHARE MODE

-- name: count_sessions
SELECT count(*) FROM {schema}.agent WHERE present_until > now()

-- name: set_max_payload
SELECT {schema}.set_max_payload(@bytes)

-- name: keep_max_payload
-- Has the table's bound be what is set, whatever the steps just applied have made of it.
SELECT {schema}.set_max_payload(s.max_payload) FROM {schema}.setting AS s

-- name: grantees
-- Lists roles by name, with whether they exist, and whether they own the book, and with it the tables.
SELECT n.name, r.oid IS NOT NULL, r.oid IS NOT NULL AND r.oid = b.relowner
FROM unnest(@names::text[]) AS n (name)
LEFT JOIN pg_catalog.pg_roles AS r ON r.rolname = n.name
LEFT JOIN (pg_catalog.pg_class AS b JOIN pg_catalog.pg_namespace AS s ON s.oid = b.relnamespace AND s.nspname = @schema)
    ON b.relname = 'schema_version'
ORDER BY n.name
