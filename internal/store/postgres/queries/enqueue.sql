-- name: enqueue
-- Inserts a task, unless a live one has its type and key.
INSERT INTO {schema}.task (type, payload, run_at, priority, key, region, max_attempts, labels, traceparent, created_by,
    batch_id, rollback_payload)
VALUES (@type, coalesce(nullif(@payload::text, '')::jsonb, '{}'),
        coalesce(@run_at::timestamptz, now() + @delay::bigint * interval '1 microsecond'), @priority::bigint,
            nullif(@key::text, ''),
        nullif(@region::text, ''), nullif(@max_attempts::bigint, 0), nullif(@labels::text, '')::jsonb,
            nullif(@traceparent::text, ''),
        nullif(@created_by::text, ''), nullif(@batch_id::bigint, 0), nullif(@rollback_payload::text, '')::jsonb)
ON CONFLICT (type, key) WHERE key IS NOT NULL DO NOTHING
RETURNING id

-- name: find_key
-- Finds the live task with a type and key.
SELECT t.id FROM {schema}.task AS t WHERE t.type = @type AND t.key = @key
