-- name: put_policies
-- Stores policies.
INSERT INTO {schema}.policy (hash, type, body)
SELECT p.hash, p.type, p.body::jsonb FROM unnest(@hashes::bigint[], @types::text[], @bodies::text[]) AS p (hash, type, body)
ON CONFLICT (hash) DO NOTHING

-- name: policies
-- Reads policies.
SELECT hash, body FROM {schema}.policy WHERE hash = ANY (@hashes::bigint[])
