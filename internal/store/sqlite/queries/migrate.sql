-- name: count_version_tables
SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'schema_version';

-- name: schema_version
SELECT ifnull(max(version), 0), ifnull(max(oldest), 0) FROM schema_version;

-- name: applied_versions
SELECT version, applied_at FROM schema_version WHERE version <= @latest;

-- name: add_version
INSERT INTO schema_version (version, name, applied_at, oldest) VALUES (@version, @name, @now, @oldest);

-- name: delete_version
DELETE FROM schema_version WHERE version = @version;

-- name: count_present
SELECT count(*) FROM agent WHERE present_until > @now;

-- name: max_payload
SELECT max_payload FROM setting;

-- name: set_max_payload
UPDATE setting SET max_payload = @bytes;
